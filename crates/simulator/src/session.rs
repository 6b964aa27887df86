//! A session: what is known of it, who listens, and the one place its events leave from.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::host::lock;
use crate::scenario::model::ModelSetting;
use crate::wire::{Frame, Outlet};

/// Events kept for `readSessionEvents`.
const LOG: usize = 256;
/// Larger events are not kept.
const LOG_EVENT: usize = 64 * 1024;
/// Messages kept in a session.
pub(crate) const MAX_MESSAGES: usize = 2000;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What is stored of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// Version of this shape.
    pub(crate) format: u32,
    pub(crate) session_id: String,
    pub(crate) workspace_path: String,
    pub(crate) mode: String,
    pub(crate) previous_mode: Option<String>,
    pub(crate) title: String,
    pub(crate) title_source: String,
    pub(crate) model: Option<(String, String, Option<String>)>,
    pub(crate) thought_level: Option<String>,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    pub(crate) archived: bool,
    pub(crate) event_seq: u64,
    pub(crate) turn_count: u64,
    pub(crate) usage: Totals,
    pub(crate) goal: Option<String>,
    pub(crate) todos: Vec<Value>,
    pub(crate) messages: Vec<Value>,
}

/// Tokens of a session.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Totals {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// Occupancy of the context window after the last main request.
    pub(crate) context: u64,
}

/// An ask that waits for an answer.
pub(crate) struct Pending {
    pub(crate) kind: PendingKind,
    /// The `request` member of its announcement.
    pub(crate) request: Value,
    pub(crate) answer: oneshot::Sender<Value>,
}

/// Who may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingKind {
    Permission,
    Input,
    Headers,
}

/// A running turn, as others see it.
#[derive(Clone)]
pub(crate) struct RunningTurn {
    pub(crate) id: String,
    pub(crate) stop: CancellationToken,
    /// Cancelled when its last event has left.
    pub(crate) done: CancellationToken,
}

impl RunningTurn {
    pub(crate) fn new() -> Self {
        Self {
            id: format!("turn_{}", uuid::Uuid::new_v4()),
            stop: CancellationToken::new(),
            done: CancellationToken::new(),
        }
    }
}

/// Everything about a session that changes.
pub(crate) struct State {
    pub(crate) record: Record,
    pub(crate) revision: u64,
    pub(crate) turn: Option<RunningTurn>,
    pub(crate) pending: BTreeMap<String, Pending>,
    /// Tool calls without an end: id and name.
    pub(crate) open_tools: Vec<(String, String, &'static str)>,
    pub(crate) jobs: Vec<Value>,
    pub(crate) subscribers: Vec<u64>,
    /// The history of a resumed session is not complete yet.
    pub(crate) hydrating: bool,
    /// Evict when the turn is over.
    pub(crate) evict: bool,
}

/// A session.
pub(crate) struct Session {
    id: String,
    workspace: String,
    state: Mutex<State>,
    /// Number of the last event. Written under `emitter` only.
    seq: AtomicU64,
    emitter: tokio::sync::Mutex<Emitter>,
    /// Held while the session is stored, so that the newest state is what remains.
    pub(crate) saving: tokio::sync::Mutex<()>,
    outlet: Outlet,
}

#[derive(Default)]
struct Emitter {
    last: Vec<u8>,
    log: VecDeque<(u64, Vec<u8>)>,
}

/// The envelope of a numbered event. Serialised directly: it is the hot path of a streaming turn.
#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    event: Numbered<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Numbered<'a> {
    event_id: String,
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<&'a str>,
    seq: u64,
    timestamp: u64,
    delivery_kind: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    payload: &'a Value,
}

impl Session {
    pub(crate) fn new(record: Record, outlet: Outlet) -> Self {
        Self {
            id: record.session_id.clone(),
            workspace: record.workspace_path.clone(),
            seq: AtomicU64::new(record.event_seq),
            state: Mutex::new(State {
                record,
                revision: 1,
                turn: None,
                pending: BTreeMap::new(),
                open_tools: Vec::new(),
                jobs: Vec::new(),
                subscribers: Vec::new(),
                hydrating: false,
                evict: false,
            }),
            emitter: tokio::sync::Mutex::default(),
            saving: tokio::sync::Mutex::default(),
            outlet,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn workspace(&self) -> &str {
        &self.workspace
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Number of the last event.
    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// What is to be stored.
    pub(crate) fn record(&self) -> Record {
        let mut record = self.state().record.clone();
        record.event_seq = self.seq();
        record
    }

    /// Sends a `session.event` with the next number.
    pub(crate) async fn event(&self, turn: Option<&str>, kind: &str, payload: &Value) {
        let mut emitter = self.emitter.lock().await;
        let seq = self.seq.fetch_add(1, Ordering::AcqRel) + 1;
        let envelope = Envelope {
            kind: "session.event",
            event: Numbered {
                event_id: self.event_id(seq),
                session_id: &self.id,
                turn_id: turn,
                seq,
                timestamp: now_ms(),
                delivery_kind: "desktop-continuous",
                kind,
                payload,
            },
        };
        let Ok(bytes) = serde_json::to_vec(&envelope) else { return };
        self.broadcast(&bytes).await;
        if bytes.len() <= LOG_EVENT {
            if emitter.log.len() == LOG {
                emitter.log.pop_front();
            }
            emitter.log.push_back((seq, bytes.clone()));
            emitter.last = bytes;
        }
    }

    /// Sends a dynamic event that has no number.
    pub(crate) async fn dynamic(&self, event: &Value) {
        let _order = self.emitter.lock().await;
        if let Ok(bytes) = serde_json::to_vec(event) {
            self.broadcast(&bytes).await;
        }
    }

    /// Sends a numbered event whose number is off and which may lack members. The sequence does not move.
    pub(crate) async fn disordered(
        &self,
        turn: &str,
        kind: &str,
        payload: Option<&Value>,
        offset: i64,
        without: &[String],
    ) {
        let _order = self.emitter.lock().await;
        let seq = (self.seq() + 1).saturating_add_signed(offset);
        let mut event = json!({
            "eventId": self.event_id(seq), "sessionId": self.id, "turnId": turn, "seq": seq, "timestamp": now_ms(),
            "deliveryKind": "desktop-continuous", "type": kind,
        });
        if let Some(members) = event.as_object_mut() {
            if let Some(payload) = payload {
                members.insert("payload".into(), payload.clone());
            }
            for name in without {
                members.remove(name);
            }
        }
        if let Ok(bytes) = serde_json::to_vec(&json!({ "type": "session.event", "event": event })) {
            self.broadcast(&bytes).await;
        }
    }

    /// Leaves numbers out.
    pub(crate) async fn skip(&self, count: u64) {
        let _order = self.emitter.lock().await;
        self.seq.fetch_add(count, Ordering::AcqRel);
    }

    /// Sends the last numbered event again.
    pub(crate) async fn resend(&self, times: u32) {
        let emitter = self.emitter.lock().await;
        for _ in 0..times {
            if !emitter.last.is_empty() {
                self.broadcast(&emitter.last).await;
            }
        }
    }

    /// Starts a subscription. `snapshot` is built while no event can leave, so its number is the exact boundary.
    pub(crate) async fn subscribe(&self, number: u64, snapshot: Option<impl FnOnce() -> Value>) {
        let _order = self.emitter.lock().await;
        self.state().subscribers.push(number);
        if let Some(snapshot) = snapshot {
            let event = json!({ "type": "snapshot", "snapshot": snapshot() });
            self.outlet.json(&json!({ "subscription": number, "event": event })).await;
        }
    }

    pub(crate) fn unsubscribe(&self, number: u64) {
        self.state().subscribers.retain(|one| *one != number);
    }

    /// Numbered events after a number, oldest first.
    pub(crate) async fn events_after(&self, after: u64, limit: usize) -> Vec<Value> {
        let emitter = self.emitter.lock().await;
        let found = emitter.log.iter().filter(|(seq, _)| *seq > after).take(limit);
        found
            .filter_map(|(_, bytes)| {
                let mut envelope: Value = serde_json::from_slice(bytes).ok()?;
                envelope.get_mut("event").map(Value::take)
            })
            .collect()
    }

    fn event_id(&self, seq: u64) -> String {
        format!("evt_{}_{seq}", self.id.get(..8).unwrap_or(&self.id))
    }

    async fn broadcast(&self, event: &[u8]) {
        let subscribers = self.state().subscribers.clone();
        for number in subscribers {
            let mut line = format!("{{\"subscription\":{number},\"event\":").into_bytes();
            line.reserve(event.len() + 1);
            line.extend_from_slice(event);
            line.push(b'}');
            self.outlet.send(Frame::Json(line)).await;
        }
    }

    /// Sends a `state.updated` notification.
    pub(crate) async fn state_updated(&self, reason: &str, patch: Value) {
        let revision = {
            let mut state = self.state();
            state.revision += 1;
            state.revision
        };
        self.dynamic(&json!({ "type": "state.updated", "notification": {
            "type": "state.updated", "scope": "session",
            "workspace": { "workspacePath": self.workspace, "workspaceKey": self.workspace },
            "sessionId": self.id, "revision": revision, "reason": reason, "patch": patch,
        } }))
        .await;
    }

    /// Adds a message to the history; the oldest goes when there are too many.
    pub(crate) fn push_message(&self, message: Value) {
        let mut state = self.state();
        if state.record.messages.len() >= MAX_MESSAGES {
            state.record.messages.remove(0);
        }
        state.record.messages.push(message);
        state.record.updated_at = now_ms();
    }

    /// Registers an ask. Its answer comes through the returned end.
    pub(crate) fn register(&self, id: &str, kind: PendingKind, request: Value) -> oneshot::Receiver<Value> {
        let (answer, answered) = oneshot::channel();
        self.state().pending.insert(id.to_owned(), Pending { kind, request, answer });
        answered
    }

    /// Answers an ask. `false`: it is not pending (any more).
    pub(crate) fn answer(&self, id: &str, kind: PendingKind, answer: Value) -> bool {
        let pending = {
            let mut state = self.state();
            match state.pending.get(id) {
                Some(pending) if pending.kind == kind => state.pending.remove(id),
                _ => None,
            }
        };
        pending.is_some_and(|pending| pending.answer.send(answer).is_ok())
    }
}

/// The model's reference as ZCode writes it.
pub(crate) fn model_ref(model: &(String, String, Option<String>)) -> Value {
    let mut reference = json!({ "providerId": model.0, "modelId": model.1 });
    if let (Some(variant), Some(members)) = (&model.2, reference.as_object_mut()) {
        members.insert("variant".into(), json!(variant));
    }
    reference
}

/// Identity of a model of the catalogue.
pub(crate) fn model_id(model: &ModelSetting) -> (String, String, Option<String>) {
    (model.provider.clone(), model.model.clone(), model.variant.clone())
}

/// A session shared by the tasks of its host.
pub(crate) type Shared = Arc<Session>;
