//! The dispatcher of one connection.
//!
//! It decodes, checks, hands over and returns: the SDK dispatches one message at a time, so anything slow in here would
//! hold back cancels, answers and the end of the input. Answers come back through [`Reply`], in order behind the updates
//! of their session. The gate in front of `initialize` is kept here and not by the SDK, whose own refuses requests that
//! were written in one burst with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::v1::schema as acp;
use agent_client_protocol::{Client, ConnectionTo, Dispatch, Error, HandleDispatchFrom, Handled, Responder};
use diag_model::{ErrorCode, Failure, SessionId, one_line};
use serde::Serialize;
use serde_json::{Map, Value};
use session_coordinator::client::{ConfigId, Reply, StopReason};
use session_coordinator::host::HostLauncher;
use session_coordinator::{Coordinator, ListAnswer, ListRequest, SessionSetup};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::capabilities::{Capability, Identity, TERMINAL_METHOD, TerminalSignIn, guard};
use crate::convert::{content, from_acp, setup, to_acp};
use crate::error_map::{invalid_params, invalid_request, method_not_found, to_error};
use crate::port::Port;
use crate::request::{self, Request};
use crate::serve::end::{End, FENCE_METHOD};
use crate::transport::reader::AskedVersion;

/// Prompts whose linked files are being looked at, at most.
const PREPARING: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Created,
    Initialized,
    Closing,
}

pub(crate) struct Connection {
    pub(crate) coordinator: Coordinator,
    launcher: HostLauncher,
    pub(crate) port: Arc<Port>,
    pub(crate) identity: Identity,
    pub(crate) asked: AskedVersion,
    pub(crate) end: Arc<End>,
    preparing: Arc<Preparing>,
    /// Cancelled when the connection ends: nothing that takes long may hold it up.
    closing: CancellationToken,
    phase: Phase,
}

impl Connection {
    pub(crate) fn new(
        coordinator: Coordinator,
        launcher: HostLauncher,
        port: Arc<Port>,
        identity: Identity,
        asked: AskedVersion,
        end: Arc<End>,
    ) -> Self {
        Self {
            coordinator,
            launcher,
            port,
            identity,
            asked,
            end,
            preparing: Arc::default(),
            closing: CancellationToken::new(),
            phase: Phase::Created,
        }
    }

    fn request(&mut self, method: &str, params: Value, responder: Responder) {
        match (self.phase, method) {
            (Phase::Closing, _) => {
                refuse(responder, invalid_request("the agent is shutting down", "start it again"));
            }
            (Phase::Created, "initialize") => self.initialize(&params, responder),
            (Phase::Created, _) => {
                refuse(
                    responder,
                    invalid_request("the connection is not initialized", "send initialize first"),
                );
            }
            (Phase::Initialized, "initialize") => {
                let error =
                    invalid_request("the connection is already initialized", "go on with the first answer");
                refuse(responder, error);
            }
            (Phase::Initialized, _) => match guard(method) {
                Err(reason) => refuse(responder, method_not_found(reason)),
                Ok(Capability::Authenticate) if params["methodId"] == TERMINAL_METHOD => {
                    let rule = "names a method that the client itself runs in a terminal";
                    fail(responder, &invalid_params("methodId", rule));
                }
                Ok(capability) => {
                    match from_acp::object(params).and_then(|params| request::decode(capability, params)) {
                        Ok(Some(request)) => self.offered(request, responder),
                        Ok(None) => refuse(responder, method_not_found(None)),
                        Err(failure) => fail(responder, &failure),
                    }
                }
            },
        }
    }

    fn initialize(&mut self, params: &Value, responder: Responder) {
        // The SDK has checked the version already.
        self.phase = Phase::Initialized;
        let profile = from_acp::profile(params);
        self.port.set_profile(profile);
        self.coordinator.set_profile(profile);
        let info = |field| {
            let text = params.pointer("/clientInfo").and_then(|info| info.get(field)).and_then(Value::as_str);
            text.map(|text| one_line(text).chars().take(80).collect::<String>())
        };
        tracing::info!(
            client = info("name"),
            client_version = info("version"),
            version = self.asked.get(),
            simulated = self.identity.simulated,
            "connection.initialized"
        );
        answer(responder, &self.identity.answer_to(TerminalSignIn::of(params)));
    }

    fn offered(&self, request: Request, responder: Responder) {
        let coordinator = &self.coordinator;
        match request {
            Request::Authenticate => {
                coordinator.check_sign_in(self.reply(responder, None, |()| acp::AuthenticateResponse::new()));
            }
            Request::Logout => self.logout(responder),
            Request::New(request) => {
                let (cancel, watch) = cancellable(&responder);
                let reply = self.reply(responder, Some(watch), |new: SessionSetup| {
                    let session = new.session.as_str().to_owned();
                    let (modes, options) = setup::setup(new);
                    acp::NewSessionResponse::new(session).modes(modes).config_options(options)
                });
                coordinator.new_session(request, cancel, reply);
            }
            Request::Load(request) => {
                let (cancel, watch) = cancellable(&responder);
                let reply = self.reply(responder, Some(watch), |open: SessionSetup| {
                    let (modes, options) = setup::setup(open);
                    acp::LoadSessionResponse::new().modes(modes).config_options(options)
                });
                coordinator.load(request, cancel, reply);
            }
            Request::Resume(request) => {
                let (cancel, watch) = cancellable(&responder);
                let reply = self.reply(responder, Some(watch), |open: SessionSetup| {
                    let (modes, options) = setup::setup(open);
                    acp::ResumeSessionResponse::new().modes(modes).config_options(options)
                });
                coordinator.resume(request, cancel, reply);
            }
            Request::List(request) => self.list(request, responder),
            Request::Close(session) => {
                self.preparing.cancel(&session);
                coordinator
                    .close(&session, self.reply(responder, None, |()| acp::CloseSessionResponse::new()));
            }
            Request::SetMode(session, mode) => {
                let reply = self.reply(responder, None, |_: SessionSetup| acp::SetSessionModeResponse::new());
                coordinator.set_mode(&session, mode, reply);
            }
            Request::SetOption(session, option, value) => {
                let reply = self.reply(responder, None, |now: SessionSetup| {
                    acp::SetSessionConfigOptionResponse::new(setup::options(now.options))
                });
                coordinator.set_option(&session, option, value, reply);
            }
            Request::SetModel(session, model) => {
                let reply = self.reply(responder, None, |_: SessionSetup| Map::<String, Value>::new());
                coordinator.set_option(&session, ConfigId::Model, model, reply);
            }
            Request::Prompt(session, draft) => self.prompt(session, draft, responder),
        }
    }

    /// Signs out with ZCode's own command line, which signs the desktop app out too. Whether it happened is unknown when it
    /// is withdrawn; the next session says.
    fn logout(&self, responder: Responder) {
        let (cancel, watch) = cancellable(&responder);
        let reply = self.reply(responder, Some(watch), |()| acp::LogoutResponse::new());
        let (launcher, closing) = (self.launcher.clone(), self.closing.clone());
        tokio::spawn(async move {
            let result = tokio::select! {
                biased;
                () = closing.cancelled() => Err(Failure::new(ErrorCode::ShuttingDown)),
                () = cancel.cancelled() => Err(Failure::new(ErrorCode::RequestCancelled)),
                result = launcher.sign_out() => result,
            };
            reply.send(result);
        });
    }

    /// Lists sessions. Nothing has to be undone when the client withdraws, so whoever is first answers.
    fn list(&self, request: ListRequest, responder: Responder) {
        let (cancel, watch) = cancellable(&responder);
        let reply = self.reply(responder, Some(watch), setup::list);
        let (listed, answered) = tokio::sync::oneshot::channel();
        self.coordinator.list(
            request,
            Reply::new(move |page: Result<ListAnswer, Failure>| {
                let _ = listed.send(page);
            }),
        );
        tokio::spawn(async move {
            let page = tokio::select! {
                biased;
                page = answered => page.unwrap_or_else(|_| Err(Failure::new(ErrorCode::Internal))),
                () = cancel.cancelled() => Err(Failure::new(ErrorCode::RequestCancelled)),
            };
            reply.send(page);
        });
    }

    fn prompt(&self, session: SessionId, draft: content::Draft, responder: Responder) {
        let preparing = Arc::clone(&self.preparing);
        let coordinator = self.coordinator.clone();
        let watch = watch(&responder, {
            let (preparing, coordinator, session) =
                (Arc::clone(&preparing), coordinator.clone(), session.clone());
            move || {
                preparing.cancel(&session);
                coordinator.cancel(&session);
            }
        });
        let reply = self.reply(responder, Some(watch), |reason: StopReason| {
            acp::PromptResponse::new(to_acp::stop_reason(reason))
        });
        if draft.is_at_hand() && !preparing.has(&session) {
            coordinator.prompt(&session, draft.resolve(), reply);
            return;
        }
        // Looking at files can take as long as a network does, so it happens elsewhere. A cancel that comes meanwhile
        // is remembered, because the session does not know of the prompt yet.
        let cancelled = match preparing.begin(&session) {
            Ok(cancelled) => cancelled,
            Err(failure) => return reply.send(Err(failure)),
        };
        tokio::spawn(async move {
            let looking = tokio::task::spawn_blocking(move || draft.resolve());
            let resolved = tokio::select! {
                biased;
                () = cancelled.cancelled() => None,
                resolved = looking => Some(resolved),
            };
            preparing.finish(&session, || match resolved.filter(|_| !cancelled.is_cancelled()) {
                None => reply.send(Ok(StopReason::Cancelled)),
                Some(Ok(prompt)) => coordinator.prompt(&session, prompt, reply),
                Some(Err(_)) => {
                    reply
                        .send(Err(Failure::new(ErrorCode::Internal)
                            .cause("the prompt's files could not be looked at")));
                }
            });
        });
    }

    fn notification(&mut self, method: &str, params: &Value) {
        match method {
            FENCE_METHOD if self.end.is_asked() => {
                self.phase = Phase::Closing;
                self.preparing.cancel_all();
                self.closing.cancel();
                self.end.fence(&self.coordinator);
            }
            "session/cancel" if self.phase == Phase::Initialized => {
                if let Some(session) = params.get("sessionId").and_then(Value::as_str).map(SessionId::from) {
                    self.preparing.cancel(&session);
                    self.coordinator.cancel(&session);
                }
            }
            _ => {}
        }
    }

    /// The duty to answer, counted until it is done: the end of the connection waits for it.
    fn reply<T: 'static, R: Serialize + 'static>(
        &self,
        responder: Responder,
        watch: Option<DropGuard>,
        wire: fn(T) -> R,
    ) -> Reply<T> {
        let open = self.end.open();
        Reply::new(move |result: Result<T, Failure>| {
            match result {
                Ok(value) => answer(responder, &wire(value)),
                Err(failure) => fail(responder, &failure),
            }
            drop((open, watch));
        })
    }
}

/// Runs `cancel` when the client withdraws the request before the guard is dropped.
fn watch(responder: &Responder, cancel: impl FnOnce() + Send + 'static) -> DropGuard {
    let cancellation = responder.cancellation();
    let answered = CancellationToken::new();
    let guard = answered.clone().drop_guard();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = answered.cancelled() => {}
            () = cancellation.cancelled() => cancel(),
        }
    });
    guard
}

/// A token that is cancelled when the client withdraws the request before the guard is dropped.
fn cancellable(responder: &Responder) -> (CancellationToken, DropGuard) {
    let cancel = CancellationToken::new();
    let watch = watch(responder, {
        let cancel = cancel.clone();
        move || cancel.cancel()
    });
    (cancel, watch)
}

fn answer(responder: Responder, value: &impl Serialize) {
    let result = serde_json::to_value(value).map_err(|_| to_error(&Failure::new(ErrorCode::Internal)));
    // A refusal means that the connection has ended: nobody is left to tell.
    let _ = responder.respond_with_result(result);
}

fn fail(responder: Responder, failure: &Failure) {
    tracing::info!(code = %failure.code, phase = %failure.phase, error = %failure, "request.failed");
    let _ = responder.respond_with_error(to_error(failure));
}

fn refuse(responder: Responder, error: Error) {
    tracing::info!(code = error.code.value(), reason = %error.message, "request.refused");
    let _ = responder.respond_with_error(error);
}

/// Prompts whose linked files are being looked at, one a session.
#[derive(Default)]
struct Preparing(Mutex<HashMap<SessionId, CancellationToken>>);

impl Preparing {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, session: &SessionId) -> bool {
        self.lock().contains_key(session)
    }

    /// Enters a prompt; the token says whether it was cancelled meanwhile.
    fn begin(&self, session: &SessionId) -> Result<CancellationToken, Failure> {
        let mut prompts = self.lock();
        if prompts.contains_key(session) {
            return Err(Failure::new(ErrorCode::SessionBusy));
        }
        if prompts.len() >= PREPARING {
            return Err(Failure::new(ErrorCode::TooManyTurns));
        }
        let cancelled = CancellationToken::new();
        prompts.insert(session.clone(), cancelled.clone());
        Ok(cancelled)
    }

    fn cancel(&self, session: &SessionId) {
        if let Some(cancelled) = self.lock().get(session) {
            cancelled.cancel();
        }
    }

    fn cancel_all(&self) {
        self.lock().values().for_each(CancellationToken::cancel);
    }

    /// Removes the prompt and hands it over in one step: a cancel finds it here or in the session, never in neither.
    fn finish(&self, session: &SessionId, hand_over: impl FnOnce()) {
        let mut prompts = self.lock();
        prompts.remove(session);
        hand_over();
    }
}

impl HandleDispatchFrom<Client> for Connection {
    async fn handle_dispatch_from(
        &mut self,
        message: Dispatch,
        connection: ConnectionTo<Client>,
    ) -> Result<Handled<Dispatch>, Error> {
        self.port.attach(&connection);
        match message {
            Dispatch::Request(message, responder) => {
                let (method, params) = message.into_parts();
                self.request(&method, params, responder);
                Ok(Handled::Yes)
            }
            Dispatch::Notification(message) => {
                self.notification(message.method(), message.params());
                Ok(Handled::Yes)
            }
            response @ Dispatch::Response(..) => Ok(Handled::No { message: response, retry: false }),
        }
    }

    fn describe_chain(&self) -> impl std::fmt::Debug {
        "zcode-acp"
    }
}
