//! Protocol id `zcode-task-v1`: the only module that knows its services, methods and events.
//!
//! `operations`, `stored` and `settings` turn neutral operations into service calls; `events`, `updates`, `tools` and `asks`
//! turn host events into neutral ones; `refusal` says no to questions that cannot be understood, `facts` reads state, `history` stored
//! messages, and `failure` words what the host says when something fails. All names that vary come from the contract.

mod asks;
mod events;
mod facts;
mod failure;
mod history;
mod operations;
mod refusal;
mod settings;
mod stored;
mod tools;
mod updates;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diag_model::{InputId, SessionId};
use runtime_discovery::Contract;

pub(crate) use events::Neutral;
pub(crate) use refusal::{BadEvent, RefusalOf, RefusedAsk, read_event};

/// The protocol id.
pub(crate) const ID: &str = "zcode-task-v1";

/// The protocol under one contract.
pub(crate) struct TaskV1 {
    contract: Arc<Contract>,
}

/// Queued inputs and running todo calls that are remembered.
const REMEMBERED: usize = 64;

/// What has to be remembered about a subscription to read its events.
#[derive(Default)]
pub(crate) struct Memory {
    /// Session and workspace it is about.
    of: Option<(SessionId, PathBuf)>,
    /// Inputs that are queued at the host, by the host's id for them. The later event names only that id.
    queued: HashMap<String, InputId>,
    /// Running calls of the todo tool. Their results do not name the tool.
    todo_calls: HashSet<String>,
    /// Events that were about another session.
    foreign: u64,
}

impl Memory {
    /// For a subscription to this session.
    pub(crate) fn of(session: &SessionId, ws: &Path) -> Self {
        Self { of: Some((session.clone(), ws.to_owned())), ..Self::default() }
    }

    fn is_other(&self, session: Option<&str>) -> bool {
        match (&self.of, session) {
            (Some((own, _)), Some(session)) => own.as_str() != session,
            _ => false,
        }
    }

    fn count_foreign(&mut self) {
        self.foreign += 1;
        // Powers of two: a flood is one record for every doubling.
        if let Some((session, _)) = self.of.as_ref().filter(|_| self.foreign.is_power_of_two()) {
            tracing::debug!(session = %session, count = self.foreign, "host.event.foreign");
        }
    }
}

impl TaskV1 {
    pub(crate) fn new(contract: Arc<Contract>) -> Self {
        Self { contract }
    }
}
