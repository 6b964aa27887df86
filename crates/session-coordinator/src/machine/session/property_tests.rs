//! Random interleavings of client, host and time, and what must hold in all of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diag_model::{AskId, ErrorCode, Failure, InputId};
use proptest::collection::vec;
use proptest::prelude::*;
use zcode_runtime::model::{
    CallError, CompactOutcome, Decision, EventBody, GoalOutcome, HeadersAsk, HistoryMessage, HistoryPart,
    HostEvent, InputAnswer, InputAsk, OpenedSession, Question, QuestionOption, Refusal, Role, SessionEvent,
    SessionFacts, Snapshot, ToolEvent, ToolStage, TurnResult, Violation,
};

use super::fixture::{host_gone, offers, permission, profile, refused, timed_out};
use super::{Origin, Session, Setup};
use crate::client::{ClientProfile, ConfigId, FormAnswer, PermissionAnswer, Reply, Update};
use crate::coordinator::Prompt;
use crate::machine::config::Setting;
use crate::machine::{Call, Effect, Input};

/// Something somebody does. Numbers choose among what is there at the time.
#[derive(Debug, Clone, Copy)]
enum Op {
    Prompt { slot: bool, withdrawn: bool },
    Cancel,
    Close,
    Withdraw,
    Stalled,
    Answer { ask: usize, how: u8 },
    Finish { call: usize, how: u8 },
    Start { prompt: usize, foreign: bool },
    Steer { prompt: usize },
    Text { turn: usize, nameless: bool },
    Tool { turn: usize, call: u8, stage: u8 },
    Ask { id: u8, subagent: bool, deniable: bool },
    Headers { id: u8 },
    Question { id: u8, questions: u8, multi: bool },
    Plan { id: u8, whole: bool },
    Set(u8),
    Reopen { history: bool },
    Slash(u8),
    AskGone { id: u8 },
    Title(u8),
    Mode(u8),
    Hint { turn: usize },
    End { turn: usize, how: u8 },
    Repeat,
    Violation,
    Lost,
    HostClosed,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::bool::weighted(0.9), prop::bool::weighted(0.1))
            .prop_map(|(slot, withdrawn)| Op::Prompt { slot, withdrawn }),
        4 => Just(Op::Cancel),
        1 => Just(Op::Close),
        1 => Just(Op::Withdraw),
        1 => Just(Op::Stalled),
        6 => (0..8_usize, 0..8_u8).prop_map(|(ask, how)| Op::Answer { ask, how }),
        14 => (0..4_usize, 0..24_u8).prop_map(|(call, how)| Op::Finish { call, how }),
        8 => (0..4_usize, prop::bool::weighted(0.2)).prop_map(|(prompt, foreign)| Op::Start { prompt, foreign }),
        1 => (0..4_usize).prop_map(|prompt| Op::Steer { prompt }),
        8 => (0..6_usize, prop::bool::weighted(0.1)).prop_map(|(turn, nameless)| Op::Text { turn, nameless }),
        5 => (0..6_usize, 0..4_u8, 0..5_u8).prop_map(|(turn, call, stage)| Op::Tool { turn, call, stage }),
        6 => (0..12_u8, prop::bool::weighted(0.2), prop::bool::weighted(0.85))
            .prop_map(|(id, subagent, deniable)| Op::Ask { id, subagent, deniable }),
        1 => (0..6_u8).prop_map(|id| Op::Headers { id }),
        3 => (0..6_u8, 1..3_u8, prop::bool::weighted(0.2))
            .prop_map(|(id, questions, multi)| Op::Question { id, questions, multi }),
        2 => (6..10_u8, prop::bool::weighted(0.8)).prop_map(|(id, whole)| Op::Plan { id, whole }),
        3 => (0..8_u8).prop_map(Op::Set),
        1 => any::<bool>().prop_map(|history| Op::Reopen { history }),
        2 => (0..4_u8).prop_map(Op::Slash),
        2 => (0..20_u8).prop_map(|id| Op::AskGone { id }),
        2 => (0..3_u8).prop_map(Op::Title),
        1 => (0..5_u8).prop_map(Op::Mode),
        1 => (0..6_usize).prop_map(|turn| Op::Hint { turn }),
        7 => (0..6_usize, 0..6_u8).prop_map(|(turn, how)| Op::End { turn, how }),
        3 => Just(Op::Repeat),
        1 => Just(Op::Violation),
        1 => Just(Op::Lost),
        1 => Just(Op::HostClosed),
        6 => prop_oneof![Just(10_u64), Just(600), Just(5_000), Just(31_000)].prop_map(Op::Wait),
    ]
}

fn question(text: &str, options: &[&str], multi: bool) -> Question {
    let option =
        |value: &&str| QuestionOption { value: (*value).into(), label: (*value).into(), description: None };
    Question { question: text.into(), header: None, options: options.iter().map(option).collect(), multi }
}

/// The world around one session, with everything that must never happen as an assertion.
struct World {
    session: Session,
    now: Instant,
    calls: Vec<Call>,
    /// Answers, by the name of the request.
    answers: Arc<Mutex<HashMap<String, u32>>>,
    requests: Vec<String>,
    introduced: bool,
    /// Native turns and the prompt each belongs to.
    turns: Vec<(String, Option<InputId>)>,
    prompts: usize,
    sent: Vec<InputId>,
    seq: u64,
    last: Option<SessionEvent>,
    /// Asks the client was given and not taken back.
    asked: HashMap<AskId, HashSet<String>>,
    ever_asked: HashSet<AskId>,
    /// Allow options the client has selected while it was asked.
    chosen: HashSet<(AskId, String)>,
    native_answers: HashSet<AskId>,
    /// Questions and plans, by the host's id: what the client has answered, one entry a question.
    said: HashMap<AskId, Vec<Vec<String>>>,
    /// Modes that the client has set, and the one it found.
    modes: HashSet<String>,
    /// Opened from the store, with its history.
    replays: bool,
    stops: u32,
    /// Cancels, and other causes of a stop.
    causes: u32,
}

impl World {
    fn new(permission_timeout: Option<Duration>, forms: bool, stored: Option<bool>) -> Self {
        let answers: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        let count = Arc::clone(&answers);
        let reply = Reply::new(move |_| *count.lock().unwrap().entry("new".to_owned()).or_default() += 1);
        let now = Instant::now();
        let setup = Setup {
            workspace: "/w".into(),
            profile: profile(),
            client: ClientProfile { forms, ..ClientProfile::default() },
            offers: Arc::new(offers()),
            origin: match stored {
                None => Origin::New { mode: "build".into() },
                Some(history) => Origin::Stored { session: "s".into(), history },
            },
            permission_timeout,
            reply,
        };
        let (session, effects) = Session::open(setup, now);
        let mut world = Self {
            session,
            now,
            calls: Vec::new(),
            answers,
            requests: vec!["new".to_owned()],
            introduced: false,
            turns: Vec::new(),
            prompts: 0,
            sent: Vec::new(),
            seq: 0,
            last: None,
            asked: HashMap::new(),
            ever_asked: HashSet::new(),
            chosen: HashSet::new(),
            native_answers: HashSet::new(),
            said: HashMap::new(),
            modes: if stored.is_some() { HashSet::new() } else { HashSet::from(["build".to_owned()]) },
            replays: stored == Some(true),
            stops: 0,
            causes: 0,
        };
        world.check(effects);
        world
    }

    fn answered(&self, request: &str) -> bool {
        self.answers.lock().unwrap().contains_key(request)
    }

    fn step(&mut self, input: Input) {
        let effects = self.session.step(input, self.now);
        self.check(effects);
        assert!(self.stops <= self.causes, "{} stops for {} causes", self.stops, self.causes);
    }

    fn check(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Update(update) => {
                    assert!(self.introduced || self.replays, "an update before the session's answer");
                    if let Update::AgentText { message: Some(turn), .. } = &update
                        && !turn.starts_with('h')
                    {
                        let (_, input) = self.turns.iter().find(|(id, _)| **id == **turn).unwrap();
                        let over = input.as_ref().is_some_and(|input| self.answered(input.as_str()));
                        assert!(!over, "content of {turn} after its answer");
                    }
                }
                Effect::Call(call) => {
                    match &call {
                        Call::Create { mode } | Call::SetMode { mode } | Call::Set(Setting::Mode(mode)) => {
                            let wanted = self.modes.contains(&**mode) || self.modes.is_empty();
                            assert!(wanted, "{mode} without the client");
                        }
                        Call::Stop { .. } => self.stops += 1,
                        Call::AnswerPermission { ask, option } => {
                            assert!(self.native_answers.insert(ask.clone()), "{ask} answered twice");
                            let allowed = self.chosen.contains(&(ask.clone(), option.to_string()));
                            assert!(&**option == "deny" || allowed, "{ask} approved without the client");
                        }
                        Call::AnswerInput { ask, answer } => {
                            assert!(self.native_answers.insert(ask.clone()), "{ask} answered twice");
                            if let InputAnswer::Accept(answers) = answer {
                                let given = answers.iter().map(|(_, values)| values.clone());
                                let said = self.said.get(ask).cloned().unwrap_or_default();
                                assert_eq!(
                                    given.collect::<Vec<_>>(),
                                    said,
                                    "{ask} answered without the client"
                                );
                            }
                        }
                        Call::RefuseHeaders { ask } => {
                            assert!(self.native_answers.insert(ask.clone()), "{ask} answered twice");
                        }
                        Call::Send(prompt) => self.sent.push(prompt.input.clone()),
                        Call::Compact { input, .. } | Call::Goal { input, .. } => {
                            self.sent.push(input.clone());
                        }
                        Call::Set(_)
                        | Call::Resume { .. }
                        | Call::Count
                        | Call::History { .. }
                        | Call::Subscribe
                        | Call::Probe { .. }
                        | Call::Close => {}
                    }
                    self.calls.push(call);
                }
                Effect::Ask { ask, prompt } => {
                    assert!(self.introduced, "a question before the session's answer");
                    assert!(self.ever_asked.insert(ask.clone()), "{ask} asked twice");
                    self.asked
                        .insert(ask, prompt.options.iter().map(|option| option.id.to_string()).collect());
                }
                Effect::AskForm { ask, .. } => {
                    assert!(self.introduced, "a form before the session's answer");
                    assert!(self.ever_asked.insert(ask.clone()), "{ask} asked twice");
                    self.asked.insert(ask, HashSet::from(["form".to_owned()]));
                }
                Effect::AnswerSetup { reply, result } => {
                    if let Ok(setup) = &result {
                        assert!(profile().mode(&setup.modes.current).is_some());
                    }
                    reply.send(result);
                }
                Effect::Withdraw { ask } => {
                    assert!(self.asked.remove(&ask).is_some(), "{ask} withdrawn and not open");
                }
                Effect::Introduce { reply, answer } => {
                    let strength = |mode: &str| profile().mode(mode).unwrap().strength;
                    let limit = self.modes.iter().map(|mode| strength(mode)).max().unwrap();
                    assert!(strength(&answer.modes.current) <= limit, "stronger than asked");
                    self.introduced = true;
                    reply.send(Ok(answer));
                }
                Effect::Refuse { reply, failure } => reply.send(Err(failure)),
                Effect::AnswerPrompt { reply, result } => reply.send(result),
                Effect::AnswerClose { reply, result } => reply.send(result),
            }
        }
    }

    fn reply<T: 'static>(&mut self, name: &str) -> Reply<T> {
        let (answers, name) = (Arc::clone(&self.answers), name.to_owned());
        self.requests.push(name.clone());
        Reply::new(move |_| *answers.lock().unwrap().entry(name).or_default() += 1)
    }

    fn event(&mut self, turn: Option<String>, body: EventBody) {
        self.seq += 1;
        let id = format!("e{}", self.seq).into();
        let event = SessionEvent { seq: self.seq, id, turn: turn.map(Into::into), body };
        self.last = Some(event.clone());
        self.host(HostEvent::Event(event));
    }

    /// The host's stream reaches the session only once it is subscribed.
    fn host(&mut self, event: HostEvent) {
        if self.introduced {
            self.step(Input::Event(event));
        }
    }

    fn turn(&self, index: usize) -> Option<String> {
        let index = self.turns.len().checked_sub(1 + index)?;
        Some(self.turns[index].0.clone())
    }

    fn finish(&mut self, call: usize, how: u8) {
        if self.calls.is_empty() {
            return;
        }
        let call = self.calls.remove(call % self.calls.len());
        let error: Option<CallError> = match how {
            0 => Some(timed_out()),
            1 => Some(refused(Refusal::Busy)),
            2 => Some(refused(Refusal::Other)),
            3 => Some(refused(Refusal::NotActive)),
            4 => Some(host_gone()),
            _ => None,
        };
        let mode = match how {
            20 => Some("yolo"),
            21 => Some("turbo"),
            22 => None,
            _ => Some("build"),
        };
        let facts = SessionFacts { mode: mode.map(Into::into), ..SessionFacts::default() };
        fn result<T>(error: Option<CallError>, value: T) -> Result<T, CallError> {
            error.map_or(Ok(value), Err)
        }
        let input = match call {
            Call::Create { .. } => Input::Created(result(error, OpenedSession { id: "s".into(), facts })),
            Call::Resume { .. } => {
                if error.is_none() && !self.introduced && self.modes.is_empty() {
                    self.modes.extend(mode.filter(|mode| profile().mode(mode).is_some()).map(str::to_owned));
                }
                Input::Resumed(result(error, OpenedSession { id: "s".into(), facts }))
            }
            Call::Count => {
                Input::Counted(result(error, (!how.is_multiple_of(5)).then_some(1 + u64::from(how % 2))))
            }
            Call::History { after } => {
                let message = |id: &str| HistoryMessage {
                    id: id.into(),
                    role: if id == "h1" { Role::User } else { Role::Assistant },
                    shown: true,
                    parts: vec![HistoryPart::Text(id.to_owned())],
                    created_ms: None,
                };
                let page = if after.is_none() {
                    vec![message("h1"), message("h2"), message("h1")]
                } else {
                    Vec::new()
                };
                Input::History(result(error, page))
            }
            Call::Set(_) => Input::WasSet(result(error, facts)),
            Call::Compact { input, .. } => {
                let outcome = CompactOutcome { text: String::new(), already_running: false, facts };
                Input::Compacted { input, result: result(error, outcome) }
            }
            Call::Goal { input, .. } => {
                let outcome = GoalOutcome { text: "goal".into(), started_turn: true, facts };
                Input::GoalDone { input, result: result(error, outcome) }
            }
            Call::SetMode { .. } => Input::ModeSet(result(error, facts)),
            Call::Subscribe => {
                let facts = if how.is_multiple_of(3) { facts } else { SessionFacts::default() };
                let event_seq = if self.introduced { self.seq } else { 0 };
                Input::Subscribed(result(error, Snapshot { event_seq, facts, ..Snapshot::default() }))
            }
            Call::Send(input) => Input::Sent { input: input.input, result: result(error, ()) },
            Call::Stop { stop } => Input::Stopped { stop, result: result(error, ()) },
            Call::Probe { probe } => Input::Probed { probe, result: result(error, how.is_multiple_of(2)) },
            Call::AnswerPermission { ask, .. }
            | Call::AnswerInput { ask, .. }
            | Call::RefuseHeaders { ask } => {
                Input::AskAnswered { ask, result: result(error, how.is_multiple_of(2)) }
            }
            Call::Close => Input::Closed(result(error, ())),
        };
        self.step(input);
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        let mut steps = 0;
        while let Some(at) = self.session.deadline().filter(|at| *at <= end) {
            steps += 1;
            assert!(steps < 10_000, "time stands still at {at:?}");
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
        self.now = end;
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Prompt { slot, withdrawn } => {
                let name = format!("p{}", self.prompts);
                let input = InputId::from(name.as_str());
                self.prompts += 1;
                let reply = self.reply(&name);
                let prompt = Prompt { text: name, attachments: Vec::new() };
                self.step(Input::Prompt { input, prompt, reply, slot, withdrawn });
            }
            Op::Cancel => {
                self.causes += 1;
                self.step(Input::Cancel);
            }
            Op::Close => {
                self.causes += 1;
                let reply = self.reply(&format!("close{}", self.requests.len()));
                self.step(Input::Close { reply });
            }
            Op::Withdraw => self.step(Input::OpenWithdrawn),
            Op::Stalled => {
                self.causes += 1;
                self.step(Input::ClientStalled);
            }
            Op::Answer { ask, how } => {
                let mut ids: Vec<_> = self.asked.keys().cloned().collect();
                ids.sort();
                let Some(id) = (!ids.is_empty()).then(|| ids[ask % ids.len()].clone()) else { return };
                let offered = self.asked.remove(&id).unwrap();
                if offered.contains("form") {
                    return self.fill(id, how);
                }
                if !offered.contains("allow_once") {
                    return self.choose(&id, &offered, how);
                }
                let answer = match how {
                    0 => PermissionAnswer::Cancelled,
                    1 => PermissionAnswer::Failed,
                    2 => PermissionAnswer::Selected("nonsense".to_owned()),
                    3 => PermissionAnswer::Selected("deny".to_owned()),
                    4 => PermissionAnswer::Selected("allow_project".to_owned()),
                    _ => PermissionAnswer::Selected("allow_once".to_owned()),
                };
                if let PermissionAnswer::Selected(option) = &answer
                    && offered.contains(option)
                {
                    self.chosen.insert((id.clone(), option.clone()));
                } else if !offered.contains("deny") {
                    self.causes += 1;
                }
                self.step(Input::PermissionAnswer { ask: id.clone(), answer: answer.clone() });
                // A client that answers twice, or in another way, changes nothing.
                self.step(Input::FormAnswer {
                    ask: id.clone(),
                    answer: FormAnswer::Accepted(vec![vec!["x1".into()]]),
                });
                self.step(Input::PermissionAnswer { ask: id, answer });
            }
            Op::Finish { call, how } => self.finish(call, how),
            Op::Start { prompt, foreign } => {
                // Only what was sent can begin, and only once.
                let fresh =
                    |input: &&InputId| self.turns.iter().all(|(_, known)| known.as_ref() != Some(*input));
                let input = self.sent.iter().rev().filter(fresh).nth(prompt).filter(|_| !foreign).cloned();
                let id = format!("t{}", self.turns.len());
                self.turns.push((id.clone(), input.clone()));
                self.event(Some(id), EventBody::TurnStarted { background: input.is_none(), input });
            }
            Op::Steer { prompt } => {
                let fresh =
                    |input: &&InputId| self.turns.iter().all(|(_, known)| known.as_ref() != Some(*input));
                let Some(input) = self.sent.iter().rev().filter(fresh).nth(prompt).cloned() else { return };
                let Some((target, owner)) = self.turns.last_mut() else { return };
                if owner.is_none() {
                    *owner = Some(input.clone());
                    let target = target.as_str().into();
                    self.event(None, EventBody::Steered { inputs: vec![input], target });
                }
            }
            Op::Text { turn, nameless } => {
                let Some(id) = self.turn(turn) else { return };
                let message = (!nameless).then(|| id.as_str().into());
                let delta = "x".to_owned();
                self.event((!nameless).then_some(id), EventBody::Text { message, delta });
            }
            Op::Tool { turn, call, stage } => {
                let Some(id) = self.turn(turn) else { return };
                let stage = match stage {
                    0 => ToolStage::Scheduled { input: None },
                    1 => ToolStage::Started,
                    2 => ToolStage::Progress { tail: Some("x".into()), total_bytes: None },
                    3 => ToolStage::Failed { error: "e".into() },
                    _ => ToolStage::Scheduled { input: Some(serde_json::json!({"command": "x"})) },
                };
                let call = format!("c{call}").as_str().into();
                let tool = ToolEvent { call, tool: Some("Bash".into()), parent: None, agent: None, stage };
                self.event(Some(id), EventBody::Tool(tool));
            }
            Op::Ask { id, subagent, deniable } => {
                let mut ask = permission(&format!("a{id}"));
                ask.subagent = subagent;
                if !deniable {
                    ask.options.retain(|option| option.decision != Decision::Deny);
                    self.causes += 1;
                }
                self.host(HostEvent::Permission(ask));
            }
            Op::Headers { id } => self.host(HostEvent::Headers(HeadersAsk { id: format!("h{id}").into() })),
            Op::Question { id, questions, multi } => {
                let questions =
                    (0..questions).map(|n| question(&format!("Q{n}?"), &["x1", "x2"], multi)).collect();
                let id = format!("i{id}").into();
                self.host(HostEvent::Input(InputAsk {
                    id,
                    call: None,
                    interaction: None,
                    plan: None,
                    questions,
                }));
            }
            Op::Plan { id, whole } => {
                self.causes += u32::from(!whole);
                self.host(HostEvent::Input(InputAsk {
                    id: format!("i{id}").into(),
                    call: Some("plan".into()),
                    interaction: Some("plan_approval".into()),
                    plan: whole.then(|| "# Plan".to_owned()),
                    questions: vec![question("Review", &["approve"], false)],
                }));
            }
            Op::Set(which) => {
                let (option, value) = [
                    (ConfigId::Mode, "plan"),
                    (ConfigId::Mode, "build"),
                    (ConfigId::Mode, "yolo"),
                    (ConfigId::Mode, "turbo"),
                    (ConfigId::Model, r#"["p","m1",null]"#),
                    (ConfigId::Model, r#"["p","m2",null]"#),
                    (ConfigId::Thought, "low"),
                    (ConfigId::Thought, "nonsense"),
                ][usize::from(which)];
                if !self.introduced {
                    return;
                }
                if option == ConfigId::Mode {
                    self.modes.insert(value.to_owned());
                }
                let reply = self.reply(&format!("set{}", self.requests.len()));
                self.step(Input::Set { option, value: value.to_owned(), reply });
            }
            Op::Reopen { history } => {
                if self.introduced {
                    let reply = self.reply(&format!("reopen{}", self.requests.len()));
                    self.step(Input::Reopen { history, reply });
                }
            }
            Op::Slash(which) => {
                let name = format!("p{}", self.prompts);
                let input = InputId::from(name.as_str());
                self.prompts += 1;
                let reply = self.reply(&name);
                let text =
                    ["/compact", "/goal win", "/plan", "/plan and then"][usize::from(which)].to_owned();
                if which >= 2 && self.introduced {
                    self.modes.insert("plan".to_owned());
                }
                let prompt = Prompt { text, attachments: Vec::new() };
                self.step(Input::Prompt { input, prompt, reply, slot: true, withdrawn: false });
            }
            Op::AskGone { id } => {
                let id = if id < 12 { format!("a{id}") } else { format!("i{}", id - 12) };
                self.host(HostEvent::AskGone(id.as_str().into()));
            }
            Op::Title(title) => {
                let facts =
                    SessionFacts { title: Some(format!("t{title}").into()), ..SessionFacts::default() };
                self.host(HostEvent::Facts(facts));
            }
            Op::Mode(mode) => {
                self.causes += u32::from(mode == 4);
                let mode = ["plan", "build", "edit", "yolo", "turbo"][usize::from(mode)];
                if self.introduced && mode != "turbo" {
                    self.modes.insert(mode.to_owned());
                }
                self.host(HostEvent::Facts(SessionFacts {
                    mode: Some(mode.into()),
                    ..SessionFacts::default()
                }));
            }
            Op::Hint { turn } => {
                let turn = self.turn(turn);
                self.event(turn, EventBody::TurnTerminalHint);
            }
            Op::End { turn, how } => {
                let Some(id) = self.turn(turn) else { return };
                let result = match how {
                    0 => TurnResult::Cancelled,
                    1 => TurnResult::Error(Failure::new(ErrorCode::TurnFailed)),
                    2 => TurnResult::Refusal,
                    _ => TurnResult::EndTurn,
                };
                self.event(Some(id), EventBody::TurnEnded { result, input: None, usage: None });
            }
            Op::Repeat => {
                if let Some(event) = self.last.clone() {
                    self.host(HostEvent::Event(event));
                }
            }
            Op::Violation => {
                self.causes += 1;
                self.host(HostEvent::Violation(Violation { what: "novel".into() }));
            }
            Op::Lost => self.host(HostEvent::Lost(Failure::new(ErrorCode::StreamLost))),
            Op::HostClosed => self.event(None, EventBody::SessionClosed),
            Op::Wait(ms) => self.wait(Duration::from_millis(ms)),
        }
    }

    /// Answers a question or plan that was put as a choice.
    fn choose(&mut self, key: &AskId, offered: &HashSet<String>, how: u8) {
        let mut options: Vec<_> = offered.iter().cloned().collect();
        options.sort();
        let answer = match how {
            0 => PermissionAnswer::Cancelled,
            1 => PermissionAnswer::Failed,
            2 => PermissionAnswer::Selected("nonsense".to_owned()),
            _ => PermissionAnswer::Selected(options[usize::from(how) % options.len()].clone()),
        };
        if let PermissionAnswer::Selected(option) = &answer {
            let value = option.strip_prefix("answer-").map_or_else(|| option.clone(), |n| format!("x{n}"));
            let ask = key.as_str().split('#').next().unwrap();
            self.said.entry(ask.into()).or_default().push(vec![value]);
        }
        self.step(Input::PermissionAnswer { ask: key.clone(), answer: answer.clone() });
        // Twice changes nothing.
        self.step(Input::PermissionAnswer { ask: key.clone(), answer });
    }

    fn fill(&mut self, ask: AskId, how: u8) {
        let values = |value: &str, count: usize| vec![vec![value.to_owned()]; count];
        let answer = match how {
            0 => FormAnswer::Cancelled,
            1 => FormAnswer::Failed,
            2 => FormAnswer::Declined,
            3 => FormAnswer::Accepted(values("nonsense", 1)),
            4 => FormAnswer::Accepted(values("approve", 1)),
            5 => FormAnswer::Accepted(values("x2", 2)),
            _ => FormAnswer::Accepted(values("x1", 1)),
        };
        if let FormAnswer::Accepted(values) = &answer {
            self.said.insert(ask.clone(), values.clone());
        }
        self.step(Input::PermissionAnswer { ask: "nobody".into(), answer: PermissionAnswer::Failed });
        self.step(Input::FormAnswer { ask: ask.clone(), answer: answer.clone() });
        self.step(Input::FormAnswer { ask, answer });
    }

    /// Lets everything go well until the session is open.
    fn open(&mut self) {
        while !self.introduced {
            self.finish(0, 10);
            self.wait(Duration::from_millis(150));
        }
    }

    fn all_answered_once(&self) {
        let answers = self.answers.lock().unwrap();
        for request in &self.requests {
            assert_eq!(answers.get(request), Some(&1), "{request}");
        }
    }

    fn nothing_left(&self) {
        assert_eq!(self.session.deadline(), None, "a deadline is left");
        assert_eq!(self.session.asks.open(), 0, "a question is left");
        assert!(!self.session.has_prompt(), "a prompt is left");
        assert!(self.asked.is_empty(), "the client is still being asked");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Shutdown, at any moment, answers everything at once.
    #[test]
    fn every_request_is_answered_once_and_nothing_is_left(
        prefix in prop::bool::weighted(0.85),
        timeout in prop::option::of(Just(Duration::from_secs(20))),
        forms in any::<bool>(),
        stored in prop::option::of(any::<bool>()),
        ops in vec(op(), 0..50),
    ) {
        let mut world = World::new(timeout, forms, stored);
        if prefix {
            world.open();
        }
        for op in ops {
            world.apply(op);
        }
        world.causes += 1;
        world.step(Input::Shutdown);
        world.all_answered_once();
        world.nothing_left();
    }

    /// A client that cancels and closes is served within bounded time, even by a host that never says another word.
    #[test]
    fn after_cancel_and_close_nothing_hangs(
        forms in any::<bool>(),
        stored in prop::option::of(any::<bool>()),
        ops in vec(op(), 0..50),
    ) {
        let mut world = World::new(None, forms, stored);
        world.open();
        for op in ops {
            world.apply(op);
        }
        // An opening that is still under way is bounded by the deadlines of its calls.
        while !world.introduced && !world.calls.is_empty() {
            world.finish(0, 0);
        }
        world.apply(Op::Cancel);
        world.wait(Duration::from_secs(31));
        prop_assert!(!world.session.has_prompt(), "a cancelled prompt is not answered");
        world.apply(Op::Close);
        world.wait(Duration::from_secs(61));
        prop_assert!(world.session.close_cause().is_some(), "{}", world.session.state_name());
        world.all_answered_once();
        world.nothing_left();
    }
}
