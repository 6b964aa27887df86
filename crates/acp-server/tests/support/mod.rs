//! A client on the other end of two pipes, as raw as a client can be.

#![allow(dead_code, unreachable_pub)]

pub mod schema;
pub mod sim;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use acp_server::{AgentOptions, Ended, Streams, serve_streams};
use diag_model::Failure;
use serde_json::{Value, json};
use session_coordinator::host::HostLauncher;
use tokio_util::sync::CancellationToken;

/// Longer than anything here may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

pub struct Client {
    input: Option<PipeWriter>,
    lines: mpsc::Receiver<String>,
    pub bytes: Arc<Mutex<Vec<u8>>>,
    agent: Option<JoinHandle<Result<Ended, Failure>>>,
    pub stop: CancellationToken,
    unread: Option<PipeReader>,
    paused: Arc<AtomicBool>,
    next_id: u64,
    /// Methods of the requests sent, by id.
    asked: HashMap<String, String>,
}

pub fn options() -> AgentOptions {
    AgentOptions { simulated: true, ..AgentOptions::default() }
}

impl Client {
    /// An agent whose output is read all the time.
    pub fn start(launcher: HostLauncher, options: AgentOptions) -> Self {
        let mut client = Self::start_unread(launcher, options);
        client.read();
        client
    }

    /// An agent whose output nobody reads until [`Client::read`].
    pub fn start_unread(launcher: HostLauncher, options: AgentOptions) -> Self {
        let (agent_input, input) = std::io::pipe().unwrap();
        let (output, agent_output) = std::io::pipe().unwrap();
        let stop = CancellationToken::new();
        let agent = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let streams = Streams { input: Box::new(agent_input), output: Box::new(agent_output) };
                let result = runtime.block_on(serve_streams(launcher, options, stop, streams));
                runtime.shutdown_background();
                result
            }
        });
        let (_, lines) = mpsc::channel();
        Self {
            input: Some(input),
            lines,
            bytes: Arc::default(),
            agent: Some(agent),
            stop,
            unread: Some(output),
            paused: Arc::default(),
            next_id: 1000,
            asked: HashMap::new(),
        }
    }

    /// Starts reading; every line is checked at the byte level.
    pub fn read(&mut self) {
        let output = self.unread.take().unwrap();
        let (sender, lines) = mpsc::channel();
        self.lines = lines;
        let bytes = Arc::clone(&self.bytes);
        let paused = Arc::clone(&self.paused);
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).unwrap() > 0 {
                bytes.lock().unwrap().extend_from_slice(&line);
                assert_eq!(line.pop(), Some(b'\n'), "the last line is whole");
                let _ = sender.send(String::from_utf8(std::mem::take(&mut line)).unwrap());
                while paused.load(Ordering::Acquire) {
                    std::thread::park();
                }
            }
        });
    }

    /// The client stops reading for good and keeps its end open.
    pub fn pause(&mut self) {
        self.paused.store(true, Ordering::Release);
    }

    /// The client stops reading for good and closes its end.
    pub fn close_output(&mut self) {
        self.unread = None;
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            self.asked.insert(id.to_string(), method.to_owned());
        }
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// The next message of any kind.
    pub fn recv(&mut self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE).expect("a line in time");
        self.checked(&line)
    }

    /// A line as a message that follows the protocol's schema.
    fn checked(&self, line: &str) -> Value {
        let message: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(message["jsonrpc"], "2.0");
        let (name, value) = match message["method"].as_str() {
            Some(method) => {
                let ending = if message.get("id").is_some() { "Request" } else { "Notification" };
                let name = schema::type_of(method, &[ending]);
                (name.unwrap_or_else(|| panic!("the protocol has no {method}")), &message["params"])
            }
            None if message.get("error").is_some() => ("Error", &message["error"]),
            None => {
                let asked = self.asked.get(&message["id"].to_string());
                // What was written as raw bytes is not known, and old methods are not in the schema.
                let Some(name) = asked.and_then(|method| schema::type_of(method, &["Response"])) else {
                    return message;
                };
                (name, &message["result"])
            }
        };
        if let Err(error) = schema::check(name, value) {
            panic!("{error}\nin {line}");
        }
        message
    }

    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends and returns the answer; what comes before it is handed to `other`.
    pub fn call_with(
        &mut self,
        method: &str,
        params: &Value,
        other: &mut dyn FnMut(&mut Self, Value),
    ) -> Value {
        let id = self.request(method, params);
        self.answer_to(id, other)
    }

    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.call_with(method, params, &mut |_, _| {})
    }

    pub fn answer_to(&mut self, id: u64, other: &mut dyn FnMut(&mut Self, Value)) -> Value {
        loop {
            let message = self.recv();
            if message["id"] == id && message.get("method").is_none() {
                assert_ne!(message.get("result").is_some(), message.get("error").is_some());
                return message;
            }
            other(self, message);
        }
    }

    pub fn initialize(&mut self) -> Value {
        self.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))
    }

    pub fn new_session(&mut self, cwd: &std::path::Path) -> String {
        let answer = self.call("session/new", &json!({"cwd": cwd, "mcpServers": []}));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}")).to_owned()
    }

    /// The next update of a kind; others before it are skipped.
    pub fn until_update(&mut self, kind: &str) -> Value {
        loop {
            let message = self.recv();
            if message["params"]["update"]["sessionUpdate"] == kind {
                return message;
            }
        }
    }

    /// What comes within a time.
    pub fn within(&mut self, time: Duration) -> Vec<Value> {
        let end = Instant::now() + time;
        let mut messages = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            messages.push(self.checked(&line));
        }
        messages
    }

    /// Nothing is pending: a request is answered next.
    pub fn expect_quiet(&mut self) {
        let id = self.request("_test/ping", &json!({}));
        let message = self.recv();
        assert_eq!(message["id"], id, "unexpected: {message}");
        assert_eq!(message["error"]["code"], -32601);
    }

    /// Closes the input and returns what ended the agent and how long that took.
    pub fn close(&mut self) -> (Result<Ended, Failure>, Duration) {
        self.input = None;
        self.ended()
    }

    pub fn ended(&mut self) -> (Result<Ended, Failure>, Duration) {
        let start = Instant::now();
        let agent = self.agent.take().unwrap();
        while !agent.is_finished() {
            assert!(start.elapsed() < DEADLINE, "the agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        (agent.join().unwrap(), start.elapsed())
    }

    /// Everything that is still to come after the end.
    pub fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.lines.recv_timeout(DEADLINE).ok())
            .map(|line| self.checked(&line))
            .collect()
    }
}

pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

pub fn temp() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}
