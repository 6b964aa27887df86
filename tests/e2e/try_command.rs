//! `try`: one turn as a person at a shell sees it.

use serde_json::Value;
use testkit::Home;

#[cfg(target_os = "linux")]
use crate::support::BINARY;
use crate::support::{command, run};

#[test]
fn a_simulated_turn_streams_and_a_missing_terminal_denies() {
    let home = Home::new().unwrap();
    let ran = run(command(&home, &["try", "--simulated", "show me around"]), "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in [
        "[session] ",
        "simulated host",
        "[thinking] ",
        "[agent] ",
        "[tool] ",
        "[permission] denied: there is no terminal to ask on",
        "[end] end_turn",
    ] {
        assert!(ran.stderr.contains(part), "{part} is missing in: {}", ran.stderr);
    }
    let in_order =
        ["[thinking]", "[tool]", "[permission]", "[end]"].map(|part| ran.stderr.find(part).unwrap());
    assert!(in_order.is_sorted(), "{}", ran.stderr);
    assert!(!ran.stdout.trim().is_empty() && !ran.stdout.contains("[tool]"), "{}", ran.stdout);
    assert!(!ran.stderr.contains('\x1b') && !ran.stdout.contains('\x1b'));
}

#[test]
fn the_prompt_comes_from_stdin_and_the_answer_is_data() {
    let home = Home::new().unwrap();
    for args in [&["try", "--simulated", "-"][..], &["try", "--simulated"]] {
        let ran = run(command(&home, args), "hello\n");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.ends_with('\n') && ran.stdout.trim().len() > 3, "{:?}", ran.stdout);
    }
}

#[test]
fn json_is_one_object_a_line() {
    let home = Home::new().unwrap();
    let ran = run(command(&home, &["try", "--simulated", "--json", "show me around"]), "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["update"]["sessionUpdate"].as_str()).collect();
    for kind in ["agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update"] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    assert_eq!(lines.last().unwrap()["stopReason"], "end_turn");
}

#[test]
fn frames_are_shown_both_ways() {
    let home = Home::new().unwrap();
    let ran = run(command(&home, &["try", "--simulated", "--frames", "hello"]), "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for arrow in ["-> ", "<- "] {
        let frames: Vec<&str> = ran.stderr.lines().filter_map(|line| line.strip_prefix(arrow)).collect();
        assert!(frames.len() >= 3, "{arrow}: {frames:?}");
        for frame in frames {
            serde_json::from_str::<Value>(frame).unwrap();
        }
    }
}

#[test]
fn the_exit_code_tells_how_the_turn_ended() {
    for (scenario, code) in [
        ("greeting", 0),
        ("network", 1),
        ("refusal", 4),
        ("max-turns", 5),
        ("rate-limit", 5),
        ("quota", 5),
        ("context-too-long", 5),
        ("not-signed-in", 6),
        ("sign-in-expired", 6),
        ("crash-mid-turn", 7),
        ("unknown-event", 7),
    ] {
        let home = Home::new().unwrap();
        let ran = run(command(&home, &["try", &format!("--simulated={scenario}"), "x"]), "");
        assert_eq!(ran.code, Some(code), "{scenario}: {}", ran.stderr);
        if code == 1 || code > 5 {
            assert!(
                ran.stderr.contains("error: ") && ran.stderr.contains("next: "),
                "{scenario}: {}",
                ran.stderr
            );
            assert!(ran.stderr.contains("code ZA"), "{scenario}: {}", ran.stderr);
        }
    }
}

#[test]
fn without_zcode_it_says_what_to_do() {
    let home = Home::new().unwrap();
    let missing = home.root().join("nothing");
    let ran = run(command(&home, &["try", "--zcode-install", missing.to_str().unwrap(), "hello"]), "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), ""));
    assert!(
        ran.stderr.contains("code ZA102  phase discover") && ran.stderr.contains("next: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_folder_that_does_not_exist_is_refused_by_name() {
    let home = Home::new().unwrap();
    let ran = run(command(&home, &["try", "--simulated", "--cwd", "/does/not/exist", "hello"]), "");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("code ZA601"), "{}", ran.stderr);
}

/// A terminal made by `script`, since the test's own may be none.
#[cfg(target_os = "linux")]
mod terminal {
    use std::io::{Read, Write};
    use std::process::{Child, ChildStdin, Stdio};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use testkit::Home;
    use testkit::wait::eventually;

    use crate::support::BINARY;

    struct Terminal {
        child: Child,
        keys: ChildStdin,
        screen: Arc<Mutex<String>>,
    }

    impl Terminal {
        /// None where there is no `script`; on a build machine that is a failure.
        fn open(home: &Home, command: &str) -> Option<Self> {
            let mut script = home.command("script");
            script.args(["-qefc", &format!("exec '{BINARY}' {command}"), "/dev/null"]).env("TERM", "xterm");
            script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = match script.spawn() {
                Ok(child) => child,
                Err(error) => {
                    assert!(std::env::var_os("CI").is_none(), "script is needed: {error}");
                    return None;
                }
            };
            let screen = Arc::new(Mutex::new(String::new()));
            let (mut output, shown) = (child.stdout.take().unwrap(), Arc::clone(&screen));
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = output.read(&mut buffer) {
                    shown.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
                }
            });
            Some(Self { keys: child.stdin.take().unwrap(), child, screen })
        }

        fn wait_for(&self, text: &str) {
            let shown = eventually(Duration::from_secs(20), || {
                self.screen.lock().unwrap().contains(text).then_some(())
            });
            assert!(shown.is_some(), "{text} was not shown: {}", self.screen.lock().unwrap());
        }

        fn press(&mut self, keys: &str) {
            self.keys.write_all(keys.as_bytes()).unwrap();
            self.keys.flush().unwrap();
        }

        fn end(mut self) -> (Option<i32>, String) {
            let status = eventually(Duration::from_secs(20), || self.child.try_wait().unwrap());
            let screen = self.screen.lock().unwrap().clone();
            let status = status.unwrap_or_else(|| panic!("it did not end: {screen}"));
            (status.code(), screen)
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_permission_is_asked_and_an_edit_is_shown() {
        let home = Home::new().unwrap();
        let Some(mut terminal) = Terminal::open(&home, "try --simulated perm") else { return };
        terminal.wait_for("Your choice");
        terminal.press("y\n");
        terminal.wait_for("[end]");
        let screen = terminal.screen.lock().unwrap().clone();
        assert!(screen.contains("  + ") && screen.contains("  - "), "no diff: {screen}");
        assert!(screen.contains("done") && screen.contains("\x1b["), "{screen}");
    }

    #[test]
    fn enter_denies() {
        let home = Home::new().unwrap();
        let Some(mut terminal) = Terminal::open(&home, "try --simulated perm") else { return };
        terminal.wait_for("Your choice");
        terminal.press("\n");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("denied") && screen.contains("failed"), "{screen}");
    }

    #[test]
    fn ctrl_c_cancels_the_turn() {
        let home = Home::new().unwrap();
        let Some(mut terminal) = Terminal::open(&home, "try --simulated --color=never slow") else { return };
        terminal.wait_for("[agent] ");
        terminal.press("\x03");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(3), "{screen}");
        assert!(screen.contains("[cancel]") && screen.contains("[end] cancelled"), "{screen}");
    }

    #[test]
    fn the_agent_says_what_it_waits_for() {
        let home = Home::new().unwrap();
        let Some(mut terminal) = Terminal::open(&home, "--simulated") else { return };
        terminal.wait_for("waiting for an ACP client");
        terminal.wait_for("zcode-acp try");
        terminal.press("\x04");
        assert_eq!(terminal.end().0, Some(0));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    for args in
        [&["try", "--simulated", "hello"][..], &["try", "--simulated", "--json", "hello"], &["version"]]
    {
        let home = Home::new().unwrap();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(&home, args).stdin(std::process::Stdio::null()).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("stdout"), "{args:?}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_current_folder_that_was_deleted_is_the_reason_given() {
    let home = Home::new().unwrap();
    let script = format!("mkdir gone; cd gone; rmdir ../gone; exec {BINARY} try --simulated hello");
    let mut shell = home.command("/bin/sh");
    shell.args(["-c", &script]);
    let ran = run(shell, "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("current folder") && ran.stderr.contains("next:"), "{}", ran.stderr);
}
