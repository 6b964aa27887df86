//! One test a rule; the names are the rules.

use std::time::Duration;

use diag_model::{ErrorCode, Failure};
use serde_json::json;
use zcode_runtime::model::{
    Decision, EventBody, HeadersAsk, HostEvent, InputAsk, Question, Refusal, SessionEvent, SessionFacts,
    Snapshot, ToolDisplay, ToolResult, ToolStage, TurnResult, Violation,
};

use super::super::turn::Phase;
use super::super::{CloseCause, Input};
use super::fixture::{Rig, created, host_gone, mode_set, option, permission, refused, timed_out};
use crate::client::PermissionAnswer;

const NOTHING: [&str; 0] = [];

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn lost() -> Input {
    Input::Event(HostEvent::Lost(Failure::new(ErrorCode::HostExited)))
}

fn violation() -> Input {
    Input::Event(HostEvent::Violation(Violation { what: "novel.event".into() }))
}

fn done(display: Option<ToolDisplay>) -> ToolStage {
    ToolStage::Result(ToolResult {
        success: true,
        content: "ok".into(),
        display,
        exit_code: None,
        truncated: false,
        original_bytes: None,
    })
}

mod opening {
    use super::*;

    #[test]
    fn a_session_is_answered_after_its_subscription_stands() {
        let mut rig = Rig::opening();
        assert_eq!(rig.step(created(Some("build"))), ["subscribe"]);
        assert_eq!(rig.session.phase(), Some(Phase::Subscribing));
        let facts = SessionFacts { title: Some("T".into()), ..SessionFacts::default() };
        let snapshot = Snapshot { facts, ..Snapshot::default() };
        assert_eq!(rig.step(Input::Subscribed(Ok(snapshot))), ["new s build", "title T"]);
        assert_eq!(rig.state(), "idle");
    }

    #[test]
    fn a_stronger_mode_is_set_back_once() {
        let mut rig = Rig::opening();
        assert_eq!(rig.step(created(Some("yolo"))), ["set mode build"]);
        assert_eq!(rig.step(mode_set(Some("build"))), ["subscribe"]);
        assert_eq!(rig.step(Input::Subscribed(Ok(Snapshot::default()))), ["new s build"]);
    }

    #[test]
    fn a_mode_that_stays_stronger_is_refused_and_the_session_closed() {
        let mut rig = Rig::opening();
        rig.step(created(Some("yolo")));
        assert_eq!(rig.step(mode_set(Some("yolo"))), ["new ZA605", "close"]);
        assert_eq!(rig.step(Input::Closed(Ok(()))), NOTHING);
        assert_eq!(rig.session.close_cause(), Some(&CloseCause::NotOpened));
    }

    #[test]
    fn a_missing_or_unknown_mode_is_refused() {
        for mode in [None, Some("turbo")] {
            assert_eq!(Rig::opening().step(created(mode)), ["new ZA605", "close"]);
            let mut rig = Rig::opening();
            rig.step(created(Some("yolo")));
            assert_eq!(rig.step(mode_set(mode)), ["new ZA605", "close"]);
        }
        let mut rig = Rig::opening();
        rig.step(created(Some("yolo")));
        assert_eq!(rig.step(Input::ModeSet(Err(timed_out()))), ["new ZA605", "close"]);
    }

    #[test]
    fn a_snapshot_with_a_stronger_mode_is_refused() {
        let mut rig = Rig::opening();
        rig.step(created(Some("build")));
        let facts = SessionFacts { mode: Some("yolo".into()), ..SessionFacts::default() };
        let snapshot = Snapshot { facts, ..Snapshot::default() };
        assert_eq!(rig.step(Input::Subscribed(Ok(snapshot))), ["new ZA605", "close"]);
    }

    #[test]
    fn a_creation_that_timed_out_has_an_unknown_outcome() {
        let mut rig = Rig::opening();
        assert_eq!(rig.step(Input::Created(Err(timed_out()))), ["new ZA607"]);
        assert_eq!(rig.session.close_cause(), Some(&CloseCause::NotOpened));
    }

    #[test]
    fn a_subscription_that_fails_closes_the_session() {
        let mut rig = Rig::opening();
        rig.step(created(Some("build")));
        assert_eq!(rig.step(Input::Subscribed(Err(refused(Refusal::Other)))), ["new ZA608", "close"]);
    }

    #[test]
    fn a_withdrawn_request_is_answered_at_once_and_what_was_created_is_closed() {
        let mut rig = Rig::opening();
        assert_eq!(rig.step(Input::OpenWithdrawn), ["new ZA903"]);
        assert_eq!(rig.step(created(Some("build"))), ["close"]);
        rig.step(Input::Closed(Ok(())));
        assert_eq!(rig.session.close_cause(), Some(&CloseCause::NotOpened));

        let mut rig = Rig::opening();
        rig.step(created(Some("build")));
        assert_eq!(rig.step(Input::OpenWithdrawn), ["new ZA903", "close"]);
        assert_eq!(rig.step(Input::Subscribed(Ok(Snapshot::default()))), NOTHING);

        assert_eq!(Rig::open().step(Input::OpenWithdrawn), NOTHING, "too late to withdraw");
    }
}

mod stream {
    use super::*;

    fn numbered(seq: u64, id: &str, text: &str) -> Input {
        let body = EventBody::Text { message: None, delta: text.into() };
        Input::Event(HostEvent::Event(SessionEvent { seq, id: id.into(), turn: Some("t1".into()), body }))
    }

    #[test]
    fn lower_repeated_and_known_events_are_dropped_and_counted() {
        let mut rig = Rig::running();
        assert_eq!(rig.step(numbered(10, "a", "x")), ["text x"]);
        assert_eq!(rig.step(numbered(10, "b", "x")), NOTHING);
        assert_eq!(rig.step(numbered(9, "c", "x")), NOTHING);
        assert_eq!(rig.step(numbered(11, "a", "x")), NOTHING);
        assert_eq!(rig.step(numbered(20, "d", "y")), ["text y"], "gaps are legal");
        assert_eq!(rig.session.dropped(), 3);
    }

    #[test]
    fn events_of_the_snapshot_are_not_told_again() {
        let mut rig = Rig::opening();
        rig.step(created(Some("build")));
        rig.step(Input::Subscribed(Ok(Snapshot { event_seq: 7, running: true, ..Snapshot::default() })));
        assert_eq!(rig.state(), "background");
        assert_eq!(rig.step(numbered(7, "a", "old")), NOTHING);
        assert_eq!(rig.step(numbered(8, "b", "new")), ["text new"]);
    }

    #[test]
    fn content_while_idle_is_dropped_and_a_title_is_not() {
        let mut rig = Rig::open();
        assert_eq!(rig.text("t0", "x"), NOTHING);
        assert_eq!(rig.title("T"), ["title T"]);
        assert_eq!(rig.title("T"), NOTHING, "said once");
    }
}

mod turns {
    use super::*;

    #[test]
    fn a_prompt_is_answered_after_its_updates_with_the_hosts_result() {
        for (result, word) in [
            (TurnResult::EndTurn, "p1 EndTurn"),
            (TurnResult::MaxTokens, "p1 MaxTokens"),
            (TurnResult::MaxTurnRequests, "p1 MaxTurnRequests"),
            (TurnResult::Refusal, "p1 Refusal"),
            (TurnResult::Cancelled, "p1 Cancelled"),
            (TurnResult::Error(Failure::new(ErrorCode::RateLimited)), "p1 ZA811"),
        ] {
            let mut rig = Rig::running();
            assert_eq!(rig.text("t1", "hello"), ["text hello"]);
            assert_eq!(rig.ended("t1", result), ["title prompt p1", word]);
            assert_eq!(rig.state(), "idle");
            assert_eq!(rig.session.deadline().is_some(), word.ends_with("Cancelled"));
        }
    }

    #[test]
    fn a_second_prompt_is_refused_at_once_and_the_first_goes_on() {
        let mut rig = Rig::running();
        assert_eq!(rig.prompt(), ["p2 ZA802"]);
        assert_eq!(rig.text("t1", "on"), ["text on"]);
    }

    #[test]
    fn a_prompt_without_room_for_a_turn_is_refused_unless_the_session_is_busy_anyway() {
        let mut rig = Rig::open();
        assert_eq!(rig.prompt_with(false, false), ["p1 ZA803"]);
        rig.prompt();
        assert_eq!(rig.prompt_with(false, false), ["p3 ZA802"]);
    }

    #[test]
    fn a_turn_belongs_to_a_prompt_only_by_its_input() {
        let mut rig = Rig::open();
        rig.prompt();
        rig.accept("p1");
        rig.started("bg", None);
        assert_eq!(rig.text("bg", "other"), ["text other"], "a host turn in between is shown");
        assert_eq!(rig.ended("bg", TurnResult::EndTurn), NOTHING, "and does not end the prompt");
        rig.started("t1", Some("p1"));
        assert_eq!(rig.ended("t1", TurnResult::EndTurn), ["title prompt p1", "p1 EndTurn"]);
    }

    #[test]
    fn a_prompt_that_was_steered_into_a_turn_ends_with_it() {
        let mut rig = Rig::open();
        rig.prompt();
        rig.accept("p1");
        rig.started("bg", None);
        rig.event(None, EventBody::Steered { inputs: vec!["p1".into()], target: "bg".into() });
        assert_eq!(rig.ended("bg", TurnResult::EndTurn).last().unwrap(), "p1 EndTurn");
        assert_eq!(rig.state(), "idle");
    }

    #[test]
    fn the_end_of_another_turn_leaves_a_host_turn_in_the_background() {
        let mut rig = Rig::running();
        rig.started("bg", None);
        rig.ended("t1", TurnResult::EndTurn);
        assert_eq!(rig.state(), "background");
        assert_eq!(rig.text("bg", "more"), ["text more"]);
    }

    #[test]
    fn silence_never_ends_a_turn() {
        let mut rig = Rig::running();
        assert_eq!(rig.wait(secs(30 * 60)), NOTHING);
        assert_eq!(rig.session.deadline(), None);
        assert_eq!(rig.state(), "running");
    }

    #[test]
    fn a_hint_without_a_terminal_is_checked_after_five_seconds() {
        let mut rig = Rig::running();
        rig.event(Some("t1"), EventBody::TurnTerminalHint);
        assert_eq!(rig.wait(secs(4)), NOTHING);
        assert_eq!(rig.wait(secs(1)), ["probe"]);
        rig.probed(true);
        assert_eq!(rig.wait(secs(5)), ["probe"], "and again while it runs");
        assert_eq!(rig.probed(false), NOTHING);
        assert_eq!(rig.wait(secs(1)), ["title prompt p1", "p1 ZA807"], "never rounded to a good end");
    }

    #[test]
    fn a_terminal_that_an_answer_has_overtaken_still_counts() {
        let mut rig = Rig::running();
        rig.event(Some("t1"), EventBody::TurnTerminalHint);
        rig.wait(secs(5));
        rig.probed(false);
        assert_eq!(rig.ended("t1", TurnResult::EndTurn).last().unwrap(), "p1 EndTurn");
    }

    #[test]
    fn a_send_that_timed_out_is_an_unknown_outcome_and_never_repeated() {
        let mut rig = Rig::open();
        rig.prompt();
        let sent = Input::Sent { input: "p1".into(), result: Err(timed_out()) };
        assert_eq!(rig.step(sent), ["title prompt p1", "p1 ZA804"]);
        assert_eq!(rig.started("t1", Some("p1")), NOTHING);
        assert_eq!(rig.state(), "settling");
        assert_eq!(rig.text("t1", "late"), NOTHING, "content of an answered prompt");
        assert_eq!(rig.prompt(), NOTHING, "held");
        assert_eq!(rig.ended("t1", TurnResult::EndTurn), ["send p2"]);
    }

    #[test]
    fn a_turn_that_began_was_sent_whatever_the_call_says() {
        for error in [timed_out(), refused(Refusal::Other), refused(Refusal::Busy)] {
            let mut rig = Rig::open();
            rig.prompt();
            rig.started("t1", Some("p1"));
            assert_eq!(rig.step(Input::Sent { input: "p1".into(), result: Err(error) }), NOTHING);
            assert_eq!(rig.ended("t1", TurnResult::EndTurn).last().unwrap(), "p1 EndTurn");
        }
    }

    #[test]
    fn a_refused_prompt_is_answered_and_the_session_is_idle() {
        for (why, word) in [(Refusal::Busy, "p1 ZA802"), (Refusal::Other, "p1 ZA608")] {
            let mut rig = Rig::open();
            rig.prompt();
            let said = rig.step(Input::Sent { input: "p1".into(), result: Err(refused(why)) });
            assert_eq!(said.last().unwrap(), word);
            assert_eq!(rig.prompt(), ["send p2"]);
        }
    }

    #[test]
    fn a_title_of_the_host_wins_over_the_prompt() {
        let mut rig = Rig::running();
        assert_eq!(rig.title("Real"), ["title Real"]);
        assert_eq!(rig.ended("t1", TurnResult::EndTurn), ["p1 EndTurn"]);
    }
}

mod background {
    use super::*;

    fn background() -> Rig {
        let mut rig = Rig::open();
        rig.started("bg", None);
        assert_eq!(rig.state(), "background");
        rig
    }

    #[test]
    fn a_host_turn_streams_to_no_prompt() {
        let mut rig = background();
        assert_eq!(rig.text("bg", "x"), ["text x"]);
        assert_eq!(rig.ended("bg", TurnResult::EndTurn), NOTHING);
        assert_eq!(rig.state(), "idle");
    }

    #[test]
    fn a_prompt_is_held_and_sent_when_the_turn_is_over() {
        let mut rig = background();
        assert_eq!(rig.prompt(), NOTHING);
        assert_eq!(rig.prompt(), ["p2 ZA802"], "one is held, not two");
        assert_eq!(rig.ended("bg", TurnResult::EndTurn), ["send p1"]);
    }

    #[test]
    fn a_held_prompt_is_refused_by_name_after_thirty_seconds_and_was_never_sent() {
        let mut rig = background();
        rig.prompt();
        let said = rig.wait(secs(30));
        assert_eq!(said, ["probe", "p1 ZA818"]);
        assert_eq!(rig.ended("bg", TurnResult::EndTurn), NOTHING);
    }

    #[test]
    fn cancel_answers_a_held_prompt_and_stops_the_generation_once() {
        let mut rig = background();
        rig.prompt();
        assert_eq!(rig.step(Input::Cancel), ["p1 Cancelled", "stop"]);
        assert_eq!(rig.step(Input::Cancel), NOTHING);
    }

    #[test]
    fn a_host_that_says_nothing_runs_frees_a_held_prompt() {
        let mut rig = background();
        rig.prompt();
        assert_eq!(rig.wait(secs(5)), ["probe"]);
        rig.probed(false);
        assert_eq!(rig.wait(secs(1)), ["send p1"]);
    }
}

mod cancelling {
    use super::*;

    #[test]
    fn cancel_on_idle_does_nothing() {
        assert_eq!(Rig::open().step(Input::Cancel), NOTHING);
    }

    #[test]
    fn one_cancel_is_one_stop_and_any_terminal_answers_cancelled() {
        for result in [
            TurnResult::Cancelled,
            TurnResult::EndTurn,
            TurnResult::Error(Failure::new(ErrorCode::TurnFailed)),
        ] {
            let mut rig = Rig::running();
            assert_eq!(rig.step(Input::Cancel), ["stop"]);
            assert_eq!(rig.session.phase(), Some(Phase::Cancelling));
            assert_eq!(rig.step(Input::Cancel), NOTHING);
            assert_eq!(rig.ended("t1", result).last().unwrap(), "p1 Cancelled");
        }
    }

    #[test]
    fn cancel_before_acceptance_is_remembered_and_stops_after_it() {
        let mut rig = Rig::open();
        rig.prompt();
        assert_eq!(rig.step(Input::Cancel), NOTHING);
        assert_eq!(rig.accept("p1"), ["stop"]);
        assert_eq!(rig.started("t1", Some("p1")), NOTHING, "one stop");

        let mut rig = Rig::open();
        rig.prompt();
        rig.step(Input::Cancel);
        assert_eq!(rig.started("t1", Some("p1")), ["stop"], "a begun turn was accepted");
        assert_eq!(rig.accept("p1"), NOTHING);
    }

    #[test]
    fn a_prompt_that_was_cancelled_while_it_waited_is_never_sent() {
        assert_eq!(Rig::open().prompt_with(true, true), ["p1 Cancelled"]);
    }

    #[test]
    fn cancel_denies_every_pending_permission_then_stops() {
        let mut rig = Rig::running();
        rig.ask("a1");
        rig.ask("a2");
        let said = rig.step(Input::Cancel);
        assert_eq!(said, ["withdraw a1", "answer a1 deny", "withdraw a2", "answer a2 deny", "stop"]);
        assert_eq!(rig.select("a1", "allow_once"), NOTHING, "too late");
        assert_eq!(rig.ask("a3"), ["answer a3 deny"], "late asks are denied at once");
    }

    #[test]
    fn without_a_terminal_the_deadline_answers_and_the_session_settles() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        assert_eq!(rig.wait(secs(29)), NOTHING);
        assert_eq!(rig.wait(secs(1)), ["title prompt p1", "p1 Cancelled"]);
        assert_eq!(rig.state(), "settling");
        assert_eq!(rig.text("t1", "late"), NOTHING);
        assert_eq!(rig.ask("a1"), ["answer a1 deny"]);
        assert_eq!(rig.prompt(), NOTHING, "held");
        assert_eq!(rig.ended("t1", TurnResult::Cancelled), ["send p2"]);
    }

    #[test]
    fn a_session_that_settles_is_freed_when_the_host_says_that_nothing_runs() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        assert_eq!(rig.wait(secs(35)).last().unwrap(), "probe");
        rig.probed(false);
        rig.wait(secs(1));
        assert_eq!(rig.state(), "idle");
    }

    #[test]
    fn a_stop_the_host_refused_may_be_tried_again_by_the_next_cancel() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        rig.stop_refused();
        assert_eq!(rig.step(Input::Cancel), ["stop"]);
    }

    #[test]
    fn a_cancelled_send_of_unknown_outcome_is_stopped_should_it_begin() {
        let mut rig = Rig::open();
        rig.prompt();
        rig.step(Input::Cancel);
        let said = rig.step(Input::Sent { input: "p1".into(), result: Err(timed_out()) });
        assert_eq!(said.last().unwrap(), "p1 Cancelled");
        assert_eq!(rig.started("t1", Some("p1")), ["stop"]);
        assert_eq!(rig.ended("t1", TurnResult::Cancelled), NOTHING);
        assert_eq!(rig.started("t1b", Some("p1")), NOTHING, "one stop");
    }

    #[test]
    fn late_content_is_dropped_and_facts_wait_for_the_fence() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        rig.ended("t1", TurnResult::Cancelled);
        assert_eq!(rig.text("t1", "late"), NOTHING);
        assert_eq!(rig.tool("t1", "c", ToolStage::Started), NOTHING);
        assert_eq!(rig.title("one"), NOTHING);
        assert_eq!(rig.title("two"), NOTHING);
        assert_eq!(rig.wait(Duration::from_millis(2499)), NOTHING);
        assert_eq!(rig.wait(Duration::from_millis(1)), ["title two"], "the newest");
        assert_eq!(rig.session.dropped(), 2);
    }

    #[test]
    fn the_next_prompt_lifts_the_fence_and_late_content_of_the_old_turn_stays_out() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        rig.ended("t1", TurnResult::Cancelled);
        rig.title("one");
        assert_eq!(rig.prompt(), ["title one", "send p2"]);
        assert_eq!(rig.text("t1", "late"), NOTHING);
        rig.started("t2", Some("p2"));
        assert_eq!(rig.text("t2", "new"), ["text new"]);
    }
}

mod permissions {
    use super::*;

    #[test]
    fn the_call_is_shown_then_asked_and_the_choice_goes_back_once() {
        let mut rig = Rig::running();
        assert_eq!(rig.ask("a1"), ["call call-a1", "ask a1"]);
        assert_eq!(rig.session.phase(), Some(Phase::AwaitingPermission));
        assert_eq!(rig.ask("a1"), NOTHING, "announced again, not asked again");
        assert_eq!(rig.select("a1", "allow_project"), ["answer a1 allow_project"]);
        assert_eq!(rig.select("a1", "allow_once"), NOTHING);
        assert_eq!(rig.ask("a1"), NOTHING, "nor after it was answered");
        assert_eq!(rig.confirm("a1"), NOTHING);
        assert_eq!(rig.session.phase(), Some(Phase::Running));
    }

    #[test]
    fn everything_but_an_offered_option_denies() {
        for answer in [
            PermissionAnswer::Selected("nonsense".into()),
            PermissionAnswer::Cancelled,
            PermissionAnswer::Failed,
        ] {
            let mut rig = Rig::running();
            rig.ask("a1");
            assert_eq!(rig.step(Input::PermissionAnswer { ask: "a1".into(), answer }), ["answer a1 deny"]);
        }
    }

    #[test]
    fn without_a_deny_option_only_a_stop_keeps_the_tool_from_running() {
        let allow_only = |id: &str| {
            let mut ask = permission(id);
            ask.options.retain(|option| option.decision == Decision::Allow);
            Input::Event(HostEvent::Permission(ask))
        };
        let mut rig = Rig::running();
        rig.step(allow_only("a1"));
        assert_eq!(
            rig.step(Input::PermissionAnswer { ask: "a1".into(), answer: PermissionAnswer::Failed }),
            ["stop"]
        );
        let mut rig = Rig::running();
        rig.step(allow_only("a1"));
        assert_eq!(rig.select("a1", "allow_once"), ["answer a1 allow_once"]);
        let mut rig = Rig::running();
        rig.step(allow_only("a1"));
        assert_eq!(rig.step(Input::Cancel), ["withdraw a1", "stop"], "one stop");
    }

    #[test]
    fn options_that_neither_allow_nor_deny_are_left_out_and_none_left_is_not_asked() {
        let mut ask = permission("a1");
        ask.options = vec![option("up", Decision::Escalate, false), option("other", Decision::Modify, false)];
        assert_eq!(Rig::running().step(Input::Event(HostEvent::Permission(ask))), ["stop"]);
    }

    #[test]
    fn several_are_asked_at_once_and_answered_each() {
        let mut rig = Rig::running();
        rig.ask("a1");
        rig.ask("a2");
        assert_eq!(rig.select("a2", "deny"), ["answer a2 deny"]);
        assert_eq!(rig.select("a1", "allow_once"), ["answer a1 allow_once"]);
    }

    #[test]
    fn one_that_was_settled_elsewhere_is_withdrawn_and_not_answered() {
        let mut rig = Rig::running();
        rig.ask("a1");
        rig.ask("a2");
        assert_eq!(rig.step(Input::Event(HostEvent::AskGone("a1".into()))), ["withdraw a1"]);
        assert_eq!(rig.event(None, EventBody::AskResolved("a2".into())), ["withdraw a2"]);
        assert_eq!(rig.select("a1", "allow_once"), NOTHING);
        assert_eq!(rig.session.phase(), Some(Phase::Running));
    }

    #[test]
    fn an_answer_that_came_too_late_for_the_host_is_no_error() {
        let mut rig = Rig::running();
        rig.ask("a1");
        rig.select("a1", "allow_once");
        assert_eq!(rig.step(Input::AskAnswered { ask: "a1".into(), result: Ok(false) }), NOTHING);
        assert_eq!(rig.state(), "running");
    }

    #[test]
    fn waiting_has_no_end_unless_there_is_a_timeout() {
        let mut rig = Rig::running();
        rig.ask("a1");
        assert_eq!(rig.wait(secs(3600)), NOTHING);
        let mut rig = Rig::with(Some(secs(60))).opened();
        rig.prompt();
        rig.started("t1", Some("p1"));
        rig.ask("a1");
        assert_eq!(rig.wait(secs(60)), ["withdraw a1", "answer a1 deny"]);
        assert_eq!(rig.wait(secs(3600)), NOTHING);
    }

    #[test]
    fn outside_a_turn_they_are_asked_while_the_session_is_open_and_denied_otherwise() {
        let mut rig = Rig::open();
        assert_eq!(rig.ask("a1"), ["ask a1"]);
        assert_eq!(rig.select("a1", "allow_once"), ["answer a1 allow_once"]);
        rig.close();
        assert_eq!(rig.ask("a2"), ["answer a2 deny"]);
    }

    #[test]
    fn the_end_of_a_turn_settles_its_questions_before_the_prompt_is_answered() {
        let mut rig = Rig::running();
        rig.ask("a1");
        let said = rig.ended("t1", TurnResult::EndTurn);
        assert_eq!(said, ["withdraw a1", "answer a1 deny"]);
        assert_eq!(rig.session.phase(), Some(Phase::Completing));
        let said = rig.confirm("a1");
        assert_eq!(
            said,
            ["tool call-a1 failed: not finished: the turn ended", "title prompt p1", "p1 EndTurn"]
        );
    }

    #[test]
    fn a_host_that_never_confirms_holds_the_answer_for_a_second_at_most() {
        let mut rig = Rig::running();
        rig.ask("a1");
        rig.select("a1", "allow_once");
        assert_eq!(rig.ended("t1", TurnResult::EndTurn), NOTHING);
        assert_eq!(rig.wait(secs(1)).last().unwrap(), "p1 EndTurn");
    }

    #[test]
    fn a_question_of_a_subagent_outlives_a_good_end_and_no_other() {
        let subagent = |id: &str| {
            let mut ask = permission(id);
            ask.subagent = true;
            Input::Event(HostEvent::Permission(ask))
        };
        let mut rig = Rig::running();
        rig.step(subagent("a1"));
        assert_eq!(rig.ended("t1", TurnResult::EndTurn).last().unwrap(), "p1 EndTurn");
        assert_eq!(rig.select("a1", "allow_once"), ["answer a1 allow_once"]);
        let mut rig = Rig::running();
        rig.step(subagent("a1"));
        assert_eq!(rig.step(Input::Cancel), ["withdraw a1", "answer a1 deny", "stop"]);
    }

    #[test]
    fn more_than_a_person_can_judge_are_denied() {
        let mut rig = Rig::running();
        for n in 0..super::super::super::interaction::OPEN_LIMIT {
            rig.ask(&format!("a{n}"));
        }
        assert_eq!(rig.ask("more"), ["answer more deny"]);
    }
}

mod other_asks {
    use super::*;

    fn input_ask(interaction: Option<&str>, plan: Option<&str>) -> Input {
        let question =
            Question { question: "Which one?".into(), header: None, options: Vec::new(), multi: false };
        Input::Event(HostEvent::Input(InputAsk {
            id: "q1".into(),
            call: None,
            interaction: interaction.map(Into::into),
            plan: plan.map(Into::into),
            questions: vec![question],
        }))
    }

    #[test]
    fn a_question_that_the_client_cannot_show_is_declined_at_once_and_said_so() {
        let mut rig = Rig::running();
        let said = rig.step(input_ask(None, None));
        assert_eq!(said[0], "answer q1 Decline");
        assert!(said[1].contains("\"Which one?\"") && said[1].contains("declined"), "{said:?}");
        assert_eq!(rig.session.phase(), Some(Phase::AwaitingInput));
        assert_eq!(rig.step(input_ask(None, None)), NOTHING, "announced again");
    }

    #[test]
    fn a_plan_without_its_text_or_options_is_outside_the_contract_and_denied() {
        for plan in [Some("# The plan"), Some(" "), None] {
            let said = Rig::running().step(input_ask(Some("plan_approval"), plan));
            assert_eq!(said, ["answer q1 Decline", "stop", "title prompt p1", "p1 ZA806"], "{plan:?}");
        }
    }

    #[test]
    fn while_cancelling_a_question_is_cancelled_unseen() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        assert_eq!(rig.step(input_ask(None, None)), ["answer q1 Cancel"]);
    }

    #[test]
    fn headers_are_refused_at_once_and_the_prompt_names_the_plan() {
        let mut rig = Rig::running();
        assert_eq!(
            rig.step(Input::Event(HostEvent::Headers(HeadersAsk { id: "h1".into() }))),
            ["refuse headers h1"]
        );
        rig.confirm("h1");
        let said = rig.ended("t1", TurnResult::Error(Failure::new(ErrorCode::TurnFailed)));
        assert_eq!(said.last().unwrap(), "p1 ZA816");
    }
}

mod tools {
    use super::*;

    #[test]
    fn open_calls_fail_with_the_reason_before_the_answer() {
        let mut rig = Rig::running();
        rig.tool("t1", "c1", ToolStage::Scheduled { input: Some(json!({"command": "x"})) });
        assert_eq!(rig.tool("t1", "c2", ToolStage::Started), ["call c2", "tool c2 Some(InProgress)"]);
        rig.tool("t1", "c2", done(None));
        rig.step(Input::Cancel);
        let said = rig.ended("t1", TurnResult::Cancelled);
        assert_eq!(said, ["tool c1 failed: cancelled", "title prompt p1", "p1 Cancelled"]);
        let mut rig = Rig::running();
        rig.tool("t1", "c1", ToolStage::Started);
        let failure = Failure::new(ErrorCode::RateLimited).cause("slow down");
        let said = rig.ended("t1", TurnResult::Error(failure));
        assert_eq!(said[0], "tool c1 failed: not finished: slow down");
    }

    #[test]
    fn a_backgrounded_call_ends_after_its_turn() {
        let mut rig = Rig::running();
        rig.tool("t1", "c1", done(Some(ToolDisplay::Backgrounded)));
        assert_eq!(rig.ended("t1", TurnResult::EndTurn), ["title prompt p1", "p1 EndTurn"]);
        assert_eq!(rig.tool("t1", "c1", done(None)), ["tool c1 Some(Completed)"]);
        assert_eq!(rig.tool("t1", "c1", ToolStage::Started), NOTHING);
    }
}

mod failing {
    use super::*;

    #[test]
    fn a_violation_stops_the_turn_names_what_it_was_and_settles() {
        let mut rig = Rig::running();
        rig.ask("a1");
        let said = rig.step(violation());
        assert_eq!(said[..3], ["withdraw a1", "answer a1 deny", "stop"]);
        assert_eq!(said.last().unwrap(), "p1 ZA806");
        assert_eq!(rig.state(), "settling");
        assert_eq!(rig.text("t1", "late"), NOTHING);
        assert_eq!(rig.prompt(), NOTHING, "held");
        assert_eq!(rig.ended("t1", TurnResult::Cancelled), ["send p2"]);
    }

    #[test]
    fn a_violation_while_idle_is_only_recorded() {
        let mut rig = Rig::open();
        assert_eq!(rig.step(violation()), NOTHING);
        assert_eq!(rig.prompt(), ["send p1"]);
    }

    #[test]
    fn a_mode_outside_the_catalogue_is_a_violation() {
        let mut rig = Rig::running();
        let facts = SessionFacts { mode: Some("turbo".into()), ..SessionFacts::default() };
        assert_eq!(rig.step(Input::Event(HostEvent::Facts(facts))).last().unwrap(), "p1 ZA806");
    }

    #[test]
    fn a_lost_stream_answers_the_prompt_and_ends_the_session() {
        let mut rig = Rig::running();
        rig.tool("t1", "c1", ToolStage::Started);
        let said = rig.step(lost());
        assert!(said[0].starts_with("tool c1 failed: not finished: "), "{said:?}");
        assert_eq!(said[2..], ["p1 ZA805", "close"]);
        assert_eq!(rig.prompt(), ["p2 ZA809"]);
        rig.step(Input::Closed(Err(host_gone())));
        assert!(matches!(rig.session.close_cause(), Some(CloseCause::Failed(_))));
        assert_eq!(rig.prompt(), ["p3 ZA805"]);
        assert_eq!(rig.close(), ["closed"]);
    }

    #[test]
    fn a_lost_stream_answers_a_held_prompt_too() {
        let mut rig = Rig::open();
        rig.started("bg", None);
        rig.prompt();
        assert_eq!(rig.step(lost()), ["p1 ZA805", "close"]);
    }

    #[test]
    fn after_a_cancel_even_a_lost_host_answers_cancelled() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        assert!(rig.step(lost()).contains(&"p1 Cancelled".to_owned()));
    }

    #[test]
    fn a_session_the_host_closes_answers_its_prompt() {
        let mut rig = Rig::running();
        assert_eq!(rig.event(None, EventBody::SessionClosed).last().unwrap(), "p1 ZA809");
        assert_eq!(rig.state(), "closed");
    }

    #[test]
    fn a_host_that_is_gone_while_sending_answers_the_prompt() {
        let mut rig = Rig::open();
        rig.prompt();
        let said = rig.step(Input::Sent { input: "p1".into(), result: Err(host_gone()) });
        assert_eq!(said[1..], ["p1 ZA805", "close"]);
    }

    #[test]
    fn a_client_that_does_not_read_stops_the_turn_and_fails_the_prompt() {
        let mut rig = Rig::running();
        let said = rig.step(Input::ClientStalled);
        assert_eq!(said, ["stop", "title prompt p1", "p1 ZA808"]);
        assert_eq!(rig.text("t1", "more"), NOTHING);
    }
}

mod ending {
    use super::*;

    #[test]
    fn close_while_a_turn_runs_denies_stops_answers_and_closes() {
        let mut rig = Rig::running();
        rig.ask("a1");
        let said = rig.close();
        let tool = "tool call-a1 failed: cancelled";
        let expected =
            ["withdraw a1", "answer a1 deny", "stop", tool, "title prompt p1", "p1 Cancelled", "close"];
        assert_eq!(said, expected);
        assert_eq!(rig.close(), NOTHING, "a second close waits for the first");
        assert_eq!(rig.prompt(), ["p2 ZA809"]);
        assert_eq!(rig.step(Input::Closed(Ok(()))), ["closed", "closed"]);
        assert_eq!(rig.session.close_cause(), Some(&CloseCause::Client));
        assert_eq!(rig.session.deadline(), None);
    }

    #[test]
    fn a_session_that_is_gone_is_closed() {
        for error in [refused(Refusal::NotActive), host_gone()] {
            let mut rig = Rig::open();
            assert_eq!(rig.close(), ["close"]);
            assert_eq!(rig.step(Input::Closed(Err(error))), ["closed"]);
        }
    }

    #[test]
    fn a_close_that_is_not_confirmed_is_said_and_ends_anyway() {
        let mut rig = Rig::open();
        rig.close();
        assert_eq!(rig.wait(secs(5)), ["close ZA608"]);
        assert_eq!(rig.state(), "closed");
    }

    #[test]
    fn shutdown_denies_asks_and_answers_everything_at_once() {
        let mut rig = Rig::running();
        rig.ask("a1");
        let said = rig.step(Input::Shutdown);
        assert_eq!(said[..2], ["withdraw a1", "answer a1 deny"]);
        assert_eq!(said.last().unwrap(), "p1 Cancelled");
        assert_eq!(rig.prompt(), ["p2 ZA902"]);
        assert_eq!(rig.session.deadline(), None);

        assert_eq!(Rig::opening().step(Input::Shutdown), ["new ZA902"]);

        let mut rig = Rig::open();
        rig.started("bg", None);
        rig.prompt();
        assert_eq!(rig.step(Input::Shutdown), ["p1 Cancelled"]);

        let mut rig = Rig::open();
        rig.close();
        assert_eq!(rig.step(Input::Shutdown), ["closed"]);
    }
}
