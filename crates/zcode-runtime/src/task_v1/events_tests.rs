use runtime_discovery::Contract;
use serde_json::json;

use super::super::read_event;

use super::*;
use crate::model::{
    ContextUsage, Decision, DiffHunk, ToolDisplay, ToolEvent, ToolImage, ToolResult, ToolStage,
};

fn neutral_with(memory: &mut Memory, json: &Value) -> Option<HostEvent> {
    let text = json.to_string();
    TaskV1::new(Contract::embedded()).neutral(read_event(&text), memory).event
}

fn neutral(json: &Value) -> Option<HostEvent> {
    neutral_with(&mut Memory::default(), json)
}

fn wire(kind: &str, payload: &Value) -> Value {
    json!({"type": "session.event",
        "event": {"eventId": "e", "sessionId": "s", "turnId": "t", "seq": 9, "type": kind, "payload": payload}})
}

fn body(kind: &str, payload: &Value) -> EventBody {
    match neutral(&wire(kind, payload)) {
        Some(HostEvent::Event(event)) => {
            assert_eq!((event.seq, &*event.id, event.turn.as_deref()), (9, "e", Some("t")));
            event.body
        }
        other => panic!("{kind} {payload}: {other:?}"),
    }
}

fn what(json: &Value) -> String {
    match neutral(json) {
        Some(HostEvent::Violation(violation)) => violation.what,
        other => panic!("{json}: {other:?}"),
    }
}

#[test]
fn content_is_copied_out() {
    assert_eq!(
        body("model.streaming", &json!({"kind": "text_delta", "delta": "a\nb", "assistantMessageId": "m"})),
        EventBody::Text { message: Some("m".into()), delta: "a\nb".to_owned() },
    );
    assert_eq!(
        body("model.streaming", &json!({"kind": "reasoning_delta", "delta": "x"})),
        EventBody::Thought { message: None, delta: "x".to_owned() },
    );
}

#[test]
fn a_tool_call_is_followed_through_its_stages() {
    let tool = |payload: &Value| match body("tool.updated", payload) {
        EventBody::Tool(event) => event,
        other => panic!("{other:?}"),
    };
    let scheduled =
        tool(&json!({"kind": "scheduled", "toolCallId": "c", "toolName": "Read", "input": {"a": 1},
        "parentToolCallId": "p", "agentId": "g"}));
    assert_eq!(scheduled.stage, ToolStage::Scheduled { input: Some(json!({"a": 1})) });
    assert_eq!((scheduled.parent, scheduled.agent.as_deref()), (Some("p".into()), Some("g")));
    let omitted = tool(
        &json!({"kind": "scheduled", "toolCallId": "c", "toolName": "Read", "inputOmitted": true, "input": {}}),
    );
    assert_eq!(omitted.stage, ToolStage::Scheduled { input: None });
    assert_eq!(tool(&json!({"kind": "started", "toolCallId": "c"})).stage, ToolStage::Started);
    assert_eq!(
        tool(&json!({"kind": "progress", "toolCallId": "c", "stdoutTail": "a", "stderrTail": "b", "outputBytes": 2})).stage,
        ToolStage::Progress { tail: Some("a\nb".to_owned()), total_bytes: Some(2) },
    );
    let result = tool(
        &json!({"kind": "result", "toolCallId": "c", "result": {"success": true, "content": "ok",
        "display": {"kind": "file_diff", "filePath": "f", "structuredPatch":
            [{"oldStart": 1, "newStart": 2, "lines": ["-a", "+b"]}]}, "perf": {"exitCode": 3}, "truncated": true}}),
    );
    assert_eq!(
        result.stage,
        ToolStage::Result(ToolResult {
            success: true,
            content: "ok".to_owned(),
            display: Some(ToolDisplay::FileDiff {
                path: "f".to_owned(),
                hunks: vec![DiffHunk {
                    old_start: 1,
                    new_start: 2,
                    lines: vec!["-a".to_owned(), "+b".to_owned()]
                }],
                truncated: false,
            }),
            exit_code: Some(3),
            truncated: true,
            original_bytes: None,
        }),
    );
    let background = json!({"kind": "result", "toolCallId": "c", "result":
        {"success": true, "content": [1], "display": {"kind": "bash_output", "status": "backgrounded"}}});
    let ToolStage::Result(background) = tool(&background).stage else { panic!("no result") };
    assert_eq!((background.display, &*background.content), (Some(ToolDisplay::Backgrounded), "[1]"));
    let error = |error: Value| tool(&json!({"kind": "error", "toolCallId": "c", "error": error})).stage;
    assert_eq!(error(json!("boom")), ToolStage::Failed { error: "boom".to_owned() });
    assert_eq!(error(json!({"message": "bang"})), ToolStage::Failed { error: "bang".to_owned() });
    assert_eq!(
        body("tool.updated", &json!({"kind": "batch", "toolCallIds": []})),
        EventBody::Informational("tool.updated")
    );
}

#[test]
fn every_result_of_the_contract_ends_a_turn_as_it_says() {
    for (result, class) in &Contract::embedded().protocol.turn_results {
        let EventBody::TurnEnded { result: found, input, .. } =
            body("turn.completed", &json!({"resultType": result, "inputId": "i"}))
        else {
            panic!("{result}: not an end")
        };
        assert_eq!(input, Some("i".into()));
        let same = match class {
            TurnResultClass::EndTurn => found == TurnResult::EndTurn,
            TurnResultClass::MaxTokens => found == TurnResult::MaxTokens,
            TurnResultClass::MaxTurnRequests => found == TurnResult::MaxTurnRequests,
            TurnResultClass::Refusal => found == TurnResult::Refusal,
            TurnResultClass::Cancelled => found == TurnResult::Cancelled,
            TurnResultClass::Error => matches!(found, TurnResult::Error(_)),
        };
        assert!(same, "{result}: {found:?}");
    }
}

#[test]
fn every_type_and_kind_of_the_contract_is_accepted() {
    let contract = Contract::embedded();
    // Enough members for any of them.
    let payload = json!({"kind": "text_delta", "delta": "d", "toolCallId": "c", "resultType": "success", "error": {},
        "title": "t", "pendingInputId": "p", "pendingInputIds": [], "targetTurnId": "t", "requestId": "r",
        "result": {"success": true}});
    for kind in contract.protocol.session_events.keys() {
        let mut payload = payload.clone();
        if kind == "tool.updated" {
            payload["kind"] = "started".into();
        }
        body(kind, &payload);
    }
    for kind in contract.protocol.model_stream_kinds.keys() {
        let mut payload = payload.clone();
        payload["kind"] = kind.as_str().into();
        body("model.streaming", &payload);
    }
    for kind in contract.protocol.tool_update_kinds.keys() {
        let mut payload = payload.clone();
        payload["kind"] = kind.as_str().into();
        body("tool.updated", &payload);
    }
}

#[test]
fn what_the_contract_does_not_have_is_a_violation_and_quotes_no_payload() {
    assert_eq!(what(&json!({"type": "new.thing", "x": "CANARY"})), "event type new.thing");
    assert_eq!(what(&wire("turn.exploded", &json!({"x": "CANARY"}))), "event type turn.exploded");
    assert_eq!(
        what(&wire("model.streaming", &json!({"kind": "image_delta", "delta": "CANARY"}))),
        "model.streaming kind image_delta"
    );
    assert_eq!(what(&wire("tool.updated", &json!({"kind": "paused"}))), "tool.updated kind paused");
    assert_eq!(
        what(&wire("turn.completed", &json!({"resultType": "CANARY and\nmore"}))),
        "turn result CANARY?and?more"
    );
    assert_eq!(what(&wire("turn.completed", &json!({}))), "turn.completed lacks resultType");
    assert_eq!(
        what(&wire("model.streaming", &json!({"kind": "text_delta"}))),
        "model.streaming text_delta lacks delta"
    );
    assert_eq!(
        what(&wire("tool.updated", &json!({"kind": "started"}))),
        "tool.updated started lacks toolCallId"
    );
    assert_eq!(
        what(&wire("tool.updated", &json!({"kind": "result", "toolCallId": "c"}))),
        "tool.updated result lacks result"
    );
    assert_eq!(what(&json!(null)), "an event without a type is malformed");
}

#[test]
fn a_permission_keeps_the_hosts_options_and_says_what_they_do() {
    let request = |decision: &str| {
        json!({"type": "permission.request", "request": {
        "requestId": "r", "toolCallId": "c", "toolName": "Bash", "input": {"command": "ls"},
        "origin": {"kind": "subagent"}, "options": [
            {"optionId": "a", "kind": "allow_always", "name": "Always",
             "response": {"decision": decision, "permissionUpdates": [{}]}},
            {"optionId": "d", "kind": "deny", "name": "Deny", "response": {"decision": "deny"}}]}})
    };
    let Some(HostEvent::Permission(ask)) = neutral(&request("allow")) else { panic!("no permission") };
    assert!(ask.subagent);
    let options: Vec<_> =
        ask.options.iter().map(|o| (&*o.id, o.decision, o.lasting, &*o.native_kind)).collect();
    assert_eq!(options, [("a", Decision::Allow, true, "allow_always"), ("d", Decision::Deny, false, "deny")]);
    assert_eq!(what(&request("obey")), "permission decision obey");
}

#[test]
fn a_plan_is_told_from_a_question() {
    let ask = |schema: Value| match neutral(&json!({"type": "userInput.request", "request": {
        "requestId": "r", "questions": [{"question": "Q", "options": [{"label": "L"}]}], "input": {"plan": "# P"},
        "schema": schema}}))
    {
        Some(HostEvent::Input(ask)) => ask,
        other => panic!("{other:?}"),
    };
    let plan = ask(json!({"toolName": "ExitPlanMode", "interaction": "plan_approval"}));
    assert_eq!((plan.interaction.as_deref(), plan.plan.as_deref()), (Some("plan_approval"), Some("# P")));
    assert_eq!(plan.questions[0].options[0].value, "L");
    let question = ask(json!({"toolName": "AskUserQuestion"}));
    assert_eq!((question.interaction, question.plan), (None, None));
}

#[test]
fn a_drained_input_is_named_by_its_own_id() {
    let mut memory = Memory::default();
    neutral_with(&mut memory, &wire("turn.steerQueued", &json!({"pendingInputId": "p", "inputId": "i"})));
    let drained = wire("turn.steerDrained", &json!({"pendingInputIds": ["p", "q"], "targetTurnId": "t2"}));
    let Some(HostEvent::Event(event)) = neutral_with(&mut memory, &drained) else { panic!("no event") };
    assert_eq!(event.body, EventBody::Steered { inputs: vec!["i".into(), "q".into()], target: "t2".into() });
    assert!(memory.queued.is_empty());
}

#[test]
fn only_what_concerns_the_session_becomes_a_fact() {
    let state = |scope: &str| {
        neutral(&json!({"type": "state.updated", "notification":
            {"scope": scope, "patch": {"mode": {"current": "yolo"}, "slashCommands": [{"name": "/compact"}]}}}))
    };
    let Some(HostEvent::Facts(facts)) = state("workspace") else { panic!("no facts") };
    assert_eq!((facts.mode, facts.commands.unwrap()[0].name.as_ref()), (None, "compact"));
    let Some(HostEvent::Facts(facts)) = state("session") else { panic!("no facts") };
    assert_eq!(facts.mode.as_deref(), Some("yolo"));
    assert_eq!(
        neutral(&json!({"type": "state.updated", "notification": {"scope": "server", "patch": {"x": 1}}})),
        None
    );
    // A request about the session's own mode says the mode before; another update that mentions one is no change.
    assert_eq!(
        body("session.updated", &json!({"mode": "plan", "previousMode": "build"})),
        EventBody::Facts(SessionFacts { mode: Some("plan".into()), ..SessionFacts::default() }),
    );
    assert_eq!(
        body("session.updated", &json!({"mode": "plan"})),
        EventBody::Informational("session.updated")
    );
    let usage = json!({"querySource": "main_turn", "contextWindow": 100, "usage": {"inputTokens": 5, "outputTokens": 2}});
    let EventBody::Facts(facts) = body("session.updated", &usage) else { panic!("no facts") };
    assert_eq!(facts.context, Some(ContextUsage { used: 7, size: 100 }));
}

#[test]
fn a_snapshot_is_the_boundary_and_holds_what_is_open() {
    let snapshot = |status: &str| match neutral(&json!({"type": "snapshot", "snapshot": {
        "session": {"sessionId": "s", "title": "New", "titleSource": "default", "mode": "build", "status": status},
        "projection": {"pendingPermissions": [
            {"requestId": "r", "toolCallId": "c", "toolName": "Bash", "options": []}, {"half": true}]},
        "runtime": {"eventSeq": 41}}}))
    {
        Some(HostEvent::Snapshot(snapshot)) => snapshot,
        other => panic!("{other:?}"),
    };
    let idle = snapshot("idle");
    assert_eq!((idle.event_seq, idle.running, idle.pending.len()), (41, false, 1));
    assert_eq!((idle.facts.mode.as_deref(), idle.facts.title), (Some("build"), None));
    assert!(snapshot("running").running);
}

#[test]
fn a_failed_turn_is_worded() {
    let EventBody::TurnFailed { failure, input } =
        body("turn.failed", &json!({"inputId": "i", "error": {"attribution": {"statusCode": 429}}}))
    else {
        panic!("no failure")
    };
    assert_eq!((failure.code, input), (ErrorCode::RateLimited, Some("i".into())));
}

#[test]
fn a_background_turn_belongs_to_no_prompt() {
    assert_eq!(
        body("turn.started", &json!({"inputSource": "background_task", "inputVisibility": "model-only"})),
        EventBody::TurnStarted { input: None, background: true },
    );
    assert_eq!(
        body("turn.started", &json!({"inputId": "i"})),
        EventBody::TurnStarted { input: Some("i".into()), background: false },
    );
}

#[test]
fn tokens_of_a_turn_are_told_only_when_there_are_some() {
    let usage = |payload: &Value| match body("turn.completed", payload) {
        EventBody::TurnEnded { usage, .. } => usage,
        other => panic!("{other:?}"),
    };
    let counted = json!({"resultType": "success", "usage": {"source": "provider", "inputTokens": 5,
        "outputTokens": 2, "totalTokens": 7, "cacheReadTokens": 4, "reasoningTokens": 1}});
    assert_eq!(
        usage(&counted),
        Some(TurnUsage {
            total: 7,
            input: 5,
            output: 2,
            thought: Some(1),
            cached_read: Some(4),
            cached_write: None
        })
    );
    for none in [
        json!({"resultType": "success"}),
        json!({"resultType": "success", "usage": null}),
        json!({"resultType": "success", "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}}),
        json!({"resultType": "success", "usage": {"totalTokens": 7}}),
        json!({"resultType": "success", "usage": "much"}),
    ] {
        assert_eq!(usage(&none), None, "{none}");
    }
}

#[test]
fn a_resumed_history_says_how_many_messages_it_has() {
    let resumed = |payload: &Value| body("session.resumed", payload);
    assert_eq!(resumed(&json!({"messageCount": 3})), EventBody::SessionResumed { message_count: Some(3) });
    assert_eq!(resumed(&json!({})), EventBody::SessionResumed { message_count: None });
}

fn display_of(memory: &mut Memory, result: &Value) -> Option<ToolDisplay> {
    let event = wire("tool.updated", &json!({"kind": "result", "toolCallId": "c", "result": result}));
    match neutral_with(memory, &event) {
        Some(HostEvent::Event(SessionEvent { body: EventBody::Tool(tool), .. })) => match tool.stage {
            ToolStage::Result(result) => result.display,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_todo_tool_replaces_the_list_and_nothing_else_does() {
    let output =
        json!({"oldTodos": [], "todos": [{"content": "a", "status": "in_progress"}], "summary": "1"});
    let result = |content: Value| json!({"success": true, "content": content});
    let known = |more: &Value| {
        let mut memory = Memory::default();
        let mut scheduled = json!({"kind": "scheduled", "toolCallId": "c", "toolName": "TodoWrite"});
        scheduled.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        neutral_with(&mut memory, &wire("tool.updated", &scheduled));
        memory
    };
    for content in [output.clone(), json!(output.to_string())] {
        let display = display_of(&mut known(&json!({})), &result(content));
        assert!(
            matches!(display, Some(ToolDisplay::Todos(todos)) if todos[0].status == crate::model::TodoStatus::InProgress)
        );
    }
    let shown = json!({"success": true, "content": "ok", "display": {"kind": "todo", "todos": []}});
    assert_eq!(display_of(&mut known(&json!({})), &shown), Some(ToolDisplay::Todos(Vec::new())));
    let failed = json!({"success": false, "content": output.to_string()});
    assert_eq!(display_of(&mut known(&json!({})), &failed), None);
    // A file that looks like one, and the list of a subagent.
    assert_eq!(display_of(&mut Memory::default(), &result(output.clone())), None);
    let mut subagent = known(&json!({"parentToolCallId": "p", "agentId": "g"}));
    assert_eq!(display_of(&mut subagent, &result(output)), None);
}

#[test]
fn images_of_a_tool_are_handed_on() {
    let display = json!({"success": true, "content": "", "display": {"kind": "node_repl_images",
        "images": [{"base64": "AAAA", "mimeType": "image/png"}]}});
    let image = ToolImage { mime: "image/png".to_owned(), data: "AAAA".into() };
    assert_eq!(display_of(&mut Memory::default(), &display), Some(ToolDisplay::Images(vec![image])));
}

fn of_session() -> Memory {
    Memory::of(&"s".into(), std::path::Path::new("/w"))
}

fn permission(session: &str, more: &Value) -> Value {
    let mut request = json!({"requestId": "r", "sessionId": session, "toolCallId": "c", "toolName": "Bash",
        "options": [{"optionId": "yes", "name": "Yes", "response": {"decision": "allow"}},
                    {"optionId": "no", "name": "No", "response": {"decision": "deny"}}]});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"type": "permission.request", "request": request})
}

#[test]
fn what_is_about_another_session_is_dropped_and_counted() {
    let subagent = json!({"origin": {"kind": "subagent", "childSessionId": "child"}});
    let mut foreign = wire("session.closed", &json!({}));
    foreign["event"]["sessionId"] = json!("other");
    let state = |scope: &str, session: &str| {
        json!({"type": "state.updated", "notification": {"scope": scope, "sessionId": session,
            "patch": {"slashCommands": [{"name": "x"}]}}})
    };
    let input = |session: &str| json!({"type": "userInput.request", "request": {"requestId": "r", "sessionId": session}});
    let broken = json!({"type": "permission.request", "request": {"requestId": "r", "sessionId": "other"}});
    let mut memory = of_session();
    let dropped =
        [foreign, permission("other", &json!({})), state("session", "other"), input("other"), broken];
    for (count, event) in (1..).zip(dropped) {
        assert_eq!(neutral_with(&mut memory, &event), None, "{event}");
        assert_eq!(memory.foreign, count, "{event}");
    }
    for event in [
        wire("session.closed", &json!({})),
        permission("s", &json!({})),
        permission("child", &subagent),
        state("session", "s"),
        state("workspace", "other"),
        input("s"),
    ] {
        assert!(neutral_with(&mut memory, &event).is_some(), "{event}");
    }
}

#[test]
fn a_question_outside_the_contract_is_a_violation_and_is_refused() {
    let refused = |event: &Value| {
        let text = event.to_string();
        let neutral = TaskV1::new(Contract::embedded()).neutral(read_event(&text), &mut of_session());
        assert!(matches!(neutral.event, Some(HostEvent::Violation(_))), "{event}");
        neutral.refuse
    };
    let denied = Some(RefusedAsk::Permission("r".into(), Some("no".into())));
    let novel = json!({"options": [{"optionId": "maybe", "name": "?", "response": {"decision": "ponder"}},
        {"optionId": "no", "name": "No", "response": {"decision": "deny"}}]});
    assert_eq!(refused(&permission("s", &novel)), denied);
    assert_eq!(refused(&permission("s", &json!({"toolName": null}))), denied);
    assert_eq!(
        refused(&permission("s", &json!({"options": "none"}))),
        Some(RefusedAsk::Permission("r".into(), None))
    );
    let pending = permission("s", &novel)["request"].clone();
    let snapshot = json!({"type": "snapshot", "snapshot": {"session": {"sessionId": "s"}, "runtime": {"eventSeq": 1},
        "projection": {"pendingPermissions": [permission("s", &json!({}))["request"], pending]}}});
    assert_eq!(refused(&snapshot), denied, "one that is open since before the subscription");
    let ask = |kind: &str, request: Value| json!({"type": kind, "request": request});
    let input = ask("userInput.request", json!({"requestId": "r", "questions": [{"header": "H"}]}));
    assert_eq!(refused(&input), Some(RefusedAsk::Input("r".into())));
    assert_eq!(refused(&ask("userInput.request", json!({"questions": []}))), None, "nothing to answer under");
    assert_eq!(refused(&ask("novel.request", json!({"requestId": "r"}))), None);
}

#[test]
fn an_input_of_unknown_interaction_is_still_asked() {
    let event = json!({"type": "userInput.request", "request": {"requestId": "r", "sessionId": "s",
        "schema": {"interaction": "hologram"}, "questions": []}});
    let Some(HostEvent::Input(ask)) = neutral_with(&mut of_session(), &event) else { panic!("no question") };
    assert_eq!(ask.interaction.as_deref(), Some("hologram"));
}

#[test]
fn the_error_of_a_tool_is_the_message_that_says_most() {
    let error = |error: Value| match body(
        "tool.updated",
        &json!({"kind": "error", "toolCallId": "c", "error": error}),
    ) {
        EventBody::Tool(ToolEvent { stage: ToolStage::Failed { error }, .. }) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        error(json!({"type": "E", "message": "UNKNOWN_ERROR", "underlyingErrorMessage": "no such file"})),
        "no such file"
    );
    assert_eq!(error(json!({"message": "Turn execution failed"})), "Turn execution failed");
    assert_eq!(error(json!({"odd": 1})), r#"{"odd":1}"#);
    assert_eq!(error(Value::Null), "");
}
