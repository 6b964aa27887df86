//! The one test command: all steps run, each with its time, and the summary says what failed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{arch, errors};

struct Steps<'a> {
    root: &'a Path,
    done: Vec<(&'static str, Duration, Result<(), String>)>,
}

pub(crate) fn run(root: &Path, fast: bool) -> Result<(), String> {
    let mut steps = Steps { root, done: Vec::new() };
    steps.cargo("format", &["fmt", "--all", "--check"]);
    steps.step("architecture", || arch::run(root));
    steps.step("generated documents", || errors::check(root));
    steps.step("shell syntax", || shell_syntax(root));
    if !fast {
        steps
            .cargo("clippy", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
        steps.step("deny", || deny(root));
    }
    steps.step("tests", || tests(root, fast));
    if !fast {
        steps.cargo("documentation tests", &["test", "--workspace", "--locked", "--doc", "--quiet"]);
    }
    steps.summary()
}

impl Steps<'_> {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<(), String>) {
        println!("==> {name}");
        let started = Instant::now();
        let result = work();
        if let Err(why) = &result {
            println!("{why}");
        }
        self.done.push((name, started.elapsed(), result));
    }

    fn cargo(&mut self, name: &'static str, args: &[&str]) {
        let root = self.root;
        self.step(name, || succeed(&mut cargo(root, args)));
    }

    fn summary(&self) -> Result<(), String> {
        println!("\n==> summary");
        for (name, took, result) in &self.done {
            println!(
                "{:<6} {name:<22} {:>7.1} s",
                if result.is_ok() { "ok" } else { "FAILED" },
                took.as_secs_f64()
            );
        }
        match self.done.iter().filter(|(_, _, result)| result.is_err()).count() {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} steps failed", self.done.len())),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a task runner runs programs; the ban is for the product")]
fn program(root: &Path, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root).stdin(Stdio::null());
    command
}

fn cargo(root: &Path, args: &[&str]) -> Command {
    // The cargo that started us, so that the pinned toolchain is kept.
    let name = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    program(root, &name, args)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", command.get_program().display())),
        Err(why) => Err(format!("{} could not be started: {why}", command.get_program().display())),
    }
}

fn present(root: &Path, subcommand: &str) -> bool {
    cargo(root, &[subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// A missing tool fails in CI; at home it is said and goes on.
fn missing(tool: &str) -> Result<(), String> {
    let how = format!("cargo-{tool} is not installed; get it with `cargo install --locked cargo-{tool}`");
    if in_ci() {
        return Err(how);
    }
    println!("skipped: {how}");
    Ok(())
}

fn deny(root: &Path) -> Result<(), String> {
    if !present(root, "deny") {
        return missing("deny");
    }
    // Advisories need a database from the network; the release service looks at them.
    succeed(&mut cargo(
        root,
        &["deny", "--all-features", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    ))
}

fn tests(root: &Path, fast: bool) -> Result<(), String> {
    let scope: &[&str] = if fast { &["--lib", "--bins"] } else { &[] };
    if present(root, "nextest") {
        let args = [&["nextest", "run", "--workspace", "--locked"], scope].concat();
        return succeed(&mut cargo(root, &args));
    }
    missing("nextest")?;
    let scope: &[&str] = if fast { scope } else { &["--lib", "--bins", "--tests"] };
    succeed(&mut cargo(root, &[&["test", "--workspace", "--locked", "--no-fail-fast"], scope].concat()))
}

/// `bash -n` over every shell script that git knows or would add.
fn shell_syntax(root: &Path) -> Result<(), String> {
    let listed =
        program(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard", "*.sh", ".ci/run"])
            .output()
            .map_err(|why| format!("git could not be started: {why}"))?;
    let names = String::from_utf8_lossy(&listed.stdout);
    let scripts: Vec<&str> = names.lines().filter(|name| root.join(name).exists()).collect();
    if !scripts.contains(&".ci/run") {
        return Err("the list of scripts lacks .ci/run: is this a git checkout?".to_owned());
    }
    for script in scripts {
        succeed(&mut program(root, "bash", &["-n", script])).map_err(|why| format!("{script}: {why}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_steps_run_and_one_failure_fails_the_whole() {
        let root = crate::root();
        let mut steps = Steps { root: &root, done: Vec::new() };
        let mut ran = 0;
        steps.step("a", || Err("planted".to_owned()));
        steps.step("b", || {
            ran += 1;
            Ok(())
        });
        assert_eq!(ran, 1);
        assert_eq!(steps.summary().unwrap_err(), "1 of 2 steps failed");
    }
}
