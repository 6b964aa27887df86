//! Turns through the whole adapter against the simulated host, on raw lines.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::path::Path;
use std::time::Duration;

use acp_server::Ended;
use serde_json::json;
use support::sim::{Turn, launcher, statuses, text_of};
use support::{Client, options, prompt, temp};

#[test]
fn a_turn_streams_and_is_answered_behind_its_last_update() {
    let mut turn = Turn::ready(None);
    let (answer, updates) = turn.run("hello");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(!text_of(&updates).is_empty());
    assert!(updates.iter().all(|update| update["params"]["sessionId"] == turn.session.as_str()));
    let (ended, took) = turn.client.close();
    assert_eq!(ended.unwrap(), Ended::Eof);
    assert!(took < Duration::from_millis(1800), "{took:?}");
}

#[test]
fn cases_6_to_8_answers_to_a_permission_that_are_none_are_a_denial() {
    for answer in [
        json!({"result": {"outcome": "allow_once"}}),
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "nope"}}}),
        json!({"result": {"outcome": {"outcome": "cancelled"}}}),
        json!({"error": {"code": -32603, "message": "no"}}),
    ] {
        let mut turn = Turn::ready(None);
        let (mut updates, mut asked) = (Vec::new(), 0);
        let params = prompt(&turn.session, "perm");
        let end = turn.client.call_with("session/prompt", &params, &mut |client, message| {
            if message["method"] == "session/request_permission" {
                asked += 1;
                let mut reply = answer.clone();
                reply["jsonrpc"] = "2.0".into();
                reply["id"] = message["id"].clone();
                client.send(&reply);
            } else {
                updates.push(message);
            }
        });
        assert_eq!(asked, 1);
        assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
        assert!(text_of(&updates).contains("denied"), "{answer}: {}", text_of(&updates));
        let statuses = statuses(&updates);
        assert!(
            statuses.contains(&"failed".to_owned()) && !statuses.contains(&"completed".to_owned()),
            "{statuses:?}"
        );
    }
}

#[test]
fn a_permission_that_is_given_shows_the_diff() {
    let mut turn = Turn::ready(None);
    let mut updates = Vec::new();
    let params = prompt(&turn.session, "perm");
    let end = turn.client.call_with("session/prompt", &params, &mut |client, message| {
        if message["method"] == "session/request_permission" {
            let options = message["params"]["options"].as_array().unwrap();
            let allow = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
            assert!(allow["_meta"]["zcode"]["nativeKind"].is_string());
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": allow["optionId"]}});
            client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}));
        } else {
            updates.push(message);
        }
    });
    assert_eq!(end["result"]["stopReason"], "end_turn");
    assert!(statuses(&updates).contains(&"completed".to_owned()));
    let contents = updates
        .iter()
        .flat_map(|update| update["params"]["update"]["content"].as_array().into_iter().flatten());
    assert!(contents.into_iter().any(|content| content["type"] == "diff"));
}

#[test]
fn case_9_a_cancel_while_idle_and_then_a_prompt() {
    let mut turn = Turn::ready(None);
    let params = json!({"sessionId": turn.session, "_meta": {}});
    turn.client.notify("session/cancel", &params);
    assert_eq!(turn.run("hello").0["result"]["stopReason"], "end_turn");
}

#[test]
fn both_ways_to_cancel_answer_cancelled() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    let params = json!({"sessionId": turn.session});
    turn.client.notify("session/cancel", &params);
    assert_eq!(turn.client.answer_to(id, &mut |_, _| {})["result"]["stopReason"], "cancelled");
    turn.client.expect_quiet();

    let id = turn.streaming("slow");
    turn.client.notify("$/cancel_request", &json!({"requestId": id}));
    assert_eq!(turn.client.answer_to(id, &mut |_, _| {})["result"]["stopReason"], "cancelled");
}

#[test]
fn a_prompt_with_files_is_cancelled_like_any_other() {
    let mut turn = Turn::ready(None);
    let file = turn.workspace.join("a.txt");
    std::fs::write(&file, "x").unwrap();
    let uri = format!("file://{}", file.display());
    let id = turn.client.request(
        "session/prompt",
        &json!({"sessionId": turn.session, "prompt": [
            {"type": "text", "text": "slow"}, {"type": "resource_link", "name": "a", "uri": uri},
        ]}),
    );
    let params = json!({"sessionId": turn.session});
    turn.client.notify("session/cancel", &params);
    assert_eq!(turn.client.answer_to(id, &mut |_, _| {})["result"]["stopReason"], "cancelled");
}

#[test]
fn case_17_a_linked_file_goes_with_the_prompt() {
    let mut turn = Turn::ready(None);
    let file = turn.workspace.join("a b.txt");
    std::fs::write(&file, "x").unwrap();
    let uri = format!("file://{}/a%20b.txt#L10:20", turn.workspace.display());
    let params = json!({"sessionId": turn.session, "prompt": [
        {"type": "text", "text": "hello"}, {"type": "resource_link", "name": "a b.txt", "uri": uri},
    ]});
    assert_eq!(turn.client.call("session/prompt", &params)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_second_prompt_is_refused_by_name() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    let (second, _) = turn.run("hello");
    assert_eq!(second["error"]["data"]["code"], "ZA802", "{second}");
    let params = json!({"sessionId": turn.session});
    turn.client.notify("session/cancel", &params);
    turn.client.answer_to(id, &mut |_, _| {});
}

#[test]
fn closing_answers_the_prompt_that_runs() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    let close = turn.client.request("session/close", &json!({"sessionId": turn.session}));
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let message = turn.client.recv();
        if message.get("method").is_none() {
            answers.push(message);
        }
    }
    let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(id)["result"]["stopReason"], "cancelled");
    assert_eq!(of(close)["result"], json!({}));
    let (gone, _) = turn.run("hello");
    assert_eq!(gone["error"]["code"], -32002);
    assert_eq!(gone["error"]["data"]["sessionId"], turn.session);
}

#[test]
fn case_14_working_directories() {
    let mut turn = Turn::ready(None);
    let file = turn.workspace.join("file");
    std::fs::write(&file, "x").unwrap();
    let odd = turn.workspace.join("with spaces and ü");
    std::fs::create_dir(&odd).unwrap();
    for bad in [".", "", "/does/not/exist", file.to_str().unwrap()] {
        let answer = turn.client.call("session/new", &json!({"cwd": bad, "mcpServers": []}));
        assert_eq!(answer["error"]["code"], -32602, "{bad}: {answer}");
        assert_eq!(answer["error"]["data"]["code"], "ZA601");
    }
    let trailing = format!("{}/", odd.display());
    for good in [odd.to_str().unwrap(), &trailing] {
        turn.client.new_session(Path::new(good));
    }
    #[cfg(unix)]
    {
        let link = turn.workspace.join("link");
        std::os::unix::fs::symlink(&odd, &link).unwrap();
        turn.client.new_session(&link);
    }
}

#[test]
fn the_end_of_the_input_in_the_middle_of_a_turn() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    let (ended, took) = turn.client.close();
    assert_eq!(ended.unwrap(), Ended::Eof);
    assert!(took < Duration::from_millis(1800), "{took:?}");
    let rest = turn.client.rest();
    let answer = rest.iter().find(|message| message["id"] == id && message.get("method").is_none());
    assert_eq!(answer.expect("the prompt is answered")["result"]["stopReason"], "cancelled");
}

#[test]
fn a_stop_while_a_permission_waits_withdraws_it() {
    let mut turn = Turn::ready(None);
    let id = turn.client.request("session/prompt", &prompt(&turn.session, "perm"));
    let asked = loop {
        let message = turn.client.recv();
        if message["method"] == "session/request_permission" {
            break message["id"].clone();
        }
    };
    turn.client.stop.cancel();
    let (ended, took) = turn.client.ended();
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert!(took < Duration::from_millis(1800), "{took:?}");
    let rest = turn.client.rest();
    assert!(rest.iter().any(|message| message["method"] == "$/cancel_request" && message["params"]["requestId"] == asked));
    let answer = rest.iter().find(|message| message["id"] == id && message.get("method").is_none());
    assert_eq!(answer.expect("the prompt is answered")["result"]["stopReason"], "cancelled");
}

#[test]
fn prompt_text_is_in_no_error() {
    let mut turn = Turn::ready(Some("overload"));
    let (answer, _) = turn.run("CANARY-in-the-prompt");
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    let (stranger, _) = {
        turn.session = "unknown".into();
        turn.run("CANARY-in-the-prompt")
    };
    assert_eq!(stranger["error"]["code"], -32002);
    let bytes = turn.client.bytes.lock().unwrap().clone();
    let errors = String::from_utf8(bytes).unwrap();
    assert!(errors.lines().filter(|line| line.contains("\"error\"")).all(|line| !line.contains("CANARY")));
}

#[test]
fn a_flood_arrives_whole_and_in_order() {
    let mut turn = Turn::ready(Some("flood"));
    let (answer, updates) = turn.run("5000");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text_of(&updates).len(), 5000 * "The quick brown fox jumps. ".len());
}

#[test]
fn the_end_comes_also_when_nobody_reads_a_flood() {
    let (state, state_path) = temp();
    let (_dir, workspace) = temp();
    let mut client = Client::start(launcher(&state_path, Some("flood")), options());
    client.initialize();
    let session = client.new_session(&workspace);
    client.request("session/prompt", &prompt(&session, "1000000"));
    client.recv();
    client.pause();
    client.stop.cancel();
    let (ended, took) = client.ended();
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert!(took < Duration::from_millis(1900), "{took:?}");
    drop(state);
}

#[test]
fn a_new_session_that_hangs_can_be_withdrawn() {
    let (_state, state_path) = temp();
    let (_dir, workspace) = temp();
    let mut client = Client::start(launcher(&state_path, Some("no-snapshot")), options());
    client.initialize();
    let id = client.request("session/new", &json!({"cwd": workspace, "mcpServers": []}));
    client.expect_quiet();
    client.notify("$/cancel_request", &json!({"requestId": id}));
    let answer = client.answer_to(id, &mut |_, _| {});
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
    client.expect_quiet();
    let (ended, took) = client.close();
    assert_eq!(ended.unwrap(), Ended::Eof);
    assert!(took < Duration::from_millis(1800), "{took:?}");
}

#[test]
fn a_turn_with_too_many_requests_and_a_refusal() {
    for (scenario, reason) in [("max-turns", "max_turn_requests"), ("refusal", "refusal")] {
        let mut turn = Turn::ready(None);
        let (answer, _) = turn.run(&format!("sim:{scenario}"));
        assert_eq!(answer["result"]["stopReason"], reason, "{answer}");
    }
}

#[test]
fn case_15_mcp_servers() {
    let (_state, state_path) = temp();
    let (_dir, workspace) = temp();
    let (launcher, sent) = support::sim::tapped(&state_path, None);
    let mut client = Client::start(launcher, options());
    client.initialize();
    let servers = json!([
        {"type": "stdio", "name": "files", "command": "/bin/files", "args": ["-v"], "env": [{"name": "KEY", "value": "secret"}], "_meta": {"x": 1}},
        {"type": "http", "name": "web", "url": "https://example.org/mcp", "headers": [{"name": "Authorization", "value": "secret"}], "_meta": {}},
        {"type": "sse", "name": "events", "url": "https://example.org/sse", "headers": []},
    ]);
    let answer = client.call("session/new", &json!({"cwd": workspace, "mcpServers": servers}));
    assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    let forwarded = json!([
        {"name": "files", "command": "/bin/files", "args": ["-v"], "env": [{"name": "KEY", "value": "secret"}]},
        {"name": "web", "type": "http", "url": "https://example.org/mcp", "headers": [{"name": "Authorization", "value": "secret"}]},
        {"name": "events", "type": "sse", "url": "https://example.org/sse", "headers": []},
    ]);
    assert_eq!(sent.member("mcpServers").last(), Some(&forwarded));

    let mut broken = servers;
    broken[2]["name"] = "".into();
    let answer = client.call("session/new", &json!({"cwd": workspace, "mcpServers": broken}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(answer["error"]["data"]["field"], "mcpServers[2].name");
    assert!(!answer.to_string().contains("secret"));
}

#[test]
fn commands_come_behind_the_answer_of_a_new_session() {
    let mut turn = Turn::ready(None);
    let update = turn.client.until_update("available_commands_update");
    assert_eq!(update["params"]["sessionId"], turn.session.as_str());
    let commands = update["params"]["update"]["availableCommands"].as_array().unwrap();
    assert!(commands.iter().any(|command| command["name"] == "compact"), "{commands:?}");
}

#[test]
fn authenticate_says_what_is_missing() {
    for (scenario, code) in [(None, None), (Some("not-signed-in"), Some(-32000))] {
        let (_state, state_path) = temp();
        let mut client = Client::start(launcher(&state_path, scenario), options());
        client.initialize();
        let answer = client.call("authenticate", &json!({"methodId": "zcode-sign-in"}));
        assert_eq!(answer["error"]["code"].as_i64(), code, "{answer}");
        if code.is_none() {
            assert_eq!(answer["result"], json!({}));
        }
    }
}
