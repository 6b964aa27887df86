//! The protocol before and around sessions: no host is started here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use acp_server::{AgentOptions, Ended};
use serde_json::{Value, json};
use session_coordinator::host::{HostLauncher, HostSource};
use session_coordinator::model::HostProfile;
use support::{Client, options};

/// A launcher whose host must never be opened.
fn no_host() -> HostLauncher {
    let profile = HostProfile {
        contract: "zcode-host-test".into(),
        protocol: "zcode-task-v1".into(),
        app_version: None,
        unofficial: false,
        simulated: true,
        modes: Arc::new([]),
        cancel_terminal: Duration::from_secs(30),
    };
    let open = Arc::new(|| Err(io::Error::other("no host in this test")));
    HostLauncher::new(HostSource::Stream { profile: Arc::new(profile), open })
}

fn start() -> Client {
    Client::start(no_host(), options())
}

fn initialized() -> Client {
    let mut client = start();
    client.initialize();
    client
}

#[test]
fn case_1_a_string_id_and_no_capabilities() {
    let mut client = start();
    client.send_raw(
        br#"{"jsonrpc":"2.0","id":"5f0c2d9e-1111-4222-8333-abcdefabcdef","method":"initialize","params":{"protocolVersion":1}}
"#,
    );
    let answer = client.recv();
    assert_eq!(answer["id"], "5f0c2d9e-1111-4222-8333-abcdefabcdef");
    assert_eq!(answer["result"]["protocolVersion"], 1);
    assert_eq!(answer["result"]["agentInfo"]["title"], "ZCode (simulated)");
    client.expect_quiet();
}

#[test]
fn case_2_a_newer_version_gets_version_1() {
    for version in [0, 2, 7, 65535] {
        let mut client = start();
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version,
            "clientCapabilities": {"auth": {}, "plan": {}, "elicitation": {"form": {}, "url": {}}, "x": {"y": 1}},
            "info": {"name": "x", "version": "1"},
        }}));
        let answer = client.recv();
        assert_eq!(answer["id"], 0);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        client.expect_quiet();
    }
}

#[test]
fn case_3_a_version_that_is_no_number() {
    let mut client = start();
    for params in [
        json!({"protocolVersion": "1CANARY"}),
        json!({"CANARY": 1}),
        json!({"protocolVersion": -1, "c": "CANARY"}),
    ] {
        let answer = client.call("initialize", &params);
        assert_eq!(answer["error"]["code"], -32602);
        assert!(!answer["error"]["message"].as_str().unwrap().contains('\n'));
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
    }
    assert_eq!(client.initialize()["result"]["protocolVersion"], 1, "the connection lives on");
}

#[test]
fn cases_4_and_5_answers_nobody_asked_for() {
    let mut client = initialized();
    client.send_raw(
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n",
    );
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"never-asked\",\"result\":{}}\n");
    client.expect_quiet();
}

#[test]
fn case_10_cancels_that_mean_nothing() {
    let mut client = initialized();
    client.notify("session/cancel", &json!({"sessionId": "unknown", "_meta": {}}));
    client.notify("session/cancel", &json!({}));
    client.notify("session/cancel", &json!({"sessionId": 7}));
    client.notify("$/cancel_request", &json!({"requestId": 4711}));
    client.notify("$/cancel_request", &json!({"nothing": 4711}));
    client.expect_quiet();
}

#[test]
fn case_11_a_batch_is_one_invalid_request() {
    let mut client = initialized();
    for batch in [r#"[{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"CANARY":1}}]"#, "[]"] {
        client.send_raw(format!("{batch}\n").as_bytes());
        let answer = client.recv();
        assert_eq!(answer["error"]["code"], -32600);
        assert!(!answer.to_string().contains("CANARY"));
        client.expect_quiet();
    }
}

#[test]
fn case_12_blank_lines_crlf_and_bom() {
    let mut client = start();
    client.send_raw(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\r\n");
    assert_eq!(client.recv()["id"], 1);
    client.send_raw(b"\n   \n\t\r\n\r\n");
    client.expect_quiet();
}

#[test]
fn case_13_what_is_not_json_is_answered_without_echo() {
    let mut client = initialized();
    for bad in [
        &b"\xff\xfeCANARY"[..],
        b"{\"CANARY\":",
        b"CANARY",
        b"{\"CANARY\":\"\\ud800\"}",
        b"{\"CANARY\":1e999}",
    ] {
        client.send_raw(&[bad, b"\n"].concat());
        let answer = client.recv();
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(answer["error"]["code"], -32700);
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
        client.expect_quiet();
    }
}

#[test]
fn envelopes_that_are_none_are_answered_without_echo() {
    let mut client = initialized();
    for bad in [
        "17",
        "\"CANARY\"",
        r#"{"jsonrpc":"1.0","id":1,"method":"CANARY"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"CANARY"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":{"CANARY":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":"CANARY"}"#,
    ] {
        client.send_raw(format!("{bad}\n").as_bytes());
        let answer = client.recv();
        assert_eq!(answer["error"]["code"], -32600, "{bad}");
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
    }
    client.expect_quiet();
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_next_one_read() {
    let mut client = Client::start(no_host(), AgentOptions { max_frame: 4096, ..options() });
    client.initialize();
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"CANARY": "x".repeat(100_000)}});
    client.send(&long);
    let answer = client.recv();
    assert_eq!(answer["error"]["code"], -32700);
    assert!(answer.to_string().len() < 500);
    client.expect_quiet();
}

#[test]
fn a_last_line_without_line_feed_is_answered() {
    let mut client = start();
    client.send_raw(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
    assert_eq!(client.close().0.unwrap(), Ended::Eof);
    let rest = client.rest();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["id"], 1);
}

#[test]
fn case_16_prompts_that_cannot_be_sent() {
    let mut client = initialized();
    let text = json!({"type": "text", "text": "CANARY"});
    for (prompt, field) in [
        (json!([]), "prompt"),
        (json!([{"type": "text", "text": ""}]), "prompt[0]"),
        (json!([text, {"type": "image", "data": "!CANARY!", "mimeType": "image/png"}]), "prompt[1].data"),
        (json!([text, {"type": "resource_link", "name": "CANARY", "uri": "file:CANARY"}]), "prompt[1].uri"),
        (json!("CANARY"), "prompt"),
    ] {
        let answer = client.call("session/prompt", &json!({"sessionId": "s-CANARY", "prompt": prompt}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert_eq!(answer["error"]["data"]["field"], field);
        assert!(answer["error"]["message"].as_str().unwrap().contains(field));
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
    }
}

#[test]
fn invalid_params_name_the_field_and_never_the_value() {
    let mut client = initialized();
    let server = json!({"name": "CANARY", "command": "/CANARY", "args": [], "env": [{"name": "KEY", "value": "CANARY"}]});
    for (method, params, field) in [
        ("session/new", json!({"mcpServers": []}), "cwd"),
        ("session/new", json!({"cwd": ["CANARY"], "mcpServers": []}), "cwd"),
        ("session/new", json!({"cwd": "/CANARY"}), "mcpServers"),
        ("session/new", json!({"cwd": "/CANARY", "mcpServers": [server, server]}), "mcpServers[1].name"),
        ("session/load", json!({"sessionId": "CANARY", "cwd": "/CANARY"}), "mcpServers"),
        ("session/resume", json!({"sessionId": "CANARY", "cwd": 1}), "cwd"),
        ("session/list", json!({"cwd": "CANARY"}), "cwd"),
        ("session/list", json!({"cursor": ["CANARY"]}), "cursor"),
        ("session/set_mode", json!({"sessionId": "CANARY", "modeId": 1}), "modeId"),
        (
            "session/set_config_option",
            json!({"sessionId": "s", "configId": "CANARY", "value": "CANARY"}),
            "configId",
        ),
        (
            "session/set_config_option",
            json!({"sessionId": "s", "configId": "mode", "type": "boolean", "value": true}),
            "type",
        ),
        ("session/set_config_option", json!({"sessionId": "s", "configId": "mode", "value": true}), "value"),
        ("session/set_model", json!({"sessionId": "CANARY"}), "modelId"),
        ("session/setModel", json!({"modelId": "CANARY"}), "sessionId"),
        (
            "session/new",
            json!({"cwd": "/CANARY", "mcpServers": [], "additionalDirectories": ["/CANARY"]}),
            "additionalDirectories",
        ),
        ("session/new", json!(["CANARY"]), "params"),
        ("session/prompt", json!({"prompt": [{"type": "text", "text": "CANARY"}]}), "sessionId"),
        ("session/close", json!({"sessionId": {"CANARY": 1}}), "sessionId"),
        ("authenticate", json!({"methodId": "CANARY"}), "methodId"),
    ] {
        let answer = client.call(method, &params);
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
        assert_eq!(answer["error"]["data"]["field"], field, "{method}");
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
    }
    let acp = json!([{"type": "acp", "name": "x", "id": "CANARY"}]);
    let refused = client.call("session/new", &json!({"cwd": "/", "mcpServers": acp}));
    assert_eq!(refused["error"]["data"]["code"], "ZA606");
    assert!(refused["error"]["message"].as_str().unwrap().contains("mcpServers[0].type is acp"), "{refused}");
}

#[test]
fn case_19_unknown_methods() {
    let mut client = initialized();
    for method in ["_x/CANARY", "CANARY", "fs/CANARY", "proxy/successor", "$/cancel_request"] {
        let answer = client.call(method, &json!({"CANARY": "CANARY", "sessionId": "CANARY"}));
        assert_eq!(answer["error"]["code"], -32601, "{method}");
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
        client.notify(method, &json!({"CANARY": 1}));
    }
    client.expect_quiet();
}

#[test]
fn what_is_not_offered_is_not_found() {
    let mut client = start();
    let answer = client.initialize();
    for item in acp_server::capabilities::REGISTRY {
        let Some(method) = item.method else { continue };
        let error = client.call(method, &json!({"sessionId": "s"}))["error"]["code"].as_i64();
        let built = item.state == acp_server::capabilities::State::Built;
        assert_eq!(error != Some(-32601), built, "{method}");
    }
    let caps = &answer["result"]["agentCapabilities"];
    assert_eq!(caps["sessionCapabilities"], json!({"list": {}, "resume": {}, "close": {}}));
    assert_eq!(caps["loadSession"], true);
    assert_eq!(caps["promptCapabilities"], json!({"image": true, "audio": true, "embeddedContext": true}));
    assert_eq!(caps["mcpCapabilities"], json!({"http": true, "sse": true}));
}

#[test]
fn requests_before_and_a_second_initialize() {
    let mut client = start();
    let early = client.call("session/new", &json!({"cwd": "/CANARY", "mcpServers": []}));
    assert_eq!(early["error"]["code"], -32600);
    assert!(!early.to_string().contains("CANARY"));
    client.initialize();
    let again = client.call("initialize", &json!({"protocolVersion": 1}));
    assert_eq!(again["error"]["code"], -32600);
    // The first stays in force.
    let answer = client.call("session/close", &json!({}));
    assert_eq!(answer["error"]["code"], -32602);
}

#[test]
fn case_20_a_burst_of_initialize_and_requests() {
    let mut client = start();
    client.send_raw(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n\
          {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/new\",\"params\":{\"cwd\":\".\",\"mcpServers\":[]}}\n\
          {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/close\",\"params\":{}}\n",
    );
    assert_eq!(client.recv()["result"]["protocolVersion"], 1, "the first answer is that of initialize");
    let mut answers = [client.recv(), client.recv()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_ne!(answers[0]["error"]["code"], -32600, "not refused for being early: {}", answers[0]);
    assert_eq!(answers[1]["error"]["code"], -32602);
}

#[test]
fn the_end_of_the_input_and_a_stop() {
    for initialize in [false, true] {
        let mut client = start();
        if initialize {
            client.initialize();
        }
        let (ended, took) = client.close();
        assert_eq!(ended.unwrap(), Ended::Eof);
        assert!(took < Duration::from_millis(1800), "{took:?}");

        let mut client = start();
        if initialize {
            client.initialize();
        }
        client.stop.cancel();
        let (ended, took) = client.ended();
        assert_eq!(ended.unwrap(), Ended::Stopped);
        assert!(took < Duration::from_millis(1800), "{took:?}");
    }
}

#[test]
fn a_client_that_closes_its_end_of_the_output() {
    let mut client = Client::start_unread(no_host(), options());
    client.close_output();
    client.request("initialize", &json!({"protocolVersion": 1}));
    let (ended, took) = client.ended();
    assert_eq!(ended.unwrap(), Ended::OutputClosed);
    assert!(took < Duration::from_millis(1800), "{took:?}");
}

#[test]
fn a_client_that_never_reads_cannot_hold_the_end() {
    let mut client = Client::start_unread(no_host(), options());
    client.request("initialize", &json!({"protocolVersion": 1}));
    for _ in 0..20_000 {
        client.request("_x/y", &json!({}));
    }
    let (ended, took) = client.close();
    assert_eq!(ended.unwrap(), Ended::Eof);
    assert!(took < Duration::from_millis(1800), "{took:?}");
}

#[test]
fn answers_of_a_burst_survive_the_end_of_the_input() {
    let mut client = start();
    client.request("initialize", &json!({"protocolVersion": 1}));
    for _ in 0..500 {
        client.request("session/close", &json!({}));
    }
    client.close().0.unwrap();
    assert_eq!(client.rest().len(), 501);
}

#[test]
fn a_client_cannot_fake_the_fence() {
    let mut client = initialized();
    client.notify("$/zcode-acp/end", &json!({}));
    client.expect_quiet();
}

#[test]
fn the_stock_transport_serves_too() {
    let mut client = Client::start(no_host(), AgentOptions { stock_stdio: true, ..options() });
    assert_eq!(client.initialize()["result"]["protocolVersion"], 1);
    client.expect_quiet();
    let (ended, took) = client.close();
    assert_eq!(ended.unwrap(), Ended::Eof);
    assert!(took < Duration::from_millis(1800), "{took:?}");

    let mut client = Client::start(no_host(), AgentOptions { stock_stdio: true, ..options() });
    client.initialize();
    client.stop.cancel();
    assert_eq!(client.ended().0.unwrap(), Ended::Stopped);
}
