//! The seam behind which a protocol id lives.
//!
//! Everything between the neutral operations and the host's services is in one module per protocol id. A second one is a
//! second variant here; the machinery around it (process, frames, correlation) does not change.

use std::sync::Arc;

use diag_model::{Detail, ErrorCode, Failure};
use runtime_discovery::Contract;
use serde_json::value::RawValue;
use zcode_protocol::bridge::{self, Classified, Line};
use zcode_protocol::task_v1::DynamicEvent;

use crate::client::{Client, RemoteError};
use crate::task_v1::{self, BadEvent, Neutral, RefusalOf, RefusedAsk, TaskV1};

/// The protocol in force.
pub(crate) enum Descriptor {
    /// `zcode-task-v1`.
    TaskV1(TaskV1),
}

/// What a frame is.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every frame is the large one; a box would be an allocation for each"
)]
pub(crate) enum Incoming<'a> {
    /// Event of a subscription, not yet neutral.
    Event {
        /// Number of the subscription.
        subscription: u64,
        /// The event, or why it cannot be read.
        event: Result<DynamicEvent<'a>, BadEvent>,
    },
    /// Answer to a call.
    Reply {
        /// Number of the call.
        id: u64,
        /// Result or error.
        outcome: Result<Box<RawValue>, Box<RemoteError>>,
    },
    /// The host is ready.
    Ready(bridge::Ready),
    /// The bridge gives up.
    Fatal(bridge::Fatal),
}

/// What has to be remembered about a subscription to read its events.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) task_v1: task_v1::Memory,
}

impl Descriptor {
    /// The module for the contract's protocol. An unknown one is refused.
    pub(crate) fn new(contract: Arc<Contract>) -> Result<Self, Failure> {
        match contract.protocol.id.as_str() {
            task_v1::ID => Ok(Self::TaskV1(TaskV1::new(contract))),
            other => Err(Failure::new(ErrorCode::ContractInvalid)
                .cause("the contract names a protocol this version does not speak")
                .with(Detail::Detected, other)
                .with(Detail::Expected, task_v1::ID)),
        }
    }

    /// The protocol module.
    pub(crate) fn task_v1(&self) -> &TaskV1 {
        let Self::TaskV1(protocol) = self;
        protocol
    }

    /// Reads a frame. The event of a well-formed one is read in the same pass; only one that does not fit is looked at again
    /// to tell an event outside the contract from a frame that is no JSON.
    pub(crate) fn read<'a>(&self, frame: &'a [u8]) -> Result<Incoming<'a>, String> {
        let Self::TaskV1(_) = self;
        if let Ok(line) = serde_json::from_slice::<Line<'a, DynamicEvent<'a>>>(frame) {
            let classified = line.classify().map_err(|error| error.to_string())?;
            return Ok(incoming(classified, Ok));
        }
        let line = serde_json::from_slice::<Line<'a>>(frame)
            .map_err(|_| "a frame that is not a bridge line".to_owned())?;
        let classified = line.classify().map_err(|error| error.to_string())?;
        Ok(incoming(classified, |raw| task_v1::read_event(raw.get())))
    }

    /// What an event means.
    pub(crate) fn neutral(&self, event: Result<DynamicEvent<'_>, BadEvent>, memory: &mut Memory) -> Neutral {
        let Self::TaskV1(protocol) = self;
        protocol.neutral(event, &mut memory.task_v1)
    }

    /// Answers a question with no.
    pub(crate) async fn refuse(&self, client: &Client, of: RefusalOf, ask: RefusedAsk) {
        let Self::TaskV1(protocol) = self;
        protocol.refuse(client, of, ask).await;
    }
}

fn incoming<'a, E>(
    classified: Classified<'a, E>,
    event_of: impl FnOnce(E) -> Result<DynamicEvent<'a>, BadEvent>,
) -> Incoming<'a> {
    match classified {
        Classified::Event { subscription, event } => Incoming::Event { subscription, event: event_of(event) },
        Classified::Reply { id, outcome: Ok(result) } => {
            Incoming::Reply { id, outcome: Ok(result.to_owned()) }
        }
        Classified::Reply { id, outcome: Err(error) } => Incoming::Reply {
            id,
            outcome: Err(Box::new(RemoteError {
                code: error.code,
                message: error.message.into_owned(),
                name: error.name.map(std::borrow::Cow::into_owned),
                data: error.data,
            })),
        },
        Classified::Ready(ready) => Incoming::Ready(ready),
        Classified::Fatal(fatal) => Incoming::Fatal(fatal),
    }
}
