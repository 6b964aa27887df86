//! A hand-written end of the bridge wire. It reads JSON as JSON and knows nothing of the adapter's types.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::{ScenarioSource, SimOptions};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

pub const NONCE: &str = "5ca1ab1e";
pub const WORKSPACE: &str = "/w";

/// What came over the wire.
#[derive(Debug)]
pub enum Got {
    Frame(Value),
    Noise(String),
    /// A line with the nonce that is not JSON.
    Broken(String),
    End,
}

pub struct Wire {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: Option<WriteHalf<DuplexStream>>,
    next: u64,
    subscriptions: u64,
    /// Events read while waiting for something else.
    pub events: VecDeque<Value>,
    pub noise: Vec<String>,
    pub server: JoinHandle<io::Result<()>>,
}

pub fn options(scenario: Option<&str>, state: &Path) -> SimOptions {
    SimOptions {
        scenario: scenario.map(|name| ScenarioSource::Builtin(name.to_owned())),
        state_dir: Some(state.to_owned()),
        ..SimOptions::default()
    }
}

pub fn config() -> Value {
    json!({
        "bridge": 1, "nonce": NONCE, "hostIndex": "", "rpcModule": "",
        "exports": { "protocol": "g", "client": "i", "service": "j" },
        "channels": {}, "allow": {}, "events": {}, "init": {}, "dispose": {}, "disposeMs": 0, "answerAtOnce": {},
    })
}

impl Wire {
    /// Starts a host and reads its ready line.
    pub async fn start(options: SimOptions) -> Self {
        let mut wire = Self::open(options).await;
        match wire.line().await {
            Got::Frame(frame) => assert_eq!(frame["ready"]["simulated"], true, "{frame}"),
            other => panic!("{other:?}"),
        }
        wire
    }

    pub async fn open(options: SimOptions) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (their_read, their_write) = tokio::io::split(theirs);
        let server = tokio::spawn(simulator::serve(their_read, their_write, options));
        let (read, write) = tokio::io::split(ours);
        let mut wire = Self {
            read: BufReader::new(read),
            write: Some(write),
            next: 0,
            subscriptions: 0,
            events: VecDeque::new(),
            noise: Vec::new(),
            server,
        };
        wire.send(&config()).await;
        wire
    }

    pub async fn send(&mut self, value: &Value) {
        let write = self.write.as_mut().unwrap();
        write.write_all(format!("{value}\n").as_bytes()).await.unwrap();
    }

    pub async fn line(&mut self) -> Got {
        let mut line = Vec::new();
        let read = tokio::time::timeout(Duration::from_mins(15), self.read.read_until(b'\n', &mut line));
        let count = read.await.expect("a line in time").unwrap_or(0);
        if count == 0 {
            return Got::End;
        }
        let line = String::from_utf8(line).unwrap();
        let line = line.trim_end_matches('\n');
        match line.strip_prefix(NONCE).and_then(|rest| rest.strip_prefix(' ')) {
            None => Got::Noise(line.to_owned()),
            Some(json) => {
                serde_json::from_str(json).map_or_else(|_| Got::Broken(json.to_owned()), Got::Frame)
            }
        }
    }

    /// Calls a method; events that come first are kept.
    pub async fn call(&mut self, service: &str, method: &str, mut params: Value) -> Result<Value, Value> {
        if service == "agent" && params.get("workspacePath").is_none() {
            params["workspacePath"] = json!(WORKSPACE);
        }
        self.next += 1;
        let id = self.next;
        let request = json!({ "id": id, "call": { "service": service, "method": method, "params": params } });
        self.send(&request).await;
        self.reply(id).await
    }

    async fn reply(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            match self.line().await {
                Got::Frame(frame) if frame["id"] == id => {
                    return match frame.get("error") {
                        Some(error) => Err(error.clone()),
                        None => Ok(frame["result"].clone()),
                    };
                }
                Got::Frame(frame) => self.events.push_back(frame["event"].clone()),
                Got::Noise(line) => self.noise.push(line),
                other => panic!("no answer to {id}: {other:?}"),
            }
        }
    }

    pub async fn agent(&mut self, method: &str, params: Value) -> Value {
        self.call("agent", method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub async fn task(&mut self, method: &str, params: Value) -> Value {
        self.call("task", method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Creates a session and listens to it.
    pub async fn session(&mut self) -> String {
        let created = self
            .agent("createSession", json!({ "persistence": "immediate", "mcpServers": [], "mode": "build" }))
            .await;
        let id = created["session"]["sessionId"].as_str().unwrap().to_owned();
        self.subscribe(&id).await;
        id
    }

    pub async fn subscribe(&mut self, session: &str) -> u64 {
        self.next += 1;
        self.subscriptions += 1;
        let (id, subscription) = (self.next, self.subscriptions);
        let params = json!({
            "workspacePath": WORKSPACE, "sessionId": session, "deliveryKind": "desktop-continuous",
            "includeSnapshot": true,
        });
        self.send(&json!({ "id": id, "subscribe": {
            "subscription": subscription, "service": "agent", "event": "onDynamicSessionEvent", "params": params,
        } }))
        .await;
        assert_eq!(self.reply(id).await, Ok(Value::Null));
        subscription
    }

    pub async fn prompt(&mut self, session: &str, content: &str) -> Value {
        let params =
            json!({ "sessionId": session, "inputId": "in-1", "content": content, "attachments": [] });
        self.agent("sendPrompt", params).await
    }

    /// Next event; `None` when the stream ends or breaks.
    pub async fn event(&mut self) -> Option<Value> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        loop {
            match self.line().await {
                Got::Frame(frame) if frame.get("event").is_some() => return Some(frame["event"].clone()),
                Got::Frame(frame) => panic!("not an event: {frame}"),
                Got::Noise(line) => self.noise.push(line),
                Got::Broken(_) | Got::End => return None,
            }
        }
    }

    /// Reads events up to one for which `last` holds, which is included.
    pub async fn until(&mut self, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let event = self.event().await.unwrap_or_else(|| panic!("stream ended after {all:#?}"));
            let done = last(&event);
            all.push(event);
            if done {
                return all;
            }
        }
    }

    /// Plays a turn to its end, answering what is asked once.
    pub async fn turn(&mut self, session: &str, answers: &Answers) -> Vec<Value> {
        let mut all = Vec::new();
        let mut answered = std::collections::BTreeSet::new();
        while let Some(event) = self.event().await {
            let request = event["request"]["requestId"].as_str().unwrap_or_default().to_owned();
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            let end = is_end(&event);
            all.push(event);
            if end {
                break;
            }
            if request.is_empty() || !answered.insert(request.clone()) {
                continue;
            }
            match kind.as_str() {
                "permission.request" => {
                    let params =
                        json!({ "taskId": session, "requestId": request, "optionId": answers.permission });
                    assert_eq!(self.task("respondPermission", params.clone()).await, true);
                    assert_eq!(self.task("respondPermission", params).await, false, "answered twice");
                }
                "userInput.request" => {
                    let mut params = answers.input.clone();
                    params["taskId"] = json!(session);
                    params["requestId"] = json!(request);
                    assert_eq!(self.task("respondElicitation", params).await, true);
                }
                "providerRuntimeHeaders.request" => {
                    let response = json!({ "headersApplied": false, "errorMessage": "not here" });
                    let params = json!({ "requestId": request, "response": response });
                    self.agent("respondProviderRuntimeHeaders", params).await;
                }
                _ => {}
            }
        }
        all
    }

    /// Ends the connection from this side and waits for the host.
    pub async fn close(mut self) -> io::Result<()> {
        self.write = None;
        let Self { read, server, .. } = self;
        drop(read);
        tokio::time::timeout(Duration::from_secs(5), server).await.expect("the host ends").unwrap()
    }
}

/// How asks are answered.
pub struct Answers {
    pub permission: &'static str,
    pub input: Value,
}

impl Answers {
    pub fn yes() -> Self {
        let answers = json!({ "Which colour should the button have?": "Blue", "Review this implementation plan.": "approve" });
        Self {
            permission: "allow_once",
            input: json!({ "action": "accept", "content": { "answers": answers } }),
        }
    }

    pub fn no() -> Self {
        Self { permission: "deny", input: json!({ "action": "decline" }) }
    }
}

pub fn is_end(event: &Value) -> bool {
    matches!(event["event"]["type"].as_str(), Some("turn.completed" | "turn.failed"))
}

/// Result of the turn that these events end with.
pub fn result(events: &[Value]) -> &str {
    let last = events.last().expect("events");
    last["event"]["payload"]["resultType"].as_str().unwrap_or("failed")
}

/// All assistant text.
pub fn text(events: &[Value]) -> String {
    events
        .iter()
        .filter(|event| event["event"]["payload"]["kind"] == "text_delta")
        .filter_map(|event| event["event"]["payload"]["delta"].as_str())
        .collect()
}

/// `tool.updated` kinds in order.
pub fn tool_kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["event"]["type"] == "tool.updated")
        .filter_map(|event| event["event"]["payload"]["kind"].as_str())
        .collect()
}
