//! Sessions, turns and interactions, independent of both protocols.
//!
//! * [`Coordinator`]: the handle a connection talks to; `registry` knows its sessions, `opening` and `listing` what comes
//!   before there is one.
//! * `hosts`: the one host of a connection and its workspaces, started once and shared.
//! * `actor`: one task a session owns its machine; `outbox` puts its updates, asks and answers in one order.
//! * `machine`: pure state machines (`step(input, now) -> effects`); no clock, channel or I/O inside.
//! * [`client`]: what the machines want from the client, as a port that `acp-server` implements.
//! * [`presentation`]: tool calls as people see them.
//!
//! Deliberately absent: ACP types, host service names, process handling, files other than the workspace path.

mod actor;
pub mod client;
mod coordinator;
mod hosts;
mod listing;
mod machine;
mod opening;
mod outbox;
pub mod presentation;
mod registry;
mod setup;

pub use coordinator::{Coordinator, Options, Prompt, SESSION_LIMIT, TURN_LIMIT};
pub use setup::{
    ListAnswer, ListRequest, ListedSession, ModeState, NewSessionRequest, OpenRequest, SessionSetup,
};
pub use zcode_runtime::{host, model};
