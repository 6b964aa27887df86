//! The one road out: whatever ends the bridge, nothing of the host is left.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bridge_support;

use std::time::{Duration, Instant};

use bridge_support::{Bridge, Fixture, Got, kill, node_is_here, runs, until};
use serde_json::json;

/// From the cause to the last process gone.
const TREE_ENDS: Duration = Duration::from_millis(2500);

/// Starts tools that ignore TERM, one in the agent's session and one in its own; gives all process ids.
fn with_tools(fixture: &Fixture, bridge: &mut Bridge) -> Vec<u64> {
    let started = bridge.order(fixture, json!({ "do": "tools" })).unwrap();
    let mut pids: Vec<u64> =
        started["tools"].as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap()).collect();
    pids.push(started["agent"].as_u64().unwrap());
    assert!(pids.iter().all(|pid| runs(*pid)), "they run before the test");
    pids
}

fn nothing_left(mut bridge: Bridge, pids: &[u64], since: Instant) -> Option<i32> {
    let status = bridge.wait();
    for pid in pids {
        until(since + TREE_ENDS, "every process ends", || !runs(*pid));
    }
    status.code()
}

#[test]
fn stdin_end_ends_everything() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let pids = with_tools(&fixture, &mut bridge);
    let since = Instant::now();
    bridge.close_stdin();
    assert_eq!(nothing_left(bridge, &pids, since), Some(0));
}

#[test]
fn processes_are_found_without_a_proc_directory_too() {
    if !node_is_here() {
        return;
    }
    let mut fixture = Fixture::new();
    fixture.script.insert_str(0, "Object.defineProperty(process, 'platform', { value: 'darwin' });\n");
    let mut bridge = fixture.ready();
    let pids = with_tools(&fixture, &mut bridge);
    let since = Instant::now();
    bridge.close_stdin();
    assert_eq!(nothing_left(bridge, &pids, since), Some(0));
}

#[test]
fn an_agent_that_does_not_end_is_ended() {
    if !node_is_here() {
        return;
    }
    let host = format!(
        "process.exit = () => {{}};\n{}",
        include_str!("../../../fixtures/installs/host/index.js").replace("await agent.end()", "await 0")
    );
    // The host neither ends its agent nor itself.
    let host = host.replace(
        "await Promise.all([...agents.values()].map((agent) => agent.end()));",
        "await new Promise(() => {});",
    );
    assert!(host.contains("new Promise(() => {})"), "the host's dispose was replaced");
    let fixture = Fixture::with_host(Some(&host));
    let mut bridge = fixture.ready();
    let agent = bridge.order(&fixture, json!({ "do": "deaf" })).unwrap().as_u64().unwrap();
    let mut pids = with_tools(&fixture, &mut bridge);
    pids.push(agent);
    let since = Instant::now();
    bridge.close_stdin();
    assert_eq!(nothing_left(bridge, &pids, since), Some(0));
}

#[test]
fn signals_take_the_same_road() {
    if !node_is_here() {
        return;
    }
    for (name, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let fixture = Fixture::new();
        let mut bridge = fixture.ready();
        let pids = with_tools(&fixture, &mut bridge);
        let since = Instant::now();
        bridge.signal(name);
        assert_eq!(nothing_left(bridge, &pids, since), Some(code));
    }
}

#[test]
fn a_closed_stdout_takes_the_same_road() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let pids = with_tools(&fixture, &mut bridge);
    bridge.close_stdout();
    let since = Instant::now();
    // The line behind the one that closed it is refused.
    until(since + TREE_ENDS, "the bridge notices", || {
        bridge.call("agent", "goalSession", &json!({ "do": "void", "workspacePath": fixture.workspace }));
        bridge.child.try_wait().unwrap().is_some()
    });
    assert_eq!(nothing_left(bridge, &pids, since), Some(0));
}

#[test]
fn a_host_that_blocks_its_thread_does_not_hold_the_end() {
    if !node_is_here() {
        return;
    }
    let host = "process.parentPort.on('message', () => { for (;;); });";
    let fixture = Fixture::with_host(Some(host));
    let mut bridge = fixture.start();
    assert_eq!(bridge.next_within(Duration::from_millis(1500)), None);
    let since = Instant::now();
    bridge.close_stdin();
    bridge.wait();
    assert!(since.elapsed() < TREE_ENDS, "{:?}", since.elapsed());
}

#[test]
fn an_unread_stdout_does_not_hold_the_end() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let pids = with_tools(&fixture, &mut bridge);
    bridge.stop_reading();
    for _ in 0..8 {
        let value = "x".repeat(1 << 20);
        let params = json!({ "do": "echo", "value": value, "workspacePath": fixture.workspace });
        bridge.call("agent", "goalSession", &params);
    }
    let since = Instant::now();
    bridge.close_stdin();
    assert_eq!(nothing_left(bridge, &pids, since), Some(0));
}

#[test]
fn the_agents_crash_ends_the_host_and_is_reported() {
    if !node_is_here() {
        return;
    }
    let fixture = Fixture::new();
    let mut bridge = fixture.ready();
    let params = json!({ "workspacePath": fixture.workspace, "sessionId": "s" });
    let subscribe =
        json!({ "subscription": 1, "service": "agent", "event": "onDynamicSessionEvent", "params": params });
    let id = bridge.request(&json!({ "subscribe": subscribe }));
    assert!(bridge.reply(id).is_ok());
    let pids = with_tools(&fixture, &mut bridge);
    let since = Instant::now();
    bridge.call("agent", "goalSession", &json!({ "do": "crash", "workspacePath": fixture.workspace }));
    let fatal = loop {
        match bridge.next() {
            Got::Fatal(fatal) => break fatal,
            Got::End => panic!("ended without a word"),
            _ => {}
        }
    };
    assert_eq!((fatal["stage"].as_str(), fatal["code"].as_i64()), (Some("worker"), Some(3)));
    // The tools lost their parent before the bridge could look. The one in the bridge's group is still found; the one
    // in a session of its own cannot be told from any other process.
    assert_eq!(nothing_left(bridge, &pids[..1], since), Some(1));
    kill(pids[1]);
}
