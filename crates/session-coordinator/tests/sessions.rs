//! Stored sessions, configuration and commands through the coordinator against the simulated host.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use common::{Answer, World, answer, reply, world};
use diag_model::SessionId;
use session_coordinator::client::{ConfigId, StopReason};
use session_coordinator::{ListAnswer, ListRequest, OpenRequest, SessionSetup};
use tokio_util::sync::CancellationToken;

impl World {
    fn request_of(session: &SessionId, cwd: PathBuf) -> OpenRequest {
        OpenRequest { session: session.clone(), cwd, mcp_servers: Vec::new() }
    }

    fn load(&self, session: &SessionId) -> Answer<SessionSetup> {
        let (reply, receiver) = reply(&self.client, "load");
        let request = Self::request_of(session, self.dir.path().to_owned());
        self.coordinator.load(request, CancellationToken::new(), reply);
        receiver
    }

    fn resume_in(&self, session: &SessionId, cwd: PathBuf) -> Answer<SessionSetup> {
        let (reply, receiver) = reply(&self.client, "resume");
        self.coordinator.resume(Self::request_of(session, cwd), CancellationToken::new(), reply);
        receiver
    }

    fn list(&self, cwd: Option<PathBuf>, cursor: Option<String>) -> Answer<ListAnswer> {
        let (reply, receiver) = reply(&self.client, "list");
        self.coordinator.list(ListRequest { cwd, cursor }, reply);
        receiver
    }

    fn set(&self, session: &SessionId, option: ConfigId, value: &str) -> Answer<SessionSetup> {
        let (reply, receiver) = reply(&self.client, "set");
        self.coordinator.set_option(session, option, value.to_owned(), reply);
        receiver
    }

    fn forget(&self) -> Vec<String> {
        std::mem::take(&mut *self.client.log.lock().unwrap())
    }
}

#[tokio::test]
async fn a_closed_session_is_listed_and_loaded_with_its_history() {
    let world = world("edit", Some("allow_once"));
    let session = world.open().await.session;
    assert_eq!(answer(world.prompt(&session, "perm please")).await, Ok(StopReason::EndTurn));
    let live: Vec<_> = world.forget().into_iter().filter(|line| line.starts_with("call")).collect();
    answer(world.close(&session)).await.unwrap();

    let cwd = world.dir.path().to_owned();
    let listed = answer(world.list(Some(cwd.clone()), None)).await.unwrap();
    assert_eq!(listed.sessions.len(), 1);
    assert_eq!((&listed.sessions[0].id, &listed.sessions[0].cwd), (&session, &cwd));

    world.forget();
    world.client.diffs.store(0, Ordering::SeqCst);
    let setup = answer(world.load(&session)).await.unwrap();
    assert_eq!((&setup.session, &*setup.modes.current), (&session, "build"));
    let log = world.forget();
    let at = |start: &str| log.iter().position(|line| line.starts_with(start));
    assert!(log.iter().any(|line| line.contains("perm please")), "{log:#?}");
    let replayed: Vec<_> = log.iter().filter(|line| line.starts_with("call")).cloned().collect();
    assert_eq!(replayed, live, "the same calls as live");
    assert_eq!(world.client.diffs.load(Ordering::SeqCst), 1, "{log:#?}");
    assert!(at("UserText") < at("call") && at("call") < at("answer load"), "{log:#?}");
    assert_eq!(at("answer load"), Some(log.len() - 1), "{log:#?}");
    // It can be used.
    assert_eq!(answer(world.prompt(&session, "hello")).await, Ok(StopReason::EndTurn));
    world.end().await;
}

#[tokio::test]
async fn a_resume_shows_no_message_and_loads_of_one_session_share_one() {
    let world = world("greeting", None);
    let session = world.open().await.session;
    answer(world.prompt(&session, "hello")).await.unwrap();
    answer(world.close(&session)).await.unwrap();
    world.forget();
    answer(world.resume_in(&session, world.dir.path().to_owned())).await.unwrap();
    assert_eq!(world.client.text(), "");
    answer(world.close(&session)).await.unwrap();
    let (first, second) = (world.load(&session), world.load(&session));
    assert!(answer(first).await.is_ok() && answer(second).await.is_ok());
    let replays = world.forget().iter().filter(|line| line.starts_with("UserText")).count();
    assert_eq!(replays, 2, "each is shown the history");
    world.end().await;
}

#[tokio::test]
async fn a_session_of_another_folder_or_nobody_is_refused_by_name() {
    let world = world("greeting", None);
    let session = world.open().await.session;
    answer(world.prompt(&session, "hello")).await.unwrap();
    answer(world.close(&session)).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let failure = answer(world.resume_in(&session, other.path().to_owned())).await.unwrap_err();
    assert_eq!(failure.code.as_str(), "ZA609");
    assert!(failure.cause_text().contains(&world.dir.path().display().to_string()), "{failure:?}");
    let failure = answer(world.load(&"nobody".into())).await.unwrap_err();
    assert_eq!(failure.code.as_str(), "ZA602");
    let gone = answer(world.list(Some(other.path().join("gone")), None)).await.unwrap();
    assert_eq!(gone, ListAnswer::default());
    let bad = answer(world.list(None, Some("nonsense".to_owned()))).await.unwrap_err();
    assert_eq!(bad.code.as_str(), "ZA901");
    world.end().await;
}

#[tokio::test]
async fn options_are_offered_set_and_refused() {
    let world = world("greeting", None);
    let setup = world.open().await;
    let ids: Vec<_> = setup.options.iter().map(|option| option.id).collect();
    assert_eq!(ids, [ConfigId::Mode, ConfigId::Model, ConfigId::Thought]);
    let session = setup.session;
    let models: Vec<_> = setup.options[1].groups.iter().flat_map(|group| &group.choices).collect();
    let other = models.iter().find(|choice| choice.value != setup.options[1].current).unwrap();
    let after = answer(world.set(&session, ConfigId::Model, &other.value)).await.unwrap();
    assert_eq!(after.options[1].current, other.value);
    let kept: Vec<_> = after.options[1].groups.iter().flat_map(|group| &group.choices).collect();
    assert_eq!(kept, models, "the catalogue is kept");
    let yolo = answer(world.set(&session, ConfigId::Mode, "yolo")).await.unwrap();
    assert_eq!(&*yolo.modes.current, "yolo");
    assert!(world.client.log().iter().any(|line| line.starts_with("Mode(\"yolo\"")));
    let failure = answer(world.set(&session, ConfigId::Mode, "turbo")).await.unwrap_err();
    assert_eq!(failure.code.as_str(), "ZA702");
    // A stored yolo is the user's own choice.
    answer(world.close(&session)).await.unwrap();
    let again = answer(world.load(&session)).await.unwrap();
    assert_eq!(&*again.modes.current, "yolo");
    world.end().await;
}

#[tokio::test]
async fn an_evicted_session_is_had_back_for_the_next_prompt() {
    let world = world("evicted", None);
    let session = world.open().await.session;
    for _ in 0..3 {
        assert_eq!(answer(world.prompt(&session, "go")).await, Ok(StopReason::EndTurn));
    }
    world.end().await;
}

#[tokio::test]
async fn commands_end_with_visible_text() {
    let world = world("greeting", None);
    let session = world.open().await.session;
    answer(world.prompt(&session, "hello")).await.unwrap();
    for command in ["/compact", "/goal", "/plan"] {
        world.forget();
        assert_eq!(answer(world.prompt(&session, command)).await, Ok(StopReason::EndTurn), "{command}");
        assert!(!world.client.text().trim().is_empty(), "{command}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_plan_is_approved_only_by_its_own_option() {
    for (option, expected) in [
        ("approve", "plan is approved"),
        ("zcode-acp:keep-planning", "keep planning"),
        ("yes", "keep planning"),
    ] {
        let world = world("plan", Some(option));
        let session = world.open().await.session;
        assert_eq!(answer(world.prompt(&session, "go")).await, Ok(StopReason::EndTurn));
        assert!(world.client.text().contains(expected), "{option}: {:#?}", world.client.log());
        world.end().await;
    }
}

#[tokio::test]
async fn the_sign_in_is_checked_without_a_session() {
    for (scenario, expected) in [("greeting", None), ("not-signed-in", Some("ZA501"))] {
        let world = world(scenario, None);
        let (reply, receiver) = reply(&world.client, "check");
        world.coordinator.check_sign_in(reply);
        let code = answer(receiver).await.err().map(|failure| failure.code.as_str());
        assert_eq!(code, expected);
        world.end().await;
    }
}
