//! Finds the install and decides whether it is the supported one.
//!
//! [`resolve`] settles on one root and on the files in it; [`verify`] reads them and compares them with the contract.
//! Nothing of the install is executed here. A patched CLI is allowed: it then has to say its version itself, which the
//! caller asks only after everything else has passed (see [`CliIdentity`]).

mod inspect;
mod judge;
mod resolve;

use std::path::{Path, PathBuf};

use diag_model::Failure;
use serde::{Serialize, Serializer};

use crate::contract::Contract;
use crate::digest::Sha256Digest;
use crate::layout::{Environment, Platform};

/// The files of one install, all canonical, inside its canonical root, and readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    /// The root.
    pub root: PathBuf,
    /// Executable that runs as Node.
    pub executable: PathBuf,
    /// The CLI.
    pub cli_entry: PathBuf,
    /// Bundle metadata.
    pub metadata: PathBuf,
    /// Archive with the host.
    pub host_archive: PathBuf,
    /// Property list with the app's version, where the layout has one.
    pub app_info: Option<PathBuf>,
    /// The platform it is wanted for, which is the running one.
    pub platform: Platform,
}

/// Whether the CLI is the official one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CliIntegrity {
    /// The contract's digest.
    Verified,
    /// Another one. Reported; it does not decide compatibility.
    Modified,
}

/// What the gate could tell about the CLI without running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliIdentity {
    /// The official file, so its version is the contract's and nothing has to be run.
    Official,
    /// Another file. It must be run for its version, see [`Verified::check_cli_version`].
    Modified {
        /// Its digest.
        sha256: Sha256Digest,
    },
}

/// What was found in an install, whether it passed or not. A fact that could not be read is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallFacts {
    /// Canonical root.
    #[serde(serialize_with = "as_shown")]
    pub root: PathBuf,
    /// Platform the bundle says it is for.
    pub platform: Option<String>,
    /// App version.
    pub app_version: Option<String>,
    /// App build; diagnostic.
    pub app_build: Option<String>,
    /// Digest of the CLI.
    pub cli_sha256: Option<Sha256Digest>,
    /// Whether that is the official one.
    pub cli_integrity: Option<CliIntegrity>,
    /// Digest of the metadata file; diagnostic.
    pub metadata_sha256: Option<Sha256Digest>,
    /// Digest of the host entry.
    pub host_index_sha256: Option<Sha256Digest>,
    /// Digest of the RPC module.
    pub rpc_module_sha256: Option<Sha256Digest>,
    /// The archive.
    pub archive: Option<ArchiveFacts>,
    /// Users other than the owner may write to the root.
    pub writable_by_others: bool,
}

/// A path need not be text; a report about one must not fail for that.
fn as_shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Sizes of the archive; diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveFacts {
    /// Length in bytes.
    pub size: u64,
    /// Length of what precedes the file data.
    pub header_size: u64,
    /// Files and folders listed.
    pub entries: usize,
}

/// An install that passed. Only [`verify`] makes one.
#[derive(Debug, Clone)]
pub struct Verified {
    install: Install,
    facts: InstallFacts,
    cli: CliIdentity,
    cli_version: String,
}

/// An install that did not pass.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{failure}")]
pub struct Refusal {
    /// Why.
    pub failure: Failure,
    /// What was found nevertheless.
    pub facts: Box<InstallFacts>,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

/// Settles on one install.
///
/// A root that was named is used or refused, never replaced by another. Otherwise the contract's default roots and then
/// its other roots are tried; the first that holds the executable is final, whatever is found in it.
pub fn resolve(env: &Environment, named: Option<&Path>, contract: &Contract) -> Result<Install, Failure> {
    resolve::resolve(env, named, contract)
}

/// Reads an install and compares it with the contract. Hashes tens of megabytes, so it belongs on a blocking thread.
pub fn verify(install: &Install, contract: &Contract) -> Result<Verified, Refusal> {
    let readings = inspect::read(install, contract);
    let facts = readings.facts(install, contract);
    let result = match judge::judge(&readings, install.platform, contract) {
        Ok(cli) => Ok(Verified {
            install: install.clone(),
            facts,
            cli,
            cli_version: contract.artifact.cli_version.clone(),
        }),
        Err(failure) => Err(Refusal { failure, facts: Box::new(facts) }),
    };
    match &result {
        Ok(verified) => tracing::debug!(
            path = %install.root.display(),
            contract = contract.id(),
            state = if verified.cli == CliIdentity::Official { "official" } else { "modified" },
            "gate.passed"
        ),
        Err(refusal) => tracing::debug!(
            path = %install.root.display(),
            contract = contract.id(),
            code = %refusal.failure.code,
            "gate.refused"
        ),
    }
    result
}

/// Reads an install without judging it.
pub fn inspect(install: &Install, contract: &Contract) -> InstallFacts {
    inspect::read(install, contract).facts(install, contract)
}

impl Verified {
    /// The install.
    pub fn install(&self) -> &Install {
        &self.install
    }

    /// What was found.
    pub fn facts(&self) -> &InstallFacts {
        &self.facts
    }

    /// Whether the CLI is the official one or still has to be asked.
    pub fn cli(&self) -> CliIdentity {
        self.cli
    }

    /// Judges what a modified CLI printed for `version`.
    pub fn check_cli_version(&self, output: &str) -> Result<(), Failure> {
        judge::cli_version(output, &self.cli_version)
    }
}

#[cfg(test)]
mod tests;
