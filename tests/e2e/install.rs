//! The real path: gate, ZCode's executable, the bridge script, and a fake install's host behind it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::install::{FakeInstall, Fault};
use testkit::wait::eventually;
use testkit::{Agent, Home, process};

use crate::support::{BINARY, END, command, node_is_missing, run};

/// A fake install in a sealed home, with a note of whether anything of it was executed.
struct Fake {
    home: Home,
    install: FakeInstall,
    mark: PathBuf,
}

impl Fake {
    fn new(faults: &[Fault]) -> Self {
        let home = Home::new().unwrap().env("ZCODE_ACP_SIM_BINARY", BINARY);
        let mut builder = FakeInstall::builder();
        for fault in faults {
            builder = builder.fault(fault.clone());
        }
        let install = builder.build(&home.root()).unwrap();
        let mark = home.root().join("executed");
        let fake = Self { home, install, mark };
        fake.wrap(|real, mark| {
            format!("echo run >>'{}'\nexec '{}' \"$@\"\n", mark.display(), real.display())
        });
        fake
    }

    /// Puts a shell script in front of the executable.
    fn wrap(&self, script: impl Fn(&Path, &Path) -> String) {
        let real = self.install.executable.with_extension("real");
        if !real.exists() {
            std::fs::rename(&self.install.executable, &real).unwrap();
        }
        write_script(&self.install.executable, &script(&real, &self.mark));
    }

    fn agent(&self) -> Agent {
        Agent::spawn(self.command(&[]))
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = command(&self.home, args);
        command.arg("--zcode-install").arg(&self.install.root).arg("--contract").arg(&self.install.contract);
        command
    }

    fn session(&self) -> (Agent, String) {
        let mut agent = self.agent();
        agent.initialize();
        let session = agent.new_session(&self.home.work());
        (agent, session)
    }

    /// How often the executable was started.
    fn executed(&self) -> usize {
        std::fs::read_to_string(&self.mark).map_or(0, |text| text.lines().count())
    }

    fn nothing_is_left(&self) {
        let left = process::until_gone(Duration::from_secs(3), || self.home.processes());
        if let Err(left) = left {
            let shown: Vec<String> = left.iter().map(|pid| process::describe(*pid)).collect();
            for pid in left {
                process::signal(pid, "KILL");
            }
            panic!("left behind: {shown:?}");
        }
    }
}

fn write_script(path: &Path, body: &str) {
    use std::os::unix::fs::PermissionsExt as _;

    // Written under another name and moved: a file that is open for writing cannot be executed.
    let draft = path.with_extension("draft");
    std::fs::write(&draft, format!("#!/bin/sh\n{body}")).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&draft, path).unwrap();
}

fn new_session_error(agent: &mut Agent, home: &Home) -> Value {
    agent.err("session/new", &json!({"cwd": home.work(), "mcpServers": []}))
}

#[test]
fn a_full_turn_through_the_bridge() {
    if node_is_missing() {
        return;
    }
    let fake = Fake::new(&[]);
    let (mut agent, session) = fake.session();
    assert_eq!(fake.executed(), 1);
    let prompt = agent.prompt(&session, "perm");
    let ask = agent.asked("session/request_permission");
    let options = ask["params"]["options"].as_array().unwrap();
    let allow = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
    agent.answer(&ask, &json!({"outcome": {"outcome": "selected", "optionId": allow["optionId"]}}));
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
    let completed =
        agent.received().iter().any(|message| message["params"]["update"]["status"] == "completed");
    assert!(completed, "no tool was completed");
    // A second session shares the host.
    let second = agent.new_session(&fake.home.work());
    let prompt = agent.prompt(&second, "hello");
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(fake.executed(), 1, "one host for the connection");
    agent.close_stdin();
    assert_eq!(agent.finish(END).status.code(), Some(0));
    fake.nothing_is_left();
}

#[test]
fn try_and_version_use_it_and_name_the_unofficial_contract() {
    if node_is_missing() {
        return;
    }
    let fake = Fake::new(&[]);
    let ran = run(fake.command(&["version"]), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(
        ran.stdout.contains("unofficial contract") && ran.stdout.contains(", supported"),
        "{}",
        ran.stdout
    );
    assert_eq!(fake.executed(), 0, "version starts nothing");
    let ran = run(fake.command(&["try", "hello"]), "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("unofficial contract"), "{}", ran.stderr);
    fake.nothing_is_left();
}

#[test]
fn a_wrong_install_is_refused_before_anything_of_it_runs() {
    let other = if cfg!(target_os = "macos") { "linux-x64" } else { "darwin-arm64" };
    for (fault, code) in [
        (Fault::HostIndexByte, "ZA204"),
        (Fault::RpcModuleByte, "ZA204"),
        (Fault::RpcExport, "ZA204"),
        (Fault::MetadataValue { key: "runtime".into(), value: "deno".into() }, "ZA202"),
        (Fault::MetadataMissing { key: "entry".into() }, "ZA202"),
        (Fault::Platform(other.into()), "ZA203"),
        (Fault::AppVersion("3.11.3".into()), "ZA201"),
    ] {
        let fake = Fake::new(std::slice::from_ref(&fault));
        let mut agent = fake.agent();
        agent.initialize();
        let error = new_session_error(&mut agent, &fake.home);
        let data = &error["data"];
        assert_eq!(data["code"], code, "{fault:?}: {error}");
        assert_eq!(data["phase"], "verify", "{fault:?}: {error}");
        assert!(data["detected"].is_string() && data["expected"].is_string(), "{fault:?}: {error}");
        assert_ne!(data["detected"], data["expected"], "{fault:?}");
        assert_eq!(fake.executed(), 0, "{fault:?}: something of the install was executed");
    }
}

#[test]
fn what_lies_in_the_workspace_and_in_the_environment_is_not_used() {
    if node_is_missing() {
        return;
    }
    let mut fake = Fake::new(&[]);
    let evil = fake.home.root().join("evil");
    let body = format!("require('fs').appendFileSync({:?}, __filename + '\\n');\n", evil.to_str().unwrap());
    let work = fake.home.work();
    let script = fake.home.root().join("evil.cjs");
    std::fs::write(&script, &body).unwrap();
    for path in [
        "resources/glm/zcode.cjs",
        "resources/app/out/host/index.js",
        "out/host/index.js",
        "zcode.cjs",
        "index.js",
        "node_modules/electron/index.js",
        "node_modules/zcode/index.js",
    ] {
        let path = work.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &body).unwrap();
    }
    std::fs::write(
        work.join("package.json"),
        r#"{"name":"monorepo","main":"index.js","workspaces":["packages/*"]}"#,
    )
    .unwrap();
    std::fs::write(work.join("resources/glm/.node-bundle-meta.json"), "{}").unwrap();
    let contract = fake.install.contract_json().unwrap();
    let stripped: Vec<String> = contract["launcher"]["stripEnv"]
        .as_array()
        .expect("the contract names them")
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    assert!(stripped.iter().any(|name| name == "NODE_OPTIONS"), "{stripped:?}");
    for name in &stripped {
        let value = if name == "NODE_OPTIONS" {
            format!("--require {}", script.display())
        } else {
            script.display().to_string()
        };
        fake.home = fake.home.env(name, value);
    }
    let (mut agent, session) = fake.session();
    let prompt = agent.prompt(&session, "hello");
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(&evil).unwrap_or_default(), "", "foreign code was loaded");
    agent.close_stdin();
    agent.finish(END);
}

#[test]
fn a_runtime_that_cannot_be_started_is_an_error_with_a_remedy() {
    let fake = Fake::new(&[]);
    std::fs::remove_file(&fake.install.executable).unwrap();
    std::fs::write(&fake.install.executable, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&fake.install.executable, mode).unwrap();
    let mut agent = fake.agent();
    agent.initialize();
    for _ in 0..2 {
        let error = new_session_error(&mut agent, &fake.home);
        assert_eq!(
            (&error["data"]["code"], &error["data"]["phase"]),
            (&json!("ZA301"), &json!("spawn")),
            "{error}"
        );
    }
    // Repaired meanwhile: the same process works.
    if !node_is_missing() {
        fake.wrap(|real, _| format!("exec '{}' \"$@\"\n", real.display()));
        agent.new_session(&fake.home.work());
    }
}

#[test]
fn a_host_that_ends_before_it_is_ready_is_final_at_once() {
    let fake = Fake::new(&[]);
    fake.wrap(|_, mark| {
        format!("echo run >>'{}'\necho 'cannot open libmissing.so' >&2\nexit 127\n", mark.display())
    });
    let mut agent = fake.agent();
    agent.initialize();
    let begun = Instant::now();
    let error = new_session_error(&mut agent, &fake.home);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let data = &error["data"];
    assert_eq!((&data["code"], &data["exitCode"]), (&json!("ZA302"), &json!("127")), "{error}");
    assert!(data["stderr"].as_str().unwrap().contains("libmissing.so"), "{error}");
    assert_eq!(fake.executed(), 1, "it was tried again");
}

#[cfg(target_os = "linux")]
#[test]
fn a_host_killed_in_a_turn_is_reported_with_all_that_is_known() {
    if node_is_missing() {
        return;
    }
    let fake = Fake::new(&[]);
    let (mut agent, session) = fake.session();
    let prompt = agent.prompt(&session, "slow");
    agent.update("agent_message_chunk");
    let host = process::descendants(agent.pid()).into_iter().next().expect("the host");
    assert!(process::signal(host, "KILL"));
    let answer = agent.answer_to(&prompt);
    let data = &answer["error"]["data"];
    assert_eq!(data["code"], "ZA805", "{answer}");
    assert_eq!(data["phase"], "prompt", "{answer}");
    assert_eq!(data["sessionId"], session.as_str(), "{answer}");
    for key in ["signal", "uptimeMs", "lastRequest"] {
        assert!(data[key].is_string(), "{key} is missing: {answer}");
    }
    // Nothing is sent again by itself; the next session starts a new host.
    let session = agent.new_session(&fake.home.work());
    let prompt = agent.prompt(&session, "hello");
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
    agent.close_stdin();
    agent.finish(END);
    fake.nothing_is_left();
}

/// A simulator binary that first starts a grandchild which ignores signals and one in a session of its own.
#[cfg(target_os = "linux")]
fn with_stubborn_grandchildren() -> Fake {
    let mut fake = Fake::new(&[]);
    let script = fake.home.root().join("stubborn");
    write_script(
        &script,
        &format!(
            "(trap '' TERM HUP INT; sleep 987) &\nsetsid sh -c \"trap '' TERM HUP INT; sleep 986\" &\nexec '{BINARY}' \"$@\"\n"
        ),
    );
    fake.home = fake.home.env("ZCODE_ACP_SIM_BINARY", &script);
    fake
}

#[cfg(target_os = "linux")]
fn stubborn_run(fake: &Fake) {
    let run = eventually(Duration::from_secs(10), || {
        let shown: Vec<String> = fake.home.processes().into_iter().map(process::describe).collect();
        let has = |what: &str| shown.iter().any(|line| line.contains(what));
        (has("sleep 987") && has("sleep 986")).then_some(())
    });
    assert!(run.is_some(), "the grandchildren do not run");
}

#[cfg(target_os = "linux")]
#[test]
fn an_adapter_killed_hard_leaves_nothing() {
    if node_is_missing() {
        return;
    }
    let fake = with_stubborn_grandchildren();
    let (mut agent, session) = fake.session();
    agent.prompt(&session, "slow");
    agent.update("agent_message_chunk");
    stubborn_run(&fake);
    agent.signal("KILL");
    fake.nothing_is_left();
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_killed_hard_leaves_nothing() {
    if node_is_missing() {
        return;
    }
    let fake = with_stubborn_grandchildren();
    let mut command = fake.command(&["try", "slow"]);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut stderr = std::io::BufReader::new(client.stderr.take().unwrap());
    let mut seen = Vec::new();
    while !seen.ends_with(b"[agent] ") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut stderr, &mut byte).expect("the turn streams");
        seen.push(byte[0]);
    }
    stubborn_run(&fake);
    client.kill().unwrap();
    client.wait().unwrap();
    fake.nothing_is_left();
}

#[cfg(target_os = "linux")]
#[test]
fn every_orderly_end_leaves_nothing() {
    if node_is_missing() {
        return;
    }
    for how in ["EOF", "TERM"] {
        let fake = with_stubborn_grandchildren();
        let (mut agent, session) = fake.session();
        let prompt = agent.prompt(&session, "slow");
        agent.update("agent_message_chunk");
        stubborn_run(&fake);
        match how {
            "EOF" => agent.close_stdin(),
            signal => agent.signal(signal),
        }
        let finished = agent.finish(END);
        assert_eq!(finished.status.code(), Some(0), "{how}");
        assert_eq!(finished.answer_to(&prompt).expect("answered")["result"]["stopReason"], "cancelled");
        fake.nothing_is_left();
    }
}
