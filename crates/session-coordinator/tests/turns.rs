//! Whole turns through the coordinator against the simulated host, over an in-memory stream.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{DEADLINE, answer, reply, world};
use diag_model::SessionId;
use session_coordinator::NewSessionRequest;
use session_coordinator::client::StopReason;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_greeting_streams_behind_the_sessions_answer_and_before_its_own() {
    let world = world("greeting", None);
    let session = world.open().await;
    assert_eq!(&*session.modes.current, "build");
    assert_eq!(answer(world.prompt(&session.session, "hello")).await, Ok(StopReason::EndTurn));
    let log = world.client.log();
    assert_eq!(log[0], "answer new");
    assert!(
        log.iter().position(|line| line == "answer prompt")
            > log.iter().rposition(|line| line.starts_with("text"))
    );
    assert!(world.client.text().contains("Hello"), "{log:?}");
    // A second turn on the same session.
    assert_eq!(answer(world.prompt(&session.session, "again")).await, Ok(StopReason::EndTurn));
    world.end().await;
}

#[tokio::test]
async fn an_allowed_edit_ends_with_one_diff_and_a_denied_one_with_none() {
    for (option, text, diffs) in
        [("allow_once", "now says", 1), ("deny", "was denied", 0), ("nonsense", "was denied", 0)]
    {
        let world = world("edit", Some(option));
        let session = world.open().await.session;
        assert_eq!(answer(world.prompt(&session, "perm")).await, Ok(StopReason::EndTurn), "{option}");
        assert!(world.client.text().contains(text), "{option}: {:?}", world.client.log());
        assert_eq!(world.client.diffs.load(Ordering::SeqCst), diffs, "{option}");
        assert_eq!(world.client.log().iter().filter(|line| line.starts_with("ask")).count(), 1);
        world.end().await;
    }
}

#[tokio::test]
async fn cancel_mid_stream_answers_cancelled_and_the_session_goes_on() {
    let world = world("slow", None);
    let session = world.open().await.session;
    let prompt = world.prompt(&session, "slow");
    world.client.until("text").await;
    assert_eq!(answer(world.prompt(&session, "second")).await.unwrap_err().code.as_str(), "ZA802", "busy");
    world.coordinator.cancel(&session);
    assert_eq!(answer(prompt).await, Ok(StopReason::Cancelled));
    let said = world.client.log().len();
    // Cancelled before it is accepted.
    let prompt = world.prompt(&session, "slow");
    world.coordinator.cancel(&session);
    assert_eq!(answer(prompt).await, Ok(StopReason::Cancelled));
    let late: Vec<_> =
        world.client.log().split_off(said).into_iter().filter(|l| l.starts_with("text")).collect();
    assert!(late.len() <= 3, "{late:?}");
    world.end().await;
}

#[tokio::test]
async fn a_crash_mid_turn_answers_the_prompt_and_the_next_session_gets_a_new_host() {
    let world = world("crash-mid-turn", None);
    let session = world.open().await.session;
    let failure = answer(world.prompt(&session, "go")).await.unwrap_err();
    assert!(matches!(failure.code.as_str(), "ZA805" | "ZA807"), "{failure:?}");
    assert_eq!(failure.detail(diag_model::Detail::Session), Some(session.as_str()));
    let failure = answer(world.prompt(&session, "again")).await.unwrap_err();
    assert!(matches!(failure.code.as_str(), "ZA805" | "ZA807" | "ZA809"), "{failure:?}");
    world.open().await;
    assert_eq!(world.hosts.load(Ordering::SeqCst), 2);
    world.end().await;
}

#[tokio::test]
async fn a_yolo_workspace_still_asks() {
    let world = world("yolo-workspace", Some("deny"));
    let session = world.open().await;
    assert_eq!(&*session.modes.current, "build");
    assert_eq!(answer(world.prompt(&session.session, "go")).await, Ok(StopReason::EndTurn));
    assert!(
        world.client.log().iter().any(|line| line.starts_with("ask rm -rf build")),
        "{:?}",
        world.client.log()
    );
    assert!(world.client.text().contains("in mode build"), "{}", world.client.text());
    world.end().await;
}

#[tokio::test]
async fn headers_are_refused_and_said_so() {
    let captcha = world("captcha", None);
    let session = captcha.open().await.session;
    assert_eq!(answer(captcha.prompt(&session, "go")).await.unwrap_err().code.as_str(), "ZA816");
    captcha.end().await;
}

#[tokio::test]
async fn a_question_is_asked_as_one_and_answered_or_skipped() {
    for (option, expected) in
        [("answer-2", "The button will be: Green"), ("zcode-acp:skip", "stays as it is")]
    {
        let world = world("question", Some(option));
        let session = world.open().await.session;
        assert_eq!(answer(world.prompt(&session, "go")).await, Ok(StopReason::EndTurn));
        let log = world.client.log();
        assert!(log.contains(&"ask Question: Which colour should the button have?".to_owned()), "{log:?}");
        assert!(world.client.text().contains(expected), "{}", world.client.text());
        world.end().await;
    }
}

#[tokio::test]
async fn an_unknown_event_fails_the_turn_by_name() {
    let world = world("unknown-event", None);
    let session = world.open().await.session;
    assert_eq!(answer(world.prompt(&session, "go")).await.unwrap_err().code.as_str(), "ZA806");
    world.end().await;
}

#[tokio::test]
async fn nobody_signed_in_is_said_before_a_session_is_created() {
    let world = world("not-signed-in", None);
    let failure = answer(world.request(world.dir.path().to_owned())).await.unwrap_err();
    assert_eq!(failure.code.as_str(), "ZA501");
    world.end().await;
}

#[tokio::test]
async fn close_mid_turn_answers_the_prompt_then_itself_and_the_session_is_gone() {
    let world = world("slow", None);
    let session = world.open().await.session;
    let prompt = world.prompt(&session, "slow");
    world.client.until("text").await;
    let close = world.close(&session);
    assert_eq!(answer(prompt).await, Ok(StopReason::Cancelled));
    assert_eq!(answer(close).await, Ok(()));
    // The registry forgets it a moment after the answer.
    let gone = async {
        while answer(world.prompt(&session, "x")).await.unwrap_err().code.as_str() != "ZA602" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn shutdown_with_an_open_permission_withdraws_it_and_answers_cancelled() {
    let world = world("edit", None);
    let session = world.open().await.session;
    let prompt = world.prompt(&session, "perm");
    world.client.until("ask").await;
    let begun = Instant::now();
    let (coordinator, client) = (world.coordinator.clone(), Arc::clone(&world.client));
    let shutdown = tokio::spawn(async move { coordinator.shutdown().await });
    assert_eq!(answer(prompt).await, Ok(StopReason::Cancelled));
    assert!(begun.elapsed() < Duration::from_secs(1));
    shutdown.await.unwrap();
    assert_eq!(client.withdrawn.load(Ordering::SeqCst), 1);
    assert_eq!(answer(world.request(world.dir.path().to_owned())).await.unwrap_err().code.as_str(), "ZA902");
}

#[tokio::test]
async fn concurrent_requests_share_one_host_and_a_withdrawn_one_is_answered_at_once() {
    let world = world("greeting", None);
    let (a, b) = (world.request(world.dir.path().to_owned()), world.request(world.dir.path().to_owned()));
    let (a, b) = (answer(a).await.unwrap(), answer(b).await.unwrap());
    assert_ne!(a.session, b.session);
    assert_eq!(world.hosts.load(Ordering::SeqCst), 1);
    let cancel = CancellationToken::new();
    let (reply, receiver) = reply(&world.client, "withdrawn");
    world.coordinator.new_session(
        NewSessionRequest { cwd: world.dir.path().to_owned(), mcp_servers: Vec::new() },
        cancel.clone(),
        reply,
    );
    cancel.cancel();
    assert_eq!(answer(receiver).await.unwrap_err().code.as_str(), "ZA903");
    world.end().await;
}

#[tokio::test]
async fn a_cwd_that_is_no_directory_is_refused_with_the_rule_and_no_host() {
    let world = world("greeting", None);
    let file = world.dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for (cwd, rule) in [
        (PathBuf::from("relative"), "must be an absolute path"),
        (world.dir.path().join("missing"), "must exist"),
        (file, "must be a directory"),
    ] {
        let failure = answer(world.request(cwd)).await.unwrap_err();
        assert_eq!(failure.code.as_str(), "ZA601");
        assert!(failure.cause_text().contains(rule), "{failure}");
    }
    assert_eq!(world.hosts.load(Ordering::SeqCst), 0);
    world.end().await;
}

#[tokio::test]
async fn unknown_sessions_are_named_and_cancelling_them_does_nothing() {
    let world = world("greeting", None);
    let session = SessionId::from("nobody");
    assert_eq!(answer(world.prompt(&session, "x")).await.unwrap_err().code.as_str(), "ZA602");
    assert_eq!(answer(world.close(&session)).await.unwrap_err().code.as_str(), "ZA602");
    world.coordinator.cancel(&session);
    world.end().await;
}
