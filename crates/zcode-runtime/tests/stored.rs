//! Stored sessions, settings and session commands against the simulated host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod simulated_support;

use std::time::Duration;

use diag_model::ErrorCode;
use simulated_support::{launch, world};
use zcode_runtime::model::{
    CallError, CompactionStage, EventBody, HistoryMessage, HistoryPart, HistoryToolState, HostEvent, Refusal,
    Role, SessionEvent, TaskStatus, TodoStatus, ToolDisplay, TurnResult,
};

const SECRET: &str = "simulated-secret-that-must-not-be-shown";

fn why(error: &CallError) -> (Refusal, ErrorCode) {
    match error {
        CallError::Refused { failure, why } => (*why, failure.code),
        other => panic!("{other:?}"),
    }
}

fn body_of(event: HostEvent) -> Option<EventBody> {
    match event {
        HostEvent::Event(SessionEvent { body, .. }) => Some(body),
        HostEvent::Lost(failure) => panic!("{failure:?}"),
        HostEvent::Violation(violation) => panic!("{violation:?}"),
        _ => None,
    }
}

#[tokio::test]
async fn a_history_is_read_by_another_process() {
    let mut world = world(Some("tour")).await;
    let (result, live) = world.turn("show me").await;
    assert_eq!(result, TurnResult::EndTurn);
    let mut live_diffs = Vec::new();
    let mut live_todos = Vec::new();
    for body in &live {
        if let EventBody::Tool(tool) = body
            && let zcode_runtime::model::ToolStage::Result(result) = &tool.stage
        {
            match &result.display {
                Some(ToolDisplay::FileDiff { .. }) => live_diffs.push((tool.call.clone(), result.clone())),
                Some(ToolDisplay::Todos(todos)) => live_todos.push(todos.clone()),
                _ => {}
            }
        }
    }
    assert_eq!((live_diffs.len(), live_todos.len()), (1, 3));
    assert!(live_todos[2].iter().all(|todo| todo.status == TodoStatus::Completed));
    let first = world.host.clone();
    let count = first.message_count(world.ws(), &world.session).await.unwrap();
    first.shutdown().await;

    // Another host, as after a restart of the adapter: it shares nothing but the state directory.
    let host = launch(None, &world.dir.path().join("state")).await;
    host.open_workspace(world.ws()).await.expect("opened");
    let refused = host.read_history(world.ws(), &world.session, None, 10).await.unwrap_err();
    assert_eq!(why(&refused).0, Refusal::NotActive, "a stored session is resumed first");
    let opened = host.resume_session(world.ws(), &world.session, &[]).await.expect("resumed");
    assert_eq!((&opened.id, opened.facts.mode.as_deref()), (&world.session, Some("build")));
    assert_eq!(opened.facts.title.as_deref(), Some("Friendlier greeting"));
    assert_eq!(opened.facts.todos.as_ref(), live_todos.last());
    world.subscription = host.subscribe(world.ws(), &world.session).await.expect("subscribed");
    let resumed = world
        .until(|event| match body_of(event) {
            Some(EventBody::SessionResumed { message_count }) => Some(message_count),
            _ => None,
        })
        .await;
    assert_eq!(resumed, count, "the history is complete");
    assert_eq!(host.message_count(world.ws(), &world.session).await.unwrap(), count);

    let whole = host.read_history(world.ws(), &world.session, None, 200).await.expect("read");
    assert_eq!(Some(whole.len() as u64), count);
    let mut paged: Vec<HistoryMessage> = Vec::new();
    loop {
        let after = paged.last().map(|message| message.id.to_string());
        let page = host.read_history(world.ws(), &world.session, after.as_deref(), 2).await.expect("read");
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 2);
        paged.extend(page);
    }
    assert_eq!(paged, whole, "pages join without a gap or an overlap");

    assert!(whole.iter().all(|message| message.shown && message.created_ms.is_some()));
    assert_eq!(
        (whole[0].role, &whole[0].parts[..]),
        (Role::User, &[HistoryPart::Text("show me".to_owned())][..])
    );
    let parts = || whole.iter().flat_map(|message| &message.parts);
    assert!(parts().any(|part| matches!(part, HistoryPart::Thought(text) if text.contains("show me"))));
    let mut stored_diff = None;
    for part in parts() {
        if let HistoryPart::Tool(tool) = part
            && let HistoryToolState::Completed(result) = &tool.state
            && matches!(result.display, Some(ToolDisplay::FileDiff { .. }))
        {
            stored_diff = Some((tool.call.clone(), result.display.clone(), result.content.clone()));
        }
    }
    let (call, result) = live_diffs.remove(0);
    assert_eq!(stored_diff, Some((call, result.display, result.content)), "the same live and stored");
}

#[tokio::test]
async fn an_unknown_session_is_not_found() {
    let world = world(None).await;
    for id in ["0b9c8f3e-3f0d-4a57-9f0e-0d4d2b1f6a11", "nonsense"] {
        let error = world.host.resume_session(world.ws(), &id.into(), &[]).await.unwrap_err();
        assert_eq!(why(&error), (Refusal::NotFound, ErrorCode::SessionNotFound), "{id}");
    }
    let elsewhere = world.dir.path().join("elsewhere");
    let error = world.host.resume_session(&elsewhere, &world.session, &[]).await.unwrap_err();
    assert_eq!(why(&error).0, Refusal::NotFound, "it belongs to another workspace");
}

#[tokio::test]
async fn an_evicted_session_can_be_resumed() {
    let mut world = world(Some("evicted")).await;
    world.turn("go").await;
    let level = world.host.set_thought(world.ws(), &world.session, "low");
    assert_eq!(why(&level.await.unwrap_err()).0, Refusal::NotActive);
    world.host.resume_session(world.ws(), &world.session, &[]).await.expect("resumed");
    world.host.set_thought(world.ws(), &world.session, "low").await.expect("active again");
}

#[tokio::test]
async fn sessions_of_the_workspace_are_listed_newest_first() {
    let mut world = world(Some("greeting")).await;
    world.turn("a question about lists").await;
    let new = zcode_runtime::model::NewSession {
        workspace: world.ws().to_owned(),
        mode: "build".into(),
        mcp_servers: Vec::new(),
    };
    let second = world.host.create_session(&new).await.expect("created");
    let other = zcode_runtime::model::NewSession { workspace: world.ws().join("other"), ..new };
    world.host.create_session(&other).await.expect("created elsewhere");
    let sessions = world.host.list_sessions(world.ws()).await.expect("listed");
    let ids: Vec<_> = sessions.iter().map(|session| session.id.clone()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&world.session) && ids.contains(&second.id));
    assert!(sessions.is_sorted_by_key(|session| std::cmp::Reverse(session.updated_ms)));
    for session in &sessions {
        assert_eq!(session.cwd, world.ws());
        assert!(session.created_ms.is_some() && session.updated_ms >= session.created_ms);
        let expected = (session.id == world.session).then_some("a question about lists");
        assert_eq!(session.title.as_deref(), expected, "a placeholder is no title");
    }
}

#[tokio::test]
async fn model_and_thought_level_are_set_and_told() {
    let mut world = world(None).await;
    let state = world.host.open_workspace(world.ws()).await.unwrap();
    let model = state
        .models
        .iter()
        .find(|model| model.disabled.is_none() && Some(&model.id) != state.current_model.as_ref());
    let model = model.expect("a second model").id.clone();
    let facts = world.host.set_model(world.ws(), &world.session, &model).await.expect("set");
    assert_eq!(facts.model.as_ref(), Some(&model));
    let told = world
        .until(|event| match event {
            HostEvent::Facts(facts) => facts.model,
            _ => None,
        })
        .await;
    assert_eq!(told, model);
    let level = state.thought.expect("levels").available[0].0.clone();
    let facts = world.host.set_thought(world.ws(), &world.session, &level).await.expect("set");
    assert_eq!(facts.thought.expect("levels").current, Some(level));
    assert_eq!(facts.model, Some(model.clone()), "the other setting stays");

    let unknown = zcode_runtime::model::ModelRef { model: "novel".into(), ..model };
    let error = world.host.set_model(world.ws(), &world.session, &unknown).await.unwrap_err();
    assert_eq!(why(&error).1, ErrorCode::ModelUnknown);
    world.host.set_thought(world.ws(), &world.session, "novel").await.unwrap_err();
}

#[tokio::test]
async fn a_conversation_is_compacted_and_a_goal_kept() {
    let mut world = world(None).await;
    world.turn("hello").await;
    let outcome =
        world.host.compact(world.ws(), &world.session, &"c1".into(), Some("briefly")).await.unwrap();
    assert!(!outcome.text.is_empty() && !outcome.already_running);
    assert!(outcome.facts.context.is_some());
    let mut stages = Vec::new();
    while stages.len() < 2 {
        if let Some(EventBody::Compaction(stage)) = body_of(world.next().await) {
            stages.push(stage);
        }
    }
    assert_eq!(stages, [CompactionStage::Started, CompactionStage::Completed]);

    let goal = async |action: &str, objective: Option<&str>| {
        world.host.goal(world.ws(), &world.session, action, objective).await
    };
    assert!(!goal("set", Some("Ship it")).await.unwrap().started_turn);
    assert!(goal("show", None).await.unwrap().text.contains("Ship it"));
    goal("clear", None).await.unwrap();
    assert!(!goal("show", None).await.unwrap().text.contains("Ship it"));
    goal("levitate", None).await.unwrap_err();
}

#[tokio::test]
async fn a_background_task_reaches_its_end_under_the_call_that_started_it() {
    let mut world = world(Some("background")).await;
    let (_, live) = world.turn("build").await;
    let running = live.iter().find_map(|body| match body {
        EventBody::BackgroundTask(task) => Some(task.clone()),
        _ => None,
    });
    let running = running.expect("a task");
    assert_eq!(running.status, TaskStatus::Running);
    let backgrounded = live.iter().any(|body| {
        matches!(body, EventBody::Tool(tool) if tool.call == running.call
            && matches!(&tool.stage, zcode_runtime::model::ToolStage::Result(result)
                if result.display == Some(ToolDisplay::Backgrounded)))
    });
    assert!(backgrounded);
    let ended = world
        .until(|event| match body_of(event) {
            Some(EventBody::BackgroundTask(task)) => Some(task),
            _ => None,
        })
        .await;
    assert_eq!((ended.task, ended.call, ended.status), (running.task, running.call, TaskStatus::Completed));
    let own_turn = world
        .until(|event| match body_of(event) {
            Some(EventBody::TurnStarted { input, background }) => Some((input, background)),
            _ => None,
        })
        .await;
    assert_eq!(own_turn, (None, true));
}

#[tokio::test]
async fn a_retry_is_told_without_anything_of_the_request() {
    let mut world = world(Some("retry")).await;
    let (result, live) = world.turn("go").await;
    assert_eq!(result, TurnResult::EndTurn);
    let retries: Vec<_> = live
        .iter()
        .filter_map(|body| match body {
            EventBody::Retry(retry) => Some((retry.attempt, retry.delay, retry.status)),
            _ => None,
        })
        .collect();
    let ms = Duration::from_millis;
    assert_eq!(retries, [(1, ms(100), Some(529)), (2, ms(200), Some(529))]);
    assert!(!format!("{live:?}").contains(SECRET), "no header leaves this crate");
}

#[tokio::test]
async fn nobody_signed_in_is_said_when_the_workspace_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let host = launch(Some("not-signed-in"), &dir.path().join("state")).await;
    let error = host.open_workspace(dir.path()).await.unwrap_err();
    assert_eq!(why(&error), (Refusal::SignIn, ErrorCode::SignInRequired));
}
