//! The client against a scripted agent on an in-memory stream.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::{Arc, Mutex};

use client::{
    ClientError, ClientInfo, Handler, PermissionAnswer, PermissionAsk, SessionUpdate, StopReason, Streams,
    Update,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// The agent's end, line by line.
struct Agent {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Agent {
    async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.read.read_line(&mut line).await.unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    async fn request(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("the client closed");
        assert_eq!(message["method"], method);
        message
    }

    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    async fn greet(&mut self) {
        let request = self.request("initialize").await;
        assert_eq!(request["params"]["clientInfo"]["name"], "test");
        self.answer(&request, json!({"protocolVersion": 1, "agentInfo": {"name": "a", "version": "9"}}))
            .await;
        let request = self.request("session/new").await;
        assert_eq!(request["params"]["mcpServers"], json!([]));
        self.answer(&request, json!({"sessionId": "s1"})).await;
    }

    async fn update(&mut self, update: Value) {
        let params = json!({"sessionId": "s1", "update": update});
        self.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params})).await;
    }

    async fn ask(&mut self) {
        self.send(json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {
            "sessionId": "s1", "toolCall": {"toolCallId": "c1", "title": "Edit a"},
            "options": [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}],
        }}))
        .await;
    }
}

fn pair() -> (Streams, Agent) {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(ours);
    let (agent_read, agent_write) = tokio::io::split(theirs);
    let agent = Agent { read: BufReader::new(agent_read), write: agent_write };
    (Streams { read: Box::new(read), write: Box::new(write) }, agent)
}

#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<Update>>,
    choice: Option<String>,
}

impl Handler for Recorder {
    fn update(&self, update: SessionUpdate) {
        self.seen.lock().unwrap().push(update.update);
    }

    fn permission(&self, ask: PermissionAsk) -> BoxFuture<'static, PermissionAnswer> {
        assert_eq!(ask.tool.title.as_deref(), Some("Edit a"));
        match self.choice.clone() {
            Some(id) => Box::pin(async { PermissionAnswer::Selected(id) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

fn info() -> ClientInfo {
    ClientInfo { name: "test".into(), version: "0".into() }
}

#[tokio::test]
async fn a_turn_with_a_permission() {
    let (streams, mut agent) = pair();
    let recorder = Arc::new(Recorder { choice: Some("yes".into()), ..Recorder::default() });
    let script = tokio::spawn(async move {
        agent.greet().await;
        let prompt = agent.request("session/prompt").await;
        assert_eq!(prompt["params"]["prompt"], json!([{"type": "text", "text": "hi"}]));
        agent
            .update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}))
            .await;
        agent.ask().await;
        let answer = agent.next().await.unwrap();
        assert_eq!(answer["result"]["outcome"], json!({"outcome": "selected", "optionId": "yes"}));
        agent
            .update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "b"}}))
            .await;
        agent.answer(&prompt, json!({"stopReason": "end_turn"})).await;
        assert!(agent.next().await.is_none(), "the client closes its end when it is done");
    });
    let frames = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&frames);
    let tap: client::FrameTap = Arc::new(move |_, line| {
        serde_json::from_str::<Value>(line).unwrap();
        *counted.lock().unwrap() += 1;
    });
    let seen = Arc::clone(&recorder);
    let (agent, reason, at_the_end) = client::run(streams, recorder, Some(tap), async |connection| {
        let agent = connection.initialize(info()).await?;
        let session = connection.new_session(std::path::Path::new("/w")).await?;
        let reason = connection.prompt(&session.id, "hi").await?;
        Ok((agent, reason, seen.seen.lock().unwrap().len()))
    })
    .await
    .unwrap();
    assert_eq!((agent.protocol_version, agent.version.as_deref()), (1, Some("9")));
    assert_eq!(reason, StopReason::EndTurn);
    assert_eq!(at_the_end, 2, "every update is seen before the answer");
    script.await.unwrap();
    assert_eq!(*frames.lock().unwrap(), 10);
}

#[tokio::test]
async fn a_cancel_answers_the_open_question() {
    let (streams, mut agent) = pair();
    let (asked, wait) = tokio::sync::oneshot::channel();
    let script = tokio::spawn(async move {
        agent.greet().await;
        let prompt = agent.request("session/prompt").await;
        agent.ask().await;
        asked.send(()).unwrap();
        let mut messages = [agent.next().await.unwrap(), agent.next().await.unwrap()];
        messages.sort_by_key(|message| message.get("id").is_some());
        assert_eq!(messages[0]["method"], "session/cancel");
        assert_eq!(messages[1]["result"]["outcome"], json!({"outcome": "cancelled"}));
        agent.answer(&prompt, json!({"stopReason": "cancelled"})).await;
        assert!(agent.next().await.is_none());
    });
    let recorder = Arc::new(Recorder::default());
    let reason = client::run(streams, recorder, None, async |connection| {
        connection.initialize(info()).await?;
        let session = connection.new_session(std::path::Path::new("/w")).await?;
        let prompt = connection.prompt(&session.id, "hi");
        let cancel = async {
            wait.await.unwrap();
            connection.cancel(&session.id)
        };
        let (reason, cancelled) = tokio::join!(prompt, cancel);
        cancelled?;
        reason
    })
    .await
    .unwrap();
    assert_eq!(reason, StopReason::Cancelled);
    script.await.unwrap();
}

#[tokio::test]
async fn an_error_keeps_its_code_and_an_end_is_told_apart() {
    let (streams, mut agent) = pair();
    let script = tokio::spawn(async move {
        let request = agent.request("initialize").await;
        agent.answer(&request, json!({"protocolVersion": 1})).await;
        let request = agent.request("session/new").await;
        agent
            .send(json!({"jsonrpc": "2.0", "id": request["id"], "error": {
                "code": -32000, "message": "sign in", "data": {"code": "ZA501"},
            }}))
            .await;
        agent.request("session/new").await;
    });
    let (first, second) = client::run(streams, Arc::new(Recorder::default()), None, async |connection| {
        connection.initialize(info()).await?;
        let first = connection.new_session(std::path::Path::new("/w")).await.unwrap_err();
        let second = connection.new_session(std::path::Path::new("/w")).await.unwrap_err();
        Ok((first, second))
    })
    .await
    .unwrap();
    let ClientError::Request(error) = first else { panic!("{first}") };
    assert_eq!((error.code, error.stable_code()), (-32000, Some("ZA501")));
    assert!(matches!(second, ClientError::Closed), "{second}");
    script.await.unwrap();
}
