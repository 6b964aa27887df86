//! Processes as the system sees them. Linux reads `/proc`; elsewhere these functions know of none.

use std::path::Path;
use std::time::Duration;

use crate::wait::eventually;

/// Running processes whose environment holds `name` with this value. A zombie is not running.
pub fn with_variable(name: &str, value: &Path) -> Vec<u32> {
    let wanted = [name.as_bytes(), b"=", value.as_os_str().as_encoded_bytes()].concat();
    all()
        .into_iter()
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted))
        })
        .filter(|pid| is_running(*pid))
        .collect()
}

/// All descendants of a process by parent links.
pub fn descendants(pid: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> =
        all().into_iter().filter_map(|child| Some((child, parent(child)?))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(pairs.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.remove(0);
    found
}

/// Whether a process runs; a zombie does not.
pub fn is_running(pid: u32) -> bool {
    field(pid, 0).is_some_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

/// Waits until none of the processes a function lists is left; those that are.
pub fn until_gone(limit: Duration, list: impl Fn() -> Vec<u32>) -> Result<(), Vec<u32>> {
    eventually(limit, || list().is_empty().then_some(())).ok_or_else(list)
}

/// The command line of a process, for messages.
pub fn describe(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .take(4)
        .map(|word| String::from_utf8_lossy(word).chars().take(80).collect())
        .collect();
    format!("{pid}: {}", words.join(" "))
}

/// Sends a signal by number with the system's own tool.
pub fn signal(pid: u32, name: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the test kit ends what it started")]
    let status = std::process::Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    status.is_ok_and(|status| status.success())
}

fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn parent(pid: u32) -> Option<u32> {
    field(pid, 1)?.parse().ok()
}

/// A field of `/proc/PID/stat` after the name, which may hold anything.
fn field(pid: u32, index: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(index).map(str::to_owned)
}
