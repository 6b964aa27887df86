//! The bridge wire: one JSON object a line, UTF-8, no `jsonrpc` member.
//!
//! Towards the bridge the first line is a [`Config`]; every later one a [`Request`]. From the bridge every line is
//! `<nonce><space><json>` where the JSON is a [`Line`]; a line without the nonce was written by somebody else who shares
//! the descriptor (native code, a grandchild) and is noise.
//!
//! ```text
//! -> {"bridge":1,"nonce":"9f…","hostIndex":"/opt/…/out/host/index.js",…}
//! <- 9f… {"ready":{"bridge":1,"node":"24.14.0","pid":4122,"found":{"protocol":"g",…}}}
//! -> {"id":1,"call":{"service":"agent","method":"initialize","params":{"workspacePath":"/w"}}}
//! <- 9f… {"id":1,"result":{"available":true}}
//! -> {"id":2,"subscribe":{"subscription":1,"service":"agent","event":"onDynamicSessionEvent","params":{…}}}
//! <- 9f… {"id":2,"result":null}
//! <- 9f… {"subscription":1,"event":{"type":"snapshot","snapshot":{…}}}
//! -> {"id":3,"unsubscribe":{"subscription":1}}
//! <- 9f… {"fatal":{"stage":"import","message":"…"}}
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Version of this wire. Bridge script, adapter and simulator are built together, so there is exactly one.
pub const BRIDGE_VERSION: u32 = 1;

/// Code of an error the bridge itself makes (unknown service, method not allowed, host threw a plain error).
pub const BRIDGE_ERROR: i64 = -32000;

/// The first line the adapter writes.
///
/// It travels on stdin and not in the environment because the environment is inherited by every tool ZCode starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// [`BRIDGE_VERSION`].
    pub bridge: u32,
    /// Prefix of every line the bridge will write. Random per process.
    pub nonce: String,
    /// Absolute path of the host entry inside the archive.
    pub host_index: String,
    /// Absolute path of the RPC module inside the archive.
    pub rpc_module: String,
    /// Export letter by role.
    pub exports: Exports,
    /// Channel name by service key (`agent`, `task`, `usage`).
    pub channels: BTreeMap<String, String>,
    /// Callable methods by service key. Anything else is refused by the bridge.
    pub allow: BTreeMap<String, Vec<String>>,
    /// Events that may be listened to, by service key.
    pub events: BTreeMap<String, Vec<String>>,
    /// The message that initializes the host.
    pub init: Value,
    /// The message that asks the host to end.
    pub dispose: Value,
    /// Time the host gets to dispose, milliseconds.
    pub dispose_ms: u64,
    /// Host messages to be answered at once: request type to the answer, to which the bridge adds `requestId`.
    pub answer_at_once: BTreeMap<String, Value>,
}

/// Export letters of the RPC module by role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exports {
    /// Class that speaks the wire over a message port.
    pub protocol: String,
    /// Channel client.
    pub client: String,
    /// Service proxy factory (`toService`).
    pub service: String,
}

/// A line towards the bridge after the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request<'a> {
    /// Number chosen by the adapter; rises from 1.
    pub id: u64,
    /// What is wanted.
    #[serde(flatten, borrow)]
    pub action: Action<'a>,
}

/// What a [`Request`] asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action<'a> {
    /// Calls a service method.
    Call {
        /// Service key.
        service: Cow<'a, str>,
        /// Method name.
        method: Cow<'a, str>,
        /// The single argument.
        params: Value,
    },
    /// Listens to a dynamic event.
    Subscribe {
        /// Number chosen by the adapter, unique while it lives.
        subscription: u64,
        /// Service key.
        service: Cow<'a, str>,
        /// Event name.
        event: Cow<'a, str>,
        /// The event's argument.
        params: Value,
    },
    /// Stops listening.
    Unsubscribe {
        /// Number given at subscribe.
        subscription: u64,
    },
}

/// A line from the bridge, nonce removed. Exactly one of the groups is present; which one is said by
/// [`Line::classify`].
///
/// `E` is what an event is read as. With a typed one the line is read once; with the default the event is skipped over
/// and left for later.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a, E: Deserialize<'de>"))]
pub struct Line<'a, E = &'a RawValue> {
    /// Id of the answered request.
    pub id: Option<u64>,
    /// Result of a call; JSON `null` for void.
    #[serde(borrow, default, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    /// Error of a call.
    #[serde(borrow)]
    pub error: Option<CallError<'a>>,
    /// Subscription an event belongs to.
    pub subscription: Option<u64>,
    /// The event.
    #[serde(default = "none", deserialize_with = "present")]
    pub event: Option<E>,
    /// The bridge is ready.
    pub ready: Option<Ready>,
    /// The bridge gives up; the process ends after this line.
    pub fatal: Option<Fatal>,
}

/// `null` is a value here, so a present member must be `Some` even then.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A default that asks nothing of `T`.
fn none<T>() -> Option<T> {
    None
}

/// An error answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallError<'a> {
    /// ZCode's code if it is a number, else [`BRIDGE_ERROR`].
    pub code: i64,
    /// What was said. May quote user text: redact before logging.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    /// Error class or string code.
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    pub name: Option<Cow<'a, str>>,
    /// Structured detail as the host gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The ready line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// [`BRIDGE_VERSION`].
    pub bridge: u32,
    /// Version of the Node runtime.
    pub node: String,
    /// Process id of the runtime.
    pub pid: u32,
    /// Class names found behind the export letters; diagnostic.
    #[serde(default)]
    pub found: BTreeMap<String, String>,
    /// Set by the simulated host only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
}

/// Why the bridge ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fatal {
    /// `config`, `import`, `init`, `worker`, or `uncaught`.
    pub stage: String,
    /// What was said; redact before showing.
    pub message: String,
    /// Exit code of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
}

/// What a [`Line`] is.
#[derive(Debug)]
pub enum Classified<'a, E = &'a RawValue> {
    /// Answer to a request.
    Reply {
        /// Id of the request.
        id: u64,
        /// Result or error.
        outcome: Result<&'a RawValue, CallError<'a>>,
    },
    /// Event of a subscription.
    Event {
        /// Subscription number.
        subscription: u64,
        /// The event.
        event: E,
    },
    /// Ready line.
    Ready(Ready),
    /// Last line.
    Fatal(Fatal),
}

/// A line that parses as JSON and is none of the known shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a bridge line is neither answer, event, ready nor fatal")]
pub struct UnknownLine;

impl<'a, E> Line<'a, E> {
    /// Says what the line is.
    pub fn classify(self) -> Result<Classified<'a, E>, UnknownLine> {
        match self {
            Line { id: Some(id), result: Some(result), error: None, .. } => {
                Ok(Classified::Reply { id, outcome: Ok(result) })
            }
            Line { id: Some(id), result: None, error: Some(error), .. } => {
                Ok(Classified::Reply { id, outcome: Err(error) })
            }
            Line { id: None, subscription: Some(subscription), event: Some(event), .. } => {
                Ok(Classified::Event { subscription, event })
            }
            Line { ready: Some(ready), .. } => Ok(Classified::Ready(ready)),
            Line { fatal: Some(fatal), .. } => Ok(Classified::Fatal(fatal)),
            _ => Err(UnknownLine),
        }
    }
}
