//! Sessions, turns and interactions, independent of both protocols.
//!
//! * [`Coordinator`]: the handle a connection talks to; owns the host, the workspaces and the registry of sessions.
//! * `machine`: pure state machines (`step(input, now) -> effects`); no clock, channel or I/O inside.
//! * `actor`: one task a session owns that value; `outbox` puts its updates, asks and answers in one order.
//! * [`client`]: what the machines want from the client, as a port that `acp-server` implements.
//! * `presentation`: tool calls as people see them.
//!
//! Deliberately absent: ACP types, host service names, process handling, files other than the workspace path.

pub mod client;
mod coordinator;

pub use coordinator::{Coordinator, NewSessionAnswer, NewSessionRequest, Options, Prompt};
pub use zcode_runtime::{host, model};
