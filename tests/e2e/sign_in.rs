//! Signing in and out with the fake install's own command line.

use std::path::PathBuf;

use serde_json::json;
use testkit::install::{FakeInstall, Fault};
use testkit::{Agent, Home};

use crate::support::{BINARY, END, Run, agent, command, node_is_missing, run};

struct Fake {
    home: Home,
    install: FakeInstall,
}

impl Fake {
    fn new(fault: Option<Fault>) -> Self {
        let home = Home::new().unwrap().env("ZCODE_ACP_SIM_BINARY", BINARY);
        let mut builder = FakeInstall::builder();
        if let Some(fault) = fault {
            builder = builder.fault(fault);
        }
        let install = builder.build(&home.root()).unwrap();
        Self { home, install }
    }

    fn run(&self, name: &str, exit: &str) -> Run {
        let mut command = command(&self.home, &[name]);
        command.arg("--zcode-install").arg(&self.install.root).arg("--contract").arg(&self.install.contract);
        command.env("FAKE_LOGIN_EXIT", exit);
        run(command, "")
    }

    fn agent(&self, exit: &str) -> Agent {
        let mut command = command(&self.home, &[]);
        command.arg("--zcode-install").arg(&self.install.root).arg("--contract").arg(&self.install.contract);
        command.env("FAKE_LOGIN_EXIT", exit);
        Agent::spawn(command)
    }

    fn credentials(&self) -> PathBuf {
        self.home.home().join(".zcode/v2/credentials.json")
    }
}

#[test]
fn login_and_logout_are_zcodes_own() {
    if node_is_missing() {
        return;
    }
    let fake = Fake::new(None);
    let ran = fake.run("login", "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("https://"), "{}", ran.stdout);
    assert!(ran.stderr.contains(fake.install.root.to_str().unwrap()), "{}", ran.stderr);
    assert!(ran.stderr.contains("any machine") && ran.stderr.contains("unofficial"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(fake.credentials().exists());
    let ran = fake.run("logout", "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("desktop app out too"), "{}", ran.stderr);
    assert!(!fake.credentials().exists());
}

#[test]
fn the_exit_code_is_kept_and_a_working_way_is_named() {
    if node_is_missing() {
        return;
    }
    let fake = Fake::new(None);
    for name in ["login", "logout"] {
        let ran = fake.run(name, "9");
        assert_eq!(ran.code, Some(9), "{name}: {}", ran.stderr);
        let last = ran.stderr.lines().last().unwrap();
        assert!(last.contains("exit code 9") && last.contains("desktop app"), "{name}: {last}");
    }
    assert!(!fake.credentials().exists());
}

#[test]
fn the_gate_comes_first() {
    let fake = Fake::new(Some(Fault::HostIndexByte));
    let mark = fake.home.root().join("executed");
    std::fs::write(&fake.install.executable, format!("#!/bin/sh\n: >'{}'\n", mark.display())).unwrap();
    for name in ["login", "logout"] {
        let ran = fake.run(name, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}");
        assert!(ran.stderr.contains("code ZA204") && ran.stderr.contains("next: "), "{name}: {}", ran.stderr);
        assert!(!mark.exists(), "{name}: something of the install was executed");
    }
}

#[test]
fn there_is_nothing_to_sign_in_to_in_a_simulation() {
    let home = Home::new().unwrap();
    for name in ["login", "logout"] {
        let ran = run(command(&home, &[name, "--simulated"]), "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{name}");
        assert!(ran.stderr.contains("no sign-in"), "{name}: {}", ran.stderr);
        let ran = run(command(&home, &[name, "--help"]), "");
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout.contains(&format!("Example:\n  zcode-acp {name}")), "{}", ran.stdout);
    }
}

#[test]
fn a_client_signs_out_with_zcodes_own_command_line() {
    if node_is_missing() {
        return;
    }
    let fake = Fake::new(None);
    assert_eq!(fake.run("login", "").code, Some(0));
    assert!(fake.credentials().exists());
    let mut agent = fake.agent("");
    let answer = agent.initialize();
    assert!(answer["agentCapabilities"]["auth"]["logout"].is_object(), "{answer}");
    agent.ok("logout", &json!({}));
    assert!(!fake.credentials().exists());
    agent.close_stdin();
    assert_eq!(agent.finish(END).status.code(), Some(0));

    let mut agent = fake.agent("9");
    agent.initialize();
    let error = agent.err("logout", &json!({}));
    assert_eq!(error["data"]["code"], "ZA503", "{error}");
}

#[test]
fn a_simulated_host_has_no_sign_in() {
    let home = Home::new().unwrap();
    let mut agent = agent(&home, &["--simulated"]);
    agent.initialize();
    let error = agent.err("logout", &json!({}));
    assert_eq!(error["data"]["code"], "ZA503", "{error}");
    assert!(error["message"].as_str().unwrap().contains("simulated"), "{error}");
}
