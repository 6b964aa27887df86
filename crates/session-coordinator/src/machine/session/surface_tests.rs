//! Stored sessions, configuration, facts, questions, plans and commands: one test a rule.

use std::sync::Arc;
use std::time::Duration;

use diag_model::{ErrorCode, Failure};
use serde_json::json;
use zcode_runtime::model::{
    CallError, CompactOutcome, CompactionStage, ContextUsage, Decision, EventBody, GoalOutcome,
    HistoryMessage, HistoryPart, HistoryTool, HistoryToolState, HostEvent, InputAsk, OpenedSession, Question,
    QuestionOption, Refusal, Retry, Role, SessionFacts, SlashCommand, Snapshot, Todo, TodoPriority,
    TodoStatus, ToolResult, TurnResult, WorkspaceState,
};

use super::super::Input;
use super::Origin;
use super::fixture::{Rig, host_gone, mode_set, offers, option, permission, refused, timed_out};
use crate::client::{ClientProfile, ConfigId, FormAnswer};

const NOTHING: [&str; 0] = [];

fn mode(mode: &str) -> SessionFacts {
    SessionFacts { mode: Some(mode.into()), ..SessionFacts::default() }
}

fn resumed(mode: Option<&str>) -> Input {
    let facts = SessionFacts { mode: mode.map(Arc::from), ..SessionFacts::default() };
    Input::Resumed(Ok(OpenedSession { id: "s".into(), facts }))
}

fn subscribed(facts: SessionFacts) -> Input {
    Input::Subscribed(Ok(Snapshot { facts, ..Snapshot::default() }))
}

fn todo(content: &str) -> Todo {
    Todo { content: content.into(), status: TodoStatus::Pending, priority: TodoPriority::Medium }
}

fn command(name: &str) -> SlashCommand {
    SlashCommand { name: name.into(), description: name.into(), input_hint: None, builtin: false }
}

fn with_commands() -> WorkspaceState {
    WorkspaceState { commands: vec![command("review")], ..offers() }
}

fn message(id: &str, role: Role, parts: Vec<HistoryPart>) -> HistoryMessage {
    HistoryMessage { id: id.into(), role, shown: true, parts, created_ms: None }
}

fn text(text: &str) -> HistoryPart {
    HistoryPart::Text(text.to_owned())
}

fn tool(call: &str, state: HistoryToolState) -> HistoryPart {
    let input = json!({"command": "make"});
    HistoryPart::Tool(HistoryTool { call: call.into(), tool: "Bash".into(), input, state })
}

fn done() -> HistoryToolState {
    HistoryToolState::Completed(ToolResult {
        success: true,
        content: "ok".into(),
        display: None,
        exit_code: None,
        truncated: false,
        original_bytes: None,
    })
}

fn history(page: Vec<HistoryMessage>) -> Input {
    Input::History(Ok(page))
}

fn count(count: u64) -> Input {
    Input::Counted(Ok(Some(count)))
}

mod stored {
    use super::*;

    /// A load whose history is being read.
    fn reading() -> Rig {
        let mut rig = Rig::stored(true, with_commands());
        assert_eq!(rig.step(resumed(Some("edit"))), ["subscribe"]);
        let facts = SessionFacts {
            title: Some("T".into()),
            todos: Some(vec![todo("a")]),
            context: Some(ContextUsage { used: 1, size: 2 }),
            ..SessionFacts::default()
        };
        assert_eq!(rig.step(subscribed(facts)), ["count"]);
        assert_eq!(rig.step(count(3)), NOTHING);
        assert_eq!(rig.wait(Duration::from_millis(150)), ["count"]);
        assert_eq!(rig.step(count(3)), ["history all"]);
        rig
    }

    #[test]
    fn a_load_shows_the_history_then_plan_title_commands_and_usage_then_answers() {
        let mut rig = reading();
        let page = vec![
            message("1", Role::User, vec![text("do it")]),
            message(
                "2",
                Role::Assistant,
                vec![HistoryPart::Thought("hm".into()), text("done"), tool("c", done())],
            ),
        ];
        assert_eq!(
            rig.step(history(page)),
            ["user do it", "thought hm", "text done", "call c", "tool c Some(Completed)", "history 2"]
        );
        let said = rig.step(history(Vec::new()));
        assert_eq!(said[..3], ["plan [\"a\"]", "title T", "commands review"]);
        assert!(said[3].starts_with("Usage"), "{said:?}");
        assert_eq!(said[4..], ["new s edit"]);
        assert_eq!(rig.state(), "idle");
    }

    #[test]
    fn hidden_messages_and_repeats_are_not_shown_and_what_was_left_behind_has_failed() {
        let mut rig = reading();
        let hidden = HistoryMessage { shown: false, ..message("1", Role::User, vec![text("reminder")]) };
        let page = vec![
            hidden,
            message(
                "2",
                Role::Assistant,
                vec![
                    tool("c", done()),
                    tool("c", done()),
                    tool("d", HistoryToolState::Running),
                    HistoryPart::Skipped,
                ],
            ),
            message("2", Role::Assistant, vec![text("again")]),
        ];
        let said = rig.step(history(page));
        let expected =
            ["call c", "tool c Some(Completed)", "call d", "tool d failed: not finished", "history 2"];
        assert_eq!(said, expected);
        // A host that gives the same page for ever ends the replay.
        let again = vec![message("2", Role::Assistant, vec![text("again")])];
        assert_eq!(rig.step(history(again)).last().unwrap(), "new s edit");
    }

    #[test]
    fn a_history_is_settled_when_the_host_says_so_and_the_count_is_read() {
        let mut rig = Rig::stored(true, offers());
        rig.step(resumed(Some("build")));
        rig.step(subscribed(SessionFacts::default()));
        assert_eq!(rig.step(count(1)), NOTHING);
        let said = rig.event(None, EventBody::SessionResumed { message_count: Some(2) });
        assert_eq!(said, ["count"]);
        assert_eq!(rig.step(count(1)), NOTHING, "not all of them yet");
        rig.wait(Duration::from_millis(150));
        assert_eq!(rig.step(count(2)), ["history all"]);
        rig.step(history(Vec::new()));
    }

    #[test]
    fn a_history_that_never_settles_is_shown_after_ten_seconds_with_a_notice() {
        let mut rig = Rig::stored(true, offers());
        rig.step(resumed(Some("build")));
        rig.step(subscribed(SessionFacts::default()));
        let mut said = Vec::new();
        for n in 0..80 {
            said.extend(rig.step(count(n)));
            said.extend(rig.wait(Duration::from_millis(150)));
        }
        let notice = said.iter().position(|line| line.contains("still loading")).unwrap();
        assert_eq!(said[notice + 1], "history all", "{said:?}");
        assert_eq!(said.iter().filter(|line| *line == "history all").count(), 1);
    }

    #[test]
    fn a_stored_mode_is_kept_even_yolo_and_a_stronger_one_is_set_back_before_any_prompt() {
        let mut rig = Rig::stored(false, offers());
        assert_eq!(rig.step(resumed(Some("yolo"))), ["subscribe"]);
        assert_eq!(rig.step(subscribed(mode("yolo"))), ["new s yolo"]);
        let mut rig = Rig::stored(false, offers());
        rig.step(resumed(Some("build")));
        assert_eq!(rig.step(subscribed(mode("yolo"))), ["set mode build"]);
        assert_eq!(rig.step(mode_set(Some("build"))), ["new s build"]);
        let mut rig = Rig::stored(false, offers());
        rig.step(resumed(Some("build")));
        rig.step(subscribed(mode("yolo")));
        assert_eq!(rig.step(mode_set(Some("yolo"))), ["new ZA605", "close"]);
    }

    #[test]
    fn a_stored_mode_that_is_missing_or_unknown_is_refused() {
        for said in [None, Some("turbo")] {
            assert_eq!(Rig::stored(true, offers()).step(resumed(said)), ["new ZA605", "close"]);
        }
        let mut rig = Rig::stored(true, offers());
        rig.step(resumed(Some("build")));
        assert_eq!(rig.step(subscribed(mode("turbo"))), ["new ZA605", "close"]);
    }

    #[test]
    fn a_resume_that_fails_or_is_withdrawn_leaves_nothing() {
        let mut rig = Rig::stored(true, offers());
        assert_eq!(rig.step(Input::Resumed(Err(refused(Refusal::NotFound)))), ["new ZA608"]);
        assert_eq!(rig.state(), "closed");
        let mut rig = Rig::stored(true, offers());
        assert_eq!(rig.step(Input::OpenWithdrawn), ["new ZA903"]);
        assert_eq!(rig.step(resumed(Some("build"))), ["close"]);
        let mut rig = reading();
        assert_eq!(rig.step(Input::OpenWithdrawn), ["new ZA903", "close"]);
        assert_eq!(rig.step(history(vec![message("1", Role::User, vec![text("late")])])), NOTHING);
    }

    #[test]
    fn what_the_host_says_during_a_replay_comes_behind_it() {
        let mut rig = reading();
        assert_eq!(rig.started("t1", None), NOTHING);
        assert_eq!(rig.text("t1", "live"), NOTHING);
        let said = rig.step(history(Vec::new()));
        assert_eq!(said.last().unwrap(), "text live");
        assert!(said.iter().any(|line| line == "new s edit"));
        assert_eq!(rig.state(), "background");
    }

    #[test]
    fn a_session_that_is_open_is_shown_again_without_a_resume() {
        let mut rig = Rig::open();
        rig.title("T");
        assert_eq!(rig.reopen(true), ["history all"]);
        assert_eq!(rig.prompt(), NOTHING, "it waits");
        rig.step(history(vec![message("1", Role::User, vec![text("hi")])]));
        assert_eq!(rig.step(history(Vec::new())), ["title T", "reopen build", "send p1"]);
        assert_eq!(rig.reopen(true), ["reopen ZA802"], "a turn runs");
        assert_eq!(rig.reopen(false), ["reopen build"]);
    }

    #[test]
    fn five_thousand_messages_take_no_time() {
        let mut rig = reading();
        let begun = std::time::Instant::now();
        for page in 0..25 {
            let messages = (0..200).map(|n| {
                let id = format!("{page}-{n}");
                message(&id, Role::Assistant, vec![text("x"), tool(&format!("c{id}"), done())])
            });
            assert_eq!(rig.step(history(messages.collect())).len(), 601);
        }
        rig.step(history(Vec::new()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

mod configuration {
    use super::*;

    #[test]
    fn a_change_is_told_as_an_update_and_then_answered() {
        let mut rig = Rig::open();
        assert_eq!(rig.set(ConfigId::Mode, "yolo"), [r#"set Mode("yolo")"#]);
        assert_eq!(
            rig.step(Input::WasSet(Ok(mode("yolo")))),
            ["mode yolo", "options yolo [\"p\",\"m1\",null] max", "set yolo"]
        );
        assert_eq!(rig.set(ConfigId::Mode, "yolo"), ["set yolo"], "in force already");
        assert_eq!(rig.set(ConfigId::Mode, "turbo"), ["set ZA702"]);
        assert_eq!(rig.set(ConfigId::Model, "m2"), ["set ZA703"]);
    }

    #[test]
    fn changes_are_made_one_after_the_other() {
        let mut rig = Rig::open();
        rig.set(ConfigId::Model, r#"["p","m2",null]"#);
        assert_eq!(rig.set(ConfigId::Thought, "low"), NOTHING);
        let said = rig.step(Input::WasSet(Ok(SessionFacts::default())));
        let expected = ["options build [\"p\",\"m2\",null] max", "set build", r#"set Thought("low")"#];
        assert_eq!(said, expected);
        assert_eq!(rig.step(Input::WasSet(Err(timed_out()))), ["set ZA608"]);
    }

    #[test]
    fn a_stronger_mode_than_the_one_set_is_set_back_once_and_then_refused() {
        let mut rig = Rig::open();
        rig.set(ConfigId::Mode, "plan");
        assert_eq!(rig.step(Input::WasSet(Ok(mode("yolo")))), [r#"set Mode("plan")"#]);
        let said = rig.step(Input::WasSet(Ok(mode("yolo"))));
        assert_eq!(said.first().unwrap(), "mode yolo");
        assert_eq!(said.last().unwrap(), "set ZA605");
    }

    #[test]
    fn a_prompt_waits_for_the_mode_that_was_set_before_it() {
        let mut rig = Rig::open();
        rig.set(ConfigId::Mode, "plan");
        assert_eq!(rig.prompt(), NOTHING);
        assert_eq!(rig.step(Input::WasSet(Ok(mode("plan")))).last().unwrap(), "send p1");
        let mut rig = Rig::open();
        rig.set(ConfigId::Mode, "plan");
        rig.prompt();
        assert_eq!(rig.step(Input::Cancel), ["p1 Cancelled"]);
    }

    #[test]
    fn a_change_by_the_agent_is_told_too() {
        let mut rig = Rig::running();
        let said = rig.facts(mode("plan"));
        assert_eq!(said, ["mode plan", "options plan [\"p\",\"m1\",null] max"]);
        assert_eq!(rig.facts(mode("plan")), NOTHING);
    }

    #[test]
    fn who_waits_for_a_change_is_answered_when_the_session_ends() {
        let mut rig = Rig::open();
        rig.set(ConfigId::Mode, "plan");
        rig.set(ConfigId::Thought, "low");
        let said = rig.close();
        assert_eq!(said, ["set ZA809", "set ZA809", "close"]);
        let mut rig = Rig::open();
        rig.set(ConfigId::Mode, "plan");
        assert!(rig.step(Input::WasSet(Err(host_gone()))).contains(&"set ZA805".to_owned()));
    }
}

mod eviction {
    use super::*;

    fn evicted() -> CallError {
        refused(Refusal::NotActive)
    }

    fn sent(result: Result<(), CallError>) -> Input {
        Input::Sent { input: "p1".into(), result }
    }

    #[test]
    fn a_prompt_that_was_provably_refused_is_sent_again_once_after_a_resume() {
        let mut rig = Rig::open();
        rig.prompt();
        assert_eq!(rig.step(sent(Err(evicted()))), ["resume s"]);
        assert_eq!(rig.step(resumed(Some("build"))), ["subscribe"]);
        assert_eq!(rig.step(subscribed(SessionFacts::default())), ["send p1"]);
        assert_eq!(rig.step(sent(Err(evicted()))), ["title prompt p1", "p1 ZA608"]);
        assert_eq!(rig.state(), "idle");
    }

    #[test]
    fn a_change_is_made_again_after_a_resume_that_both_share() {
        let mut rig = Rig::open();
        rig.set(ConfigId::Thought, "low");
        rig.reopen(true);
        assert_eq!(rig.step(Input::WasSet(Err(evicted()))), ["resume s"]);
        assert_eq!(rig.step(Input::History(Err(evicted()))), NOTHING);
        rig.step(resumed(Some("build")));
        let said = rig.step(subscribed(SessionFacts::default()));
        assert_eq!(said, [r#"set Thought("low")"#, "history all"]);
    }

    #[test]
    fn a_session_that_comes_back_stronger_is_set_back_before_the_prompt() {
        let mut rig = Rig::open();
        rig.prompt();
        rig.step(sent(Err(evicted())));
        assert_eq!(rig.step(resumed(Some("yolo"))), ["set mode build"]);
        assert_eq!(rig.step(mode_set(Some("build"))), ["subscribe"]);
        assert_eq!(rig.step(subscribed(SessionFacts::default())), ["send p1"]);
        let mut rig = Rig::open();
        rig.prompt();
        rig.step(sent(Err(evicted())));
        rig.step(resumed(Some("yolo")));
        assert_eq!(rig.step(mode_set(Some("yolo"))), ["title prompt p1", "p1 ZA608"]);
    }

    #[test]
    fn a_resume_that_fails_answers_with_the_reason_and_the_next_prompt_tries_again() {
        let mut rig = Rig::open();
        rig.prompt();
        rig.step(sent(Err(evicted())));
        let said = rig.step(Input::Resumed(Err(refused(Refusal::Other))));
        assert_eq!(said, ["title prompt p1", "p1 ZA608"]);
        assert_eq!(rig.prompt(), ["send p2"]);
    }
}

mod facts {
    use super::*;

    #[test]
    fn commands_follow_the_answer_and_come_before_the_first_prompt() {
        let origin = Origin::New { mode: "build".into() };
        let (rig, _) = Rig::begin(None, ClientProfile::default(), origin, with_commands());
        let mut rig = rig.opened();
        assert_eq!(rig.prompt(), NOTHING, "held until the commands are told");
        assert_eq!(rig.wait(Duration::from_millis(49)), NOTHING);
        assert_eq!(rig.wait(Duration::from_millis(1)), ["commands review", "send p1"]);
    }

    #[test]
    fn todos_and_usage_are_told_when_they_change_and_an_empty_list_too() {
        let mut rig = Rig::open();
        let todos = |todos| SessionFacts { todos: Some(todos), ..SessionFacts::default() };
        assert_eq!(rig.facts(todos(Vec::new())), NOTHING);
        assert_eq!(rig.facts(todos(vec![todo("a")])), ["plan [\"a\"]"]);
        assert_eq!(rig.facts(todos(vec![todo("a")])), NOTHING);
        assert_eq!(rig.facts(todos(Vec::new())), ["plan []"]);
        let usage =
            |used| SessionFacts { context: Some(ContextUsage { used, size: 2 }), ..SessionFacts::default() };
        assert_eq!(rig.facts(usage(1)), NOTHING, "not right behind the answer");
        assert_eq!(rig.wait(Duration::from_millis(50)).len(), 1);
        assert_eq!(rig.facts(usage(1)), NOTHING);
        assert_eq!(rig.facts(usage(0)).len(), 1);
    }

    #[test]
    fn an_empty_context_is_not_news_for_a_new_session() {
        let mut rig = Rig::open();
        let context = Some(ContextUsage { used: 0, size: 2 });
        rig.facts(SessionFacts { context, ..SessionFacts::default() });
        assert_eq!(rig.wait(Duration::from_mins(1)), NOTHING);
    }

    #[test]
    fn behind_a_prompt_cancelled_before_it_was_sent_nothing_is_told_either() {
        let origin = Origin::New { mode: "build".into() };
        let (rig, _) = Rig::begin(None, ClientProfile::default(), origin, with_commands());
        let mut rig = rig.opened();
        assert_eq!(rig.prompt(), NOTHING, "held until the commands are told");
        assert_eq!(rig.step(Input::Cancel), ["p1 Cancelled"]);
        assert_eq!(rig.wait(Duration::from_secs(2)), NOTHING);
        assert_eq!(rig.wait(super::super::FENCE), ["commands review"]);
    }

    #[test]
    fn behind_a_cancelled_answer_facts_wait_and_only_the_newest_are_told() {
        let mut rig = Rig::running();
        rig.step(Input::Cancel);
        rig.ended("t1", TurnResult::Cancelled);
        for name in ["plan", "edit"] {
            let todos = Some(vec![todo(name)]);
            assert_eq!(rig.facts(SessionFacts { todos, ..mode(name) }), NOTHING);
        }
        let said = rig.wait(super::super::FENCE);
        assert_eq!(said, ["plan [\"edit\"]", "mode edit", "options edit [\"p\",\"m1\",null] max"]);
    }

    #[test]
    fn a_wait_is_a_notice_or_for_a_long_one_a_thought() {
        let retry = |secs| {
            EventBody::Retry(Retry {
                attempt: 2,
                max: Some(11),
                delay: Duration::from_secs(secs),
                status: Some(429),
            })
        };
        let mut rig = Rig::running();
        assert_eq!(rig.event(Some("t1"), retry(9)), NOTHING);
        let said = rig.event(Some("t1"), retry(12));
        assert!(said[0].starts_with("thought") && said[0].contains("attempt 2 of 11 in 12 s"), "{said:?}");
        let mut rig = Rig::of_client(ClientProfile { notices: true, ..ClientProfile::default() });
        rig.started("t1", None);
        assert!(rig.event(Some("t1"), retry(1))[0].starts_with("Notice"));
    }

    #[test]
    fn a_compaction_is_told_only_to_clients_that_know_it() {
        let stages = [
            CompactionStage::Started,
            CompactionStage::Completed,
            CompactionStage::Failed(Some("full".into())),
        ];
        let mut rig = Rig::open();
        for stage in stages.clone() {
            assert_eq!(rig.event(None, EventBody::Compaction(stage)), NOTHING);
        }
        let mut rig = Rig::of_client(ClientProfile { compaction: true, ..ClientProfile::default() });
        let said: Vec<_> =
            stages.into_iter().flat_map(|stage| rig.event(None, EventBody::Compaction(stage))).collect();
        let id = |line: &str| line.split('"').nth(1).unwrap().to_owned();
        assert!(said[0].contains("InProgress") && said[1].contains("Completed") && said[2].contains("full"));
        assert_eq!(id(&said[0]), id(&said[1]));
        assert_ne!(id(&said[1]), id(&said[2]));
    }
}

mod interactions {
    use super::*;

    fn question(text: &str, options: &[&str]) -> Question {
        let option = |value: &&str| QuestionOption {
            value: (*value).to_owned(),
            label: (*value).to_owned(),
            description: None,
        };
        Question {
            question: text.into(),
            header: None,
            options: options.iter().map(option).collect(),
            multi: false,
        }
    }

    fn ask(plan: Option<&str>, questions: Vec<Question>) -> Input {
        Input::Event(HostEvent::Input(InputAsk {
            id: "q".into(),
            call: Some("c".into()),
            interaction: plan.map(|_| "plan_approval".into()),
            plan: plan.map(str::to_owned),
            questions,
        }))
    }

    fn plan() -> Input {
        ask(Some("# P"), vec![question("Review", &["approve"])])
    }

    fn client(forms: bool, plans: bool) -> Rig {
        let mut rig = Rig::of_client(ClientProfile { forms, plans, ..ClientProfile::default() });
        rig.prompt();
        rig.accept("p1");
        rig.started("t1", Some("p1"));
        rig
    }

    fn form(values: &[&str]) -> Input {
        let values = values.iter().map(|value| vec![(*value).to_owned()]).collect();
        Input::FormAnswer { ask: "q".into(), answer: FormAnswer::Accepted(values) }
    }

    #[test]
    fn questions_go_as_one_form_or_one_after_the_other() {
        let questions = || vec![question("A?", &["x", "y"]), question("B?", &["z"])];
        let accepted = r#"answer q Accept([("A?", ["y"]), ("B?", ["z"])])"#;
        let mut rig = client(true, false);
        assert_eq!(rig.step(ask(None, questions())), ["form q ZCode has 2 questions"]);
        assert_eq!(rig.step(form(&["y", "z"])), [accepted]);
        assert_eq!(rig.step(form(&["y", "z"])), NOTHING, "once");
        let mut rig = client(false, false);
        assert_eq!(rig.step(ask(None, questions())), ["ask q"]);
        assert_eq!(rig.select("q", "answer-2"), ["ask q#2"]);
        assert_eq!(rig.select("q", "answer-1"), NOTHING, "answered already");
        assert_eq!(rig.select("q#2", "answer-1"), [accepted]);
    }

    #[test]
    fn a_question_is_withdrawn_with_its_turn_and_when_it_resolves_itself() {
        let mut rig = client(false, false);
        rig.step(ask(None, vec![question("A?", &["x"]), question("B?", &["z"])]));
        rig.select("q", "answer-1");
        assert_eq!(rig.step(Input::Cancel), ["withdraw q#2", "answer q Cancel", "stop"]);
        let mut rig = client(true, false);
        rig.step(ask(None, vec![question("A?", &["x"])]));
        assert_eq!(rig.step(Input::Event(HostEvent::AskGone("q".into()))), ["withdraw q"]);
        assert_eq!(rig.step(form(&["x"])), NOTHING);
    }

    #[test]
    fn a_plan_is_shown_then_asked_and_kept_until_the_turn_ends() {
        let mut rig = client(true, true);
        let said = rig.step(plan());
        let shown = ["proposal zcode-plan-proposal:q # P", "form q ZCode asks you to approve its plan"];
        assert_eq!(said, shown);
        assert_eq!(rig.step(form(&["approve"])), [r#"answer q Accept([("Review", ["approve"])])"#]);
        rig.confirm("q");
        let said = rig.ended("t1", TurnResult::EndTurn);
        assert_eq!(said[0], "proposal gone zcode-plan-proposal:q");
    }

    #[test]
    fn a_plan_that_is_not_approved_is_withdrawn_at_once() {
        let mut rig = client(false, true);
        rig.step(plan());
        let said = rig.select("q", "zcode-acp:keep-planning");
        assert_eq!(said, ["proposal gone zcode-plan-proposal:q", "answer q Decline"]);
        let mut rig = client(false, false);
        let said = rig.step(plan());
        assert_eq!(said, ["plan [\"Review the proposed plan\"]", "call c", "ask q"]);
        assert_eq!(rig.select("q", "nonsense"), ["plan []", "answer q Decline"]);
    }

    #[test]
    fn a_plan_asked_as_a_permission_is_shown_first_and_checked() {
        let permit = |input, options| {
            let mut ask = permission("a");
            ask.tool = "ExitPlanMode".into();
            ask.input = input;
            ask.options = options;
            Input::Event(HostEvent::Permission(ask))
        };
        let options = || vec![option("yes", Decision::Allow, false), option("no", Decision::Deny, false)];
        let mut rig = client(false, true);
        let said = rig.step(permit(json!({"plan": "# P"}), options()));
        assert_eq!(said[0], "proposal zcode-plan-proposal:a # P");
        assert_eq!(said.last().unwrap(), "ask a");
        let said = rig.select("a", "no");
        assert_eq!(said, ["proposal gone zcode-plan-proposal:a", "answer a no"]);
        let mut strange = options();
        strange.push(option("up", Decision::Escalate, false));
        for ask in [permit(json!({}), options()), permit(json!({"plan": "# P"}), strange)] {
            let said = client(false, true).step(ask);
            assert_eq!(said, ["answer a no", "stop", "title prompt p1", "p1 ZA806"]);
        }
    }

    #[test]
    fn outside_a_turn_a_question_is_put_as_long_as_the_session_is_open() {
        let mut rig = Rig::open();
        assert_eq!(rig.step(ask(None, vec![question("A?", &["x"])])), ["ask q"]);
        assert_eq!(rig.close(), ["withdraw q", "answer q Cancel", "close"]);
    }
}

mod commands {
    use super::*;

    fn compacted(text: &str) -> Input {
        let facts = SessionFacts::default();
        let outcome = CompactOutcome { text: text.into(), already_running: false, facts };
        Input::Compacted { input: "p1".into(), result: Ok(outcome) }
    }

    #[test]
    fn compact_and_goal_are_calls_and_end_with_visible_text() {
        let mut rig = Rig::open();
        assert_eq!(rig.say("/compact keep tests"), [r#"compact p1 Some("keep tests")"#]);
        assert_eq!(rig.prompt(), ["p2 ZA802"], "it is a running prompt");
        let said = rig.step(compacted("Done: 3 turns."));
        assert_eq!(said, ["text Done: 3 turns.", "title /compact keep tests", "p1 EndTurn"]);
        let mut rig = Rig::open();
        assert_eq!(rig.say("/goal all green"), [r#"goal set Some("all green")"#]);
        rig.started("t1", None);
        let facts = SessionFacts::default();
        let result = Ok(GoalOutcome { text: String::new(), started_turn: true, facts });
        let said = rig.step(Input::GoalDone { input: "p1".into(), result });
        assert!(said[0].starts_with("text The goal is set"), "{said:?}");
        assert_eq!(said.last().unwrap(), "p1 EndTurn");
        assert_eq!(rig.state(), "background", "the turn it began is the host's own");
        assert_eq!(rig.text("t1", "working"), ["text working"]);
    }

    #[test]
    fn a_command_ends_with_its_answer_and_not_with_an_event() {
        let mut rig = Rig::open();
        rig.say("/compact");
        rig.started("t1", Some("p1"));
        assert_eq!(rig.ended("t1", TurnResult::EndTurn), NOTHING);
        assert_eq!(rig.step(compacted("")).last().unwrap(), "p1 EndTurn");
        assert_eq!(rig.state(), "idle");
        let mut rig = Rig::open();
        rig.say("/compact");
        let result = Err(timed_out());
        let said = rig.step(Input::Compacted { input: "p1".into(), result });
        assert_eq!(said.last().unwrap(), "p1 ZA804");
        let mut rig = Rig::open();
        rig.say("/compact");
        assert_eq!(rig.step(Input::Cancel), ["stop"]);
        assert_eq!(rig.step(compacted("done")).last().unwrap(), "p1 Cancelled");
    }

    #[test]
    fn plan_sets_the_mode_and_then_sends_the_rest() {
        let mut rig = Rig::open();
        assert_eq!(rig.say("/plan /compact is a word"), [r#"set Mode("plan")"#]);
        let said = rig.step(Input::WasSet(Ok(mode("plan"))));
        assert_eq!(said.last().unwrap(), "send p1");
        rig.accept("p1");
        rig.started("t1", Some("p1"));
        rig.ended("t1", TurnResult::EndTurn);
        let said = rig.say("/plan");
        assert!(said[0].starts_with("text Plan mode is on"), "{said:?}");
        assert_eq!(said.last().unwrap(), "p2 EndTurn");
    }

    #[test]
    fn a_plan_mode_that_cannot_be_set_sends_nothing() {
        let mut rig = Rig::open();
        rig.say("/plan delete nothing");
        let failure = Failure::new(ErrorCode::SessionRefused);
        let result = Err(CallError::Refused { failure, why: Refusal::Other });
        assert_eq!(rig.step(Input::WasSet(result)), ["p1 ZA608"]);
        assert_eq!(rig.state(), "idle");
    }
}
