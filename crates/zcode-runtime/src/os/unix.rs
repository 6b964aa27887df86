//! Unix: a process group, and descendants found from outside.
//!
//! A tool may be in a session of its own and its parent may be gone, so members of the tree are found three ways: by group, by
//! parent, and (on Linux) by the marker in their environment. The search is repeated with everything found stopped, until
//! it finds nothing new, so that nothing can fork its way out.

use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How often the search may be repeated.
const ROUNDS: usize = 32;
/// How often it is looked whether a process asked to end has ended.
const POLL: Duration = Duration::from_millis(15);
/// How long it is looked whether the killed are gone. Only a process in the kernel's hands takes that long.
const LAST_LOOK: Duration = Duration::from_millis(200);

pub(super) fn wrap(command: &mut CommandWrap) {
    command.wrap(ProcessGroup::leader());
}

pub(super) fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// How the tree is recognised.
#[derive(Clone)]
pub(super) struct Tree {
    root: Option<i32>,
    marker: String,
}

impl Tree {
    pub(super) fn new(pid: Option<u32>, marker: &str) -> Self {
        Self {
            root: pid.and_then(|pid| i32::try_from(pid).ok()),
            marker: format!("{}={marker}", super::MARKER),
        }
    }

    pub(super) async fn end(&self, child: &mut dyn ChildWrapper, grace: Duration) {
        let tree = self.clone();
        // /proc is read from a thread of its own: thousands of small files.
        let swept = tokio::task::spawn_blocking(move || tree.sweep(grace));
        // The child is collected meanwhile, or it would be counted as living.
        let waited = async { drop(child.inner_mut().wait().await) };
        let swept = async { drop(swept.await) };
        tokio::pin!(waited, swept);
        tokio::select! {
            () = &mut waited => swept.await,
            () = &mut swept => {}
        }
    }

    fn sweep(&self, grace: Duration) {
        let mut members = self.members();
        if members.is_empty() {
            return;
        }
        if !grace.is_zero() {
            for pid in &members {
                send(*pid, Signal::TERM);
            }
            let deadline = Instant::now() + grace;
            while !members.is_empty() && Instant::now() < deadline {
                std::thread::sleep(POLL);
                members = self.members();
            }
        }
        let mut doomed = HashSet::new();
        for _ in 0..ROUNDS {
            let fresh: Vec<i32> = members.iter().copied().filter(|pid| doomed.insert(*pid)).collect();
            if fresh.is_empty() {
                break;
            }
            for pid in fresh {
                send(pid, Signal::STOP);
            }
            members = self.members();
        }
        for pid in &doomed {
            send(*pid, Signal::KILL);
        }
        if let Some(group) = self.root.filter(|_| !doomed.is_empty()).and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // A signal is sent before it has worked. Whatever appears meanwhile goes the same way.
        let deadline = Instant::now() + LAST_LOOK;
        loop {
            members = self.members();
            if members.is_empty() || Instant::now() >= deadline {
                return;
            }
            for pid in &members {
                send(*pid, Signal::KILL);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Living members of the tree.
    fn members(&self) -> HashSet<i32> {
        let own = rustix::process::getpid().as_raw_pid();
        let rows = table();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for row in &rows {
            children.entry(row.parent).or_default().push(row.pid);
        }
        let belongs = |row: &Row| {
            Some(row.pid) == self.root || Some(row.group) == self.root || marked(row.pid, &self.marker)
        };
        let mut found: HashSet<i32> =
            rows.iter().filter(|row| row.pid != own && belongs(row)).map(|row| row.pid).collect();
        let mut queue: Vec<i32> = found.iter().copied().chain(self.root).collect();
        while let Some(pid) = queue.pop() {
            for child in children.get(&pid).into_iter().flatten() {
                if *child != own && found.insert(*child) {
                    queue.push(*child);
                }
            }
        }
        // One that has ended and waits to be collected is over.
        found.retain(|pid| rows.iter().any(|row| row.pid == *pid && !row.ended));
        found
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Gone already is as good.
        let _ = kill_process(pid, signal);
    }
}

struct Row {
    pid: i32,
    parent: i32,
    group: i32,
    ended: bool,
}

#[cfg(target_os = "linux")]
fn table() -> Vec<Row> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The command may contain anything, so fields count from its last parenthesis: state, parent, group.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        Some(Row { pid, parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()?, ended })
    })
    .collect()
}

/// Whether the process inherited the marker. Unreadable for processes of others, which cannot be ours.
#[cfg(target_os = "linux")]
fn marked(pid: i32, marker: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
fn table() -> Vec<Row> {
    #[expect(clippy::disallowed_methods, reason = "this crate owns processes, and there is no /proc here")]
    let ps = std::process::Command::new("/bin/ps").args(["-axo", "pid=,ppid=,pgid=,state="]).output();
    let Ok(ps) = ps else { return Vec::new() };
    String::from_utf8_lossy(&ps.stdout)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let mut number = || fields.next()?.parse().ok();
            let (pid, parent, group) = (number()?, number()?, number()?);
            Some(Row { pid, parent, group, ended: fields.next().is_some_and(|state| state.starts_with('Z')) })
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn marked(_pid: i32, _marker: &str) -> bool {
    false
}
