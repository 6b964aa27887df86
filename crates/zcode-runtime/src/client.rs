//! Correlates calls with answers and events with subscriptions.
//!
//! Numbers are the adapter's own and are never reused, so a late answer can match nothing: it is discarded and counted.
//! Nothing here blocks the reader: an answer wakes its caller, an event goes into its session's queue. Deliberately absent:
//! what services mean (see [`crate::descriptor`]) and what happens to the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diag_model::Failure;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zcode_protocol::bridge::{Fatal, Ready};

use crate::descriptor::{Descriptor, Incoming, Memory};
use crate::model::{HostEvent, Snapshot};
use crate::task_v1::{RefusalOf, RefusedAsk};

/// Events that may come before the first snapshot of a subscription.
const EARLY_EVENTS: usize = 1024;
/// Refusals of the host's questions that may be on their way.
const REFUSALS: usize = 32;

/// Correlates calls and events of one host process.
pub(crate) struct Client {
    table: Mutex<Table>,
    out: mpsc::Sender<Vec<u8>>,
    descriptor: Arc<Descriptor>,
    gone: CancellationToken,
    /// Answers that matched no pending call.
    late: AtomicU64,
    /// Events that matched no subscription.
    unrouted: AtomicU64,
    /// Bounds the refusals that are on their way.
    refusals: Arc<Semaphore>,
}

#[derive(Default)]
struct Table {
    last_id: u64,
    last_subscription: u64,
    pending: HashMap<u64, Pending>,
    routes: HashMap<u64, Route>,
    last_request: Option<&'static str>,
    closed: Option<Failure>,
}

struct Pending {
    operation: &'static str,
    since: Instant,
    /// None when nobody waits for the answer.
    reply: Option<oneshot::Sender<Outcome>>,
}

struct Route {
    /// Waits for the first snapshot.
    first: Option<oneshot::Sender<Result<Snapshot, Failure>>>,
    /// What came before it.
    early: Vec<HostEvent>,
    events: mpsc::UnboundedSender<HostEvent>,
    memory: Memory,
}

/// A call that was answered: its result as JSON, or its error.
type Outcome = Result<Box<RawValue>, Trouble>;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The host said so.
    Remote(Box<RemoteError>),
    /// No answer in time.
    TimedOut(Duration),
    /// The host is gone.
    Gone(Failure),
    /// The parameters cannot be written as JSON.
    Unwritable,
}

/// An error answer. The message may quote user text.
#[derive(Debug)]
pub(crate) struct RemoteError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) name: Option<String>,
    pub(crate) data: Option<Value>,
}

/// A call to a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method<'a> {
    /// Neutral name, for records and failures.
    pub(crate) operation: &'static str,
    /// Service key.
    pub(crate) service: &'a str,
    /// Method, or event of a subscription.
    pub(crate) name: &'a str,
    /// How long the answer may take.
    pub(crate) timeout: Duration,
}

/// A subscription whose snapshot has not arrived.
pub(crate) struct Opening {
    pub(crate) number: u64,
    pub(crate) first: oneshot::Receiver<Result<Snapshot, Failure>>,
    pub(crate) events: mpsc::UnboundedReceiver<HostEvent>,
}

/// Something the supervisor must know.
#[derive(Debug)]
pub(crate) enum Signal {
    /// The host is ready.
    Ready(Ready),
    /// The bridge gives up.
    Fatal(Fatal),
    /// The transport has failed. Redacted.
    Broken(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a, P> {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<OutCall<'a, P>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscribe: Option<OutSubscribe<'a, P>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsubscribe: Option<OutUnsubscribe>,
}

/// The bridge's `call`, with parameters written straight into the line: a prompt's images are not copied into a tree.
#[derive(Serialize)]
struct OutCall<'a, P> {
    service: &'a str,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct OutSubscribe<'a, P> {
    subscription: u64,
    service: &'a str,
    event: &'a str,
    params: P,
}

#[derive(Serialize)]
struct OutUnsubscribe {
    subscription: u64,
}

fn encode<P: Serialize>(out: &Out<'_, P>) -> Result<Vec<u8>, Trouble> {
    let mut line = serde_json::to_vec(out).map_err(|_| Trouble::Unwritable)?;
    line.push(b'\n');
    Ok(line)
}

impl Client {
    pub(crate) fn new(out: mpsc::Sender<Vec<u8>>, descriptor: Arc<Descriptor>) -> Self {
        Self {
            table: Mutex::default(),
            out,
            descriptor,
            gone: CancellationToken::new(),
            late: AtomicU64::new(0),
            unrouted: AtomicU64::new(0),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call before anything is sent, so that its answer always finds it.
    fn register(
        &self,
        operation: &'static str,
        reply: Option<oneshot::Sender<Outcome>>,
    ) -> Result<u64, Trouble> {
        let mut table = self.table();
        if let Some(failure) = &table.closed {
            return Err(Trouble::Gone(failure.clone()));
        }
        table.last_id += 1;
        let id = table.last_id;
        table.last_request = Some(operation);
        table.pending.insert(id, Pending { operation, since: Instant::now(), reply });
        Ok(id)
    }

    /// Sends a line and waits for the answer. The time to get it written counts.
    async fn exchange(
        &self,
        method: Method<'_>,
        encode: impl FnOnce(u64) -> Result<Vec<u8>, Trouble>,
    ) -> Outcome {
        let (reply, answer) = oneshot::channel();
        let id = self.register(method.operation, Some(reply))?;
        // However this ends, also by being dropped, the number is taken back.
        let _forget = Forget { client: self, id };
        let line = encode(id)?;
        let exchange = async {
            // A closed queue means that the host is going; the pending table says why.
            let _ = self.out.send(line).await;
            answer.await
        };
        match tokio::time::timeout(method.timeout, exchange).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Trouble::Gone(self.closing_failure())),
            Err(_) => {
                let ms = millis(method.timeout);
                tracing::warn!(method = method.name, service = method.service, ms, id, "host.call.timeout");
                Err(Trouble::TimedOut(method.timeout))
            }
        }
    }

    /// Calls a service method.
    pub(crate) async fn call<P: Serialize>(&self, method: Method<'_>, params: &P) -> Outcome {
        self.exchange(method, |id| {
            let call = OutCall { service: method.service, method: method.name, params };
            encode(&Out { id, call: Some(call), subscribe: None, unsubscribe: None })
        })
        .await
    }

    /// Starts to listen. The caller waits for [`Opening::first`], and takes the route back with
    /// [`Client::unsubscribe`] when it does not come.
    pub(crate) async fn listen<P: Serialize>(
        &self,
        method: Method<'_>,
        params: &P,
        memory: Memory,
    ) -> Result<Opening, Trouble> {
        let (first, first_snapshot) = oneshot::channel();
        let (events, queue) = mpsc::unbounded_channel();
        let number = {
            let mut table = self.table();
            if let Some(failure) = &table.closed {
                return Err(Trouble::Gone(failure.clone()));
            }
            table.last_subscription += 1;
            let number = table.last_subscription;
            let route = Route { first: Some(first), early: Vec::new(), events, memory };
            table.routes.insert(number, route);
            number
        };
        let guard = Unlisten { client: self, number, armed: true };
        self.exchange(method, |id| {
            let subscribe =
                OutSubscribe { subscription: number, service: method.service, event: method.name, params };
            encode(&Out { id, call: None, subscribe: Some(subscribe), unsubscribe: None })
        })
        .await?;
        guard.disarm();
        Ok(Opening { number, first: first_snapshot, events: queue })
    }

    /// Stops listening, fire and forget.
    pub(crate) fn unsubscribe(&self, number: u64) {
        if self.table().routes.remove(&number).is_none() {
            return;
        }
        let Ok(id) = self.register("unsubscribe", None) else { return };
        let out: Out<'_, ()> = Out {
            id,
            call: None,
            subscribe: None,
            unsubscribe: Some(OutUnsubscribe { subscription: number }),
        };
        let sent = encode(&out).is_ok_and(|line| self.out.try_send(line).is_ok());
        if !sent {
            // The host does not read; it would send events that nobody routes, which is counted.
            self.table().pending.remove(&id);
        }
    }

    /// Ends a subscription when nobody holds its queue any more.
    pub(crate) fn watch(self: &Arc<Self>, number: u64) {
        let Some(events) = self.table().routes.get(&number).map(|route| route.events.clone()) else { return };
        let client = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = events.closed() => client.unsubscribe(number),
                () = client.gone.cancelled() => {}
            }
        });
    }

    /// Takes one frame. An error means that the transport cannot be trusted any more.
    pub(crate) fn on_frame(
        self: &Arc<Self>,
        frame: &[u8],
        signals: &mpsc::Sender<Signal>,
    ) -> Result<(), String> {
        match self.descriptor.read(frame)? {
            Incoming::Event { subscription, event } => {
                let mut table = self.table();
                let Some(route) = table.routes.get_mut(&subscription) else {
                    drop(table);
                    self.unrouted.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                };
                let neutral = self.descriptor.neutral(event, &mut route.memory);
                let refuse = neutral.refuse.zip(route.memory.task_v1.refusal_of());
                if let Some(event) = neutral.event {
                    route.deliver(event);
                }
                drop(table);
                if let Some((ask, of)) = refuse {
                    self.refuse(of, ask);
                }
            }
            Incoming::Reply { id, outcome } => self.answer(id, outcome),
            // The supervisor reads these as they come and there are two at most; more of them change nothing.
            Incoming::Ready(ready) => drop(signals.try_send(Signal::Ready(ready))),
            Incoming::Fatal(fatal) => drop(signals.try_send(Signal::Fatal(fatal))),
        }
        Ok(())
    }

    /// Answers a question with no, beside the reading.
    fn refuse(self: &Arc<Self>, of: RefusalOf, ask: RefusedAsk) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else {
            tracing::warn!(count = REFUSALS, "host.ask.refusals_full");
            return;
        };
        let client = Arc::clone(self);
        tokio::spawn(async move {
            client.descriptor.refuse(&client, of, ask).await;
            drop(permit);
        });
    }

    fn answer(&self, id: u64, outcome: Result<Box<RawValue>, Box<RemoteError>>) {
        let Some(pending) = self.table().pending.remove(&id) else {
            let count = self.late.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::debug!(id, count, "host.reply.late");
            return;
        };
        let ms = millis(pending.since.elapsed());
        tracing::debug!(
            method = pending.operation,
            ms,
            state = if outcome.is_ok() { "ok" } else { "error" },
            "host.reply"
        );
        if let Some(reply) = pending.reply {
            let _ = reply.send(outcome.map_err(Trouble::Remote));
        }
    }

    /// The host is gone: every caller and every subscription is told.
    pub(crate) fn close(&self, failure: &Failure) {
        let (pending, routes) = {
            let mut table = self.table();
            if table.closed.is_some() {
                return;
            }
            table.closed = Some(failure.clone());
            (std::mem::take(&mut table.pending), std::mem::take(&mut table.routes))
        };
        for pending in pending.into_values() {
            if let Some(reply) = pending.reply {
                let _ = reply.send(Err(Trouble::Gone(failure.clone())));
            }
        }
        for mut route in routes.into_values() {
            route.deliver(HostEvent::Lost(failure.clone()));
        }
        self.gone.cancel();
    }

    fn closing_failure(&self) -> Failure {
        self.table().closed.clone().unwrap_or_else(|| Failure::new(diag_model::ErrorCode::HostExited))
    }

    /// The host is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Neutral name of the last request.
    pub(crate) fn last_request(&self) -> Option<&'static str> {
        self.table().last_request
    }

    /// Late answers and events without a subscription.
    pub(crate) fn discarded(&self) -> (u64, u64) {
        (self.late.load(Ordering::Relaxed), self.unrouted.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn open_counts(&self) -> (usize, usize) {
        let table = self.table();
        (table.pending.len(), table.routes.len())
    }
}

impl Route {
    /// Hands an event on. That nobody takes it is seen by [`Client::watch`], which ends the subscription.
    fn deliver(&mut self, event: HostEvent) {
        if self.first.is_none() {
            let _ = self.events.send(event);
            return;
        }
        let answer = match event {
            HostEvent::Snapshot(snapshot) => Ok(snapshot),
            HostEvent::Lost(failure) => Err(failure),
            HostEvent::Violation(violation) => Err(Failure::new(diag_model::ErrorCode::NativeProtocol)
                .with(diag_model::Detail::Unknown, violation.what)),
            event if self.early.len() < EARLY_EVENTS => {
                self.early.push(event);
                return;
            }
            _ => Err(Failure::new(diag_model::ErrorCode::SubscriptionFailed)
                .cause("ZCode sent events and no snapshot")),
        };
        if let Some(first) = self.first.take() {
            let _ = first.send(answer);
        }
        // In the order they came: what the snapshot already holds is dropped by its number later.
        for event in self.early.drain(..) {
            let _ = self.events.send(event);
        }
    }
}

/// Takes a number back when its caller is done or has given up.
struct Forget<'a> {
    client: &'a Client,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.client.table().pending.remove(&self.id);
    }
}

/// Takes a route back when listening failed or its caller has given up.
struct Unlisten<'a> {
    client: &'a Client,
    number: u64,
    armed: bool,
}

impl Unlisten<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Unlisten<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.client.unsubscribe(self.number);
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
