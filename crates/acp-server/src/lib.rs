//! The agent's side of ACP v1: the only crate that names the protocol's types.
//!
//! * [`serve`]: one connection from its first byte to the last.
//! * [`transport`]: lines in and out on own threads, bounded, with nothing of the input echoed.
//! * `connection`: the dispatcher; it decodes, hands over and never waits.
//! * `request`: the requests that are offered, decoded.
//! * [`capabilities`]: the one table of what is offered.
//! * `convert`: the two directions between protocol types and neutral ones.
//! * `port`: what the session machines want from the client.
//! * `error_map`: failures as JSON-RPC errors.
//!
//! Deliberately absent: session state, host names, policy about turns and permissions, anything that prints.

pub mod capabilities;
mod connection;
mod convert;
mod error_map;
mod port;
mod request;
mod serve;
pub mod transport;

pub use serve::{AgentOptions, Ended, Streams, serve, serve_streams};
/// What starts the host behind a connection; re-exported so that the binary needs no other crate for the wiring.
pub use session_coordinator::host::HostLauncher;
