//! The services of the host: shapes, errors, persistence, and the wire's own rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Answers, Got, WORKSPACE, Wire, config, options, result};

/// Methods of the agent service that the 3.11.2 contract allows.
const METHODS: [&str; 19] = [
    "initialize",
    "readWorkspaceState",
    "createSession",
    "resumeSession",
    "listSessions",
    "readSession",
    "readSessionMessages",
    "readSessionEvents",
    "sendPrompt",
    "closeSession",
    "setModel",
    "setThoughtLevel",
    "setMode",
    "getTaskTokenUsage",
    "respondProviderRuntimeHeaders",
    "disposeWorkspace",
    "compactSession",
    "goalSession",
    "listSessionSubagents",
];

#[tokio::test(start_paused = true)]
async fn every_method_of_the_contract_is_known_and_no_other() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(None, state.path())).await;
    for method in METHODS {
        if let Err(error) = wire.call("agent", method, json!({})).await {
            assert_ne!(error["code"], -32601, "{method}");
        }
    }
    for (service, method) in [("agent", "readWorkspacePresentation"), ("task", "steer"), ("usage", "none")] {
        assert_eq!(wire.call(service, method, json!({})).await.unwrap_err()["code"], -32601, "{method}");
    }
    assert_eq!(wire.call("browser", "open", json!({})).await.unwrap_err()["code"], -32000);
    assert_eq!(
        wire.call("agent", "readSession", json!({ "sessionId": 5 })).await.unwrap_err()["code"],
        -32602
    );
}

#[tokio::test(start_paused = true)]
async fn a_workspace_says_what_it_has() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("yolo-workspace"), state.path())).await;
    let answer = wire.agent("initialize", json!({})).await;
    assert_eq!(answer["available"], true);
    assert_eq!(answer["workspaceKey"], WORKSPACE);
    let settings = wire.agent("readWorkspaceState", json!({})).await["settings"].take();
    assert_eq!(settings["mode"]["current"], "yolo");
    assert_eq!(settings["model"]["available"].as_array().unwrap().len(), 2);
    assert!(settings["thoughtLevel"].get("current").is_none());
    assert_eq!(settings["thoughtLevel"]["defaultLevel"], "max");

    let mut wire = Wire::start(options(Some("not-signed-in"), state.path())).await;
    let answer = wire.agent("initialize", json!({})).await;
    assert_eq!((&answer["available"], &answer["reasonCode"]), (&json!(false), &json!("provider_not_ready")));
    let workspace = wire.agent("readWorkspaceState", json!({})).await;
    assert_eq!(workspace["settings"]["model"]["available"], json!([]));
    assert!(wire.call("agent", "createSession", json!({ "mode": "build" })).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn set_calls_answer_with_the_current_model_only_and_are_announced_first() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(None, state.path())).await;
    let session = wire.session().await;
    wire.until(|event| event["type"] == "snapshot").await;
    let model = json!({ "providerId": "builtin:zai-coding-plan", "modelId": "glm-5-air" });
    let answer = wire.agent("setModel", json!({ "sessionId": session, "model": model })).await;
    assert_eq!(answer["settings"]["model"]["available"].as_array().unwrap().len(), 1);
    assert_eq!(answer["settings"]["model"]["current"], model);
    assert_eq!(wire.events.pop_front().unwrap()["type"], "state.updated");
    let answer = wire.agent("setMode", json!({ "sessionId": session, "mode": "plan" })).await;
    assert_eq!(answer["settings"]["mode"]["current"], "plan");
    let update = wire.events.pop_front().unwrap();
    assert_eq!(update["notification"]["patch"]["mode"]["current"], "plan");
    let answer = wire.agent("setThoughtLevel", json!({ "sessionId": session, "thoughtLevel": "low" })).await;
    assert_eq!(answer["settings"]["thoughtLevel"]["current"], "low");
    for (method, params) in [
        ("setMode", json!({ "mode": "root" })),
        ("setModel", json!({ "model": { "providerId": "x", "modelId": "y" } })),
        ("setThoughtLevel", json!({ "thoughtLevel": "most" })),
    ] {
        let mut params = params;
        params["sessionId"] = json!(session);
        assert!(wire.call("agent", method, params).await.is_err(), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_process_finds_the_session_and_its_history() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(None, state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "perm").await;
    wire.turn(&session, &Answers::yes()).await;
    wire.close().await.unwrap();

    let mut wire = Wire::start(options(None, state.path())).await;
    let unknown = wire.call("agent", "readSession", json!({ "sessionId": session })).await.unwrap_err();
    assert_eq!(unknown["code"], -32004, "not active before it is resumed");
    let list = wire.agent("listSessions", json!({ "includeArchived": false })).await;
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["title"], "perm");
    let resumed = wire.agent("resumeSession", json!({ "sessionId": session, "mcpServers": [] })).await;
    assert_eq!(resumed["messages"], json!([]), "the history comes later");
    wire.subscribe(&session).await;
    let events = wire.until(|event| event["event"]["type"] == "session.resumed").await;
    let count = events.last().unwrap()["event"]["payload"]["messageCount"].as_u64().unwrap();
    assert!(count >= 3, "{count}");
    let messages = wire.agent("readSession", json!({ "sessionId": session })).await["messages"].take();
    assert_eq!(messages.as_array().unwrap().len() as u64, count);
    assert_eq!(messages[0]["info"]["role"], "user");
    assert_eq!(messages[0]["parts"][0], json!({ "type": "text", "text": "perm" }));
    let parts: Vec<&Value> =
        messages.as_array().unwrap().iter().filter_map(|one| one["parts"].as_array()).flatten().collect();
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(tool["state"]["status"], "completed");
    assert_eq!(tool["state"]["metadata"]["display"]["kind"], "file_diff");

    // Pages.
    let mut after = None;
    let mut ids = Vec::new();
    loop {
        let params = json!({ "sessionId": session, "limit": 1, "afterMessageId": after });
        let page = wire.agent("readSessionMessages", params).await;
        let Some(message) = page.as_array().unwrap().first() else { break };
        ids.push(message["info"]["messageId"].clone());
        after = ids.last().cloned();
    }
    assert_eq!(ids.len() as u64, count);

    // It goes on where it was: numbers still rise.
    let before = resumed["runtime"]["eventSeq"].as_u64().unwrap();
    assert!(before > 5);
    wire.prompt(&session, "hello").await;
    let events = wire.turn(&session, &Answers::yes()).await;
    assert!(events.iter().filter_map(|event| event["event"]["seq"].as_u64()).all(|seq| seq > before));
    assert_eq!(result(&events), "success");
    let usage = wire.agent("getTaskTokenUsage", json!({ "sessionId": session })).await;
    assert_eq!(usage["modelRequestCount"], 2);

    // From another workspace it does not exist.
    let elsewhere = json!({ "sessionId": session, "mcpServers": [], "workspacePath": "/other" });
    assert!(wire.call("agent", "resumeSession", elsewhere).await.is_err());
    assert!(wire.call("agent", "resumeSession", json!({ "sessionId": "../../etc/passwd" })).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_evicted_session_is_not_active_until_it_is_resumed() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("evicted"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    wire.turn(&session, &Answers::yes()).await;
    wire.until(|event| event["type"] == "state.updated").await;
    let prompt = json!({ "sessionId": session, "inputId": "in-2", "content": "y", "attachments": [] });
    let refused = wire.call("agent", "sendPrompt", prompt.clone()).await.unwrap_err();
    assert_eq!((&refused["code"], &refused["message"]), (&json!(-32004), &json!("Session is not active")));
    wire.agent("resumeSession", json!({ "sessionId": session, "mcpServers": [] })).await;
    wire.subscribe(&session).await;
    wire.agent("sendPrompt", prompt).await;
    assert_eq!(result(&wire.turn(&session, &Answers::yes()).await), "success");
}

#[tokio::test(start_paused = true)]
async fn closing_and_disposing_end_running_turns() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("silence"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    assert_eq!(wire.agent("closeSession", json!({ "sessionId": session })).await, true);
    let events = wire.until(|event| event["event"]["type"] == "session.closed").await;
    assert!(events.iter().any(|event| event["event"]["payload"]["resultType"] == "cancelled"));
    assert_eq!(wire.agent("closeSession", json!({ "sessionId": session })).await, false);
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    wire.agent("disposeWorkspace", json!({})).await;
    assert!(wire.call("agent", "readSession", json!({ "sessionId": session })).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn no_snapshot_means_no_event_at_first() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("no-snapshot"), state.path())).await;
    wire.session().await;
    assert!(tokio::time::timeout(Duration::from_mins(1), wire.line()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_bridge_lets_through_what_its_configuration_names() {
    let state = tempfile::tempdir().unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(theirs);
    let server = tokio::spawn(simulator::serve(read, write, options(None, state.path())));
    let mut config = config();
    config["allow"] = json!({ "agent": ["initialize"] });
    let lines = format!(
        "{config}\n{}\n\n{}\nnot json\n",
        json!({ "id": 1, "call": { "service": "agent", "method": "initialize", "params": { "workspacePath": "/w" } } }),
        json!({ "id": 2, "call": { "service": "agent", "method": "disposeWorkspace", "params": { "workspacePath": "/w" } } }),
    );
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (ours_read, mut ours_write) = tokio::io::split(ours);
    ours_write.write_all(lines.as_bytes()).await.unwrap();
    let mut read = BufReader::new(ours_read).lines();
    let mut all = Vec::new();
    for _ in 0..3 {
        let line = read.next_line().await.unwrap().unwrap();
        all.push(serde_json::from_str::<Value>(line.split_once(' ').unwrap().1).unwrap());
    }
    assert_eq!(all[1]["result"]["available"], true);
    assert_eq!(all[2]["error"]["code"], -32000);
    ours_write.shutdown().await.unwrap();
    drop((read, ours_write));
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn another_bridge_version_and_a_broken_configuration_are_refused() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::open(options(None, state.path())).await;
    assert!(matches!(wire.line().await, Got::Frame(frame) if frame["ready"]["bridge"] == 1));
    let serve = |line: String| {
        let options = options(None, state.path());
        async move {
            let mut out = Vec::new();
            let ended = simulator::serve(line.as_bytes(), &mut out, options).await;
            (ended, String::from_utf8(out).unwrap())
        }
    };
    let mut other = config();
    other["bridge"] = json!(2);
    let (ended, out) = serve(format!("{other}\n")).await;
    assert!(ended.is_ok());
    assert!(out.contains("\"stage\":\"config\""), "{out}");
    let (ended, out) = serve("{}\n".into()).await;
    assert!(ended.is_err() && out.is_empty());
}

#[tokio::test]
async fn a_scenario_that_cannot_be_used_is_an_error_that_says_why() {
    let state = tempfile::tempdir().unwrap();
    let ended = simulator::serve(&b""[..], &mut Vec::new(), options(Some("no-such"), state.path())).await;
    assert!(ended.unwrap_err().to_string().contains("no-such"));
    let file = state.path().join("bad.toml");
    std::fs::write(&file, "format = 1\nname = \"x\"\ndescription = \"d\"\n[[step]]\ntekst = 1\n").unwrap();
    let source = simulator::ScenarioSource::from_argument(file.to_str().unwrap());
    let error = source.load().unwrap_err().to_string();
    assert!(error.contains("bad.toml: line 5"), "{error}");
}
