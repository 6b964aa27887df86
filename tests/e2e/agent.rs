//! The agent on raw lines: what a client meets first, and that one failure is not the end.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::Home;

use crate::support::{END, agent, session};

#[test]
fn initialize_works_without_zcode_and_the_first_session_brings_the_remedy() {
    let home = Home::new().unwrap().env("PATH", "/usr/bin:/bin");
    let missing = home.root().join("no-zcode");
    let mut agent = agent(&home, &["--zcode-install", missing.to_str().unwrap()]);
    let answer = agent.initialize();
    assert_eq!(answer["protocolVersion"], 1);
    assert!(answer["agentInfo"]["name"].is_string() && answer["agentInfo"]["version"].is_string());
    for _ in 0..2 {
        let begun = Instant::now();
        let error = agent.err("session/new", &json!({"cwd": home.work(), "mcpServers": []}));
        assert!(begun.elapsed() < Duration::from_secs(2), "a failure that is sure must come at once");
        assert_eq!(error["data"]["code"], "ZA102", "{error}");
        assert_eq!(error["data"]["phase"], "discover");
        assert!(error["message"].as_str().unwrap().contains("--zcode-install"), "{error}");
    }
    // The process stays and answers.
    let error = agent.err("no/such/method", &json!({}));
    assert_eq!(error["code"], -32601);
    agent.close_stdin();
    assert_eq!(agent.finish(END).status.code(), Some(0));
}

#[test]
fn the_default_places_are_listed_when_none_holds_zcode() {
    let home = Home::new().unwrap();
    if cfg!(not(target_os = "linux")) || std::path::Path::new("/opt/ZCode").exists() {
        return;
    }
    let mut agent = agent(&home, &[]);
    agent.initialize();
    let error = agent.err("session/new", &json!({"cwd": home.work(), "mcpServers": []}));
    assert_eq!(error["data"]["code"], "ZA101", "{error}");
    assert!(error["data"]["tried"].as_str().unwrap().contains("/opt/ZCode"), "{error}");
}

#[test]
fn a_turn_with_a_permission_answered_by_the_client() {
    let home = Home::new().unwrap();
    let (mut agent, session) = session(&home, &["acp", "--simulated"]);
    let prompt = agent.prompt(&session, "perm");
    let ask = agent.asked("session/request_permission");
    let options = ask["params"]["options"].as_array().unwrap();
    let allow = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
    agent.answer(&ask, &json!({"outcome": {"outcome": "selected", "optionId": allow["optionId"]}}));
    let answer = agent.answer_to(&prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let updates: Vec<_> =
        agent.received().iter().filter(|message| message["method"] == "session/update").cloned().collect();
    let diffs = updates
        .iter()
        .filter_map(|message| message["params"]["update"]["content"].as_array())
        .flatten()
        .filter(|content| content["type"] == "diff")
        .count();
    assert!(diffs >= 1, "{updates:?}");
    assert!(updates.iter().all(|message| message["params"]["sessionId"] == session.as_str()));
    agent.close_stdin();
    assert_eq!(agent.finish(END).status.code(), Some(0));
}

#[test]
fn no_argument_and_acp_are_the_same() {
    let home = Home::new().unwrap();
    let answers: Vec<_> =
        [&["--simulated"][..], &["acp", "--simulated"]].map(|args| agent(&home, args).initialize()).into();
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn the_variable_does_what_the_flag_does() {
    let home = Home::new().unwrap().env("ZCODE_ACP_SIMULATED", "refusal");
    let (mut agent, session) = session(&home, &[]);
    let prompt = agent.prompt(&session, "hello");
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "refusal");
}

#[test]
fn a_host_that_dies_is_reported_and_the_next_session_works() {
    let home = Home::new().unwrap();
    let (mut agent, session) = session(&home, &["--simulated"]);
    let prompt = agent.prompt(&session, "sim:crash-mid-turn");
    let answer = agent.answer_to(&prompt);
    let data = &answer["error"]["data"];
    assert_eq!(data["code"], "ZA805", "{answer}");
    assert_eq!(data["sessionId"], session.as_str(), "{answer}");
    let session = agent.new_session(&home.work());
    let prompt = agent.prompt(&session, "hello");
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_permission_nobody_answers_is_denied_in_time() {
    let home = Home::new().unwrap();
    let (mut agent, session) = session(&home, &["--simulated", "--permission-timeout=1s"]);
    let prompt = agent.prompt(&session, "perm");
    let ask = agent.asked("session/request_permission");
    let answer = agent.answer_to(&prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let withdrawn = agent.received().iter().any(|message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == ask["id"]
    });
    assert!(withdrawn, "the open question was not withdrawn");
    let completed =
        agent.received().iter().any(|message| message["params"]["update"]["status"] == "completed");
    assert!(!completed, "the tool ran without an answer");
}

#[test]
fn a_line_beyond_the_limit_is_refused_and_the_connection_lives() {
    let home = Home::new().unwrap();
    let mut agent = agent(&home, &["--simulated", "--max-frame=64KiB"]);
    agent.initialize();
    let long =
        json!({"jsonrpc": "2.0", "id": 99, "method": "session/new", "params": {"x": "y".repeat(200_000)}});
    agent.send(&long);
    let answer = agent.wait_for("the refusal", |message| message.get("error").is_some());
    assert!(answer.to_string().len() < 2000, "the line is echoed");
    agent.new_session(&home.work());
}
