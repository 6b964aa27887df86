//! A host and a session of the simulated host, over a byte stream in this process.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diag_model::SessionId;
use runtime_discovery::Contract;
use simulator::{ScenarioSource, SimOptions};
use zcode_runtime::host::{Host, HostLauncher, HostSource, HostStream, Subscription};
use zcode_runtime::model::{
    CallError, Decision, EventBody, HostEvent, HostProfile, NewSession, PromptInput, SessionEvent, TurnResult,
};

const SOON: Duration = Duration::from_secs(20);

pub struct World {
    pub host: Host,
    pub session: SessionId,
    pub subscription: Subscription,
    pub dir: tempfile::TempDir,
}

impl World {
    pub fn ws(&self) -> &Path {
        self.dir.path()
    }

    pub async fn next(&mut self) -> HostEvent {
        let event = tokio::time::timeout(SOON, self.subscription.events.recv()).await;
        event.expect("an event in time").expect("an open stream")
    }

    pub async fn prompt(&self, text: &str) -> Result<(), CallError> {
        let input = PromptInput { input: "input-1".into(), text: text.to_owned(), attachments: Vec::new() };
        self.host.prompt(self.ws(), &self.session, &input).await
    }
}

pub async fn launch(scenario: Option<&str>, state: &Path) -> Host {
    let options = {
        let (scenario, state) =
            (scenario.map(|name| ScenarioSource::Builtin(name.to_owned())), state.to_owned());
        move || SimOptions {
            scenario: scenario.clone(),
            state_dir: Some(state.clone()),
            ..SimOptions::default()
        }
    };
    let open = Arc::new(move || {
        let (near, far) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(far);
        tokio::spawn(simulator::serve(read, write, options()));
        let (read, write) = tokio::io::split(near);
        Ok(HostStream { read: Box::new(read), write: Box::new(write) })
    });
    let profile = Arc::new(HostProfile::simulated(&Contract::embedded()));
    let launcher = HostLauncher::new(HostSource::Stream { profile, open });
    assert!(launcher.simulated());
    launcher.start().await.expect("the simulated host starts")
}

pub async fn world(scenario: Option<&str>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let host = launch(scenario, &dir.path().join("state")).await;
    let workspace = host.open_workspace(dir.path()).await.expect("opened");
    assert!(!workspace.models.is_empty() && workspace.mode.is_some());
    let new = NewSession { workspace: dir.path().to_owned(), mode: "build".into(), mcp_servers: Vec::new() };
    let opened = host.create_session(&new).await.expect("created");
    assert_eq!(opened.facts.mode.as_deref(), Some("build"));
    let subscription = host.subscribe(dir.path(), &opened.id).await.expect("subscribed");
    assert!(!subscription.snapshot.running);
    World { host, session: opened.id, subscription, dir }
}

impl World {
    /// Prompts and allows everything until the turn ends; returns how it ended and every event of it.
    pub async fn turn(&mut self, text: &str) -> (TurnResult, Vec<EventBody>) {
        self.prompt(text).await.expect("accepted");
        let mut bodies = Vec::new();
        loop {
            match self.next().await {
                HostEvent::Permission(ask) => {
                    let allow = ask.options.iter().find(|option| option.decision == Decision::Allow);
                    let allow = allow.expect("a way to allow").id.clone();
                    self.host
                        .answer_permission(self.ws(), &self.session, &ask.id, &allow)
                        .await
                        .expect("answered");
                }
                HostEvent::Event(SessionEvent { body: EventBody::TurnEnded { result, .. }, .. }) => {
                    return (result, bodies);
                }
                HostEvent::Event(event) => bodies.push(event.body),
                HostEvent::Violation(violation) => panic!("{violation:?}"),
                HostEvent::Lost(failure) => panic!("{failure:?}"),
                _ => {}
            }
        }
    }

    /// The first event that `wanted` takes.
    pub async fn until<T>(&mut self, mut wanted: impl FnMut(HostEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next().await) {
                return found;
            }
        }
    }
}
