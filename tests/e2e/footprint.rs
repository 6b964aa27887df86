//! What a run leaves behind: no file of the user's, no process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use testkit::install::FakeInstall;
use testkit::wait::eventually;
use testkit::{Agent, Home, process};

use crate::support::{BINARY, END, command, node_is_missing};

fn agent(home: &Home, install: &FakeInstall) -> Agent {
    let mut command = command(home, &[]);
    command.arg("--zcode-install").arg(&install.root).arg("--contract").arg(&install.contract);
    Agent::spawn(command)
}

/// Every file below a folder, with its content and time.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                let content = std::fs::read(entry.path()).unwrap_or_default();
                found.insert(entry.path(), (content, meta.modified().ok()));
            }
        }
    }
    found
}

#[test]
fn nothing_in_the_home_or_the_install_is_created_or_changed() {
    if node_is_missing() {
        return;
    }
    let home = Home::new().unwrap().env("ZCODE_ACP_SIM_BINARY", BINARY);
    let data = home.home().join(".zcode/v2");
    std::fs::create_dir_all(&data).unwrap();
    for name in ["credentials.json", "config.json", "setting.json"] {
        std::fs::write(data.join(name), "{\"kept\":true}").unwrap();
    }
    let install = FakeInstall::build(&home.root()).unwrap();
    let before = (files(&home.home()), files(&install.root));
    for _ in 0..2 {
        let mut agent = agent(&home, &install);
        agent.initialize();
        let session = agent.new_session(&home.work());
        let prompt = agent.prompt(&session, "use a tool");
        assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
        agent.ok("session/list", &json!({"cwd": home.work()}));
        agent.ok("session/set_mode", &json!({"sessionId": session, "modeId": "plan"}));
        agent.ok("session/close", &json!({"sessionId": session}));
        agent.ok("session/load", &json!({"sessionId": session, "cwd": home.work(), "mcpServers": []}));
        agent.close_stdin();
        assert_eq!(agent.finish(END).status.code(), Some(0));
    }
    assert_eq!(before.0, files(&home.home()), "the home was touched");
    assert_eq!(before.1, files(&install.root), "the install was touched");
}

#[test]
fn sessions_that_are_closed_leave_no_process() {
    if node_is_missing() {
        return;
    }
    let home = Home::new().unwrap().env("ZCODE_ACP_SIM_BINARY", BINARY);
    let install = FakeInstall::build(&home.root()).unwrap();
    let mut agent = agent(&home, &install);
    agent.initialize();
    let cycle = |agent: &mut Agent| {
        let session = agent.new_session(&home.work());
        let prompt = agent.prompt(&session, "hello");
        assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
        agent.ok("session/close", &json!({"sessionId": session}));
    };
    cycle(&mut agent);
    let pid = agent.pid();
    // The host stays for the next session; the process of the workspace goes with its last session.
    let count = || process::descendants(pid).len();
    let settled = eventually(Duration::from_secs(10), || (count() <= 1).then(count));
    let one = settled.unwrap_or_else(|| panic!("{} processes after the first cycle", count()));
    for _ in 0..8 {
        cycle(&mut agent);
    }
    let again = eventually(Duration::from_secs(10), || (count() <= one).then_some(()));
    assert!(again.is_some(), "{} processes, {one} after the first cycle", count());
    agent.close_stdin();
    assert_eq!(agent.finish(END).status.code(), Some(0));
}
