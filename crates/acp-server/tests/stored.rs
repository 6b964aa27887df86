//! Sessions that outlive a process, on raw lines against the simulated host.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::sim::{Turn, launcher, text_of};
use support::{Client, options, temp};

fn open(turn: &Turn) -> Value {
    json!({"sessionId": turn.session, "cwd": turn.workspace, "mcpServers": []})
}

fn end(turn: &mut Turn) {
    turn.client.close().0.unwrap();
}

/// What a person sees of an update.
fn seen(update: &Value) -> Value {
    let update = &update["params"]["update"];
    json!([
        update["sessionUpdate"],
        update["toolCallId"],
        update["title"],
        update["kind"],
        update["content"],
        update["rawInput"]
    ])
}

#[test]
fn a_new_process_loads_what_another_one_stored() {
    let mut turn = Turn::ready(None);
    let (_, live) = turn.run("use a tool");
    end(&mut turn);
    let mut client = turn.another_process(None);
    let mut replayed = Vec::new();
    let answer = client.call_with("session/load", &open(&turn), &mut |_, message| replayed.push(message));
    assert_eq!(answer["result"]["modes"]["currentModeId"], turn.setup["modes"]["currentModeId"], "{answer}");
    assert_eq!(text_of(&replayed), text_of(&live));
    let call = |updates: &[Value]| {
        updates.iter().find(|one| one["params"]["update"]["sessionUpdate"] == "tool_call").cloned()
    };
    let (live, replayed) = (call(&live).unwrap(), call(&replayed).expect("the call is replayed"));
    assert_eq!(seen(&live)[1], seen(&replayed)[1]);
    assert_eq!(seen(&live)[2], seen(&replayed)[2], "the title of a replayed call is the live one");
    assert_eq!(seen(&live)[3], seen(&replayed)[3]);

    let answer = client.call("session/prompt", &support::prompt(&turn.session, "hello"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[test]
fn a_new_process_resumes_without_a_replay() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    end(&mut turn);
    let mut client = turn.another_process(None);
    let mut before = Vec::new();
    let answer = client.call_with("session/resume", &open(&turn), &mut |_, message| before.push(message));
    assert!(answer["result"]["configOptions"].is_array(), "{answer}");
    assert!(
        before
            .iter()
            .all(|one| !one["params"]["update"]["sessionUpdate"].as_str().unwrap().ends_with("_chunk"))
    );
    client.until_update("available_commands_update");
    let answer = client.call("session/prompt", &support::prompt(&turn.session, "hello"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[test]
fn a_mode_that_was_chosen_is_there_again() {
    let mut turn = Turn::ready(None);
    turn.client.call("session/set_mode", &json!({"sessionId": turn.session, "modeId": "plan"}));
    turn.run("hello");
    end(&mut turn);
    let mut client = turn.another_process(None);
    let answer = client.call("session/load", &open(&turn));
    assert_eq!(answer["result"]["modes"]["currentModeId"], "plan", "{answer}");
}

#[test]
fn a_session_belongs_to_its_directory() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    end(&mut turn);
    let (_dir, other) = temp();
    let mut client = turn.another_process(None);
    for method in ["session/load", "session/resume"] {
        let mut params = open(&turn);
        params["cwd"] = json!(other);
        let answer = client.call(method, &params);
        let code = answer["error"]["code"].as_i64().unwrap();
        assert!([-32602, -32002].contains(&code), "{method}: {answer}");
        params["cwd"] = json!("relative");
        assert_eq!(client.call(method, &params)["error"]["code"], -32602);
    }
}

#[test]
fn sessions_are_listed_newest_first_with_their_dates() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    let second = turn.client.new_session(&turn.workspace.clone());
    turn.client.call("session/prompt", &support::prompt(&second, "hello"));
    end(&mut turn);
    let mut client = turn.another_process(None);
    let answer = client.call("session/list", &json!({"cwd": turn.workspace}));
    let sessions = answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let ids: Vec<_> = sessions.iter().map(|session| session["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), turn.session.as_str()]);
    for session in sessions {
        assert_eq!(Path::new(session["cwd"].as_str().unwrap()), turn.workspace);
        let date = session["updatedAt"].as_str().unwrap();
        assert!(date.starts_with("20") && date.ends_with('Z') && date.len() == 24, "{date}");
    }
    let bad = client.call("session/list", &json!({"cwd": turn.workspace, "cursor": "nope"}));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
}

#[test]
fn two_loads_of_one_session_are_both_answered() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    end(&mut turn);
    let mut client = turn.another_process(None);
    let ids = [0, 1].map(|_| client.request("session/load", &open(&turn)));
    let mut answers = Vec::new();
    while answers.len() < ids.len() {
        let message = client.recv();
        if message.get("method").is_none() {
            answers.push(message);
        }
    }
    assert!(answers.iter().all(|answer| answer["result"].is_object()), "{answers:?}");
}

/// A host that takes long to resume.
const SLOW: &str = "format = 1\nname = \"slow-resume\"\ndescription = \"Resumes slowly.\"\n\n[host]\nresume_delay_ms = 60000\n\n[[step]]\ntext = \"hi\"\n";

#[test]
fn opening_and_listing_can_be_withdrawn() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    end(&mut turn);
    for method in ["session/load", "session/resume"] {
        let mut client = turn.another_process(Some(SLOW));
        let id = client.request(method, &open(&turn));
        client.expect_quiet();
        client.notify("$/cancel_request", &json!({"requestId": id}));
        let answer = client.answer_to(id, &mut |_, _| {});
        assert_eq!(answer["error"]["code"], -32800, "{method}: {answer}");
    }
    // A host that is never ready holds a list up.
    let never = SLOW.replace("resume_delay_ms = 60000", "ready_delay_ms = 60000");
    let (_state, state) = temp();
    let mut client = Client::start(launcher(&state, Some(&never)), options());
    client.initialize();
    let id = client.request("session/list", &json!({"cwd": turn.workspace}));
    client.notify("$/cancel_request", &json!({"requestId": id}));
    let answer = client.answer_to(id, &mut |_, _| {});
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
}
