//! Process trees: starting a child so that nothing it starts can outlive the adapter, and ending all of it.
//!
//! Deliberately absent: when to do so (see [`crate::supervisor`]).

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

#[cfg(unix)]
#[path = "unix.rs"]
mod platform;
#[cfg(windows)]
#[path = "windows.rs"]
mod platform;

/// Marks every descendant, so that one that left its parent and its group behind is still found. It is not a secret: the
/// nonce travels on stdin.
pub(crate) const MARKER: &str = "ZCODE_ACP_HOST_ID";

/// What to start.
pub(crate) struct Spawn<'a> {
    pub(crate) executable: &'a Path,
    pub(crate) arguments: &'a [OsString],
    pub(crate) cwd: &'a Path,
    /// Variables not inherited.
    pub(crate) remove: &'a [OsString],
    /// Variables set.
    pub(crate) set: &'a [(OsString, OsString)],
}

/// A child and everything it starts. Killed when dropped.
pub(crate) struct Process {
    child: Box<dyn ChildWrapper>,
    tree: platform::Tree,
    pid: Option<u32>,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// Starts a child with pipes, in a group or job of its own.
pub(crate) fn spawn(spawn: &Spawn<'_>) -> io::Result<Process> {
    let marker = uuid::Uuid::new_v4().simple().to_string();
    let mut command = CommandWrap::with_new(spawn.executable, |command| {
        command.args(spawn.arguments).current_dir(spawn.cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in spawn.remove {
            command.env_remove(name);
        }
        command.envs(spawn.set.iter().map(|(name, value)| (name, value)));
        command.env(MARKER, &marker);
    });
    command.wrap(KillOnDrop);
    platform::wrap(&mut command);
    let mut child = command.spawn()?;
    let pid = child.id();
    Ok(Process {
        stdin: child.stdin().take(),
        stdout: child.stdout().take(),
        stderr: child.stderr().take(),
        tree: platform::Tree::new(pid, &marker),
        pid,
        child,
    })
}

impl Process {
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits for the child itself, not for its descendants.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
    }

    /// Ends the child and all its descendants: asked first, killed after `grace`. Returns when none is left or all have been
    /// sent the last signal.
    pub(crate) async fn end_tree(&mut self, grace: Duration) {
        self.tree.end(&mut *self.child, grace).await;
    }
}

/// The signal that ended a process.
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    platform::signal_of(status)
}
