//! The adapter in front of a simulated host.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::{Value, json};
use session_coordinator::host::{HostLauncher, HostSource, HostStream, StreamFactory};
use session_coordinator::model::{HostProfile, Mode};
use simulator::{ScenarioSource, SimOptions};
use tokio::io::{AsyncRead, ReadBuf};

use super::{Client, options, prompt, temp};

/// What the adapter wrote to the host.
#[derive(Clone, Default)]
pub struct Sent(Arc<Mutex<Vec<u8>>>);

impl Sent {
    /// The values of a member, wherever it is, in the order they were sent.
    pub fn member(&self, name: &str) -> Vec<Value> {
        fn find(value: &Value, name: &str, found: &mut Vec<Value>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| find(item, name, found)),
                Value::Object(members) => {
                    for (key, member) in members {
                        if key == name {
                            found.push(member.clone());
                        }
                        find(member, name, found);
                    }
                }
                _ => {}
            }
        }
        let bytes = self.0.lock().unwrap().clone();
        let mut found = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(value) = serde_json::from_slice(line) {
                find(&value, name, &mut found);
            }
        }
        found
    }
}

/// The host's end of the pipe, read with a record of what comes.
struct Tap<R>(R, Sent);

impl<R: AsyncRead + Unpin> AsyncRead for Tap<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(context, buffer);
        self.1.0.lock().unwrap().extend_from_slice(&buffer.filled()[before..]);
        polled
    }
}

pub fn launcher(state: &Path, scenario: Option<&str>) -> HostLauncher {
    tapped(state, scenario).0
}

/// A launcher of simulated hosts; `scenario` is the name of a built-in one or a whole text.
pub fn tapped(state: &Path, scenario: Option<&str>) -> (HostLauncher, Sent) {
    let sent = Sent::default();
    let mode = |id: &str, strength, implicit| Mode {
        id: id.into(),
        name: id.into(),
        description: "A mode.".into(),
        strength,
        implicit,
    };
    let profile = HostProfile {
        contract: "zcode-host-test".into(),
        protocol: "zcode-task-v1".into(),
        app_version: None,
        unofficial: false,
        simulated: true,
        modes: Arc::new([
            mode("plan", 0, true),
            mode("build", 1, true),
            mode("edit", 2, true),
            mode("yolo", 3, false),
        ]),
        cancel_terminal: Duration::from_secs(30),
    };
    let options = SimOptions {
        scenario: scenario.map(|scenario| {
            if !scenario.contains('\n') {
                return ScenarioSource::Builtin(scenario.to_owned());
            }
            let file = state.join("scenario.toml");
            std::fs::write(&file, scenario).unwrap();
            ScenarioSource::File(file)
        }),
        state_dir: Some(state.join("sim-state")),
        ..SimOptions::default()
    };
    let record = sent.clone();
    let open: StreamFactory = Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(ours);
        let (host_read, host_write) = tokio::io::split(theirs);
        let (options, host_read) = (options.clone(), Tap(host_read, record.clone()));
        tokio::spawn(async move { simulator::serve(host_read, host_write, options).await });
        Ok(HostStream { read: Box::new(read), write: Box::new(write) })
    });
    (HostLauncher::new(HostSource::Stream { profile: Arc::new(profile), open }), sent)
}

pub struct Turn {
    pub client: Client,
    pub session: String,
    pub workspace: PathBuf,
    pub state: PathBuf,
    pub setup: Value,
    _state: tempfile::TempDir,
    _workspace: tempfile::TempDir,
}

impl Turn {
    pub fn ready(scenario: Option<&str>) -> Self {
        Self::with(scenario, &json!({}))
    }

    /// A session of a client that can do something.
    pub fn with(scenario: Option<&str>, capabilities: &Value) -> Self {
        let (state, state_path) = temp();
        let (workspace_dir, workspace) = temp();
        let mut client = Client::start(launcher(&state_path, scenario), options());
        client.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        let setup = client.call("session/new", &json!({"cwd": workspace, "mcpServers": []}))["result"].take();
        let session = setup["sessionId"].as_str().unwrap().to_owned();
        Self {
            client,
            session,
            workspace,
            state: state_path,
            setup,
            _state: state,
            _workspace: workspace_dir,
        }
    }

    /// The same user with a new process.
    pub fn another_process(&self, scenario: Option<&str>) -> Client {
        let mut client = Client::start(launcher(&self.state, scenario), options());
        client.initialize();
        client
    }

    /// Runs a prompt; returns its answer and the updates before it.
    pub fn run(&mut self, text: &str) -> (Value, Vec<Value>) {
        let mut updates = Vec::new();
        let params = prompt(&self.session, text);
        let answer =
            self.client.call_with("session/prompt", &params, &mut |_, message| updates.push(message));
        (answer, updates)
    }

    /// Sends a prompt and waits for its first text.
    pub fn streaming(&mut self, text: &str) -> u64 {
        let id = self.client.request("session/prompt", &prompt(&self.session, text));
        loop {
            let message = self.client.recv();
            if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk" {
                return id;
            }
            assert!(message.get("method").is_some(), "answered too early: {message}");
        }
    }
}

pub fn text_of(updates: &[Value]) -> String {
    updates
        .iter()
        .filter(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|message| message["params"]["update"]["content"]["text"].as_str())
        .collect()
}

pub fn statuses(updates: &[Value]) -> Vec<String> {
    updates
        .iter()
        .filter_map(|message| message["params"]["update"]["status"].as_str().map(str::to_owned))
        .collect()
}
