//! Short ways to build what the tests of the machines need.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diag_model::{ErrorCode, Failure, InputId};
use serde_json::json;
use zcode_runtime::model::{
    CallError, Decision, EventBody, HostEvent, HostProfile, Mode, Model, ModelRef, OpenedSession,
    PermissionAsk, PermissionOption, Refusal, SessionEvent, SessionFacts, Snapshot, ThoughtLevels, ToolEvent,
    ToolStage, TurnResult, WorkspaceState,
};

use super::{Origin, Session, Setup};
use crate::client::{
    ClientProfile, ConfigId, PermissionAnswer, Reply, StopReason, ToolContent, ToolStatus, Update,
};
use crate::coordinator::Prompt;
use crate::machine::{Call, Effect, Input};
use crate::setup::SessionSetup;

pub(crate) fn profile() -> Arc<HostProfile> {
    let mode = |id: &str, strength| Mode {
        id: id.into(),
        name: id.into(),
        description: id.into(),
        strength,
        implicit: id != "yolo",
    };
    Arc::new(HostProfile {
        contract: "test".into(),
        protocol: "test".into(),
        app_version: None,
        unofficial: false,
        simulated: true,
        modes: [mode("plan", 0), mode("build", 1), mode("edit", 2), mode("yolo", 3)].into(),
        cancel_terminal: Duration::from_secs(30),
    })
}

/// A workspace with two models and a thought level, and without commands.
pub(crate) fn offers() -> WorkspaceState {
    let model = |id: &str| Model {
        id: ModelRef { provider: "p".into(), model: id.into(), variant: None },
        label: id.into(),
        provider_label: None,
        disabled: None,
    };
    let available = vec![("low".into(), "Low".into()), ("max".into(), "Max".into())];
    WorkspaceState {
        models: vec![model("m1"), model("m2")],
        current_model: Some(model("m1").id),
        thought: Some(ThoughtLevels { current: None, default: Some("max".into()), available }),
        ..WorkspaceState::default()
    }
}

pub(crate) fn option(id: &str, decision: Decision, lasting: bool) -> PermissionOption {
    PermissionOption { id: id.into(), name: id.to_owned(), decision, lasting, native_kind: id.into() }
}

pub(crate) fn permission(id: &str) -> PermissionAsk {
    PermissionAsk {
        id: id.into(),
        call: format!("call-{id}").as_str().into(),
        tool: "Bash".into(),
        reason: None,
        input: json!({"command": "make"}),
        subagent: false,
        options: vec![
            option("allow_once", Decision::Allow, false),
            option("allow_project", Decision::Allow, true),
            option("deny", Decision::Deny, false),
        ],
    }
}

/// A session and a clock. Each step says in words what came of it.
pub(crate) struct Rig {
    pub(crate) session: Session,
    pub(crate) now: Instant,
    seq: u64,
    prompts: u64,
    said: Arc<Mutex<Vec<String>>>,
    last: u64,
}

impl Rig {
    /// A session whose creation has been asked for.
    pub(crate) fn opening() -> Self {
        Self::with(None)
    }

    pub(crate) fn with(permission_timeout: Option<Duration>) -> Self {
        let origin = Origin::New { mode: "build".into() };
        let (rig, first) = Self::begin(permission_timeout, ClientProfile::default(), origin, offers());
        assert_eq!(first, ["create build"]);
        rig
    }

    /// An open, idle session of a client that can do this.
    pub(crate) fn of_client(client: ClientProfile) -> Self {
        let (rig, _) = Self::begin(None, client, Origin::New { mode: "build".into() }, offers());
        rig.opened()
    }

    /// A session that is being opened from the host's store.
    pub(crate) fn stored(history: bool, offers: WorkspaceState) -> Self {
        let origin = Origin::Stored { session: "s".into(), history };
        let (rig, first) = Self::begin(None, ClientProfile::default(), origin, offers);
        assert_eq!(first, ["resume s"]);
        rig
    }

    pub(crate) fn begin(
        permission_timeout: Option<Duration>,
        client: ClientProfile,
        origin: Origin,
        offers: WorkspaceState,
    ) -> (Self, Vec<String>) {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&said);
        let reply = Reply::new(move |result: Result<SessionSetup, Failure>| {
            log.lock().unwrap().push(match result {
                Ok(answer) => format!("new {} {}", answer.session, answer.modes.current),
                Err(failure) => format!("new {}", failure.code),
            });
        });
        let now = Instant::now();
        let setup = Setup {
            workspace: "/w".into(),
            profile: profile(),
            client,
            offers: Arc::new(offers),
            origin,
            permission_timeout,
            reply,
        };
        let (session, effects) = Session::open(setup, now);
        let mut rig = Self { session, now, seq: 0, prompts: 0, said, last: 0 };
        let first = rig.words(effects);
        (rig, first)
    }

    /// An open, idle session.
    pub(crate) fn open() -> Self {
        Self::opening().opened()
    }

    pub(crate) fn opened(mut self) -> Self {
        assert_eq!(self.step(created(Some("build"))), ["subscribe"]);
        assert_eq!(self.step(Input::Subscribed(Ok(Snapshot::default()))), ["new s build"]);
        self
    }

    /// A session with the prompt `p1` sent, accepted and begun as turn `t1`.
    pub(crate) fn running() -> Self {
        let mut rig = Self::open();
        rig.prompt();
        rig.accept("p1");
        assert!(rig.started("t1", Some("p1")).is_empty());
        rig
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<String> {
        let effects = self.session.step(input, self.now);
        self.words(effects)
    }

    /// Lets time pass up to each deadline in turn.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<String> {
        let end = self.now + time;
        let mut said = Vec::new();
        while let Some(at) = self.session.deadline().filter(|at| *at <= end) {
            assert!(at >= self.now || self.session.deadline().is_none(), "a deadline in the past");
            self.now = at;
            said.extend(self.step(Input::Tick));
        }
        self.now = end;
        said
    }

    pub(crate) fn prompt(&mut self) -> Vec<String> {
        self.prompt_with(true, false)
    }

    pub(crate) fn prompt_with(&mut self, slot: bool, withdrawn: bool) -> Vec<String> {
        self.prompts += 1;
        let name = format!("p{}", self.prompts);
        let reply = self.prompt_reply(&name);
        let prompt = Prompt { text: format!("prompt {name}"), attachments: Vec::new() };
        self.step(Input::Prompt { input: name.into(), prompt, reply, slot, withdrawn })
    }

    pub(crate) fn accept(&mut self, input: &str) -> Vec<String> {
        self.step(Input::Sent { input: input.into(), result: Ok(()) })
    }

    pub(crate) fn close(&mut self) -> Vec<String> {
        let log = Arc::clone(&self.said);
        let reply = Reply::new(move |result: Result<(), Failure>| {
            log.lock().unwrap().push(match result {
                Ok(()) => "closed".to_owned(),
                Err(failure) => format!("close {}", failure.code),
            });
        });
        self.step(Input::Close { reply })
    }

    pub(crate) fn event(&mut self, turn: Option<&str>, body: EventBody) -> Vec<String> {
        self.seq += 1;
        let event = SessionEvent {
            seq: self.seq,
            id: format!("e{}", self.seq).into(),
            turn: turn.map(Arc::from),
            body,
        };
        self.step(Input::Event(HostEvent::Event(event)))
    }

    pub(crate) fn started(&mut self, turn: &str, input: Option<&str>) -> Vec<String> {
        let body = EventBody::TurnStarted { input: input.map(InputId::from), background: input.is_none() };
        self.event(Some(turn), body)
    }

    pub(crate) fn text(&mut self, turn: &str, text: &str) -> Vec<String> {
        self.event(Some(turn), EventBody::Text { message: None, delta: text.to_owned() })
    }

    pub(crate) fn ended(&mut self, turn: &str, result: TurnResult) -> Vec<String> {
        self.event(Some(turn), EventBody::TurnEnded { result, input: None, usage: None })
    }

    pub(crate) fn tool(&mut self, turn: &str, call: &str, stage: ToolStage) -> Vec<String> {
        let tool = Some(Arc::from("Bash"));
        self.event(
            Some(turn),
            EventBody::Tool(ToolEvent { call: call.into(), tool, parent: None, agent: None, stage }),
        )
    }

    pub(crate) fn ask(&mut self, id: &str) -> Vec<String> {
        self.step(Input::Event(HostEvent::Permission(permission(id))))
    }

    pub(crate) fn select(&mut self, ask: &str, option: &str) -> Vec<String> {
        let answer = PermissionAnswer::Selected(option.to_owned());
        self.step(Input::PermissionAnswer { ask: ask.into(), answer })
    }

    pub(crate) fn set(&mut self, option: ConfigId, value: &str) -> Vec<String> {
        let reply = self.setup_reply("set");
        self.step(Input::Set { option, value: value.to_owned(), reply })
    }

    pub(crate) fn reopen(&mut self, history: bool) -> Vec<String> {
        let reply = self.setup_reply("reopen");
        self.step(Input::Reopen { history, reply })
    }

    fn setup_reply(&self, name: &'static str) -> Reply<SessionSetup> {
        let log = Arc::clone(&self.said);
        Reply::new(move |result: Result<SessionSetup, Failure>| {
            log.lock().unwrap().push(match result {
                Ok(setup) => format!("{name} {}", setup.modes.current),
                Err(failure) => format!("{name} {}", failure.code),
            });
        })
    }

    fn prompt_reply(&self, name: &str) -> Reply<StopReason> {
        let (log, label) = (Arc::clone(&self.said), name.to_owned());
        Reply::new(move |result: Result<StopReason, Failure>| {
            log.lock().unwrap().push(match result {
                Ok(reason) => format!("{label} {reason:?}"),
                Err(failure) => format!("{label} {}", failure.code),
            });
        })
    }

    /// Submits a prompt with this text.
    pub(crate) fn say(&mut self, text: &str) -> Vec<String> {
        self.prompts += 1;
        let name = format!("p{}", self.prompts);
        let reply = self.prompt_reply(&name);
        let prompt = Prompt { text: text.to_owned(), attachments: Vec::new() };
        self.step(Input::Prompt { input: name.into(), prompt, reply, slot: true, withdrawn: false })
    }

    pub(crate) fn facts(&mut self, facts: SessionFacts) -> Vec<String> {
        self.step(Input::Event(HostEvent::Facts(facts)))
    }

    pub(crate) fn confirm(&mut self, ask: &str) -> Vec<String> {
        self.step(Input::AskAnswered { ask: ask.into(), result: Ok(true) })
    }

    pub(crate) fn title(&mut self, title: &str) -> Vec<String> {
        let facts = SessionFacts { title: Some(title.into()), ..SessionFacts::default() };
        self.step(Input::Event(HostEvent::Facts(facts)))
    }

    /// Answers the last probe.
    pub(crate) fn probed(&mut self, running: bool) -> Vec<String> {
        self.step(Input::Probed { probe: self.last, result: Ok(running) })
    }

    /// Refuses the last stop.
    pub(crate) fn stop_refused(&mut self) -> Vec<String> {
        self.step(Input::Stopped { stop: self.last, result: Err(refused(Refusal::Other)) })
    }

    pub(crate) fn state(&self) -> &'static str {
        self.session.state_name()
    }

    fn words(&mut self, effects: Vec<Effect>) -> Vec<String> {
        let mut words = Vec::new();
        for effect in effects {
            match effect {
                Effect::Call(call) => words.push(self.call(call)),
                Effect::Update(update) => words.push(update_in_words(&update)),
                Effect::Ask { ask, prompt } => {
                    assert!(prompt.call.title.is_some());
                    words.push(format!("ask {ask}"));
                }
                Effect::AskForm { ask, form } => words.push(format!("form {ask} {}", form.message)),
                Effect::AnswerSetup { reply, result } => reply.send(result),
                Effect::Withdraw { ask } => words.push(format!("withdraw {ask}")),
                Effect::Introduce { reply, answer } => reply.send(Ok(answer)),
                Effect::Refuse { reply, failure } => reply.send(Err(failure)),
                Effect::AnswerPrompt { reply, result } => reply.send(result),
                Effect::AnswerClose { reply, result } => reply.send(result),
            }
            words.append(&mut self.said.lock().unwrap());
        }
        words
    }

    fn call(&mut self, call: Call) -> String {
        match call {
            Call::Create { mode } => format!("create {mode}"),
            Call::Resume { session } => format!("resume {session}"),
            Call::Count => "count".to_owned(),
            Call::History { after } => format!("history {}", after.as_deref().unwrap_or("all")),
            Call::Set(setting) => format!("set {setting:?}"),
            Call::Compact { input, instructions } => format!("compact {input} {instructions:?}"),
            Call::Goal { action, objective, .. } => format!("goal {action} {objective:?}"),
            Call::SetMode { mode } => format!("set mode {mode}"),
            Call::Subscribe => "subscribe".to_owned(),
            Call::Send(input) => format!("send {}", input.input),
            Call::Stop { stop } => {
                self.last = stop;
                "stop".to_owned()
            }
            Call::Probe { probe } => {
                self.last = probe;
                "probe".to_owned()
            }
            Call::AnswerPermission { ask, option } => format!("answer {ask} {option}"),
            Call::AnswerInput { ask, answer } => format!("answer {ask} {answer:?}"),
            Call::RefuseHeaders { ask } => format!("refuse headers {ask}"),
            Call::Close => "close".to_owned(),
        }
    }
}

fn update_in_words(update: &Update) -> String {
    match update {
        Update::AgentText { text, .. } => format!("text {text}"),
        Update::AgentThought { text, .. } => format!("thought {text}"),
        Update::ToolCall(view) => format!("call {}", view.patch().call),
        Update::ToolUpdate(patch) => match (&patch.status, patch.content.as_deref()) {
            (Some(ToolStatus::Failed), Some([ToolContent::Text(why)])) => {
                format!("tool {} failed: {why}", patch.call)
            }
            (status, _) => format!("tool {} {status:?}", patch.call),
        },
        Update::Title(title) => format!("title {title}"),
        Update::UserText { text, .. } => format!("user {text}"),
        Update::Mode(mode) => format!("mode {mode}"),
        Update::Options(options) => {
            let current: Vec<_> = options.iter().map(|option| option.current.to_string()).collect();
            format!("options {}", current.join(" "))
        }
        Update::Plan(todos) => {
            let todos: Vec<_> = todos.iter().map(|todo| todo.content.clone()).collect();
            format!("plan {todos:?}")
        }
        Update::Commands(commands) => {
            let names: Vec<_> = commands.iter().map(|command| &*command.name).collect();
            format!("commands {}", names.join(" "))
        }
        Update::Proposal { id, text } => format!("proposal {id} {text}"),
        Update::ProposalGone { id } => format!("proposal gone {id}"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn created(mode: Option<&str>) -> Input {
    let facts = SessionFacts { mode: mode.map(Arc::from), ..SessionFacts::default() };
    Input::Created(Ok(OpenedSession { id: "s".into(), facts }))
}

pub(crate) fn mode_set(mode: Option<&str>) -> Input {
    Input::ModeSet(Ok(SessionFacts { mode: mode.map(Arc::from), ..SessionFacts::default() }))
}

pub(crate) fn refused(why: Refusal) -> CallError {
    CallError::Refused { failure: Failure::new(ErrorCode::SessionRefused), why }
}

pub(crate) fn timed_out() -> CallError {
    CallError::TimedOut(Failure::new(ErrorCode::SessionRefused))
}

pub(crate) fn host_gone() -> CallError {
    CallError::Gone(Failure::new(ErrorCode::HostExited))
}

/// Every test ends like the program: whatever is open is answered, and nothing is left that waits.
impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.step(Input::Shutdown);
            assert_eq!(self.session.deadline(), None, "a deadline is left");
            assert_eq!(self.session.asks.open(), 0, "a question is left");
            assert!(!self.session.has_prompt(), "a prompt is left");
        }
    }
}
