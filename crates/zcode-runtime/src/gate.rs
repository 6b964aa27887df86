//! The compatibility gate, run before anything is started.
//!
//! Files are read on a blocking thread. Only a modified CLI is executed, for its version, and only after everything else has
//! passed.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use diag_model::{Detail, ErrorCode, Failure, Phase};
use runtime_discovery::gate::{self, CliIdentity, Verified};
use runtime_discovery::launch::{ChildEnvironment, LaunchPlan};
use runtime_discovery::{Environment, Platform};

use crate::client::millis;
use crate::host::InstallSource;
use crate::os::{self, Spawn};

/// How long a modified CLI may take to say its version.
const CLI_DEADLINE: Duration = Duration::from_secs(30);
/// Longest output of it that is read.
const CLI_OUTPUT: u64 = 64 << 10;

/// An install that passed, as far as starting it needs it.
pub(crate) struct Passed {
    /// Paths.
    pub(crate) plan: LaunchPlan,
    /// Environment of the child.
    pub(crate) environment: ChildEnvironment,
    /// App version; diagnostic.
    pub(crate) app_version: Option<Arc<str>>,
}

/// Finds and verifies the install.
pub(crate) async fn pass(source: &InstallSource) -> Result<Passed, Failure> {
    let started = std::time::Instant::now();
    let (install, contract) = (source.install.clone(), Arc::clone(&source.contract));
    let checked = tokio::task::spawn_blocking(move || -> Result<Verified, Failure> {
        let install = gate::resolve(&Environment::from_process(), install.as_deref(), &contract)?;
        Ok(gate::verify(&install, &contract)?)
    });
    let verified = checked.await.map_err(|_| Failure::new(ErrorCode::Internal).in_phase(Phase::Verify))??;
    let plan = LaunchPlan::new(&verified, &source.contract);
    let names = std::env::vars_os().map(|(name, _)| name);
    let environment = ChildEnvironment::new(&source.contract, Platform::current(), names);
    if !environment.reported.is_empty() {
        tracing::warn!(reason = environment.reported.join(" "), "gate.environment.reported");
    }
    if let CliIdentity::Modified { .. } = verified.cli() {
        tracing::warn!(contract = source.contract.id(), state = "modified", "gate.cli");
        let output = cli_version(&plan, &environment).await?;
        verified.check_cli_version(&output)?;
    }
    let ms = millis(started.elapsed());
    tracing::info!(ms, contract = source.contract.id(), path = %plan.cwd.display(), "gate.passed");
    Ok(Passed { app_version: verified.facts().app_version.as_deref().map(Arc::from), plan, environment })
}

/// Runs the CLI for its version.
async fn cli_version(plan: &LaunchPlan, environment: &ChildEnvironment) -> Result<String, Failure> {
    let refuse = |reason: &str| {
        Failure::new(ErrorCode::VersionUnsupported)
            .cause(format!("the modified ZCode CLI did not say its version: {reason}"))
            .with(Detail::Detected, reason)
    };
    let arguments: Vec<OsString> = plan.cli_version_arguments().into();
    let mut process = os::spawn(&Spawn {
        executable: &plan.executable,
        arguments: &arguments,
        cwd: &plan.cwd,
        remove: &environment.remove,
        set: &environment.set,
    })
    .map_err(|error| refuse(&error.to_string()))?;
    // Nothing is asked of it, and what it complains about is not its version.
    drop(process.stdin.take());
    let stderr = process
        .stderr
        .take()
        .map(|stderr| tokio::spawn(crate::stderr::drain(stderr, crate::stderr::Tail::default())));
    let mut output = Vec::new();
    let run = async {
        if let Some(stdout) = process.stdout.take() {
            let mut stdout = tokio::io::AsyncReadExt::take(stdout, CLI_OUTPUT);
            tokio::io::AsyncReadExt::read_to_end(&mut stdout, &mut output).await?;
        }
        process.wait().await
    };
    let status = tokio::time::timeout(CLI_DEADLINE, run).await;
    process.end_tree(Duration::ZERO).await;
    if let Some(stderr) = stderr {
        stderr.abort();
    }
    match status {
        Err(_) => Err(refuse("no answer in time")),
        Ok(Err(error)) => Err(refuse(&error.to_string())),
        Ok(Ok(status)) if !status.success() => {
            let failure = refuse("it failed");
            Err(status.code().map_or(failure.clone(), |code| failure.with(Detail::ExitCode, code)))
        }
        Ok(Ok(_)) => Ok(String::from_utf8_lossy(&output).into_owned()),
    }
}
