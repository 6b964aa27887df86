//! Protocol id `zcode-task-v1`: the only module that knows its services, methods and events.
//!
//! `operations` turns neutral operations into service calls, `events` turns host events into neutral ones, `facts` reads
//! state, `failure` words what the host says when something fails. All names that vary come from the contract.

mod events;
mod facts;
mod failure;
mod operations;

use std::collections::HashMap;
use std::sync::Arc;

use diag_model::InputId;
use runtime_discovery::Contract;

/// The protocol id.
pub(crate) const ID: &str = "zcode-task-v1";

/// The protocol under one contract.
pub(crate) struct TaskV1 {
    contract: Arc<Contract>,
}

/// Inputs that are queued at the host, by the host's id for them. The later event names only that id.
#[derive(Default)]
pub(crate) struct Memory {
    queued: HashMap<String, InputId>,
}

impl TaskV1 {
    pub(crate) fn new(contract: Arc<Contract>) -> Self {
        Self { contract }
    }
}
