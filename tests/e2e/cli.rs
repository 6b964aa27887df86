//! The command line itself: help, version, usage errors, and the README's commands.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::Home;

use crate::support::{command, repository_file, run};

/// Everything below a directory, to see that nothing was made.
fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![below.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn help_and_version_go_to_stdout_without_side_effects() {
    let home = Home::new().unwrap();
    let before = files(&home.root());
    for args in
        [&["--help"][..], &["-h"], &["help"], &["try", "--help"], &["help", "try"], &["version", "--help"]]
    {
        let ran = run(command(&home, args), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(ran.stdout.contains("zcode-acp"), "{args:?}: {}", ran.stdout);
        let width = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(width <= 100, "{args:?} is {width} wide");
    }
    for args in [&["--version"][..], &["-V"]] {
        let ran = run(command(&home, args), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert_eq!(ran.stdout, format!("zcode-acp {}\n", env!("CARGO_PKG_VERSION")));
    }
    assert_eq!(files(&home.root()), before);
}

#[test]
fn help_teaches_every_command_with_an_example() {
    let home = Home::new().unwrap();
    for name in ["acp", "version", "try"] {
        let ran = run(command(&home, &[name, "--help"]), "");
        assert!(
            ran.stdout.contains("Example") && ran.stdout.contains(&format!("zcode-acp {name}")),
            "{}",
            ran.stdout
        );
    }
    let ran = run(command(&home, &["--help"]), "");
    assert!(!ran.stdout.contains("simulated-host"));
    for later in ["doctor", "inspect", "login", "update", "contract show"] {
        assert!(!ran.stdout.contains(&format!("zcode-acp {later}")), "{later} does not exist yet");
    }
}

#[test]
fn a_usage_error_goes_to_stderr_with_exit_code_2() {
    let home = Home::new().unwrap();
    for args in [
        &["--no-such-flag"][..],
        &["try", "--no-such-flag", "x"],
        &["no-such-command"],
        &["--log-level=loud"],
        &["try"],
        &["try", "  "],
        &["try", "--simulated=no-such-scenario", "x"],
        &["--simulated=no-such-scenario"],
    ] {
        let ran = run(command(&home, args), "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn an_unknown_scenario_is_answered_with_the_list() {
    let home = Home::new().unwrap();
    let ran = run(command(&home, &["try", "--simulated=no-such-scenario", "x"]), "");
    assert!(ran.stderr.contains("  tour ") && ran.stderr.contains("  greeting "), "{}", ran.stderr);
}

#[test]
fn version_says_where_it_looked() {
    let home = Home::new().unwrap();
    let elsewhere = home.root().join("no-zcode-here");
    let elsewhere = elsewhere.to_str().unwrap();
    let ran = run(command(&home, &["version", "--zcode-install", elsewhere]), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for part in [
        env!("CARGO_PKG_VERSION"),
        "ACP",
        "5.2.0",
        "zcode-host-3.11.2",
        "not found",
        "ZA102",
        "next: ",
        elsewhere,
    ] {
        assert!(ran.stdout.contains(part), "{part} is missing in: {}", ran.stdout);
    }
    let ran = run(command(&home, &["--zcode-install", elsewhere, "version", "--json"]), "");
    assert_eq!(ran.code, Some(0));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["acp"]["protocolVersion"], 1);
    assert_eq!(json["contract"]["unofficial"], false);
    assert_eq!(json["zcode"]["status"], "not_found");
    assert_eq!(json["zcode"]["error"]["code"], "ZA102");
}

#[test]
fn a_contract_file_that_cannot_be_used_is_named() {
    let home = Home::new().unwrap();
    let file = home.root().join("contract.json");
    std::fs::write(&file, "{}").unwrap();
    for args in [&["version"][..], &["try", "x"], &["acp"]] {
        let mut command = command(&home, args);
        command.env("ZCODE_ACP_CONTRACT", &file);
        let ran = run(command, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(
            ran.stderr.contains("code ZA207") && ran.stderr.contains("next: "),
            "{args:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn an_empty_variable_is_not_set() {
    let home = Home::new().unwrap();
    let mut command = command(&home, &["version", "--json"]);
    for name in [
        "ZCODE_INSTALL",
        "SIMULATED",
        "CONTRACT",
        "PERMISSION_TIMEOUT",
        "LOG_LEVEL",
        "LOG_FORMAT",
        "MAX_FRAME",
        "COLOR",
    ] {
        command.env(format!("ZCODE_ACP_{name}"), "");
    }
    let ran = run(command, "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_ne!(json["zcode"]["status"], "simulated");
}

/// The shell blocks of the README, one command a line.
fn readme_commands() -> Vec<String> {
    let readme = repository_file("README.md");
    let mut commands = Vec::new();
    for block in readme.split("```sh\n").skip(1) {
        let (block, _) = block.split_once("```").expect("a block ends");
        commands.extend(block.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
    }
    commands
}

#[test]
fn the_readmes_commands_work() {
    let commands = readme_commands();
    assert!(commands.contains(&"cargo xtask test".to_owned()), "the test command is missing: {commands:?}");
    let mut tried = 0;
    // Building a release here would take minutes; the built binary stands for what cargo would run. Without ZCode only the
    // simulated commands can run.
    for line in &commands {
        let Some(rest) = line.strip_prefix("cargo run --release -- ") else { continue };
        let home = Home::new().unwrap();
        let mut shell = home.command("sh");
        shell.args(["-c", &format!("\"$0\" {rest}"), crate::support::BINARY]);
        let ran = run(shell, "");
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
        assert!(!ran.stdout.trim().is_empty(), "{line} prints no answer");
        tried += 1;
    }
    assert!(tried >= 1, "no command to try in the README: {commands:?}");
    assert!(repository_file("README.md").len() <= 10 * 1024);
}
