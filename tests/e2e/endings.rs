//! Every way an agent is ended, in every phase: quickly, with pending answers delivered, with nothing left.

use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::wait::eventually;
use testkit::{Agent, Home, Reads, process};

use crate::support::{END, agent, command, session};

const ENDINGS: &[&str] = &["EOF", "TERM", "INT", "HUP"];

fn end(agent: &mut Agent, how: &str) {
    match how {
        "EOF" => agent.close_stdin(),
        signal => agent.signal(signal),
    }
}

/// Ends an agent in each way; the request that is pending in this phase must be answered before it is gone.
fn every_ending(prepare: impl Fn(&Home) -> (Agent, Option<Value>)) {
    for how in ENDINGS {
        let home = Home::new().unwrap();
        let (mut agent, pending) = prepare(&home);
        end(&mut agent, how);
        let finished = agent.finish(END);
        assert_eq!(finished.status.code(), Some(0), "{how}: {}", finished.stderr);
        if let Some(id) = pending {
            let answer = finished.answer_to(&id);
            let answer =
                answer.unwrap_or_else(|| panic!("{how}: request {id} was not answered; {}", finished.stderr));
            let cancelled = answer["result"]["stopReason"] == "cancelled" || answer.get("error").is_some();
            assert!(cancelled, "{how}: {answer}");
        }
        let left = process::until_gone(Duration::from_secs(3), || home.processes());
        assert!(left.is_ok(), "{how}: {left:?}");
    }
}

#[test]
fn before_initialize() {
    every_ending(|home| {
        let agent = agent(home, &["--simulated"]);
        // A signal before the handler stands would take the default action; the handler stands when the log says so.
        wait_until_it_serves(&agent);
        (agent, None)
    });
}

/// Waits until the process sleeps in its event loop: its signal mask of caught signals has TERM, INT and HUP.
fn wait_until_it_serves(agent: &Agent) {
    const CAUGHT: u64 = 1 << (15 - 1) | 1 << (2 - 1) | 1;
    let pid = agent.pid();
    let stands = eventually(Duration::from_secs(10), || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
        (u64::from_str_radix(mask, 16).ok()? & CAUGHT == CAUGHT).then_some(())
    });
    assert!(stands.is_some(), "the signal handlers do not stand: {}", agent.stderr());
}

#[test]
fn after_initialize() {
    every_ending(|home| {
        let mut agent = agent(home, &["--simulated"]);
        agent.initialize();
        (agent, None)
    });
}

#[test]
fn idle_with_a_session() {
    every_ending(|home| (session(home, &["--simulated"]).0, None));
}

#[test]
fn while_a_session_is_being_created() {
    every_ending(|home| {
        let mut agent = agent(home, &["--simulated=no-snapshot"]);
        agent.initialize();
        let id = agent.request("session/new", &serde_json::json!({"cwd": home.work(), "mcpServers": []}));
        // The agent reads in order: when it has answered the next request, it works on this one.
        let error = agent.err("no/such/method", &serde_json::json!({}));
        assert_eq!(error["code"], -32601);
        (agent, Some(id))
    });
}

#[test]
fn while_a_turn_streams() {
    every_ending(|home| {
        let (mut agent, session) = session(home, &["--simulated"]);
        let id = agent.prompt(&session, "slow");
        agent.update("agent_message_chunk");
        (agent, Some(id))
    });
}

#[test]
fn while_a_permission_is_pending() {
    every_ending(|home| {
        let (mut agent, session) = session(home, &["--simulated"]);
        let id = agent.prompt(&session, "perm");
        agent.asked("session/request_permission");
        (agent, Some(id))
    });
}

/// How many bytes a full pipe holds depends on how they were written; it is full when no more come though there are more.
fn wait_until_the_pipe_is_full(agent: &Agent) {
    let mut last = (0, Instant::now());
    let full = eventually(Duration::from_secs(20), || {
        let backlog = agent.stdout_backlog();
        if backlog != last.0 {
            last = (backlog, Instant::now());
        }
        (backlog >= 8 * 1024 && last.1.elapsed() >= Duration::from_millis(300)).then_some(())
    });
    assert!(full.is_some(), "the pipe did not fill: {} bytes", agent.stdout_backlog());
}

#[test]
fn when_the_client_has_stopped_reading_stdout() {
    for how in ENDINGS {
        let home = Home::new().unwrap();
        let (mut agent, session) = session(&home, &["--simulated"]);
        agent.stop_reading();
        agent.prompt(&session, "sim:flood");
        wait_until_the_pipe_is_full(&agent);
        end(&mut agent, how);
        let finished = agent.finish(END);
        assert_eq!(finished.status.code(), Some(0), "{how}: {}", finished.stderr);
    }
}

#[test]
fn when_the_client_never_reads_stderr() {
    let home = Home::new().unwrap();
    let mut agent =
        Agent::spawn_reading(command(&home, &["--simulated", "--log-level=trace"]), Reads::Stdout);
    agent.initialize();
    let session = agent.new_session(&home.work());
    // Much more than a pipe holds is logged meanwhile; turns go on as if nothing were.
    for _ in 0..30 {
        let id = agent.prompt(&session, "sim:stderr-flood");
        assert_eq!(agent.answer_to(&id)["result"]["stopReason"], "end_turn");
    }
    agent.close_stdin();
    assert_eq!(agent.finish(END).status.code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = Home::new().unwrap();
    let (mut agent, session) = session(&home, &["--simulated"]);
    agent.stop_reading();
    agent.prompt(&session, "sim:flood");
    wait_until_the_pipe_is_full(&agent);
    agent.signal("TERM");
    // The first one is being worked on; the kernel may merge two that come too close.
    let pid = agent.pid();
    eventually(Duration::from_secs(2), || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"))?.trim();
        (u64::from_str_radix(pending, 16).ok()? == 0).then_some(())
    });
    agent.signal("INT");
    let finished = agent.finish(END);
    // Which of the two is seen as the second one is the system's choice.
    assert!(matches!(finished.status.code(), Some(130 | 143)), "{:?}", finished.status);
}
