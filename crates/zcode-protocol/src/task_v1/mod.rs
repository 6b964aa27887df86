//! Services and events of protocol id `zcode-task-v1` (ZCode 3.11.2).
//!
//! * [`event`] reads what a subscription yields, [`payload`] the numbered events inside it.
//! * [`ask`] holds the questions of the host, [`snapshot`] the state of sessions and workspaces, [`error`] what the host
//!   says when something fails, [`call`] parameters and results of the services, [`history`] stored sessions and messages.
//!
//! Required members are those the adapter cannot do without; everything else is optional, because the host's schema makes
//! most of it so. Deliberately absent: which types and kinds the contract allows, and what they mean.

pub mod ask;
pub mod call;
pub mod error;
pub mod event;
pub mod history;
pub mod payload;
pub mod snapshot;
mod text;

pub use ask::readable_ask;
pub use event::{DynamicEvent, EventError, SessionEvent, parse_event};
pub use text::{Lenient, Scalar, Text};
