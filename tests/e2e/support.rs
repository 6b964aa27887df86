//! What the suites share.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::wait::eventually;
use testkit::{Agent, Home};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_zcode-acp");

/// The adapter's own promise for its end, with room for a slow machine's scheduler.
pub const END: Duration = Duration::from_secs(2);

/// Longest run of a command that is expected to end.
const RUN: Duration = Duration::from_secs(25);

/// What a command left.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end with this on stdin.
pub fn run(mut command: Command, stdin: &str) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().unwrap();
    // A command that does not read its stdin closes it; that is no failure.
    let _ = input.write_all(stdin.as_bytes());
    drop(input);
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (stdout, stderr) = (std::thread::spawn(|| text(stdout)), std::thread::spawn(|| text(stderr)));
    let status = eventually(RUN, || child.try_wait().unwrap());
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let status = status.unwrap_or_else(|| panic!("it did not end; stdout: {stdout}; stderr: {stderr}"));
    Run { code: status.code(), stdout, stderr }
}

fn text(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).expect("UTF-8")
}

/// A command in a sealed home.
pub fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(BINARY);
    command.args(args);
    command
}

/// An agent in a sealed home.
pub fn agent(home: &Home, args: &[&str]) -> Agent {
    Agent::spawn(command(home, args))
}

/// An agent with a session, ready for prompts.
pub fn session(home: &Home, args: &[&str]) -> (Agent, String) {
    let mut agent = agent(home, args);
    agent.initialize();
    let session = agent.new_session(&home.work());
    (agent, session)
}

/// Reads a file of the repository.
pub fn repository_file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Node is the fake install's runtime. Without it these tests cannot run; on a build machine that is a failure.
#[cfg(unix)]
pub fn node_is_missing() -> bool {
    let missing = testkit::install::node().is_none();
    assert!(!missing || std::env::var_os("CI").is_none(), "node is needed on a build machine");
    missing
}
