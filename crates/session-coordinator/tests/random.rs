//! Random sequences of everything a client can do, against the simulated host with its faults, in virtual time.
//!
//! Nothing may hang, every request is answered exactly once, and afterwards each session either works or says why it is
//! gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diag_model::{Failure, SessionId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use session_coordinator::client::{
    ClientPort, ClientProfile, ConfigId, FormAnswer, FormPrompt, PermissionAnswer, PermissionPrompt, Reply,
    Update,
};
use session_coordinator::host::{HostLauncher, HostSource, HostStream, StreamFactory};
use session_coordinator::{Coordinator, ListRequest, NewSessionRequest, OpenRequest, Options, Prompt};
use simulator::SimOptions;
use tokio_util::sync::CancellationToken;

mod common;

/// Sequences of one test; four tests make a thousand.
const SEQUENCES: u64 = 250;
const ACTIONS: usize = 14;
/// Longer than every deadline of the adapter, in virtual time.
const PATIENCE: Duration = Duration::from_mins(10);

const PROMPTS: &[&str] = &[
    "hello",
    "use a tool",
    "perm",
    "slow",
    "term ls",
    "/compact",
    "/goal show",
    "/plan look around",
    "sim:tour",
    "sim:question",
    "sim:plan",
    "sim:background",
    "sim:retry",
    "sim:subagent",
    "sim:captcha",
    "sim:rate-limit",
    "sim:silence",
    "sim:duplicate-ask",
    "sim:seq-disorder",
    "sim:unknown-event",
    "sim:missing-field",
    "sim:evicted",
    "sim:crash-mid-turn",
    "sim:garbage",
    "sim:refusal",
    "sim:max-turns",
];

/// A small generator: the sequence of a seed must be the same on every machine and with every version of a crate.
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, sides: usize) -> usize {
        let state = self.0.load(Ordering::Relaxed);
        let next = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.store(next, Ordering::Relaxed);
        usize::try_from(next >> 33).unwrap() % sides
    }

    fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}

/// A client that answers as the dice say, and sometimes never.
struct Client {
    dice: Arc<Dice>,
}

impl ClientPort for Client {
    fn update(&self, _: &SessionId, _: Update) {}

    fn ask_permission(
        &self,
        _: &SessionId,
        prompt: PermissionPrompt,
    ) -> BoxFuture<'static, PermissionAnswer> {
        let answer = match self.dice.roll(6) {
            0 => return futures::future::pending().boxed(),
            1 => PermissionAnswer::Cancelled,
            2 => PermissionAnswer::Failed,
            3 => PermissionAnswer::Selected("never offered".to_owned()),
            _ => PermissionAnswer::Selected(self.dice.pick(&prompt.options).id.to_string()),
        };
        let wait = Duration::from_millis(self.dice.roll(3000) as u64);
        async move {
            tokio::time::sleep(wait).await;
            answer
        }
        .boxed()
    }

    fn ask_form(&self, _: &SessionId, form: FormPrompt) -> BoxFuture<'static, FormAnswer> {
        let answer = match self.dice.roll(5) {
            0 => return futures::future::pending().boxed(),
            1 => FormAnswer::Declined,
            2 => FormAnswer::Cancelled,
            3 => FormAnswer::Failed,
            _ => FormAnswer::Accepted(
                form.questions
                    .iter()
                    .map(|q| q.options.iter().take(1).map(|o| o.value.clone()).collect())
                    .collect(),
            ),
        };
        async move { answer }.boxed()
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn room(&self, _: usize) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

/// Answers as they come in, by the number of the request.
type Answers = Arc<Mutex<BTreeMap<usize, Result<String, Failure>>>>;

struct Run {
    coordinator: Coordinator,
    dice: Arc<Dice>,
    cwd: PathBuf,
    sessions: Arc<Mutex<Vec<SessionId>>>,
    answers: Answers,
    asked: Vec<&'static str>,
}

impl Run {
    fn reply<T: Send + 'static>(
        &mut self,
        what: &'static str,
        show: impl FnOnce(T) -> String + Send + 'static,
    ) -> Reply<T> {
        let number = self.asked.len();
        self.asked.push(what);
        let answers = Arc::clone(&self.answers);
        Reply::new(move |result: Result<T, Failure>| {
            let earlier = answers.lock().unwrap().insert(number, result.map(show));
            assert!(earlier.is_none(), "request {number} ({what}) is answered twice");
        })
    }

    fn session(&self) -> SessionId {
        let sessions = self.sessions.lock().unwrap();
        if sessions.is_empty() { "nobody".into() } else { self.dice.pick(&sessions).clone() }
    }

    fn new_session(&mut self) {
        let sessions = Arc::clone(&self.sessions);
        let reply = self.reply("new", move |setup: session_coordinator::SessionSetup| {
            sessions.lock().unwrap().push(setup.session.clone());
            setup.session.to_string()
        });
        let cancel = CancellationToken::new();
        if self.dice.roll(8) == 0 {
            cancel.cancel();
        }
        self.coordinator.new_session(
            NewSessionRequest { cwd: self.cwd.clone(), mcp_servers: Vec::new() },
            cancel,
            reply,
        );
    }

    fn prompt(&mut self, session: &SessionId, text: &str) {
        let reply = self.reply("prompt", |reason| format!("{reason:?}"));
        self.coordinator.prompt(session, Prompt { text: text.to_owned(), attachments: Vec::new() }, reply);
    }

    async fn act(&mut self) {
        let session = self.session();
        match self.dice.roll(16) {
            0..=5 => {
                let text = *self.dice.pick(PROMPTS);
                self.prompt(&session, text);
            }
            6 | 7 => self.coordinator.cancel(&session),
            8 => {
                let mode = (*self.dice.pick(&["plan", "build", "edit", "yolo", "guarded"])).to_owned();
                let reply = self.reply("set_mode", |_| String::new());
                self.coordinator.set_mode(&session, mode, reply);
            }
            9 => {
                let (option, value) = *self.dice.pick(&[
                    (ConfigId::Thought, "low"),
                    (ConfigId::Thought, "high"),
                    (ConfigId::Thought, "none"),
                    (ConfigId::Model, "[\"p\",\"m\",null]"),
                ]);
                let reply = self.reply("set_option", |_| String::new());
                self.coordinator.set_option(&session, option, value.to_owned(), reply);
            }
            10 | 11 => {
                let request = OpenRequest { session, cwd: self.cwd.clone(), mcp_servers: Vec::new() };
                let reply = self.reply("open", |_| String::new());
                if self.dice.roll(2) == 0 {
                    self.coordinator.load(request, CancellationToken::new(), reply);
                } else {
                    self.coordinator.resume(request, CancellationToken::new(), reply);
                }
            }
            12 => {
                let reply = self.reply("close", |()| String::new());
                self.coordinator.close(&session, reply);
            }
            13 => {
                let reply = self.reply("list", |_| String::new());
                self.coordinator.list(ListRequest { cwd: Some(self.cwd.clone()), cursor: None }, reply);
            }
            14 => self.new_session(),
            _ => {}
        }
        if self.dice.roll(3) > 0 {
            let wait = *self.dice.pick(&[1, 20, 60, 300, 2_000, 35_000]);
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    /// Waits until everything that was asked is answered.
    async fn settle(&self, seed: u64) {
        let begun = tokio::time::Instant::now();
        while self.answers.lock().unwrap().len() < self.asked.len() {
            assert!(begun.elapsed() < PATIENCE, "seed {seed}: unanswered {:?}", self.unanswered());
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    fn unanswered(&self) -> Vec<&'static str> {
        let answers = self.answers.lock().unwrap();
        self.asked
            .iter()
            .enumerate()
            .filter(|(n, _)| !answers.contains_key(n))
            .map(|(_, what)| *what)
            .collect()
    }
}

async fn sequence(seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let sim = SimOptions { state_dir: Some(dir.path().join("state")), ..SimOptions::default() };
    let open: StreamFactory = Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(ours);
        let (host_read, host_write) = tokio::io::split(theirs);
        tokio::spawn(simulator::serve(host_read, host_write, sim.clone()));
        Ok(HostStream { read: Box::new(read), write: Box::new(write) })
    });
    let dice = Arc::new(Dice(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)));
    let launcher = HostLauncher::new(HostSource::Stream { profile: Arc::new(common::profile()), open });
    let client = Arc::new(Client { dice: Arc::clone(&dice) });
    let coordinator = Coordinator::new(launcher, client, Options::default());
    if dice.roll(2) == 0 {
        coordinator.set_profile(ClientProfile {
            forms: true,
            plans: true,
            notices: true,
            compaction: true,
            terminal_output: true,
        });
    }
    let mut run = Run {
        coordinator,
        dice,
        cwd: dir.path().to_owned(),
        sessions: Arc::default(),
        answers: Arc::default(),
        asked: Vec::new(),
    };
    run.new_session();
    for _ in 0..ACTIONS {
        run.act().await;
    }
    // A turn that nobody answers or that is silent for ever ends when it is cancelled.
    let sessions = run.sessions.lock().unwrap().clone();
    for session in &sessions {
        run.coordinator.cancel(session);
    }
    run.settle(seed).await;
    // Each session works, or says why it does not.
    for session in &sessions {
        run.prompt(session, "hello");
        run.settle(seed).await;
        let answers = run.answers.lock().unwrap();
        match answers.values().next_back().unwrap() {
            Ok(reason) => assert_eq!(reason, "EndTurn", "seed {seed}"),
            Err(failure) => assert!(
                matches!(failure.code.as_str(), "ZA602" | "ZA805" | "ZA806" | "ZA807" | "ZA809" | "ZA818"),
                "seed {seed}: {failure:?}"
            ),
        }
    }
    let ended = tokio::time::timeout(PATIENCE, run.coordinator.shutdown()).await;
    assert!(ended.is_ok(), "seed {seed}: shutdown hangs");
    assert_eq!(run.unanswered(), Vec::<&str>::new(), "seed {seed}");
}

fn sequences(from: u64) {
    for seed in from..from + SEQUENCES {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(sequence(seed));
    }
}

#[test]
fn random_sequences_first_quarter() {
    sequences(0);
}

#[test]
fn random_sequences_second_quarter() {
    sequences(SEQUENCES);
}

#[test]
fn random_sequences_third_quarter() {
    sequences(2 * SEQUENCES);
}

#[test]
fn random_sequences_fourth_quarter() {
    sequences(3 * SEQUENCES);
}
