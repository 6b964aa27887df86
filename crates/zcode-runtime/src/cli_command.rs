//! The installed CLI's own commands for signing in and out.
//!
//! The gate passes first, then ZCode's CLI does its work: on the user's terminal, or unattended with a deadline. What it
//! stores is its own business: credentials are never read, copied or shown here.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use diag_model::{Detail, ErrorCode, Failure};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::millis;
use crate::gate::{self, Passed};
use crate::host::{HostLauncher, HostSource, InstallSource, spawn_failed};
use crate::os::{self, Process, Spawn};
use crate::stderr::{self, Tail};
use crate::supervisor::Limits;

/// How long an unattended command may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long pipes are read after the command has ended. What it left behind may hold them open for ever.
const PIPE_GRACE: Duration = Duration::from_millis(200);

/// A command of the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliCommand {
    /// Signs in. The page to open is printed, not opened, so that it can be opened on any machine.
    Login,
    /// Signs out; the desktop app too, which shares the sign-in.
    Logout,
}

impl CliCommand {
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            CliCommand::Login => &["login", "--no-browser"],
            CliCommand::Logout => &["logout"],
        }
    }
}

/// The CLI of an install that has passed the gate.
pub struct Cli {
    passed: Passed,
    /// How long a process tree that is ended may take to end by itself.
    grace: Duration,
}

impl HostLauncher {
    /// Finds and verifies the install and returns its CLI. Nothing of an install that fails is executed.
    pub async fn cli(&self) -> Result<Cli, Failure> {
        match self.source() {
            HostSource::Install(source) => Cli::verified(source).await,
            HostSource::Stream { .. } => Err(Failure::new(ErrorCode::SignOutFailed)
                .cause("the simulated host has no sign-in")
                .next_step("leave --simulated out to sign in to ZCode or out of it")),
        }
    }

    /// Signs out of ZCode on this machine, unattended. Dropping the future ends what was started.
    pub async fn sign_out(&self) -> Result<(), Failure> {
        self.cli().await?.captured(CliCommand::Logout, DEADLINE).await
    }
}

impl Cli {
    async fn verified(source: &InstallSource) -> Result<Self, Failure> {
        let passed = gate::pass(source).await?;
        Ok(Self { passed, grace: Limits::of(&source.contract).term })
    }

    /// Root of the install.
    pub fn root(&self) -> &Path {
        &self.passed.plan.cwd
    }

    /// App version; diagnostic.
    pub fn app_version(&self) -> Option<&str> {
        self.passed.app_version.as_deref()
    }

    /// Runs a command on the terminal of this process and returns its exit code, by convention 128 and the signal when one
    /// ended it. What the terminal itself sends reaches the command, which shares the foreground. Each message of `end`
    /// passes a request to end on; the second one kills.
    pub async fn interactive(
        &self,
        command: CliCommand,
        mut end: mpsc::Receiver<()>,
    ) -> Result<i32, Failure> {
        let Passed { plan, environment, .. } = &self.passed;
        let mut wrapped = CommandWrap::with_new(&plan.executable, |process| {
            process.arg(&plan.cli_entry).args(command.arguments()).current_dir(&plan.cwd);
            process.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
            for name in &environment.remove {
                process.env_remove(name);
            }
            process.envs(environment.set.iter().map(|(name, value)| (name, value)));
        });
        wrapped.wrap(KillOnDrop);
        let mut child = wrapped.spawn().map_err(|error| spawn_failed(&error))?;
        let mut asked = false;
        let status = loop {
            tokio::select! {
                status = child.inner_mut().wait() => break status,
                Some(()) = end.recv() => {
                    pass_on(&mut *child, asked);
                    asked = true;
                }
            }
        };
        status.map(exit_code).map_err(|error| spawn_failed(&error))
    }

    /// Runs a command unattended: nothing to read, and what it prints is only used to explain a failure. At the deadline,
    /// or when the future is dropped, its process tree is ended.
    async fn captured(&self, command: CliCommand, deadline: Duration) -> Result<(), Failure> {
        let started = Instant::now();
        let Passed { plan, environment, .. } = &self.passed;
        let mut arguments = vec![plan.cli_entry.clone().into_os_string()];
        arguments.extend(command.arguments().iter().map(OsString::from));
        let process = os::spawn(&Spawn {
            executable: &plan.executable,
            arguments: &arguments,
            cwd: &plan.cwd,
            remove: &environment.remove,
            set: &environment.set,
        })
        .map_err(|error| spawn_failed(&error))?;
        let stop = CancellationToken::new();
        // A task of its own, so that the tree is ended even when nobody waits any more.
        let run = tokio::spawn(unattended(process, deadline, self.grace, stop.clone()));
        let _stop_with_me = stop.drop_guard();
        let outcome = run.await.unwrap_or_else(|_| Err(Failure::new(ErrorCode::Internal)));
        let ms = millis(started.elapsed());
        tracing::info!(ms, method = command.arguments()[0], state = outcome.is_ok(), "cli.ended");
        outcome
    }
}

async fn unattended(
    mut process: Process,
    deadline: Duration,
    grace: Duration,
    stop: CancellationToken,
) -> Result<(), Failure> {
    drop(process.stdin.take());
    let (said, complained) = (Tail::default(), Tail::default());
    let readers = [
        process.stdout.take().map(|stdout| tokio::spawn(stderr::drain(stdout, said.clone()))),
        process.stderr.take().map(|stderr| tokio::spawn(stderr::drain(stderr, complained.clone()))),
    ];
    let ended = tokio::select! {
        biased;
        status = process.wait() => Some(status),
        () = tokio::time::sleep(deadline) => None,
        () = stop.cancelled() => None,
    };
    process.end_tree(if ended.is_some() { Duration::ZERO } else { grace }).await;
    for reader in readers.into_iter().flatten() {
        finish(reader).await;
    }
    let failure = match ended {
        Some(Ok(status)) if status.success() => return Ok(()),
        Some(Ok(status)) => Failure::new(ErrorCode::SignOutFailed).with(Detail::ExitCode, exit_code(status)),
        Some(Err(error)) => spawn_failed(&error),
        None => Failure::new(ErrorCode::SignOutUnknown).with(Detail::WaitedMs, millis(deadline)),
    };
    Err(match complained.telling_line().or_else(|| said.telling_line()) {
        Some(line) => failure.with(Detail::Stderr, line),
        None => failure,
    })
}

async fn finish(mut reader: JoinHandle<()>) {
    if tokio::time::timeout(PIPE_GRACE, &mut reader).await.is_err() {
        reader.abort();
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| os::signal_of(status).map(|signal| 128 + signal)).unwrap_or(1)
}

/// Asks the child to end, or kills it.
#[cfg(unix)]
fn pass_on(child: &mut dyn ChildWrapper, kill: bool) {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Gone already is as good.
        let _ = kill_process(pid, if kill { Signal::KILL } else { Signal::TERM });
    }
}

/// There is no way to ask.
#[cfg(windows)]
fn pass_on(child: &mut dyn ChildWrapper, _kill: bool) {
    let _: std::io::Result<()> = child.start_kill();
}

#[cfg(test)]
#[cfg(unix)]
#[path = "cli_command_tests.rs"]
mod tests;
