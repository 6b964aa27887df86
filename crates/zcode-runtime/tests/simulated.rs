//! The whole runtime against the simulated host, over a byte stream in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod simulated_support;

use diag_model::{Detail, ErrorCode, InputId};
use simulated_support::world;
use zcode_runtime::host::HostState;
use zcode_runtime::model::{CallError, EventBody, HostEvent, ToolDisplay, ToolStage, TurnResult};

#[tokio::test]
async fn a_turn_with_everything_in_it() {
    let mut world = world(Some("tour")).await;
    world.prompt("show me").await.expect("accepted");
    let (mut text, mut thought, mut asked, mut diff, mut last_seq) = (String::new(), false, 0, false, 0);
    let result = loop {
        match world.next().await {
            HostEvent::Permission(ask) => {
                asked += 1;
                let allow = ask
                    .options
                    .iter()
                    .find(|option| option.decision == zcode_runtime::model::Decision::Allow);
                let allow = allow.expect("a way to allow").id.clone();
                let answered =
                    world.host.answer_permission(world.ws(), &world.session, &ask.id, &allow).await;
                assert!(answered.expect("answered"));
                let again = world.host.answer_permission(world.ws(), &world.session, &ask.id, &allow).await;
                assert!(!again.expect("answered"), "the second answer finds it gone");
            }
            HostEvent::Event(event) => {
                assert!(event.seq > last_seq, "numbers rise");
                last_seq = event.seq;
                match event.body {
                    EventBody::TurnStarted { input, background } => {
                        assert_eq!((input, background), (Some(InputId::from("input-1")), false));
                        assert!(world.host.turn_running(world.ws(), &world.session).await.expect("read"));
                    }
                    EventBody::Text { delta, .. } => text.push_str(&delta),
                    EventBody::Thought { .. } => thought = true,
                    EventBody::Tool(tool) => {
                        if let ToolStage::Result(result) = tool.stage {
                            diff |= matches!(result.display, Some(ToolDisplay::FileDiff { ref hunks, .. }) if !hunks.is_empty());
                        }
                    }
                    EventBody::TurnEnded { result, input, usage } => {
                        assert!(usage.is_some_and(|usage| usage.input == 4200 && usage.output == 310));
                        assert_eq!(input, Some(InputId::from("input-1")));
                        break result;
                    }
                    _ => {}
                }
            }
            HostEvent::Violation(violation) => panic!("{violation:?}"),
            HostEvent::Lost(failure) => panic!("{failure:?}"),
            _ => {}
        }
    };
    assert_eq!(result, TurnResult::EndTurn);
    assert!(thought && diff && asked == 2, "thought {thought}, diff {diff}, asked {asked}");
    assert!(text.contains("Hello, world"));
    assert!(!world.host.turn_running(world.ws(), &world.session).await.expect("read"));
    world.host.close_session(world.ws(), &world.session).await.expect("closed");
    world.host.dispose_workspace(world.ws()).await.expect("disposed");
    world.host.shutdown().await;
    assert!(matches!(*world.host.state().borrow(), HostState::Exited(_)));
}

#[tokio::test]
async fn a_stop_ends_the_turn() {
    let mut world = world(Some("slow")).await;
    world.prompt("slow").await.expect("accepted");
    loop {
        match world.next().await {
            HostEvent::Event(event) => match event.body {
                EventBody::TurnStarted { .. } => {
                    world.host.stop(world.ws(), &world.session).await.expect("stopped");
                }
                EventBody::TurnEnded { result, .. } => {
                    assert_eq!(result, TurnResult::Cancelled);
                    return;
                }
                _ => {}
            },
            HostEvent::Lost(failure) => panic!("{failure:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_no_host_sends_is_a_violation() {
    let mut world = world(Some("unknown-event")).await;
    world.prompt("go").await.expect("accepted");
    loop {
        match world.next().await {
            HostEvent::Violation(violation) => {
                assert_eq!(violation.what, "event type session.teleported");
                return;
            }
            HostEvent::Lost(failure) => panic!("{failure:?}"),
            _ => {}
        }
    }
}

/// Prompts and returns the failure that the loss of the host brings.
async fn lost(scenario: &str) -> diag_model::Failure {
    let mut world = world(Some(scenario)).await;
    world.prompt("go").await.expect("accepted");
    loop {
        if let HostEvent::Lost(failure) = world.next().await {
            assert!(
                matches!(world.prompt("again").await, Err(CallError::Gone(_))),
                "nothing is sent to a dead host"
            );
            return failure;
        }
    }
}

#[tokio::test]
async fn garbage_under_the_nonce_ends_the_transport() {
    assert_eq!(lost("garbage").await.code, ErrorCode::NativeProtocol);
}

#[tokio::test]
async fn a_huge_frame_ends_the_transport() {
    let failure = lost("huge-frame").await;
    assert_eq!(failure.code, ErrorCode::NativeProtocol);
    assert!(failure.cause_text().contains("a frame of more than"), "{failure:?}");
}

#[tokio::test]
async fn a_crash_in_a_turn_is_a_loss() {
    let failure = lost("crash-mid-turn").await;
    assert_eq!(failure.code, ErrorCode::HostExited);
    assert_eq!(failure.detail(Detail::LastRequest), Some("prompt"));
}

#[tokio::test]
async fn the_error_families_are_told_apart() {
    for (scenario, code) in [
        ("rate-limit", ErrorCode::RateLimited),
        ("quota", ErrorCode::QuotaExceeded),
        ("balance", ErrorCode::PlanInsufficient),
        ("overload", ErrorCode::Overloaded),
        ("context-too-long", ErrorCode::ContextTooLong),
        ("model-unknown", ErrorCode::ModelUnknown),
        ("network", ErrorCode::NetworkFailed),
        ("sign-in-expired", ErrorCode::SignInExpired),
    ] {
        let mut world = world(Some(scenario)).await;
        world.prompt("go").await.expect("accepted");
        let failure = loop {
            match world.next().await {
                HostEvent::Event(event) => {
                    if let EventBody::TurnFailed { failure, .. } = event.body {
                        break failure;
                    }
                }
                HostEvent::Lost(failure) => panic!("{scenario}: {failure:?}"),
                _ => {}
            }
        };
        assert_eq!(failure.code, code, "{scenario}: {failure:?}");
    }
}
