//! An agent as a child process.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr};

use crate::transport::Streams;

/// How to start an agent.
#[derive(Debug, Clone, Default)]
pub struct AgentCommand {
    /// Program.
    pub program: PathBuf,
    /// Arguments.
    pub args: Vec<OsString>,
    /// Working directory; the caller's if none.
    pub cwd: Option<PathBuf>,
    /// The child starts with an empty environment and only [`AgentCommand::envs`].
    pub env_clear: bool,
    /// Variables to set.
    pub envs: Vec<(OsString, OsString)>,
}

/// A running agent. Dropping it kills it with its process group.
pub struct AgentProcess {
    child: Child,
    #[cfg(unix)]
    group: Option<rustix::process::Pid>,
}

/// How an agent ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// It did not end by itself in time and was killed.
    pub killed: bool,
}

impl AgentProcess {
    /// Starts the agent with piped stdin, stdout and stderr, in a process group of its own: a Ctrl-C typed in the
    /// terminal reaches the client, which then tells the agent in the protocol's words.
    pub fn spawn(command: &AgentCommand) -> io::Result<(Self, Streams, ChildStderr)> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this module is the client's one place that starts processes"
        )]
        let mut process = tokio::process::Command::new(&command.program);
        process
            .args(&command.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if command.env_clear {
            process.env_clear();
        }
        process.envs(command.envs.iter().map(|(key, value)| (key, value)));
        if let Some(cwd) = &command.cwd {
            process.current_dir(cwd);
        }
        #[cfg(unix)]
        process.process_group(0);
        #[cfg(windows)]
        process.creation_flags(0x0800_0000); // CREATE_NO_WINDOW
        let mut child = process.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("a pipe to the agent is missing"));
        };
        #[cfg(unix)]
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        let process = Self {
            child,
            #[cfg(unix)]
            group,
        };
        Ok((process, Streams { read: Box::new(stdout), write: Box::new(stdin) }, stderr))
    }

    /// Process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the end that closing its stdin has begun, at most `grace`; then kills it.
    pub async fn end(mut self, grace: Duration) -> io::Result<Ended> {
        if let Ok(status) = tokio::time::timeout(grace, self.child.wait()).await {
            return Ok(Ended { status: status?, killed: false });
        }
        self.kill_group();
        self.child.start_kill().ok();
        Ok(Ended { status: self.child.wait().await?, killed: true })
    }

    /// Kills the group. Only while the child has not been reaped: afterwards the number may belong to somebody else.
    fn kill_group(&self) {
        #[cfg(unix)]
        if let (Some(group), Some(_)) = (self.group, self.child.id()) {
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}
