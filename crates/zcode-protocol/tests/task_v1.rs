//! Reading of the 3.11.2 events: borrowing, order of members, strictness, tolerance.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use zcode_protocol::bridge::{Classified, Line};
use zcode_protocol::task_v1::payload::Payload;
use zcode_protocol::task_v1::{DynamicEvent, EventError, parse_event};

const DELTA: &str = r#"{"type":"session.event","event":{"eventId":"e1","sessionId":"s","turnId":"t","seq":7,"traceId":"x","timestamp":1,"deliveryKind":"desktop-continuous","type":"model.streaming","payload":{"kind":"text_delta","delta":"Hällo","assistantMessageId":"m","partId":"p"}}}"#;

fn session(kind: &str, payload: &Value) -> Value {
    json!({"type": "session.event", "event": {
        "eventId": "e", "sessionId": "s", "seq": 3, "timestamp": 0, "type": kind, "payload": payload,
    }})
}

/// One line of each kind the adapter reads.
fn samples() -> Vec<Value> {
    let permission = json!({
        "requestId": "r", "sessionId": "s", "toolCallId": "c", "toolName": "Bash", "reason": "why", "riskLevel": "low",
        "input": {"command": "ls"}, "origin": {"kind": "subagent"},
        "options": [
            {"optionId": "allow_project", "kind": "allow_always", "name": "Always",
             "response": {"decision": "allow", "permissionUpdates": [{"type": "addRules"}]}},
            {"optionId": "deny", "kind": "deny", "name": "Deny", "response": {"decision": "deny"}}],
    });
    vec![
        json!({"type": "snapshot", "snapshot": {
            "protocol": {"name": "p", "version": 1},
            "session": {"sessionId": "s", "title": "T", "titleSource": "generated", "mode": "build", "status": "running"},
            "settings": {"model": {"current": {"providerId": "p", "modelId": "m"}, "available": []},
                "thoughtLevel": {"enabled": true, "defaultLevel": "max", "available": [{"value": "max", "label": "Max"}]},
                "mode": {"current": "build"}},
            "projection": {"status": "running", "contextUsed": 5, "contextWindow": 10, "pendingPermissions": [permission]},
            "runtime": {"activeTurnId": "t", "eventSeq": 41, "stateRevision": 2, "pendingRequestIds": []},
            "messages": [], "todos": [{"content": "a", "status": "pending", "priority": "high"}],
            "slashCommands": [{"name": "compact", "description": "d", "source": "builtin"}]}}),
        json!({"type": "state.updated", "notification": {"type": "x", "scope": "session", "sessionId": "s", "revision": 1,
            "patch": {"mode": {"current": "plan"}, "status": "idle", "settings": 7}}}),
        json!({"type": "permission.request", "request": permission}),
        json!({"type": "userInput.request", "request": {"requestId": "r", "sessionId": "s", "prompt": "p",
            "questions": [{"question": "Q?", "header": "H", "multiSelect": true,
                "options": [{"value": "v", "label": "L", "description": "D"}]}],
            "input": {"plan": "# Plan"}, "schema": {"interaction": "plan_approval"}}}),
        json!({"type": "userInput.response", "requestId": "r", "response": {"action": "accept"}}),
        json!({"type": "providerRuntimeHeaders.request", "request": {"requestId": "r", "reason": "model-request"}}),
        session("turn.started", &json!({"turnNumber": 1, "input": "hi", "inputId": "i"})),
        session("turn.steerQueued", &json!({"pendingInputId": "p", "inputId": "i", "queueLength": 1})),
        session(
            "turn.steerDrained",
            &json!({"pendingInputIds": ["p"], "targetTurnId": "t", "injectedMessageIds": []}),
        ),
        session(
            "turn.completed",
            &json!({"resultType": "success", "inputId": "i",
            "tokenCount": 1, "usage": {"inputTokens": 1, "outputTokens": 2}}),
        ),
        session(
            "turn.failed",
            &json!({"turnPhase": "x", "error": {"type": "T", "message": "m", "code": -32031,
            "attribution": {"source": "provider", "reason": "r", "statusCode": 429, "providerErrorCode": "1302"}}}),
        ),
        session(
            "model.streaming",
            &json!({"kind": "tool_call", "toolCallId": "c", "toolName": "Read", "input": {"a": 1}}),
        ),
        session(
            "tool.updated",
            &json!({"kind": "result", "toolCallId": "c", "result": {"success": true, "content": "ok",
            "display": {"kind": "file_diff", "filePath": "a", "structuredPatch":
                [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}]},
            "perf": {"exitCode": 0}, "truncated": false, "originalBytes": 2, "returnedBytes": 2}}),
        ),
        session(
            "tool.updated",
            &json!({"kind": "batch", "toolCallIds": ["c"], "successCount": 1, "errorCount": 0}),
        ),
        session(
            "session.updated",
            &json!({"mode": "plan", "previousMode": "build", "source": "tool",
            "requestHeaders": {"authorization": "Bearer CANARY"}}),
        ),
        session("session.resumed", &json!({"directory": "/w", "messageCount": 3, "partCount": 9})),
        session(
            "session.updated",
            &json!({"type": "model_request_completed", "responseHeaders": {"set-cookie": "CANARY"},
            "_meta": {"zcode": {"apiRetry": {"kind": "api_retry", "attempt": 2, "maxRetries": 10, "retryDelayMs": 1.5,
                "errorStatus": null, "error": "CANARY"}}}}),
        ),
        session(
            "session.updated",
            &json!({"taskId": "b", "toolCallId": "c", "toolName": "Bash", "status": "lost", "outputTail": "x"}),
        ),
        session("session.titleUpdated", &json!({"title": "T", "previousTitle": ""})),
        session("permission.resolved", &json!({"requestId": "r", "toolCallId": "c", "decision": "allow"})),
        session("session.closed", &json!({})),
        session("checkpoint.created", &json!({"id": 1})),
    ]
}

#[test]
fn each_kind_of_line_is_read() {
    let read: Vec<String> =
        samples().iter().map(|value| format!("{:?}", parse_event(&value.to_string()).unwrap())).collect();
    insta::assert_debug_snapshot!(read);
}

#[test]
fn text_of_a_delta_borrows_from_the_line() {
    let DynamicEvent::Session(event) = parse_event(DELTA).unwrap() else { panic!("not a session event") };
    let Payload::Streaming(streaming) = event.payload else { panic!("not a stream event") };
    assert!(matches!(streaming.delta.unwrap().0, Cow::Borrowed("Hällo")));
    assert!(matches!(streaming.assistant_message_id.unwrap().0, Cow::Borrowed("m")));
    assert_eq!((event.seq, &*event.event_id, &*event.kind), (7, "e1", "model.streaming"));
}

#[test]
fn a_line_is_read_with_its_event_at_once() {
    let line = format!(r#"{{"subscription":4,"event":{DELTA}}}"#);
    let line: Line<'_, DynamicEvent<'_>> = serde_json::from_slice(line.as_bytes()).unwrap();
    assert!(matches!(
        line.classify().unwrap(),
        Classified::Event { subscription: 4, event: DynamicEvent::Session(event) } if event.seq == 7
    ));
}

#[test]
fn a_null_result_and_a_null_event_are_present() {
    let line: Line<'_> = serde_json::from_str(r#"{"id":1,"result":null}"#).unwrap();
    assert!(
        matches!(line.classify().unwrap(), Classified::Reply { id: 1, outcome: Ok(raw) } if raw.get() == "null")
    );
    let line: Line<'_> = serde_json::from_str(r#"{"subscription":1,"event":null}"#).unwrap();
    assert!(matches!(line.classify().unwrap(), Classified::Event { event, .. } if event.get() == "null"));
    let line: Line<'_> = serde_json::from_str(r#"{"subscription":1}"#).unwrap();
    assert!(line.classify().is_err());
}

#[test]
fn a_missing_member_is_named() {
    let missing = |event: Value, kind: &str, field: &str| {
        assert_eq!(
            parse_event(&event.to_string()).unwrap_err(),
            EventError::Missing { event: kind.to_owned(), field: field.to_owned() },
        );
    };
    missing(json!({"event": {}}), "an event without a type", "type");
    missing(json!({"type": "snapshot"}), "snapshot", "snapshot");
    missing(
        json!({"type": "permission.request", "request": {"requestId": "r"}}),
        "permission.request",
        "toolCallId",
    );
    missing(session("turn.completed", &json!({"inputId": "i"})), "turn.completed", "resultType");
    missing(
        json!({"type": "session.event", "event": {"type": "turn.failed", "eventId": "e", "sessionId": "s", "seq": 1}}),
        "turn.failed",
        "error",
    );
    missing(
        json!({"type": "session.event", "event": {"type": "session.closed", "eventId": "e", "sessionId": "s"}}),
        "session.closed",
        "seq",
    );
    missing(json!({"type": "session.event", "event": {"eventId": "e"}}), "session.event", "type");
    // The payload came first, so it was held and read later.
    assert_eq!(
        parse_event(r#"{"event":{"payload":{},"type":"turn.completed"},"type":"session.event"}"#)
            .unwrap_err(),
        EventError::Missing { event: "turn.completed".to_owned(), field: "resultType".to_owned() },
    );
}

#[test]
fn a_wrong_type_is_malformed_and_quotes_nothing() {
    let error = parse_event(&session("turn.completed", &json!({"resultType": {"CANARY": 1}})).to_string())
        .unwrap_err();
    assert_eq!(error, EventError::Malformed { event: "turn.completed".to_owned() });
    let error = parse_event(
        r#"{"type":"session.event","event":{"eventId":"e","sessionId":"s","seq":"CANARY","type":"x"}}"#,
    );
    assert!(!error.unwrap_err().to_string().contains("CANARY"));
}

#[test]
fn an_unknown_type_is_said_and_its_content_skipped() {
    for json in [r#"{"type":"new.thing","x":{"y":1}}"#, r#"{"x":{"y":1},"request":{},"type":"new.thing"}"#] {
        assert!(
            matches!(parse_event(json).unwrap(), DynamicEvent::Unknown(kind) if &*kind == "new.thing"),
            "{json}"
        );
    }
    let text = session("new.event", &json!([1])).to_string();
    let DynamicEvent::Session(event) = parse_event(&text).unwrap() else { panic!("not a session event") };
    assert!(matches!(event.payload, Payload::Other));
    assert_eq!(&*event.kind, "new.event");
}

#[test]
fn headers_in_a_session_update_are_not_kept() {
    let text = session(
        "session.updated",
        &json!({"requestHeaders": {"authorization": "CANARY"}, "content": "CANARY"}),
    );
    assert!(!format!("{:?}", parse_event(&text.to_string()).unwrap()).contains("CANARY"));
}

/// Writes a value with the members of every object in an order made from `seed`, and an unknown member in each.
fn shuffled(value: &Value, seed: u64, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            let mut state = seed;
            for at in (1..members.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                members.swap(at, usize::try_from(state >> 33).unwrap() % (at + 1));
            }
            out.push_str(r#"{"unknownMember":[{"type":"x"}]"#);
            for (key, value) in members {
                out.push(',');
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                shuffled(value, seed.rotate_left(7), out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type".to_owned()),
        Just("event".to_owned()),
        Just("payload".to_owned()),
        Just("session.event".to_owned()),
        Just("kind".to_owned()),
        Just("model.streaming".to_owned()),
        Just("snapshot".to_owned()),
        Just("seq".to_owned()),
        Just("request".to_owned()),
        Just("permission.request".to_owned()),
        Just("turn.failed".to_owned()),
        ".{0,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn order_of_members_does_not_matter(which in 0usize..22, seed in any::<u64>()) {
        let value = &samples()[which];
        let mut text = String::new();
        shuffled(value, seed, &mut text);
        let plain = value.to_string();
        // Parts that are passed on unread keep their own order, so they are compared without it.
        let normal = |text: &str| {
            let mut read = format!("{:?}", parse_event(text).unwrap());
            while let Some(at) = read.find("RawValue(") {
                let end = read[at..].find("),").map_or(read.len(), |end| at + end + 1);
                read.replace_range(at..end, "unread");
            }
            read
        };
        prop_assert_eq!(normal(&text), normal(&plain));
    }

    #[test]
    fn no_json_panics(value in json_value()) {
        let text = value.to_string();
        let _ = parse_event(&text);
        let _ = serde_json::from_str::<Line<'_, DynamicEvent<'_>>>(&text);
    }

    #[test]
    fn no_text_panics(text in ".{0,80}") {
        let _ = parse_event(&text);
    }

    #[test]
    fn a_cut_line_is_an_error(which in 0usize..22, share in 0usize..100) {
        let text = samples()[which].to_string();
        let mut end = text.len() * share / 100;
        while !text.is_char_boundary(end) { end -= 1; }
        prop_assert!(parse_event(&text[..end]).is_err());
    }
}

#[test]
fn there_are_as_many_samples_as_the_properties_assume() {
    assert_eq!(samples().len(), 22);
}
