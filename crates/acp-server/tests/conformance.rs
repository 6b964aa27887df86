//! The rules of the official conformance kit for v1, by their ids, rebuilt on raw lines against the simulated host.
//!
//! ACP-TRANSPORT-001 and -002, JSONRPC-002, SCHEMA-001 and -002 hold for every line of every test here: the client checks
//! each one. DELETE and ADDDIRS are not here, because what they are about is not offered.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use acp_server::Ended;
use serde_json::{Value, json};
use support::sim::{Turn, launcher, text_of};
use support::{Client, options, prompt, temp};

/// How long the kit listens for what should not come.
const QUIET: Duration = Duration::from_millis(500);

fn end_turn(turn: &mut Turn, blocks: &Value) -> Value {
    let answer = turn.client.call("session/prompt", &json!({"sessionId": turn.session, "prompt": blocks}));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    answer
}

fn kind(message: &Value) -> &str {
    message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default()
}

fn is_message(message: &Value) -> bool {
    kind(message).ends_with("_chunk")
}

#[test]
fn acp_jsonrpc_001_the_id_comes_back() {
    let mut turn = Turn::ready(None);
    for id in [json!(7), json!("seven"), json!("")] {
        turn.client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}}));
        let answer = loop {
            let message = turn.client.recv();
            if message.get("method").is_none() {
                break message;
            }
        };
        assert_eq!(answer["id"], id);
    }
}

#[test]
fn acp_jsonrpc_003_notifications_are_not_answered() {
    let mut turn = Turn::ready(None);
    turn.client.until_update("available_commands_update");
    for (method, params) in [
        ("session/cancel", json!({"sessionId": turn.session})),
        ("session/new", json!({})),
        ("_x/y", json!({})),
    ] {
        turn.client.notify(method, &params);
    }
    turn.client.expect_quiet();
}

#[test]
fn acp_jsonrpc_004_and_005_an_unknown_method_and_life_after_it() {
    let mut turn = Turn::ready(None);
    assert_eq!(turn.client.call("no/such/method", &json!({}))["error"]["code"], -32601);
    end_turn(&mut turn, &json!([{"type": "text", "text": "hello"}]));
}

#[test]
fn acp_init_001_and_002_version_1_and_a_valid_answer() {
    let (_state, state) = temp();
    let mut client = Client::start(launcher(&state, None), options());
    let answer = client.initialize();
    assert_eq!(answer["result"]["protocolVersion"], 1);
}

#[test]
fn acp_init_003_a_version_from_the_future() {
    let (_state, state) = temp();
    let mut client = Client::start(launcher(&state, None), options());
    let answer = client.call(
        "initialize",
        &json!({"protocolVersion": 65535, "clientCapabilities": {}, "info": {"name": "x", "version": "1"}}),
    );
    assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
}

#[test]
fn acp_init_004_who_it_is() {
    let (_state, state) = temp();
    let mut client = Client::start(launcher(&state, None), options());
    let info = client.initialize()["result"]["agentInfo"].take();
    assert!(info["name"].is_string() && info["version"].is_string(), "{info}");
}

#[test]
fn acp_session_001_a_new_session() {
    let turn = Turn::ready(None);
    assert!(!turn.session.is_empty());
}

#[test]
fn acp_session_002_two_sessions_differ() {
    let mut turn = Turn::ready(None);
    let other = turn.client.new_session(&turn.workspace.clone());
    assert_ne!(other, turn.session);
}

#[test]
fn acp_prompt_001_a_text_prompt() {
    end_turn(&mut Turn::ready(None), &json!([{"type": "text", "text": "hello"}]));
}

#[test]
fn acp_prompt_002_updates_are_the_sessions_own() {
    let mut turn = Turn::ready(None);
    turn.client.new_session(&turn.workspace.clone());
    let (_, updates) = turn.run("use a tool");
    let own: Vec<_> =
        updates.iter().filter(|update| is_message(update) || kind(update).starts_with("tool")).collect();
    assert!(!own.is_empty());
    assert!(own.iter().all(|update| update["params"]["sessionId"] == turn.session.as_str()));
}

#[test]
fn acp_prompt_003_a_resource_link() {
    let mut turn = Turn::ready(None);
    let link = json!({"type": "resource_link", "name": "page", "uri": "https://example.org/"});
    end_turn(&mut turn, &json!([{"type": "text", "text": "hello"}, link]));
}

#[test]
fn acp_cancel_001_a_cancel_is_a_result() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    turn.client.notify("session/cancel", &json!({"sessionId": turn.session}));
    assert_eq!(turn.client.answer_to(id, &mut |_, _| {})["result"]["stopReason"], "cancelled");
}

#[test]
fn acp_cancel_002_nothing_follows_the_answer() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    turn.client.notify("session/cancel", &json!({"sessionId": turn.session}));
    turn.client.answer_to(id, &mut |_, _| {});
    assert_eq!(turn.client.within(QUIET), Vec::<Value>::new());
}

#[test]
fn acp_load_001_a_live_session() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    let params = json!({"sessionId": turn.session, "cwd": turn.workspace, "mcpServers": []});
    let answer = turn.client.call("session/load", &params);
    assert!(answer["result"].is_object(), "{answer}");
    end_turn(&mut turn, &json!([{"type": "text", "text": "hello"}]));
}

#[test]
fn acp_load_002_replay_precedes_the_answer() {
    let mut turn = Turn::ready(None);
    let (_, live) = turn.run("hello");
    let params = json!({"sessionId": turn.session, "cwd": turn.workspace, "mcpServers": []});
    let mut replayed = Vec::new();
    let answer = turn.client.call_with("session/load", &params, &mut |_, message| replayed.push(message));
    assert!(answer["result"].is_object(), "{answer}");
    let user = replayed.iter().filter(|update| kind(update) == "user_message_chunk");
    let user: String =
        user.filter_map(|update| update["params"]["update"]["content"]["text"].as_str()).collect();
    assert_eq!(user, "hello");
    assert_eq!(text_of(&replayed), text_of(&live));
    assert!(replayed.iter().any(|update| kind(update) == "available_commands_update"));
    assert_eq!(turn.client.within(QUIET), Vec::<Value>::new());
}

#[test]
fn acp_load_003_the_result_is_an_object() {
    let mut turn = Turn::ready(None);
    let params = json!({"sessionId": turn.session, "cwd": turn.workspace, "mcpServers": []});
    let answer = turn.client.call("session/load", &params);
    assert!(
        answer["result"]["modes"].is_object() && answer["result"]["configOptions"].is_array(),
        "{answer}"
    );
}

#[test]
fn acp_resume_001_without_mcp_servers() {
    let mut turn = Turn::ready(None);
    let answer =
        turn.client.call("session/resume", &json!({"sessionId": turn.session, "cwd": turn.workspace}));
    assert!(answer["result"].is_object(), "{answer}");
}

#[test]
fn acp_resume_002_nothing_is_replayed() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    let params = json!({"sessionId": turn.session, "cwd": turn.workspace, "mcpServers": []});
    let mut before = Vec::new();
    let answer = turn.client.call_with("session/resume", &params, &mut |_, message| before.push(message));
    assert!(answer["result"].is_object(), "{answer}");
    assert!(!before.iter().any(is_message), "{before:?}");
}

#[test]
fn acp_list_001_without_params() {
    let mut turn = Turn::ready(None);
    turn.run("hello");
    let answer = turn.client.call("session/list", &json!({}));
    let sessions = answer["result"]["sessions"].as_array().unwrap();
    let own = sessions.iter().find(|session| session["sessionId"] == turn.session.as_str());
    assert_eq!(own.expect("the session is listed")["cwd"], json!(turn.workspace));
}

#[test]
fn acp_list_002_a_directory_nobody_uses() {
    let mut turn = Turn::ready(None);
    let (_dir, other) = temp();
    for cwd in [other.clone(), other.join("missing")] {
        let answer = turn.client.call("session/list", &json!({"cwd": cwd}));
        assert_eq!(answer["result"]["sessions"], json!([]), "{answer}");
    }
}

#[test]
fn acp_close_001_an_idle_session() {
    let mut turn = Turn::ready(None);
    let answer = turn.client.call("session/close", &json!({"sessionId": turn.session}));
    assert_eq!(answer["result"], json!({}), "{answer}");
}

#[test]
fn acp_close_002_the_prompt_is_cancelled() {
    let mut turn = Turn::ready(None);
    let id = turn.streaming("slow");
    turn.client.request("session/close", &json!({"sessionId": turn.session}));
    assert_eq!(turn.client.answer_to(id, &mut |_, _| {})["result"]["stopReason"], "cancelled");
}

fn mode_ids(modes: &Value) -> Vec<String> {
    let modes = modes["availableModes"].as_array().unwrap();
    modes.iter().map(|mode| mode["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn acp_modes_001_the_mode_in_force_is_one_of_them() {
    let turn = Turn::ready(None);
    let modes = &turn.setup["modes"];
    assert!(mode_ids(modes).contains(&modes["currentModeId"].as_str().unwrap().to_owned()), "{modes}");
}

#[test]
fn acp_modes_002_every_other_mode() {
    let mut turn = Turn::ready(None);
    let modes = turn.setup["modes"].clone();
    let current = modes["currentModeId"].as_str().unwrap().to_owned();
    for mode in mode_ids(&modes).into_iter().filter(|mode| *mode != current) {
        let mut updates = Vec::new();
        let params = json!({"sessionId": turn.session, "modeId": mode});
        let answer =
            turn.client.call_with("session/set_mode", &params, &mut |_, message| updates.push(message));
        assert_eq!(answer["result"], json!({}), "{mode}: {answer}");
        // Told before or after the answer, but told: in both ways there are.
        let told = |updates: &[Value], kind: &str| {
            updates.iter().any(|update| update["params"]["update"]["sessionUpdate"] == kind)
        };
        while !(told(&updates, "current_mode_update") && told(&updates, "config_option_update")) {
            updates.push(turn.client.recv());
        }
        for update in updates.iter().map(|update| &update["params"]["update"]) {
            if update["sessionUpdate"] == "current_mode_update" {
                assert_eq!(update["currentModeId"], mode.as_str());
            }
            if update["sessionUpdate"] == "config_option_update" {
                let options = update["configOptions"].as_array().unwrap();
                let option = options.iter().find(|option| option["id"] == "mode").unwrap();
                assert_eq!(option["currentValue"], mode.as_str());
            }
        }
    }
    let answer = turn.client.call("session/set_mode", &json!({"sessionId": turn.session, "modeId": "nope"}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

fn values(option: &Value) -> Vec<String> {
    let entries = option["options"].as_array().unwrap().iter();
    let flat = entries.flat_map(|entry| match entry["options"].as_array() {
        Some(group) => group.clone(),
        None => vec![entry.clone()],
    });
    flat.map(|value| value["value"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn acp_config_001_the_value_in_force_is_among_the_options() {
    let turn = Turn::ready(None);
    let options = turn.setup["configOptions"].as_array().unwrap();
    let ids: Vec<_> = options.iter().map(|option| option["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mode", "model", "thought_level"]);
    for option in options {
        let current = option["currentValue"].as_str().unwrap().to_owned();
        assert!(values(option).contains(&current), "{option}");
    }
}

#[test]
fn acp_config_002_a_set_returns_all() {
    let mut turn = Turn::ready(None);
    let options = turn.setup["configOptions"].as_array().unwrap().clone();
    let ids = |options: &Value| -> BTreeSet<String> {
        let options = options.as_array().unwrap();
        options.iter().map(|option| option["id"].as_str().unwrap().to_owned()).collect()
    };
    for option in &options {
        for value in values(option) {
            let params = json!({"sessionId": turn.session, "configId": option["id"], "value": value});
            let answer = turn.client.call("session/set_config_option", &params);
            let now = &answer["result"]["configOptions"];
            assert!(now.is_array(), "{params}: {answer}");
            assert_eq!(ids(now), ids(&turn.setup["configOptions"]));
            let changed = now.as_array().unwrap().iter().find(|now| now["id"] == option["id"]).unwrap();
            assert_eq!(changed["currentValue"], value.as_str());
        }
        let params = json!({"sessionId": turn.session, "configId": option["id"], "value": "nope"});
        assert_eq!(turn.client.call("session/set_config_option", &params)["error"]["code"], -32602);
    }
}

#[test]
fn acp_config_003_no_boolean_option() {
    let turn = Turn::ready(None);
    assert!(turn.setup["configOptions"].as_array().unwrap().iter().all(|option| option["type"] == "select"));
}

#[test]
fn case_18_the_old_ways_to_set_a_model() {
    let mut turn = Turn::ready(None);
    let options = turn.setup["configOptions"].as_array().unwrap().clone();
    let models = values(options.iter().find(|option| option["id"] == "model").unwrap());
    assert!(models.len() > 1);
    for (method, model) in ["session/set_model", "session/setModel"].iter().zip(models.iter().rev()) {
        let answer = turn.client.call(method, &json!({"sessionId": turn.session, "modelId": model}));
        assert_eq!(answer["result"], json!({}), "{answer}");
        let answer = turn.client.call(method, &json!({"sessionId": turn.session, "modelId": "nope"}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let answer = turn.client.call(method, &json!({"sessionId": "nope", "modelId": model}));
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
}

#[test]
fn acp_promptcap_001_an_image() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    end_turn(&mut Turn::ready(None), &json!([{"type": "text", "text": "hello"}, image]));
}

#[test]
fn acp_promptcap_002_a_sound() {
    let sound = json!({"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="});
    end_turn(&mut Turn::ready(None), &json!([{"type": "text", "text": "hello"}, sound]));
}

#[test]
fn acp_promptcap_003_embedded_resources() {
    let text = json!({"type": "resource", "resource": {"uri": "file:///w/a.txt", "text": "a"}});
    let blob = json!({"type": "resource", "resource": {"uri": "file:///w/a.bin", "blob": "AAE="}});
    end_turn(&mut Turn::ready(None), &json!([{"type": "text", "text": "hello"}, text, blob]));
}

#[test]
fn what_is_attached_reaches_the_host_as_it_was() {
    let (_state, state) = temp();
    let (_dir, workspace) = temp();
    let (launcher, sent) = support::sim::tapped(&state, None);
    let mut client = Client::start(launcher, options());
    client.initialize();
    let session = client.new_session(&workspace);
    let blocks = json!([
        {"type": "text", "text": "hello"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        {"type": "resource", "resource": {"uri": "mem:a", "text": "ä"}},
    ]);
    let answer = client.call("session/prompt", &json!({"sessionId": session, "prompt": blocks}));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let attached = json!([
        {"kind": "image", "filename": "image.png", "mimeType": "image/png", "dataBase64": "iVBORw0KGgo=", "sizeBytes": 8},
        {"kind": "file", "filename": "mem:a", "mimeType": "text/plain", "dataBase64": "w6Q=", "sizeBytes": 2},
    ]);
    assert_eq!(sent.member("attachments").last(), Some(&attached));
}

#[test]
fn acp_auth_001_and_002_one_agent_method_whose_id_is_its_own() {
    for auth in [json!({}), json!({"terminal": true})] {
        let (_state, state) = temp();
        let mut client = Client::start(launcher(&state, None), options());
        let params = json!({"protocolVersion": 1, "clientCapabilities": {"auth": auth}});
        let methods = client.call("initialize", &params)["result"]["authMethods"].take();
        assert_eq!(methods.as_array().unwrap().len(), 1, "{methods}");
        assert!(methods[0].get("type").is_none(), "{methods}");
    }
}

#[test]
fn acp_auth_003_a_session_after_authenticate() {
    let (_state, state) = temp();
    let (_dir, workspace) = temp();
    let mut client = Client::start(launcher(&state, None), options());
    client.initialize();
    let answer = client.call("authenticate", &json!({"methodId": "zcode-sign-in"}));
    assert_eq!(answer["result"], json!({}), "{answer}");
    client.new_session(&workspace);
}

#[test]
fn acp_clientcap_001_to_003_nothing_the_client_has_not_declared() {
    let mut turn = Turn::ready(None);
    for text in ["tour", "term make", "sim:question", "sim:plan"] {
        let params = prompt(&turn.session, text);
        let answer = turn.client.call_with("session/prompt", &params, &mut |client, message| {
            let method = message["method"].as_str().unwrap();
            assert!(
                ["session/update", "session/request_permission", "$/cancel_request"].contains(&method),
                "{message}"
            );
            if method == "session/request_permission" {
                let outcome = json!({"outcome": {"outcome": "cancelled"}});
                client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}));
            }
        });
        assert!(answer["result"]["stopReason"].is_string(), "{text}: {answer}");
    }
}

#[test]
fn acp_ext_001_an_extension_request_is_answered() {
    let mut turn = Turn::ready(None);
    assert_eq!(turn.client.call("_x/anything", &json!({}))["error"]["code"], -32601);
}

#[test]
fn acp_meta_001_meta_is_tolerated() {
    let mut turn = Turn::ready(None);
    let meta = json!({"traceparent": "00-1-2-01", "x": {"y": 1}});
    let params = json!({"sessionId": turn.session, "prompt": [{"type": "text", "text": "hello", "_meta": meta}], "_meta": meta});
    assert_eq!(turn.client.call("session/prompt", &params)["result"]["stopReason"], "end_turn");
    let new = json!({"cwd": turn.workspace, "mcpServers": [], "_meta": meta});
    assert!(turn.client.call("session/new", &new)["result"].is_object());
}

#[test]
fn acp_error_001_a_message_of_one_line() {
    let mut turn = Turn::ready(None);
    for (method, params) in [
        ("session/prompt", json!({"sessionId": "nope", "prompt": [{"type": "text", "text": "x"}]})),
        ("session/load", json!({"sessionId": "nope", "cwd": turn.workspace, "mcpServers": []})),
        ("session/new", json!({})),
        ("_x", json!({})),
    ] {
        let answer = turn.client.call(method, &params);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}"));
        assert!(!message.is_empty() && !message.contains('\n'), "{message}");
    }
}

#[test]
fn acp_info_unknownsession_001_not_found_with_its_id() {
    let mut turn = Turn::ready(None);
    for (method, params) in [
        ("session/load", json!({"sessionId": "nope", "cwd": turn.workspace, "mcpServers": []})),
        ("session/resume", json!({"sessionId": "nope", "cwd": turn.workspace})),
        ("session/set_mode", json!({"sessionId": "nope", "modeId": "plan"})),
        ("session/set_config_option", json!({"sessionId": "nope", "configId": "mode", "value": "plan"})),
    ] {
        let answer = turn.client.call(method, &params);
        assert_eq!(answer["error"]["code"], -32002, "{method}: {answer}");
        assert_eq!(answer["error"]["data"]["sessionId"], "nope");
    }
}

#[test]
fn acp_shutdown_001_the_end_of_the_input_is_the_end() {
    let mut turn = Turn::ready(None);
    let (ended, took) = turn.client.close();
    assert_eq!(ended.unwrap(), Ended::Eof);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
