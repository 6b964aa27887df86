//! Reads everything the gate compares, each file once. A file that cannot be read becomes a failure in its own place, so
//! that the other facts can be shown all the same.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use diag_model::{Detail, ErrorCode, Failure, one_line};

use super::{ArchiveFacts, CliIntegrity, Install, InstallFacts};
use crate::asar::{Asar, AsarError};
use crate::contract::{Contract, io_reason};
use crate::digest::Sha256Digest;
use crate::exports::exported_names;
use crate::manifest::{self, AppVersion, BundleMetadata};

/// Largest RPC module that is read.
const MODULE_LIMIT: u64 = 16 * 1024 * 1024;

/// Path of the manifest inside the archive; a fact about Electron apps, not about a release.
const PACKAGE: &str = "package.json";

pub(super) struct Readings {
    pub(super) metadata: Result<BundleMetadata, Failure>,
    pub(super) version: Result<AppVersion, Failure>,
    pub(super) cli: Result<Sha256Digest, Failure>,
    pub(super) host_index: Result<Sha256Digest, Failure>,
    pub(super) rpc_module: Result<(Sha256Digest, BTreeSet<String>), Failure>,
    metadata_sha256: Option<Sha256Digest>,
    archive: Option<ArchiveFacts>,
}

pub(super) fn read(install: &Install, contract: &Contract) -> Readings {
    let artifact = &contract.artifact;
    let metadata = read_small(install, &install.metadata);
    let metadata_sha256 = metadata.as_deref().ok().map(Sha256Digest::of);
    let metadata = metadata.and_then(|bytes| {
        BundleMetadata::parse(&bytes).map_err(|reason| {
            Failure::new(ErrorCode::MetadataMismatch)
                .cause("the ZCode bundle metadata cannot be understood")
                .with(Detail::File, shown(install, &install.metadata))
                .with(Detail::Detected, foreign(&reason))
                .with(Detail::Expected, "exactly runtime, entry, source and platform")
        })
    });

    let refuse = |error: &AsarError| {
        Failure::new(ErrorCode::ArchiveInvalid)
            .cause(format!("ZCode's app archive cannot be used: {}", foreign(&error.to_string())))
            .with(Detail::File, shown(install, &install.host_archive))
            .with(Detail::Detected, foreign(&error.to_string()))
            .with(
                Detail::Expected,
                format!("an asar archive with {PACKAGE} and {}", artifact.host_index.path),
            )
    };
    let (archive, package, host_index, rpc_module) = match Asar::open(&install.host_archive) {
        Err(error) => (None, Err(refuse(&error)), Err(refuse(&error)), Err(refuse(&error))),
        Ok(mut asar) => {
            let facts = ArchiveFacts {
                size: asar.size(),
                header_size: asar.data_start(),
                entries: asar.header().len(),
            };
            let package = asar.entry(PACKAGE).and_then(|entry| asar.read_small(&entry, manifest::SIZE_LIMIT));
            let host_index = asar.entry(&artifact.host_index.path).and_then(|entry| asar.sha256(&entry));
            let rpc_module = asar
                .entry(&artifact.rpc_module.path)
                .and_then(|entry| asar.read_small(&entry, MODULE_LIMIT))
                .map(|bytes| (Sha256Digest::of(&bytes), exported_names(&bytes)));
            (
                Some(facts),
                package.map_err(|error| refuse(&error)),
                host_index.map_err(|error| refuse(&error)),
                rpc_module.map_err(|error| refuse(&error)),
            )
        }
    };
    Readings {
        metadata,
        version: app_version(install, package),
        cli: hash(install, &install.cli_entry),
        host_index,
        rpc_module,
        metadata_sha256,
        archive,
    }
}

impl Readings {
    pub(super) fn facts(&self, install: &Install, contract: &Contract) -> InstallFacts {
        let cli = self.cli.as_ref().ok().copied();
        let official = |digest| {
            if digest == contract.artifact.cli_sha256 {
                CliIntegrity::Verified
            } else {
                CliIntegrity::Modified
            }
        };
        InstallFacts {
            root: install.root.clone(),
            platform: self.metadata.as_ref().ok().map(|metadata| foreign(&metadata.platform)),
            app_version: self
                .version
                .as_ref()
                .ok()
                .and_then(|version| version.version.as_deref().map(foreign)),
            app_build: self.version.as_ref().ok().and_then(|version| version.build.as_deref().map(foreign)),
            cli_sha256: cli,
            cli_integrity: cli.map(official),
            metadata_sha256: self.metadata_sha256,
            host_index_sha256: self.host_index.as_ref().ok().copied(),
            rpc_module_sha256: self.rpc_module.as_ref().ok().map(|(digest, _)| *digest),
            archive: self.archive,
            writable_by_others: writable_by_others(&install.root),
        }
    }
}

/// The bundle's property list wins over the archive's manifest, which is read where there is no version in it.
fn app_version(install: &Install, package: Result<Vec<u8>, Failure>) -> Result<AppVersion, Failure> {
    let unreadable = |file: String, reason: String| {
        Failure::new(ErrorCode::VersionUnsupported)
            .cause("ZCode's version cannot be read")
            .with(Detail::File, file)
            .with(Detail::Detected, foreign(&reason))
    };
    let info = match &install.app_info {
        None => AppVersion::default(),
        Some(path) => manifest::info_plist(&read_small(install, path)?)
            .map_err(|reason| unreadable(shown(install, path), reason))?,
    };
    if info.version.is_some() {
        return Ok(info);
    }
    let version = manifest::package_version(&package?).map_err(|reason| {
        unreadable(format!("{}/{PACKAGE}", shown(install, &install.host_archive)), reason)
    })?;
    Ok(AppVersion { version: Some(version), ..info })
}

fn read_small(install: &Install, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(manifest::SIZE_LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(install, path, &io_reason(&error)))?;
    if bytes.len() as u64 > manifest::SIZE_LIMIT {
        return Err(unreadable(install, path, "it is far larger than such a file can be"));
    }
    Ok(bytes)
}

fn hash(install: &Install, path: &Path) -> Result<Sha256Digest, Failure> {
    let hashed = File::open(path).and_then(Sha256Digest::of_reader);
    hashed.map(|(digest, _)| digest).map_err(|error| unreadable(install, path, &io_reason(&error)))
}

fn unreadable(install: &Install, path: &Path, reason: &str) -> Failure {
    let file = shown(install, path);
    Failure::new(ErrorCode::InstallIncomplete)
        .cause(format!("a file of the ZCode install cannot be read: {file}: {reason}"))
        .with(Detail::File, file)
        .with(Detail::Detected, reason)
        .with(Detail::Expected, "a readable file")
}

/// Text out of a file of the install, made fit for a failure: one line and not long.
pub(super) fn foreign(text: &str) -> String {
    const LIMIT: usize = 200;
    one_line(text).chars().take(LIMIT).collect()
}

/// A file as failures name it: relative to the root.
fn shown(install: &Install, path: &Path) -> String {
    path.strip_prefix(&install.root).unwrap_or(path).display().to_string()
}

#[cfg(unix)]
fn writable_by_others(root: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(root).is_ok_and(|metadata| metadata.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn writable_by_others(_root: &Path) -> bool {
    false
}
