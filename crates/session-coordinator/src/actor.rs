//! One task a session: it owns the machine, carries out its effects and tells it what comes of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diag_model::{AskId, ErrorCode, Failure, InputId, SessionId};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use zcode_runtime::host::{Host, Subscription};
use zcode_runtime::model::{CallError, HostEvent, NewSession, WorkspaceState};

use crate::client::{ConfigId, Reply, StopReason};
use crate::coordinator::Prompt;
use crate::hosts::Lease;
use crate::machine::config::Setting;
use crate::machine::{Call, CloseCause, Effect, Input, Origin, Session, Setup};
use crate::outbox::{Answer, IN_FLIGHT_LIMIT, Outbox, Question, WAITING_LIMIT};
use crate::registry::Shared;
use crate::setup::SessionSetup;

/// Requests that wait for a session.
pub(crate) const INBOX: usize = 256;
/// Host events taken in one go; their text grows together before it is handed over.
const EVENT_BATCH: usize = 128;
/// Messages of the history read in one go.
const PAGE: u32 = 200;
/// How long the last denials may take to be written when the agent ends.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Said to the host when it wants provider headers.
const HEADERS_REFUSED: &str = "provider headers can only be made by the ZCode desktop app";

/// A request to a session.
pub(crate) enum Request {
    Prompt(Prompt, Reply<StopReason>),
    Set(ConfigId, String, Reply<SessionSetup>),
    /// It is open already; whether its history is wanted.
    Reopen(bool, Reply<SessionSetup>),
    Close(Reply<()>),
}

impl Request {
    /// Answers it with a failure.
    pub(crate) fn refuse(self, failure: Failure) {
        match self {
            Request::Prompt(_, reply) => reply.send(Err(failure)),
            Request::Set(_, _, reply) | Request::Reopen(_, reply) => reply.send(Err(failure)),
            Request::Close(reply) => reply.send(Err(failure)),
        }
    }
}

/// How others reach a session.
#[derive(Clone)]
pub(crate) struct Handle {
    inbox: mpsc::Sender<(u64, Request)>,
    control: Arc<Control>,
}

/// Cancelling is a flag and not a queue item, so that it is never behind what it cancels.
#[derive(Default)]
struct Control {
    /// Cancels so far. A request carries the number it was sent at, which says what a cancel came after.
    cancels: AtomicU64,
    wake: Notify,
    /// It is being closed, so it is of no use to who opens it again.
    ending: AtomicBool,
    /// It is out of the registry.
    gone: CancellationToken,
}

impl Handle {
    /// Queues a request, or gives it back if the inbox is full or the session over.
    pub(crate) fn send(&self, request: Request) -> Result<(), (Request, ErrorCode)> {
        let stamp = self.control.cancels.load(Ordering::SeqCst);
        if matches!(request, Request::Close(_)) {
            self.control.ending.store(true, Ordering::SeqCst);
        }
        self.inbox.try_send((stamp, request)).map_err(|error| match error {
            mpsc::error::TrySendError::Full((_, request)) => (request, ErrorCode::QueueFull),
            mpsc::error::TrySendError::Closed((_, request)) => (request, ErrorCode::SessionClosed),
        })
    }

    pub(crate) fn cancel(&self) {
        self.control.cancels.fetch_add(1, Ordering::SeqCst);
        self.control.wake.notify_one();
    }

    /// Whether it is being closed.
    pub(crate) fn is_ending(&self) -> bool {
        self.control.ending.load(Ordering::SeqCst)
    }

    /// Resolves when the session is out of the registry.
    pub(crate) async fn gone(&self) {
        self.control.gone.cancelled().await;
    }
}

/// What a session needs before it can be opened.
pub(crate) struct Prepared {
    pub(crate) host: Host,
    pub(crate) lease: Lease,
    pub(crate) workspace: PathBuf,
    pub(crate) offers: Arc<WorkspaceState>,
    pub(crate) origin: Origin,
    pub(crate) mcp_servers: Vec<Value>,
}

enum Done {
    Input(Input),
    Subscribed(Result<Subscription, CallError>),
}

pub(crate) struct Actor {
    shared: Arc<Shared>,
    host: Host,
    workspace: PathBuf,
    /// For the session alone; sent again when it has to be resumed.
    mcp_servers: Arc<[Value]>,
    machine: Session,
    outbox: Outbox,
    inbox: mpsc::Receiver<(u64, Request)>,
    handle: Handle,
    /// Cancels the machine has been told of.
    cancels: u64,
    withdrawn: CancellationToken,
    calls: FuturesUnordered<BoxFuture<'static, Done>>,
    subscription: Option<Subscription>,
    asks: FuturesUnordered<BoxFuture<'static, (AskId, Option<Answer>)>>,
    asking: HashMap<AskId, CancellationToken>,
    /// A page of the history that waits until the client has read the earlier ones.
    page: Option<Call>,
    turn_slot: Option<OwnedSemaphorePermit>,
    stalled: bool,
    registered: bool,
    _lease: Lease,
    _slot: OwnedSemaphorePermit,
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Actor {
    /// Opens the session and serves it until it is closed.
    pub(crate) async fn run(
        shared: Arc<Shared>,
        prepared: Prepared,
        withdrawn: CancellationToken,
        reply: Reply<SessionSetup>,
        slot: OwnedSemaphorePermit,
    ) {
        let Prepared { host, lease, workspace, offers, origin, mcp_servers } = prepared;
        let replayed = match &origin {
            Origin::Stored { session, history: true } => Some(session.clone()),
            _ => None,
        };
        let setup = Setup {
            workspace: workspace.clone(),
            profile: Arc::new(host.profile().clone()),
            client: shared.profile(),
            offers,
            origin,
            permission_timeout: shared.options.permission_timeout,
            reply,
        };
        let (machine, effects) = Session::open(setup, now());
        let (sender, inbox) = mpsc::channel(INBOX);
        let mut actor = Self {
            outbox: Outbox::new(Arc::clone(&shared.client)),
            shared,
            host,
            workspace,
            mcp_servers: mcp_servers.into(),
            machine,
            inbox,
            handle: Handle { inbox: sender, control: Arc::default() },
            cancels: 0,
            withdrawn,
            calls: FuturesUnordered::new(),
            subscription: None,
            asks: FuturesUnordered::new(),
            asking: HashMap::new(),
            page: None,
            turn_slot: None,
            stalled: false,
            registered: false,
            _lease: lease,
            _slot: slot,
        };
        // The client knows the id of a session that it loads, so a replay comes before the answer.
        if let Some(session) = replayed {
            actor.outbox.introduce(session);
        }
        actor.perform(effects);
        actor.serve().await;
    }

    async fn serve(&mut self) {
        let stopping = self.shared.stopping.clone();
        let withdrawn = self.withdrawn.clone();
        let mut withdrawal_told = false;
        let mut batch = Vec::with_capacity(EVENT_BATCH);
        loop {
            self.flush();
            if self.outbox.bytes() <= IN_FLIGHT_LIMIT
                && let Some(page) = self.page.take()
            {
                self.start(page);
            }
            if self.machine.close_cause().is_some() && self.outbox.is_empty() {
                break;
            }
            let deadline = self.machine.deadline();
            let room = (!self.outbox.is_empty()).then(|| self.shared.client.room(IN_FLIGHT_LIMIT));
            let control = Arc::clone(&self.handle.control);
            tokio::select! {
                () = stopping.cancelled() => {
                    self.tell(Input::Shutdown);
                    break;
                }
                () = withdrawn.cancelled(), if !withdrawal_told => {
                    withdrawal_told = true;
                    self.tell(Input::OpenWithdrawn);
                }
                () = control.wake.notified() => self.tell_cancel(control.cancels.load(Ordering::SeqCst)),
                count = receive(self.subscription.as_mut(), &mut batch) => {
                    for event in batch.drain(..) {
                        let effects = self.machine.step(Input::Event(event), now());
                        self.perform(effects);
                    }
                    if count == 0 {
                        self.subscription = None;
                        self.tell(Input::Event(HostEvent::Lost(Failure::new(ErrorCode::StreamLost))));
                    }
                }
                Some(done) = self.calls.next() => self.done(done),
                Some((ask, answer)) = self.asks.next() => {
                    self.asking.remove(&ask);
                    match answer {
                        Some(Answer::Permission(answer)) => self.tell(Input::PermissionAnswer { ask, answer }),
                        Some(Answer::Form(answer)) => self.tell(Input::FormAnswer { ask, answer }),
                        None => {}
                    }
                }
                Some((stamp, request)) = self.inbox.recv() => self.request(stamp, request),
                () = sleep_until(deadline) => self.tell(Input::Tick),
                Some(()) = wait_for(room) => {}
            }
        }
        self.end().await;
    }

    fn tell(&mut self, input: Input) {
        let effects = self.machine.step(input, now());
        self.perform(effects);
    }

    fn tell_cancel(&mut self, count: u64) {
        if count > self.cancels {
            self.cancels = count;
            self.tell(Input::Cancel);
        }
    }

    fn request(&mut self, stamp: u64, request: Request) {
        self.tell_cancel(stamp);
        match request {
            Request::Prompt(prompt, reply) => {
                if self.turn_slot.is_none() {
                    self.turn_slot = Arc::clone(&self.shared.turns).try_acquire_owned().ok();
                }
                let withdrawn = self.handle.control.cancels.load(Ordering::SeqCst) > stamp;
                let input = InputId::from(uuid::Uuid::new_v4().to_string());
                let slot = self.turn_slot.is_some();
                self.tell(Input::Prompt { input, prompt, reply, slot, withdrawn });
            }
            Request::Set(option, value, reply) => self.tell(Input::Set { option, value, reply }),
            Request::Reopen(history, reply) => self.tell(Input::Reopen { history, reply }),
            Request::Close(reply) => self.tell(Input::Close { reply }),
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Input(input) => {
                if gone(&input) || matches!(input, Input::Compacted { .. } | Input::GoalDone { .. }) {
                    // What the host said before it went, or before it answered a command that ends a prompt, is still
                    // in the stream and comes first.
                    for _ in 0..self.subscription.as_ref().map_or(0, |subscription| subscription.events.len())
                    {
                        if let Some(Ok(event)) =
                            self.subscription.as_mut().map(|subscription| subscription.events.try_recv())
                        {
                            self.tell(Input::Event(event));
                        }
                    }
                }
                self.tell(input);
            }
            Done::Subscribed(Ok(mut subscription)) => {
                let snapshot = std::mem::take(&mut subscription.snapshot);
                self.subscription = Some(subscription);
                self.tell(Input::Subscribed(Ok(snapshot)));
            }
            Done::Subscribed(Err(error)) => self.tell(Input::Subscribed(Err(error))),
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(call) => self.call(call),
                Effect::Update(update) => self.outbox.update(update),
                Effect::Ask { ask, prompt } => self.outbox.ask(ask, Question::Permission(Box::new(prompt))),
                Effect::AskForm { ask, form } => self.outbox.ask(ask, Question::Form(form)),
                Effect::Withdraw { ask } => {
                    self.outbox.withdraw(&ask);
                    if let Some(asking) = self.asking.remove(&ask) {
                        asking.cancel();
                    }
                }
                Effect::Introduce { reply, answer } => self.introduce(reply, answer),
                Effect::Refuse { reply, failure } => {
                    tracing::warn!(code = failure.code.as_str(), error = %failure, "session.refused");
                    self.outbox.answer(move || reply.send(Err(failure)));
                }
                Effect::AnswerSetup { reply, result } => self.outbox.answer(move || reply.send(result)),
                Effect::AnswerPrompt { reply, result } => {
                    let session = self.machine.id().map(SessionId::as_str);
                    match &result {
                        Ok(reason) => tracing::info!(session, kind = ?reason, "prompt.answered"),
                        Err(failure) => {
                            tracing::info!(session, code = failure.code.as_str(), "prompt.failed");
                        }
                    }
                    self.outbox.answer(move || reply.send(result));
                }
                Effect::AnswerClose { reply, result } => self.outbox.answer(move || reply.send(result)),
            }
        }
        if !self.machine.has_prompt() {
            self.turn_slot = None;
        }
        if matches!(self.machine.state_name(), "closing" | "closed") {
            self.handle.control.ending.store(true, Ordering::SeqCst);
        }
        if self.outbox.bytes() <= WAITING_LIMIT / 2 {
            self.stalled = false;
        } else if self.outbox.bytes() > WAITING_LIMIT && !self.stalled {
            self.stalled = true;
            tracing::warn!(bytes = self.outbox.bytes(), "client.stalled");
            self.tell(Input::ClientStalled);
        }
    }

    /// Registers the session, then answers; its updates queue behind the answer.
    fn introduce(&mut self, reply: Reply<SessionSetup>, answer: SessionSetup) {
        self.registered = self.shared.register(&answer.session, self.handle.clone(), &self.workspace);
        if !self.registered {
            let failure = Failure::new(ErrorCode::SessionRefused)
                .cause("ZCode opened a session with the id of an open one");
            return self.outbox.answer(move || reply.send(Err(failure)));
        }
        tracing::info!(session = %answer.session, workspace = %self.workspace.display(), "session.opened");
        self.outbox.introduce(answer.session.clone());
        self.outbox.answer(move || reply.send(Ok(answer)));
    }

    fn flush(&mut self) {
        for (ask, answer) in self.outbox.flush() {
            let token = CancellationToken::new();
            self.asking.insert(ask.clone(), token.clone());
            self.asks.push(Box::pin(async move {
                // Dropping the answer is what withdraws the request.
                let answer = token.run_until_cancelled_owned(answer).await;
                (ask, answer)
            }));
        }
    }

    fn call(&mut self, call: Call) {
        if matches!(call, Call::History { .. }) {
            self.page = Some(call);
        } else {
            self.start(call);
        }
    }

    fn start(&mut self, call: Call) {
        let (host, ws) = (self.host.clone(), self.workspace.clone());
        let session = self.machine.id().cloned();
        let Some(future) = future_of(host, ws, session, Arc::clone(&self.mcp_servers), call) else { return };
        self.calls.push(future);
    }

    /// Leaves the registry, answers what is left and gives the last denials a moment.
    async fn end(&mut self) {
        let cause = self.machine.close_cause().cloned();
        if let Some(session) = self.machine.id().cloned()
            && self.registered
        {
            let dead = match &cause {
                Some(CloseCause::Failed(failure)) => Some(failure.clone()),
                _ => None,
            };
            self.shared.unregister(&session, dead);
            tracing::info!(session = %session, count = self.machine.dropped(), "session.closed");
        }
        self.handle.control.gone.cancel();
        self.inbox.close();
        while let Ok((stamp, request)) = self.inbox.try_recv() {
            self.request(stamp, request);
        }
        // A question put now could not be answered any more.
        drop(self.outbox.flush_all());
        self.asking.clear();
        if cause == Some(CloseCause::Shutdown) {
            let calls = &mut self.calls;
            let _ = tokio::time::timeout(LAST_WORDS, async { while calls.next().await.is_some() {} }).await;
        }
    }
}

/// Whether a result says that the host is gone.
fn gone(input: &Input) -> bool {
    match input {
        Input::Sent { result, .. } | Input::Stopped { result, .. } | Input::Closed(result) => {
            matches!(result, Err(CallError::Gone(_)))
        }
        Input::Probed { result, .. } | Input::AskAnswered { result, .. } => {
            matches!(result, Err(CallError::Gone(_)))
        }
        _ => false,
    }
}

/// The host call behind a machine's call. `None` if the session has no id yet, which the machine rules out.
fn future_of(
    host: Host,
    ws: PathBuf,
    session: Option<SessionId>,
    mcp_servers: Arc<[Value]>,
    call: Call,
) -> Option<BoxFuture<'static, Done>> {
    if let Call::Create { mode } = call {
        return Some(Box::pin(async move {
            let new = NewSession { workspace: ws, mode, mcp_servers: mcp_servers.to_vec() };
            Done::Input(Input::Created(host.create_session(&new).await))
        }));
    }
    if let Call::Resume { session } = call {
        return Some(Box::pin(async move {
            Done::Input(Input::Resumed(host.resume_session(&ws, &session, &mcp_servers).await))
        }));
    }
    let session = session?;
    Some(Box::pin(async move {
        Done::Input(match call {
            Call::Create { .. } | Call::Resume { .. } | Call::Subscribe => {
                return Done::Subscribed(host.subscribe(&ws, &session).await);
            }
            Call::Count => Input::Counted(host.message_count(&ws, &session).await),
            Call::History { after } => {
                Input::History(host.read_history(&ws, &session, after.as_deref(), PAGE).await)
            }
            Call::Set(setting) => Input::WasSet(match setting {
                Setting::Mode(mode) => host.set_mode(&ws, &session, &mode).await,
                Setting::Model(model) => host.set_model(&ws, &session, &model).await,
                Setting::Thought(level) => host.set_thought(&ws, &session, &level).await,
            }),
            Call::Compact { input, instructions } => {
                let result = host.compact(&ws, &session, &input, instructions.as_deref()).await;
                Input::Compacted { input, result }
            }
            Call::Goal { input, action, objective } => {
                let result = host.goal(&ws, &session, action, objective.as_deref()).await;
                Input::GoalDone { input, result }
            }
            Call::SetMode { mode } => Input::ModeSet(host.set_mode(&ws, &session, &mode).await),
            Call::Send(input) => {
                let result = host.prompt(&ws, &session, &input).await;
                Input::Sent { input: input.input, result }
            }
            Call::Stop { stop } => Input::Stopped { stop, result: host.stop(&ws, &session).await },
            Call::Probe { probe } => Input::Probed { probe, result: host.turn_running(&ws, &session).await },
            Call::AnswerPermission { ask, option } => {
                let result = host.answer_permission(&ws, &session, &ask, &option).await;
                Input::AskAnswered { ask, result }
            }
            Call::AnswerInput { ask, answer } => {
                let result = host.answer_input(&ws, &session, &ask, &answer).await;
                Input::AskAnswered { ask, result }
            }
            Call::RefuseHeaders { ask } => {
                let result = host.refuse_headers(&ws, &ask, HEADERS_REFUSED).await.map(|()| true);
                Input::AskAnswered { ask, result }
            }
            Call::Close => Input::Closed(host.close_session(&ws, &session).await),
        })
    }))
}

async fn receive(subscription: Option<&mut Subscription>, batch: &mut Vec<HostEvent>) -> usize {
    match subscription {
        Some(subscription) => subscription.events.recv_many(batch, EVENT_BATCH).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

async fn wait_for(room: Option<BoxFuture<'static, ()>>) -> Option<()> {
    match room {
        Some(room) => {
            room.await;
            Some(())
        }
        None => std::future::pending().await,
    }
}
