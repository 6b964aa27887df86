//! A client that writes everything down, and a coordinator over the simulated host.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diag_model::{Failure, SessionId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use session_coordinator::client::{
    ClientPort, FormAnswer, FormPrompt, PermissionAnswer, PermissionPrompt, Reply, StopReason, ToolContent,
    ToolStatus, Update,
};
use session_coordinator::host::{HostLauncher, HostSource, HostStream, StreamFactory};
use session_coordinator::model::{HostProfile, Mode};
use session_coordinator::{Coordinator, NewSessionRequest, Options, Prompt, SessionSetup};
use simulator::{ScenarioSource, SimOptions};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub const DEADLINE: Duration = Duration::from_secs(20);

/// A client that writes down what it is told and answers permissions as configured.
pub struct Recorder {
    pub log: Mutex<Vec<String>>,
    pub diffs: AtomicUsize,
    pub answer: Option<&'static str>,
    pub withdrawn: Arc<AtomicUsize>,
    pub news: Notify,
}

impl Recorder {
    pub fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
        self.news.notify_waiters();
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line that begins so.
    pub async fn until(&self, start: &str) {
        let seen = async {
            loop {
                let news = self.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if self.log().iter().any(|line| line.starts_with(start)) {
                    return;
                }
                news.await;
            }
        };
        let seen = tokio::time::timeout(DEADLINE, seen).await;
        assert!(seen.is_ok(), "no {start:?} in {:#?}", self.log());
    }

    pub fn text(&self) -> String {
        self.log().iter().filter_map(|line| line.strip_prefix("text ")).collect()
    }
}

impl ClientPort for Recorder {
    fn update(&self, _: &SessionId, update: Update) {
        let line = match update {
            Update::AgentText { text, .. } => format!("text {text}"),
            Update::AgentThought { text, .. } => format!("thought {text}"),
            Update::ToolCall(view) => format!("call {}", view.patch().title.as_deref().unwrap()),
            Update::ToolUpdate(patch) => {
                if patch.status == Some(ToolStatus::Completed) {
                    let diffs =
                        patch.content.iter().flatten().filter(|c| matches!(c, ToolContent::Diff { .. }));
                    self.diffs.fetch_add(diffs.count(), Ordering::SeqCst);
                }
                format!("tool {:?}", patch.status)
            }
            Update::Title(title) => format!("title {title}"),
            other => format!("{other:?}"),
        };
        self.note(line);
    }

    fn ask_permission(
        &self,
        _: &SessionId,
        prompt: PermissionPrompt,
    ) -> BoxFuture<'static, PermissionAnswer> {
        self.note(format!("ask {}", prompt.call.title.as_deref().unwrap()));
        struct Withdrawn(Arc<AtomicUsize>);
        impl Drop for Withdrawn {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        if let Some(option) = self.answer {
            return async move { PermissionAnswer::Selected(option.to_owned()) }.boxed();
        }
        let guard = Withdrawn(Arc::clone(&self.withdrawn));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
        .boxed()
    }

    fn ask_form(&self, _: &SessionId, _: FormPrompt) -> BoxFuture<'static, FormAnswer> {
        async { FormAnswer::Failed }.boxed()
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn room(&self, _: usize) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

pub struct World {
    pub coordinator: Coordinator,
    pub client: Arc<Recorder>,
    /// Hosts started.
    pub hosts: Arc<AtomicUsize>,
    pub dir: tempfile::TempDir,
}

pub fn profile() -> HostProfile {
    let mode = |id: &str, strength| Mode {
        id: id.into(),
        name: id.into(),
        description: id.into(),
        strength,
        implicit: id != "yolo",
    };
    HostProfile {
        contract: "zcode-host-test".into(),
        protocol: "zcode-task-v1".into(),
        app_version: None,
        unofficial: false,
        simulated: true,
        modes: [mode("plan", 0), mode("build", 1), mode("edit", 2), mode("yolo", 3)].into(),
        cancel_terminal: Duration::from_secs(30),
    }
}

pub fn world(scenario: &str, answer: Option<&'static str>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let options = SimOptions {
        scenario: Some(ScenarioSource::Builtin(scenario.to_owned())),
        state_dir: Some(dir.path().join("state")),
        ..SimOptions::default()
    };
    let hosts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hosts);
    let open: StreamFactory = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(ours);
        let (host_read, host_write) = tokio::io::split(theirs);
        tokio::spawn(simulator::serve(host_read, host_write, options.clone()));
        Ok(HostStream { read: Box::new(read), write: Box::new(write) })
    });
    let client = Arc::new(Recorder {
        log: Mutex::default(),
        diffs: AtomicUsize::new(0),
        answer,
        withdrawn: Arc::default(),
        news: Notify::new(),
    });
    let launcher = HostLauncher::new(HostSource::Stream { profile: Arc::new(profile()), open });
    let coordinator = Coordinator::new(launcher, client.clone(), Options::default());
    World { coordinator, client, hosts, dir }
}

pub type Answer<T> = oneshot::Receiver<Result<T, Failure>>;

pub fn reply<T: Send + 'static>(client: &Arc<Recorder>, name: &'static str) -> (Reply<T>, Answer<T>) {
    let (sender, receiver) = oneshot::channel();
    let client = Arc::clone(client);
    let reply = Reply::new(move |result| {
        client.note(format!("answer {name}"));
        let _ = sender.send(result);
    });
    (reply, receiver)
}

pub async fn answer<T>(receiver: Answer<T>) -> Result<T, Failure> {
    tokio::time::timeout(DEADLINE, receiver).await.expect("answered in time").expect("answered")
}

impl World {
    pub fn request(&self, cwd: PathBuf) -> Answer<SessionSetup> {
        let (reply, receiver) = reply(&self.client, "new");
        self.coordinator.new_session(
            NewSessionRequest { cwd, mcp_servers: Vec::new() },
            CancellationToken::new(),
            reply,
        );
        receiver
    }

    pub async fn open(&self) -> SessionSetup {
        answer(self.request(self.dir.path().to_owned())).await.unwrap()
    }

    pub fn prompt(&self, session: &SessionId, text: &str) -> Answer<StopReason> {
        let (reply, receiver) = reply(&self.client, "prompt");
        self.coordinator.prompt(session, Prompt { text: text.to_owned(), attachments: Vec::new() }, reply);
        receiver
    }

    pub fn close(&self, session: &SessionId) -> Answer<()> {
        let (reply, receiver) = reply(&self.client, "close");
        self.coordinator.close(session, reply);
        receiver
    }

    pub async fn end(self) {
        let begun = Instant::now();
        self.coordinator.shutdown().await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}
