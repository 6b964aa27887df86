//! A small ACP v1 client: starts an agent the way an editor does, runs one connection, and shows what arrives in plain
//! types.
//!
//! Used by the `try` command and by the tests. The types of the wire stay inside this crate: a user of it sees
//! [`SessionUpdate`], [`PermissionAsk`] and [`RequestError`].
//!
//! Deliberately absent: rendering, a terminal, any policy about permissions (the [`Handler`] decides), the file system
//! and terminal services an editor may offer (none are advertised, so an agent must not ask for them).

mod connection;
mod convert;
mod error;
mod model;
mod process;
mod transport;

pub use connection::{ClientInfo, Connection, Handler, NoUser, run};
pub use error::{ClientError, RequestError};
pub use model::{
    Agent, Diff, OptionKind, PermissionAnswer, PermissionAsk, PermissionOption, PlanEntry, PlanStatus,
    Session, SessionUpdate, StopReason, ToolContent, ToolStatus, ToolUpdate, Update,
};
pub use process::{AgentCommand, AgentProcess, Ended};
pub use transport::{Direction, FrameTap, Streams};
