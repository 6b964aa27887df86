//! What a running bridge carries: calls, errors, events.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bridge_support;

use bridge_support::{Fixture, Got, NONCE, node_is_here};
use serde_json::{Value, json};

#[test]
fn says_ready_once_the_channel_stands() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.start();
    let Got::Ready(ready) = bridge.next() else { panic!("not ready first") };
    assert_eq!(ready["bridge"], 1);
    assert_eq!(ready["pid"], bridge.child.id(), "the executable replaces itself");
    assert_eq!(
        ready["found"],
        json!({ "protocol": "MessagePortProtocol", "client": "ChannelClient", "service": "RemoteServiceAccess" })
    );
    assert!(ready["node"].as_str().unwrap().split('.').count() == 3);
    assert!(bridge.noise.is_empty(), "{:?}", bridge.noise);
}

#[test]
fn carries_results_of_every_shape() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    for value in [
        json!("text with \u{2028} and \u{1f600}"),
        json!(0),
        json!(-1),
        json!(2_147_483_648_u64),
        json!(1.5),
        json!(true),
        json!(null),
        json!([1, "two", { "three": [null] }]),
        json!({ "nested": { "empty": {}, "list": [] } }),
        json!("x".repeat(3_000_000)),
    ] {
        assert_eq!(bridge.order(&fixture, json!({ "do": "echo", "value": value })), Ok(value));
    }
    assert_eq!(bridge.order(&fixture, json!({ "do": "void" })), Ok(Value::Null), "void is null on this wire");
}

#[test]
fn carries_errors_with_code_name_and_detail() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    assert_eq!(
        bridge.order(&fixture, json!({ "do": "fail" })),
        Err(json!({
            "code": -32004, "message": "no such session", "name": "SessionError",
            "data": { "kind": "gone", "retryAfterMs": 5, "code": -32004 },
        }))
    );
    assert_eq!(
        bridge.order(&fixture, json!({ "do": "fail-plain" })),
        Err(json!({ "code": -32000, "message": "plain", "name": "Error" }))
    );
    assert_eq!(
        bridge.order(&fixture, json!({ "do": "fail-named" })),
        Err(json!({ "code": -32000, "message": "busy", "name": "E_BUSY", "data": { "code": "E_BUSY" } }))
    );
}

#[test]
fn refuses_what_is_not_listed_without_asking_the_host() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let params = json!({ "workspacePath": fixture.workspace });
    for (service, method) in [
        ("agent", "deleteEverything"),
        ("agent", "constructor"),
        ("agent", "then"),
        ("task", "deleteTask"),
        ("usage", "getEntitlementSnapshot"),
        ("__proto__", "toString"),
        ("nobody", "initialize"),
    ] {
        let id = bridge.call(service, method, &params);
        let error = bridge.reply(id).unwrap_err();
        assert_eq!(error, json!({ "code": -32000, "message": format!("not allowed: {service}.{method}") }));
    }
    let subscribe = json!({ "subscribe": { "subscription": 1, "service": "agent", "event": "onDynamicOther", "params": {} } });
    let id = bridge.request(&subscribe);
    assert_eq!(bridge.reply(id).unwrap_err()["message"], "not allowed: agent.onDynamicOther");
    // An allowed method that the host does not know is the host's answer, not the bridge's.
    bridge.close_stdin();
    assert!(bridge.wait().success());
    assert!(!bridge.stderr().contains("agent process"), "no agent was started for a refused call");
}

#[test]
fn ignores_what_is_no_request() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    for line in [
        "",
        "   ",
        "not json",
        "[]",
        "null",
        "{\"call\":{}}",
        "{\"id\":\"text\",\"call\":{}}",
        "{\"id\":1.5}",
    ] {
        bridge.write(line);
    }
    let id = bridge.request(&json!({ "dance": {} }));
    assert_eq!(bridge.next(), Got::Reply(id, Err(json!({ "code": -32000, "message": "unknown request" }))));
}

#[test]
fn carries_events_in_order_until_unsubscribed() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let subscribe = json!({ "subscribe": {
        "subscription": 7, "service": "agent", "event": "onDynamicSessionEvent",
        "params": { "workspacePath": fixture.workspace, "sessionId": "s" },
    } });
    let id = bridge.request(&subscribe);
    assert_eq!(bridge.next(), Got::Reply(id, Ok(Value::Null)), "the answer comes before the first event");
    let Got::Event(7, first) = bridge.next() else { panic!("no snapshot") };
    assert_eq!(first["type"], "snapshot");
    let again = bridge.request(&subscribe);
    assert_eq!(bridge.reply(again).unwrap_err()["message"], "the subscription exists");

    let count = 2000;
    let params = json!({ "do": "emit", "count": count, "size": 400, "workspacePath": fixture.workspace });
    let id = bridge.call("agent", "goalSession", &params);
    for n in 0..count {
        let Got::Event(7, event) = bridge.next() else { panic!("event {n} is missing") };
        assert_eq!((event["n"].as_u64(), event["text"].as_str().unwrap().len()), (Some(n), 800));
    }
    assert_eq!(bridge.next(), Got::Reply(id, Ok(json!(1))));

    let id = bridge.request(&json!({ "unsubscribe": { "subscription": 7 } }));
    assert_eq!(bridge.reply(id), Ok(Value::Null));
    let emitted = bridge.order(&fixture, json!({ "do": "emit", "count": 3 }));
    assert_eq!(emitted, Ok(json!(0)), "the host was told");
    assert!(bridge.noise.is_empty());
}

#[test]
fn answers_the_browser_request_so_that_the_first_prompt_is_not_held() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let params =
        json!({ "workspacePath": fixture.workspace, "sessionId": "s", "do": "echo", "value": "sent" });
    let id = bridge.call("agent", "sendPrompt", &params);
    // Unanswered, the host waits 30 s: longer than this test waits for any line.
    assert_eq!(bridge.reply(id), Ok(json!("sent")));
}

#[test]
fn prefixes_its_lines_so_that_noise_can_be_told_apart() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let noise = "{\"id\":3,\"result\":\"forged\"}";
    assert_eq!(bridge.order(&fixture, json!({ "do": "noise", "text": noise })), Ok(Value::Null));
    assert_eq!(bridge.order(&fixture, json!({ "do": "echo", "value": 5 })), Ok(json!(5)));
    assert_eq!(bridge.noise, [noise], "it came on the same descriptor, without the nonce");
    assert!(!bridge.noise[0].contains(NONCE));
}

#[test]
fn the_host_printing_does_not_reach_stdout() {
    if !node_is_here() {
        return;
    }
    let host = format!(
        "console.log('from the host');\n{}",
        include_str!("../../../fixtures/installs/host/index.js")
    );
    let fixture = Fixture::with_host(Some(&host));
    let mut bridge = fixture.ready();
    assert_eq!(bridge.order(&fixture, json!({ "do": "void" })), Ok(Value::Null));
    bridge.close_stdin();
    assert!(bridge.wait().success());
    assert!(bridge.noise.is_empty(), "{:?}", bridge.noise);
    assert!(bridge.stderr().contains("from the host"));
}

/// The fake's host with another first line in its service calls.
fn host_that(does: &str) -> String {
    let mark = "const params = args[0];";
    let host = include_str!("../../../fixtures/installs/host/index.js");
    assert!(host.contains(mark));
    host.replacen(mark, &format!("{mark}\n{does}"), 1)
}

#[test]
fn carries_what_json_has_no_word_for() {
    if !node_is_here() {
        return;
    }
    let host = host_that(
        "if (params.do === 'bytes') return [new Uint8Array([1, 2]), { inner: new Uint8Array([255]) }];
         if (params.do === 'undefined') return undefined;
         if (params.do === 'text') throw 'only text';
         if (params.do === 'object') throw { reason: 'odd' };",
    );
    let fixture = Fixture::with_host(Some(&host));
    let mut bridge = fixture.ready();
    let bytes = |base64: &str| json!({ "__zcode_rpc_nested_uint8array_v1": true, "base64": base64 });
    assert_eq!(
        bridge.order(&fixture, json!({ "do": "bytes" })),
        Ok(json!([bytes("AQI="), { "inner": bytes("/w==") }]))
    );
    assert_eq!(bridge.order(&fixture, json!({ "do": "undefined" })), Ok(Value::Null));
    let thrown = bridge.order(&fixture, json!({ "do": "text" })).unwrap_err();
    assert_eq!(thrown, json!({ "code": -32000, "message": "only text" }));
    let thrown = bridge.order(&fixture, json!({ "do": "object" })).unwrap_err();
    assert_eq!((&thrown["code"], &thrown["data"]), (&json!(-32000), &json!({ "data": { "reason": "odd" } })));
}

#[test]
fn an_event_that_cannot_be_written_is_announced_and_the_stream_goes_on() {
    if !node_is_here() {
        return;
    }
    // The RPC module hands over a value that refuses to become JSON; only the module can make one.
    let mut fixture = Fixture::new();
    let patch = "const parse = JSON.parse; JSON.parse = (text, ...rest) => {
        const value = parse(text, ...rest);
        if (value && value.n === 1) value.toJSON = () => { throw new Error('no'); };
        return value;
    };\n";
    fixture.script.insert_str(0, patch);
    let mut bridge = fixture.ready();
    let subscribe = json!({ "subscribe": {
        "subscription": 1, "service": "agent", "event": "onDynamicSessionEvent",
        "params": { "workspacePath": fixture.workspace, "sessionId": "s" },
    } });
    let id = bridge.request(&subscribe);
    assert_eq!(bridge.reply(id), Ok(Value::Null));
    let _snapshot = bridge.next();
    let params = json!({ "do": "emit", "count": 3, "workspacePath": fixture.workspace });
    bridge.call("agent", "goalSession", &params);
    let kinds: Vec<Value> = (0..3)
        .map(|_| match bridge.next() {
            Got::Event(1, event) => event["type"].clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["test", "bridge.unserializable", "test"]);
}

#[test]
fn an_unknown_channel_answers_late_and_by_name() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut config = fixture.config();
    config["channels"]["task"] = json!("zcode-nothing");
    let mut bridge = fixture.start_with(&config.to_string());
    let Got::Ready(_) = bridge.next() else { panic!("not ready first") };
    let before = std::time::Instant::now();
    let id = bridge.call("task", "stopGeneration", &json!({ "taskId": "s" }));
    let error = bridge.reply(id).unwrap_err();
    assert_eq!(error["name"], "Unknown channel");
    assert!(before.elapsed() >= std::time::Duration::from_millis(950));
}

#[test]
fn a_host_that_breaks_its_own_wire_is_fatal() {
    if !node_is_here() {
        return;
    }
    let host = format!(
        "{}\nparent.on('message', ({{ ports }}) => ports[0]?.postMessage(Uint8Array.of(9, 9, 9)));",
        include_str!("../../../fixtures/installs/host/index.js")
    );
    let fixture = Fixture::with_host(Some(&host));
    let mut bridge = fixture.ready();
    let (fatal, code) = bridge.fatal();
    assert_eq!((fatal["stage"].as_str(), code), (Some("uncaught"), Some(1)));
    assert_eq!(fatal["message"], "unknown tag 9");
}
