//! Sessions, turns and interactions, independent of both protocols.
//!
//! * [`machine`]: pure state machines (`step(state, input, now) -> (state, effects)`); no clock, channel or I/O inside.
//! * [`registry`], [`actor`]: one actor a session owns that value; one a workspace shares the start of a host.
//! * [`client`]: what the machines want from the client, as a port that `acp-server` implements.
//! * [`presentation`]: tool calls as people see them.
//!
//! Deliberately absent: ACP types, host service names, process handling, files other than the workspace path.

pub mod client;

pub use zcode_runtime::{host, model};
