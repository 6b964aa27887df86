//! Windows: a job object that ends with its last handle, and no console window.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, CommandWrapper, JobObject};
use tokio::process::Command;

/// `CREATE_SUSPENDED`, which the job needs to catch the child before it runs, and `CREATE_NO_WINDOW`.
const FLAGS: u32 = 0x0000_0004 | 0x0800_0000;

pub(super) fn wrap(command: &mut CommandWrap) {
    // The order matters: the job sets its own flags first, the job then resumes the child.
    command.wrap(JobObject).wrap(NoWindow);
}

#[derive(Debug)]
struct NoWindow;

impl CommandWrapper for NoWindow {
    fn pre_spawn(&mut self, command: &mut Command, _core: &CommandWrap) -> io::Result<()> {
        command.creation_flags(FLAGS);
        Ok(())
    }
}

pub(super) fn signal_of(_status: ExitStatus) -> Option<i32> {
    None
}

/// The job knows its members, so nothing has to be remembered.
pub(super) struct Tree;

impl Tree {
    pub(super) fn new(_pid: Option<u32>, _marker: &str) -> Self {
        Self
    }

    /// There is no way to ask a process without a window to end, so the grace is not waited for.
    pub(super) async fn end(&self, child: &mut dyn ChildWrapper, _grace: Duration) {
        if child.start_kill().is_ok() {
            let _ = tokio::time::timeout(Duration::from_secs(1), child.inner_mut().wait()).await;
        }
    }
}
