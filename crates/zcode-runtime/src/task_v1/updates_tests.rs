use serde_json::{Value, json};

use super::*;

fn read(json: &Value) -> EventBody {
    let text = json.to_string();
    session_updated(&serde_json::from_str(&text).unwrap())
}

#[test]
fn a_background_task_keeps_its_call_to_the_end() {
    for (status, expected) in [
        ("running", TaskStatus::Running),
        ("completed", TaskStatus::Completed),
        ("failed", TaskStatus::Failed),
        ("timed_out", TaskStatus::TimedOut),
        ("cancelled", TaskStatus::Cancelled),
        ("spawn_error", TaskStatus::SpawnError),
        ("lost", TaskStatus::Lost),
    ] {
        let EventBody::BackgroundTask(task) = read(&json!({"taskId": "b", "toolCallId": "c",
            "toolName": "Bash", "status": status, "pid": 1, "outputTail": "x", "description": "Build"}))
        else {
            panic!("{status}: no task")
        };
        assert_eq!((&*task.task, task.call.as_str(), task.status), ("b", "c", expected));
        assert_eq!((task.description.as_deref(), task.tail.as_deref()), (Some("Build"), Some("x")));
        assert_eq!(task.status.is_final(), status != "running");
    }
    for other in [
        json!({"taskId": "b", "toolCallId": "c", "status": "pondering"}),
        json!({"taskId": "b", "status": "running"}),
        json!({"toolCallId": "c", "status": "running"}),
    ] {
        assert_eq!(read(&other), EventBody::Informational("session.updated"), "{other}");
    }
}

#[test]
fn a_compaction_is_followed_and_a_micro_compaction_is_not() {
    for kind in
        ["compaction_started", "compaction.started", "context_compaction_started", "compactionStarted"]
    {
        assert_eq!(read(&json!({"type": kind})), EventBody::Compaction(CompactionStage::Started), "{kind}");
    }
    assert_eq!(
        read(&json!({"type": "compaction_completed"})),
        EventBody::Compaction(CompactionStage::Completed)
    );
    for (error, said) in [
        (Value::Null, None),
        (json!("no room for Bearer abcdef123456"), Some("no room for Bearer [redacted]")),
        (json!({"message": "Turn execution failed", "underlyingErrorMessage": "too long"}), Some("too long")),
    ] {
        let expected = EventBody::Compaction(CompactionStage::Failed(said.map(str::to_owned)));
        assert_eq!(read(&json!({"type": "compaction_failed", "error": error})), expected);
    }
    for kind in ["compaction_boundary", "microcompaction_started", "microcompact", "model_request_started"] {
        assert_eq!(read(&json!({"type": kind})), EventBody::Informational("session.updated"), "{kind}");
    }
}

#[test]
fn a_retry_has_figures_and_nothing_of_the_request() {
    let update = |retry: &Value| {
        json!({"type": "model_request_completed", "attempt": 1,
            "requestHeaders": {"authorization": "Bearer CANARY"}, "responseHeaders": {"set-cookie": "CANARY"},
            "_meta": {"zcode": {"apiRetry": retry}}})
    };
    let body = read(&update(&json!({"kind": "api_retry", "attempt": 2, "maxRetries": 10,
        "retryDelayMs": 1500, "errorStatus": 529, "error": "CANARY"})));
    let expected = Retry { attempt: 2, max: Some(10), delay: Duration::from_millis(1500), status: Some(529) };
    assert_eq!(body, EventBody::Retry(expected));
    assert!(!format!("{body:?}").contains("CANARY"));
    let body = read(&update(&json!({"attempt": 1, "retryDelayMs": -5.5, "errorStatus": null})));
    assert_eq!(body, EventBody::Retry(Retry { attempt: 1, max: None, delay: Duration::ZERO, status: None }));
    let EventBody::Retry(long) = read(&update(&json!({"attempt": 1, "retryDelayMs": 1e300}))) else {
        panic!("no retry")
    };
    assert_eq!(long.delay, Duration::from_hours(24));
    assert_eq!(read(&update(&json!({"attempt": "x"}))), EventBody::Informational("session.updated"));
}

#[test]
fn only_the_main_turn_says_how_full_the_context_is() {
    let update = |source: &str| {
        json!({"querySource": source, "contextWindow": 100, "content": "CANARY",
            "usage": {"totalTokens": 7, "inputTokens": 5, "outputTokens": 2}})
    };
    let EventBody::Facts(facts) = read(&update("main_turn")) else { panic!("no facts") };
    assert_eq!(facts.context, Some(ContextUsage { used: 7, size: 100 }));
    for source in ["title_generation", "subagent", ""] {
        assert_eq!(read(&update(source)), EventBody::Informational("session.updated"), "{source}");
    }
}
