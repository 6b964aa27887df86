use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{DiffHunk, ToolDisplay};

fn read(json: &Value) -> (HistoryMessage, usize) {
    let text = json.to_string();
    message(&serde_json::from_str(&text).unwrap())
}

fn shown(info: &Value) -> bool {
    let mut info = info.clone();
    info["messageId"] = json!("m");
    read(&json!({"info": info, "parts": [{"type": "text", "text": "t"}]})).0.shown
}

fn part_of(part: &Value) -> HistoryPart {
    let (message, unknown) = read(&json!({"info": {"messageId": "m", "role": "assistant"}, "parts": [part]}));
    assert_eq!(unknown, 0, "{part}");
    message.parts.into_iter().next().unwrap()
}

#[test]
fn only_words_of_people_and_of_the_model_are_shown() {
    let user = |semantics: &Value| json!({"role": "user", "semantics": semantics});
    for (info, expected) in [
        (json!({"role": "user"}), true),
        (json!({"role": "assistant"}), true),
        (json!({"role": "user", "visibility": "user-visible"}), true),
        (user(&json!({"origin": "real_user", "kind": "user_prompt", "uiVisibility": "visible"})), true),
        (user(&json!({"origin": "real_user", "kind": "slash_command"})), true),
        (json!({"role": "user", "synthetic": true}), false),
        (json!({"role": "user", "visibility": "model-only"}), false),
        (json!({"role": "assistant", "visibility": "model-only"}), false),
        (user(&json!({"origin": "agent_runtime", "kind": "user_prompt"})), false),
        (user(&json!({"origin": "system", "kind": "system_reminder"})), false),
        (user(&json!({"origin": "real_user", "kind": "compact_summary"})), false),
        (user(&json!({"origin": "real_user", "kind": "user_prompt", "uiVisibility": "hidden"})), false),
        (user(&json!({"origin": "real_user", "transcriptVisibility": "hidden"})), false),
        (
            json!({"role": "assistant", "semantics": {"origin": "agent_runtime", "kind": "assistant_response"}}),
            true,
        ),
        (
            json!({"role": "assistant", "semantics": {"origin": "agent_runtime", "kind": "compact_summary"}}),
            false,
        ),
        (json!({"role": "system"}), false),
        (json!({"role": 7}), false),
    ] {
        assert_eq!(shown(&info), expected, "{info}");
    }
}

#[test]
fn a_hidden_message_keeps_its_place_and_nothing_of_its_content() {
    let (message, unknown) = read(&json!({"info": {"messageId": "m9", "role": "user", "synthetic": true,
        "time": {"created": 17}}, "parts": [{"type": "text", "text": "CANARY"}, {"type": "novel"}]}));
    assert_eq!((&*message.id, message.shown, message.created_ms, unknown), ("m9", false, Some(17), 0));
    assert!(message.parts.is_empty());
}

#[test]
fn parts_that_are_not_for_people_are_skipped_and_unknown_ones_counted() {
    let (message, unknown) = read(&json!({"info": {"messageId": "m", "role": "user"}, "parts": [
        {"type": "step-start"}, {"type": "text", "text": "seen"}, {"type": "text", "text": "no", "synthetic": true},
        {"type": "text", "text": "no", "ignored": true}, {"type": "timeline", "timelineType": "model_change"},
        {"type": "hologram"}, {"type": "text"}, 7, {"text": "typeless"},
        {"type": "tool", "callId": "c", "tool": "Read", "state": {"status": "novel"}}]}));
    assert_eq!(unknown, 5);
    let seen: Vec<_> = message.parts.iter().filter(|part| **part != HistoryPart::Skipped).collect();
    assert_eq!(seen, [&HistoryPart::Text("seen".to_owned())]);
    assert_eq!(message.parts.len(), 10, "nothing changes its place");
}

#[test]
fn files_are_told_apart_by_where_their_bytes_are() {
    let file = |url: &str| match part_of(
        &json!({"type": "file", "mime": "image/png", "filename": "a.png", "url": url}),
    ) {
        HistoryPart::File { name, mime, source } => {
            assert_eq!((name.as_deref(), &*mime), (Some("a.png"), "image/png"));
            source
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(file("data:image/png;base64,AAAA"), HistoryFile::Data("AAAA".into()));
    assert_eq!(file("data:image/png;name=x;BASE64,AAAA"), HistoryFile::Data("AAAA".into()));
    assert_eq!(file("zcode-artifact://x/y"), HistoryFile::Artifact);
    assert_eq!(file("https://h/p"), HistoryFile::Link("https://h/p".to_owned()));
    for url in ["data:text/plain,hello", "nonsense"] {
        let (_, unknown) = read(&json!({"info": {"messageId": "m", "role": "user"},
            "parts": [{"type": "file", "mime": "text/plain", "url": url}]}));
        assert_eq!(unknown, 1, "{url}");
    }
}

fn tool_of(tool: &str, state: &Value) -> HistoryTool {
    match part_of(&json!({"type": "tool", "callId": "c", "tool": tool, "state": state})) {
        HistoryPart::Tool(tool) => tool,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stored_tool_call_has_the_result_it_had_live() {
    let done = tool_of(
        "Edit",
        &json!({"status": "completed", "input": {"file_path": "f"}, "output": "ok", "title": "Edit",
        "metadata": {"success": true, "display": {"kind": "file_diff", "filePath": "f", "structuredPatch":
            [{"oldStart": 1, "oldLines": 1, "newStart": 2, "newLines": 1, "lines": ["-a", "+b"]}]}}}),
    );
    assert_eq!((done.call.as_str(), &*done.tool, &done.input), ("c", "Edit", &json!({"file_path": "f"})));
    let hunks = vec![DiffHunk { old_start: 1, new_start: 2, lines: vec!["-a".to_owned(), "+b".to_owned()] }];
    let HistoryToolState::Completed(result) = done.state else { panic!("not over") };
    assert_eq!(result.display, Some(ToolDisplay::FileDiff { path: "f".to_owned(), hunks, truncated: false }));
    assert_eq!((result.success, &*result.content, result.exit_code), (true, "ok", None));

    let bash = tool_of(
        "Bash",
        &json!({"status": "completed", "output": "", "metadata": {"success": false,
        "display": {"kind": "bash_output", "status": "completed", "exitCode": 2}}}),
    );
    let HistoryToolState::Completed(result) = bash.state else { panic!("not over") };
    assert_eq!((result.success, result.exit_code), (false, Some(2)));

    let plain = tool_of("Grep", &json!({"status": "completed", "output": {"n": 1}}));
    let HistoryToolState::Completed(result) = plain.state else { panic!("not over") };
    assert_eq!((result.success, &*result.content), (true, r#"{"n":1}"#));

    let todo = tool_of(
        "TodoWrite",
        &json!({"status": "completed",
        "output": "{\"oldTodos\":[],\"todos\":[{\"content\":\"a\",\"status\":\"completed\"}],\"summary\":\"1\"}"}),
    );
    let HistoryToolState::Completed(result) = todo.state else { panic!("not over") };
    assert!(matches!(result.display, Some(ToolDisplay::Todos(todos)) if todos.len() == 1));

    assert_eq!(tool_of("Bash", &json!({"status": "pending", "raw": ""})).state, HistoryToolState::Pending);
    assert_eq!(tool_of("Bash", &json!({"status": "running", "input": {}})).state, HistoryToolState::Running);
    for error in [json!("boom"), json!({"message": "boom", "type": "E"})] {
        let failed = tool_of("Bash", &json!({"status": "error", "input": {}, "error": error}));
        assert_eq!(failed.state, HistoryToolState::Failed("boom".to_owned()));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        "[a-z:,/;]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "type",
        "text",
        "synthetic",
        "ignored",
        "mime",
        "url",
        "callId",
        "tool",
        "state",
        "status",
        "input",
        "output",
        "error",
        "metadata",
        "display",
        "kind",
        "role",
        "visibility",
        "semantics",
        "origin",
        "time",
        "created",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a history holds, a message with an id is read, and no part of it is lost or doubled.
    #[test]
    fn no_history_is_an_error(info in prop::collection::vec((name(), any_json()), 0..6),
                              parts in prop::collection::vec(any_json(), 0..6)) {
        let mut info: serde_json::Map<_, _> = info.into_iter().collect();
        info.insert("messageId".into(), json!("m"));
        let count = parts.len();
        let (message, unknown) = read(&json!({"info": info, "parts": parts}));
        prop_assert_eq!(message.parts.len(), if message.shown { count } else { 0 });
        prop_assert!(unknown <= message.parts.len());
    }
}
