//! Turns over the bridge wire: every built-in scenario, stops, asks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    clippy::type_complexity
)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use simulator::{ScenarioSource, SimOptions, builtin, crash_code};
use support::{Answers, Got, Wire, is_end, options, result, text, tool_kinds};

async fn play(name: &str, prompt: &str, answers: &Answers) -> (Vec<Value>, Wire, tempfile::TempDir) {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some(name), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, prompt).await;
    let events = wire.turn(&session, answers).await;
    (events, wire, state)
}

#[tokio::test(start_paused = true)]
async fn every_scenario_runs_to_its_own_end() {
    for scenario in builtin() {
        let name = scenario.name();
        // These have no end, or no session to begin with; they have tests of their own.
        if ["silence", "host-hang", "no-snapshot", "not-signed-in", "crash-mid-turn", "garbage", "huge-frame"]
            .contains(&name)
        {
            continue;
        }
        let (events, wire, _state) = play(name, "run 20", &Answers::yes()).await;
        let expected = match name {
            "sign-in-expired" | "rate-limit" | "overload" | "quota" | "balance" | "context-too-long"
            | "model-unknown" | "network" | "captcha" => "failed",
            "max-turns" => "error_max_turns",
            "refusal" => "refusal",
            _ => "success",
        };
        assert_eq!(result(&events), expected, "{name}");
        assert_eq!(events[0]["type"], "snapshot", "{name}");
        wire.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn failures_carry_their_attribution() {
    let (events, ..) = play("rate-limit", "x", &Answers::yes()).await;
    let error = &events.last().unwrap()["event"]["payload"]["error"];
    assert_eq!(error["message"], "Turn execution failed");
    assert_eq!(error["attribution"]["statusCode"], 429);
    assert_eq!(error["attribution"]["providerErrorCode"], "1302");
    let (events, ..) = play("captcha", "x", &Answers::yes()).await;
    assert_eq!(events.last().unwrap()["event"]["payload"]["error"]["code"], -32031);
}

#[tokio::test(start_paused = true)]
async fn the_prompt_chooses_and_one_host_serves_all() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(None, state.path())).await;
    let session = wire.session().await;
    for (prompt, expected) in [
        ("hello", &[][..]),
        ("use a tool", &["scheduled", "started", "result", "batch"][..]),
        ("term ls -l", &["scheduled", "started", "progress", "progress", "progress", "result", "batch"][..]),
    ] {
        wire.prompt(&session, prompt).await;
        let events = wire.turn(&session, &Answers::yes()).await;
        assert_eq!(tool_kinds(&events), expected, "{prompt}");
        assert_eq!(result(&events), "success");
        assert!(!text(&events).is_empty());
    }
    wire.prompt(&session, "what about this").await;
    let events = wire.turn(&session, &Answers::yes()).await;
    assert!(events.iter().any(|event| event["event"]["type"] == "session.titleUpdated"));
    assert!(events.iter().any(|event| event["event"]["payload"]["kind"] == "reasoning_delta"));
}

#[tokio::test(start_paused = true)]
async fn numbers_rise_and_the_snapshot_is_their_boundary() {
    let (events, ..) = play("tour", "x", &Answers::yes()).await;
    let boundary = events[0]["snapshot"]["runtime"]["eventSeq"].as_u64().unwrap();
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["event"]["seq"].as_u64()).collect();
    assert!(numbers[0] > boundary);
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
}

#[tokio::test(start_paused = true)]
async fn a_denied_edit_fails_and_the_turn_says_so() {
    let (events, ..) = play("edit", "perm", &Answers::no()).await;
    assert_eq!(tool_kinds(&events), ["scheduled", "error"]);
    assert!(text(&events).contains("was not run"));
    assert_eq!(result(&events), "success");
    let (events, ..) = play("edit", "perm", &Answers { permission: "nope", ..Answers::yes() }).await;
    assert_eq!(tool_kinds(&events), ["scheduled", "error"], "an unknown option is a denial");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_every_kind_of_step() {
    // What is seen just before the stop: text, an ask, a running tool, a question, headers, a pause, silence.
    let cases: [(&str, &dyn Fn(&Value) -> bool); 8] = [
        ("slow", &|event| event["event"]["payload"]["kind"] == "text_delta"),
        ("edit", &|event| event["type"] == "permission.request"),
        ("bash", &|event| event["event"]["payload"]["kind"] == "progress"),
        ("question", &|event| event["type"] == "userInput.request"),
        ("plan", &|event| event["type"] == "userInput.request"),
        ("captcha", &|event| event["type"] == "providerRuntimeHeaders.request"),
        ("silence", &|event| event["event"]["payload"]["kind"] == "text_delta"),
        ("retry", &|event| event["event"]["payload"]["type"] == "model_request_completed"),
    ];
    for (name, seen) in cases {
        let state = tempfile::tempdir().unwrap();
        let mut wire = Wire::start(options(Some(name), state.path())).await;
        let session = wire.session().await;
        wire.prompt(&session, "term true").await;
        let mut events = Vec::new();
        loop {
            let event = wire.event().await.unwrap();
            if event["type"] == "permission.request" && name == "bash" {
                let request = &event["request"]["requestId"];
                let params = json!({ "taskId": session, "requestId": request, "optionId": "allow_once" });
                wire.task("respondPermission", params).await;
            }
            let now = seen(&event);
            events.push(event);
            if now {
                break;
            }
        }
        let begun = tokio::time::Instant::now();
        wire.task("stopGeneration", json!({ "taskId": session })).await;
        let rest = wire.until(is_end).await;
        assert_eq!(result(&rest), "cancelled", "{name}");
        assert!(begun.elapsed() < Duration::from_millis(500), "{name}");
        let open: Vec<&Value> = events
            .iter()
            .chain(&rest)
            .filter(|event| event["event"]["payload"]["kind"] == "scheduled")
            .collect();
        let closed = events
            .iter()
            .chain(&rest)
            .filter(|event| matches!(event["event"]["payload"]["kind"].as_str(), Some("result" | "error")))
            .count();
        assert_eq!(open.len(), closed, "{name}: every call has an end");
        for ask in events.iter().filter(|event| event["type"] == "permission.request") {
            let request = &ask["request"]["requestId"];
            assert!(
                events.iter().chain(&rest).any(|event| event["event"]["type"] == "permission.resolved"
                    && event["event"]["payload"]["requestId"] == *request),
                "{name}"
            );
        }
        // The session is usable at once.
        wire.prompt(&session, "again").await;
        wire.task("stopGeneration", json!({ "taskId": session })).await;
        wire.until(is_end).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_ask_is_announced_every_second_with_one_id() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("duplicate-ask"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    let asked = |event: &Value| event["type"] == "permission.request";
    let first = wire.until(asked).await.pop().unwrap();
    let begun = tokio::time::Instant::now();
    // Two more at once, then one a second.
    for _ in 0..5 {
        let again = wire.until(asked).await.pop().unwrap();
        assert_eq!(again, first);
    }
    let passed = begun.elapsed();
    assert!(passed >= Duration::from_secs(3) && passed < Duration::from_secs(4), "{passed:?}");
    let pending = wire.agent("readSession", json!({ "sessionId": session })).await;
    assert_eq!(pending["projection"]["pendingPermissions"], json!([first["request"]]));
    assert_eq!(pending["session"]["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_question_answers_itself_after_five_minutes() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("question"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    let asked = wire.until(|event| event["type"] == "userInput.request").await.pop().unwrap();
    let begun = tokio::time::Instant::now();
    let gone = wire.until(|event| event["type"] == "userInput.response").await.pop().unwrap();
    assert_eq!(gone["requestId"], asked["request"]["requestId"]);
    assert!(begun.elapsed() >= Duration::from_secs(299));
    let params = json!({ "taskId": session, "requestId": gone["requestId"], "action": "decline" });
    assert_eq!(wire.task("respondElicitation", params).await, false);
    assert_eq!(result(&wire.until(is_end).await), "success");
}

#[tokio::test(start_paused = true)]
async fn an_approved_plan_goes_back_to_the_mode_before() {
    let (events, mut wire, _state) = play("plan", "x", &Answers::yes()).await;
    let modes: Vec<&str> = events
        .iter()
        .filter(|event| event["event"]["payload"].get("previousMode").is_some())
        .filter_map(|event| event["event"]["payload"]["mode"].as_str())
        .collect();
    assert_eq!(modes, ["plan", "build"]);
    let list = wire.agent("listSessions", json!({ "includeArchived": false })).await;
    assert_eq!(list[0]["mode"], "build");
    let (events, mut wire, _state) = play("plan", "x", &Answers::no()).await;
    assert!(text(&events).contains("not approved"));
    let list = wire.agent("listSessions", json!({ "includeArchived": false })).await;
    assert_eq!(list[0]["mode"], "plan");
}

#[tokio::test(start_paused = true)]
async fn a_background_task_starts_a_turn_of_its_own() {
    let (events, mut wire, _state) = play("background", "x", &Answers::yes()).await;
    assert_eq!(result(&events), "success");
    let events = wire.until(is_end).await;
    let started = events.iter().find(|event| event["event"]["type"] == "turn.started").unwrap();
    assert_eq!(started["event"]["payload"]["inputSource"], "background_task");
    assert!(started["event"]["payload"].get("inputId").is_none());
    assert!(text(&events).contains("has finished"));
}

#[tokio::test(start_paused = true)]
async fn modes_and_rules_decide_what_is_asked() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("edit"), state.path())).await;
    let session = wire.session().await;
    let asks = |events: &[Value]| events.iter().filter(|event| event["type"] == "permission.request").count();
    wire.agent("setMode", json!({ "sessionId": session, "mode": "edit" })).await;
    wire.prompt(&session, "x").await;
    assert_eq!(asks(&wire.turn(&session, &Answers::yes()).await), 0);
    wire.agent("setMode", json!({ "sessionId": session, "mode": "build" })).await;
    wire.prompt(&session, "x").await;
    let always = Answers { permission: "allow_project", ..Answers::yes() };
    assert_eq!(asks(&wire.turn(&session, &always).await), 1);
    wire.prompt(&session, "x").await;
    assert_eq!(asks(&wire.turn(&session, &Answers::yes()).await), 0, "the rule is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_crash_delivers_what_came_before_and_ends_the_stream() {
    let state = tempfile::tempdir().unwrap();
    let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = lines.clone();
    let stderr = simulator::StderrSink::new(move |line| sink.lock().unwrap().push(line.to_owned()));
    let options = SimOptions { stderr: Some(stderr), ..options(Some("crash-mid-turn"), state.path()) };
    let mut wire = Wire::start(options).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    let mut events = Vec::new();
    while let Some(event) = wire.event().await {
        events.push(event);
    }
    assert_eq!(tool_kinds(&events), ["scheduled", "started"]);
    let error = wire.server.await.unwrap().unwrap_err();
    assert_eq!(crash_code(&error), Some(134));
    assert_eq!(*lines.lock().unwrap(), ["FATAL ERROR: simulated crash"]);
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_wire() {
    let (events, wire, _state) = play("stdout-noise", "x", &Answers::yes()).await;
    assert_eq!(result(&events), "success");
    assert_eq!(wire.noise.len(), 4);

    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("garbage"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    let broken = loop {
        match wire.line().await {
            Got::Broken(line) => break line,
            Got::End => panic!("no broken line"),
            _ => {}
        }
    };
    assert!(broken.starts_with("{\"subscription\""));

    let (events, ..) = play("seq-disorder", "x", &Answers::yes()).await;
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["event"]["seq"].as_u64()).collect();
    assert!(numbers.windows(2).any(|pair| pair[1] == pair[0]), "a repeated number");
    assert!(numbers.windows(2).any(|pair| pair[1] < pair[0]), "a lower number");
    assert!(numbers.windows(2).any(|pair| pair[1] > pair[0] + 1), "a gap");
}

#[tokio::test(start_paused = true)]
async fn a_huge_frame_is_one_line() {
    let head = "format = 1\nname = \"x\"\ndescription = \"d\"\n";
    let scenario = simulator::Scenario::parse(&format!("{head}[[step]]\nhuge = 3000000\n")).unwrap();
    let state = tempfile::tempdir().unwrap();
    let options =
        SimOptions { scenario: Some(ScenarioSource::Loaded(scenario.into())), ..options(None, state.path()) };
    let mut wire = Wire::start(options).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    let events = wire.turn(&session, &Answers::yes()).await;
    let lengths = events.iter().filter_map(|event| event["event"]["payload"]["delta"].as_str()).map(str::len);
    assert_eq!(lengths.collect::<Vec<_>>(), [3_000_000]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_hangs_answers_nothing_and_still_ends_with_the_stream() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("host-hang"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    wire.until(|event| event["event"]["payload"]["kind"] == "text_delta").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    wire.send(&json!({ "id": 99, "call": { "service": "task", "method": "stopGeneration", "params": { "taskId": session } } })).await;
    assert!(tokio::time::timeout(Duration::from_mins(1), wire.line()).await.is_err());
    wire.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_blocks_the_turn_and_the_end_is_still_seen() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("flood"), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, "1000000").await;
    // Nobody reads any more. The host must not run ahead: its number stays near what the pipe holds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!wire.server.is_finished());
    let params = json!({ "sessionId": session });
    let number = wire.agent("readSession", params).await["runtime"]["eventSeq"].as_u64().unwrap();
    assert!(number < 2000, "{number} events were made for a reader that read none");
    wire.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn expectations_of_a_scenario_fail_its_turn() {
    let scenario = simulator::Scenario::parse(
        "format = 1\nname = \"x\"\ndescription = \"d\"\n[[step]]\n[step.tool]\nname = \"Write\"\n[step.tool.ask]\nexpect = \"deny\"\n",
    )
    .unwrap();
    let state = tempfile::tempdir().unwrap();
    let options =
        SimOptions { scenario: Some(ScenarioSource::Loaded(scenario.into())), ..options(None, state.path()) };
    let mut wire = Wire::start(options).await;
    let session = wire.session().await;
    wire.prompt(&session, "x").await;
    let events = wire.turn(&session, &Answers::yes()).await;
    let message = events.last().unwrap()["event"]["payload"]["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("deny") && message.contains("allow_once"), "{message}");
    wire.prompt(&session, "x").await;
    assert_eq!(result(&wire.turn(&session, &Answers::no()).await), "success");
}

#[tokio::test(start_paused = true)]
async fn sessions_stream_side_by_side() {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some("slow"), state.path())).await;
    let (one, two) = (wire.session().await, wire.session().await);
    wire.prompt(&one, "x").await;
    wire.prompt(&two, "x").await;
    let busy = wire
        .call(
            "agent",
            "sendPrompt",
            json!({ "sessionId": one, "inputId": "in-2", "content": "y", "attachments": [] }),
        )
        .await
        .unwrap_err();
    assert_eq!(busy["message"], "A prompt is already running for this session");
    let mut turns = 0;
    for _ in 0..200 {
        let event = wire.event().await.unwrap();
        if event["event"]["sessionId"] == two.as_str() && event["event"]["payload"]["kind"] == "text_delta" {
            turns += 1;
        }
    }
    assert!(turns > 50, "{turns}");
}
