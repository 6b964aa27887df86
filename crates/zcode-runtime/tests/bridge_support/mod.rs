//! Runs the real bridge script in Node against a fake install, with a small stand-in for the simulator.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr
)]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::install::{FakeInstall, node};
use zcode_protocol::bridge::{BRIDGE_VERSION, Classified, Config, Line};

pub const SCRIPT: &str = include_str!("../../bridge/host-bridge.cjs");
pub const NONCE: &str = "0123456789abcdef0123456789abcdef";
/// No step of these tests takes longer on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

const READ: u8 = 0;
const CLOSE: u8 = 1;
const HOLD: u8 = 2;

/// True when Node is there. Where it must be (CI) its absence fails the test.
pub fn node_is_here() -> bool {
    if node().is_some() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "Node is needed and not on PATH");
    eprintln!("SKIPPED: Node is not on PATH");
    false
}

/// A fake install, a workspace and the stand-in's executable.
pub struct Fixture {
    pub temp: tempfile::TempDir,
    pub install: FakeInstall,
    pub workspace: PathBuf,
    /// What is run; the script unless a test changes it.
    pub script: String,
    stand_in: PathBuf,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with_host(None)
    }

    /// With another host entry than the fake's.
    pub fn with_host(host: Option<&str>) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let mut builder = FakeInstall::builder();
        if let Some(host) = host {
            builder = builder.host(host);
        }
        let install = builder.build(&temp.path().join("install with space")).unwrap();
        let workspace = temp.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let source = temp.path().join("stand-in.cjs");
        std::fs::write(&source, include_str!("../../../../fixtures/installs/stand-in.cjs")).unwrap();
        let stand_in = temp.path().join("stand-in");
        let node = node().unwrap();
        std::fs::write(&stand_in, format!("#!/bin/sh\nexec '{}' '{}'\n", node.display(), source.display()))
            .unwrap();
        let mut permissions = std::fs::metadata(&stand_in).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        std::fs::set_permissions(&stand_in, permissions).unwrap();
        Self { temp, install, workspace, script: SCRIPT.to_owned(), stand_in }
    }

    /// The configuration an adapter would write.
    pub fn config(&self) -> Value {
        let contract = self.install.contract_json().unwrap();
        let (protocol, launcher) = (&contract["protocol"], &contract["launcher"]);
        json!({
            "bridge": BRIDGE_VERSION,
            "nonce": NONCE,
            "hostIndex": self.install.host_index,
            "rpcModule": self.install.rpc_module,
            "exports": contract["artifact"]["rpcModule"]["exports"],
            "channels": protocol["serviceChannels"],
            "allow": { "agent": protocol["agentMethods"], "task": ["stopGeneration", "respondPermission"] },
            "events": { "agent": ["onDynamicSessionEvent"] },
            "init": { "type": "init-local", "deviceMid": "device", "agentSpawnFallbackCwd": self.workspace },
            "dispose": launcher["dispose"],
            "disposeMs": 700,
            "answerAtOnce": launcher["answerAtOnce"],
        })
    }

    pub fn start(&self) -> Bridge {
        let config = self.config();
        // What the tests send is what the adapter's type can hold.
        serde_json::from_value::<Config>(config.clone()).unwrap();
        self.start_with(&config.to_string())
    }

    /// Starts and sees it ready.
    pub fn ready(&self) -> Bridge {
        let mut bridge = self.start();
        let Got::Ready(_) = bridge.next() else { panic!("not ready first") };
        bridge
    }

    /// Starts with any first line.
    pub fn start_with(&self, first: &str) -> Bridge {
        let mut command = Command::new(&self.install.executable);
        command
            .args(["-e", &self.script])
            .current_dir(&self.install.root)
            .env("ELECTRON_RUN_AS_NODE", "1")
            .env("ZCODE_ACP_SIM_BINARY", &self.stand_in)
            .env_remove("ZCODE_ACP_SIM_SCENARIO")
            .env_remove("NODE_OPTIONS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // As the supervisor starts it: leader of its own group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().unwrap();
        let (lines, received) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let reading = Arc::new(AtomicU8::new(READ));
        let mode = Arc::clone(&reading);
        std::thread::spawn(move || {
            let mut rest = stdout.split(b'\n');
            while let Some(Ok(line)) = rest.next() {
                match mode.load(Ordering::SeqCst) {
                    READ if lines.send(String::from_utf8(line).unwrap()).is_ok() => {}
                    // Ends with the test's process; the pipe stays open and full.
                    HOLD => std::thread::park(),
                    _ => break,
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut bridge = Bridge {
            stdin: child.stdin.take(),
            child,
            lines: received,
            reading,
            stderr: Some(stderr),
            noise: Vec::new(),
            next_id: 1,
        };
        bridge.write(first);
        bridge
    }
}

/// An owned bridge line.
#[derive(Debug, Clone, PartialEq)]
pub enum Got {
    Reply(u64, Result<Value, Value>),
    Event(u64, Value),
    Ready(Value),
    Fatal(Value),
    End,
}

pub struct Bridge {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reading: Arc<AtomicU8>,
    stderr: Option<std::thread::JoinHandle<String>>,
    /// Lines without the nonce.
    pub noise: Vec<String>,
    next_id: u64,
}

impl Bridge {
    pub fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        let _ = stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.write_all(b"\n"))
            .and_then(|()| stdin.flush());
    }

    /// Sends a request and gives its id.
    pub fn request(&mut self, action: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = json!({ "id": id });
        line.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        self.write(&line.to_string());
        id
    }

    pub fn call(&mut self, service: &str, method: &str, params: &Value) -> u64 {
        self.request(&json!({ "call": { "service": service, "method": method, "params": params } }))
    }

    /// Makes the stand-in do something; gives the answer.
    pub fn order(&mut self, fixture: &Fixture, mut params: Value) -> Result<Value, Value> {
        params["workspacePath"] = json!(fixture.workspace);
        let id = self.call("agent", "goalSession", &params);
        self.reply(id)
    }

    /// The next line of the bridge itself.
    pub fn next(&mut self) -> Got {
        self.next_within(PATIENCE).expect("the bridge says something in time")
    }

    pub fn next_within(&mut self, patience: Duration) -> Option<Got> {
        let deadline = Instant::now() + patience;
        loop {
            let line = match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(Got::End),
            };
            match line.strip_prefix(NONCE).and_then(|rest| rest.strip_prefix(' ')) {
                Some(text) => return Some(parse(text)),
                None => self.noise.push(line),
            }
        }
    }

    /// The answer to `id`, everything before it dropped.
    pub fn reply(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            match self.next() {
                Got::Reply(of, outcome) if of == id => return outcome,
                Got::End | Got::Fatal(_) => panic!("the bridge ended before it answered {id}"),
                _ => {}
            }
        }
    }

    /// The fatal line, then the exit code.
    pub fn fatal(&mut self) -> (Value, Option<i32>) {
        let Got::Fatal(fatal) = self.next() else { panic!("another line than a fatal one") };
        (fatal, self.wait().code())
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes the reading end of stdout behind the next line.
    pub fn close_stdout(&self) {
        self.reading.store(CLOSE, Ordering::SeqCst);
    }

    /// Reads no further than the next line and keeps the pipe open.
    pub fn stop_reading(&self) {
        self.reading.store(HOLD, Ordering::SeqCst);
    }

    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        let mut status = None;
        until(deadline, "the bridge exits", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub fn stderr(&mut self) -> String {
        self.stderr.take().unwrap().join().unwrap()
    }

    pub fn signal(&self, name: &str) {
        assert!(
            Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success()
        );
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(text: &str) -> Got {
    let line: Line<'_> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    let value = |raw: &serde_json::value::RawValue| serde_json::from_str(raw.get()).unwrap();
    match line.classify().unwrap() {
        Classified::Reply { id, outcome } => {
            Got::Reply(id, outcome.map(value).map_err(|error| serde_json::to_value(error).unwrap()))
        }
        Classified::Event { subscription, event } => Got::Event(subscription, value(event)),
        Classified::Ready(ready) => Got::Ready(serde_json::to_value(ready).unwrap()),
        Classified::Fatal(fatal) => Got::Fatal(serde_json::to_value(fatal).unwrap()),
    }
}

/// Waits for a condition.
pub fn until(deadline: Instant, what: &str, mut condition: impl FnMut() -> bool) {
    while !condition() {
        assert!(Instant::now() < deadline, "too late: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// True while a process runs. One that ended and was not collected by its parent does not run.
pub fn runs(pid: u64) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// Ends a process that a test leaves behind on purpose.
pub fn kill(pid: u64) {
    assert!(Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status().unwrap().success());
}
