//! The launcher against a fake install: gate, executable, bridge script, host worker.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::{Detail, ErrorCode, Failure};
use runtime_discovery::Contract;
use testkit::install::{FakeInstall, node};
use zcode_runtime::host::{Host, HostLauncher, HostSource, HostState, InstallSource};

/// True when Node is there. Where it must be (CI) its absence fails the test.
fn node_is_here() -> bool {
    if node().is_some() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "Node is needed and not on PATH");
    eprintln!("SKIPPED: Node is not on PATH");
    false
}

async fn start(install: &FakeInstall) -> Result<Host, Failure> {
    let contract = Arc::new(Contract::from_file(&install.contract).expect("the fake's contract"));
    let source = InstallSource { install: Some(install.root.clone()), contract, unofficial: true };
    HostLauncher::new(HostSource::Install(source)).start().await
}

/// Changes one byte at the end of a file.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_verified_install_starts_and_ends() {
    if !node_is_here() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let install = FakeInstall::build(dir.path()).unwrap();
    let host = start(&install).await.expect("ready");
    assert!(host.profile().unofficial && !host.profile().simulated);
    assert_eq!(host.profile().mode("yolo").map(|mode| mode.implicit), Some(false));
    let HostState::Ready { pid: Some(pid) } = *host.state().borrow() else { panic!("not ready") };
    assert!(testkit::process::is_running(pid));
    let started = Instant::now();
    let summary = host.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!((summary.code, summary.signal), (Some(0), None));
    assert!(!testkit::process::is_running(pid));
}

#[tokio::test]
async fn a_modified_cli_is_asked_for_its_version_and_may_be_used() {
    if !node_is_here() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let install = FakeInstall::build(dir.path()).unwrap();
    let mut text = std::fs::read_to_string(&install.cli_entry).unwrap();
    text.push_str("\n// patched\n");
    std::fs::write(&install.cli_entry, text).unwrap();
    start(&install).await.expect("a patched CLI of the right version is no other ZCode").shutdown().await;

    std::fs::write(&install.cli_entry, "console.log('0.99.0')\n").unwrap();
    let failure = start(&install).await.err().expect("refused");
    assert_eq!(failure.code, ErrorCode::VersionUnsupported);
    std::fs::write(&install.cli_entry, "process.exit(4)\n").unwrap();
    let failure = start(&install).await.err().expect("refused");
    assert_eq!((failure.code, failure.detail(Detail::ExitCode)), (ErrorCode::VersionUnsupported, Some("4")));
}

#[tokio::test]
async fn a_damaged_archive_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let install = FakeInstall::build(dir.path()).unwrap();
    // If it ran, it would say so.
    let ran = dir.path().join("ran");
    std::fs::write(&install.executable, format!("#!/bin/sh\ntouch '{}'\n", ran.display())).unwrap();
    damage(install.host_index.ancestors().find(|path| path.is_file()).expect("the archive"));
    let failure = start(&install).await.err().expect("refused");
    assert!(
        failure.detail(Detail::Detected).is_some() || failure.code == ErrorCode::ArchiveInvalid,
        "{failure:?}"
    );
    assert!(!ran.exists());
}
