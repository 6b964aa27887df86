//! The decision, as a pure function of what was read. The order of the checks is part of the contract with users: the
//! first difference is the one that is reported.

use diag_model::{Detail, ErrorCode, Failure};

use super::CliIdentity;
use super::inspect::{Readings, foreign};
use crate::contract::{Contract, KnownReleases};
use crate::layout::Platform;
use crate::manifest::{BundleMetadata, version_token};

pub(super) fn judge(
    readings: &Readings,
    platform: Platform,
    contract: &Contract,
) -> Result<CliIdentity, Failure> {
    let metadata = readings.metadata.as_ref().map_err(Clone::clone)?;
    metadata_semantics(metadata, contract)?;
    if metadata.platform != platform.to_string() {
        return Err(Failure::new(ErrorCode::PlatformMismatch)
            .cause(format!("this ZCode was built for {}", foreign(&metadata.platform)))
            .next_step(format!("install the build for {platform}"))
            .with(Detail::Detected, foreign(&metadata.platform))
            .with(Detail::Expected, platform));
    }
    let cli = versions(readings, contract)?;
    pinned_files(readings, contract)?;
    Ok(cli)
}

fn metadata_semantics(metadata: &BundleMetadata, contract: &Contract) -> Result<(), Failure> {
    let facts = &contract.metadata;
    let mismatch = |field: &str, detected: &str, expected: &str| {
        Failure::new(ErrorCode::MetadataMismatch)
            .cause(format!("the ZCode bundle metadata has another `{field}` than expected"))
            .with(Detail::Field, field)
            .with(Detail::Detected, foreign(detected))
            .with(Detail::Expected, expected)
    };
    for (field, detected, expected) in [
        ("runtime", &metadata.runtime, &facts.runtime),
        ("entry", &metadata.entry, &facts.entry),
        ("source", &metadata.source, &facts.source),
    ] {
        if detected != expected {
            return Err(mismatch(field, detected, expected));
        }
    }
    if !facts.platforms.contains(&metadata.platform) {
        return Err(mismatch("platform", &metadata.platform, &facts.platforms.join(", ")));
    }
    Ok(())
}

fn versions(readings: &Readings, contract: &Contract) -> Result<CliIdentity, Failure> {
    let artifact = &contract.artifact;
    let version = readings
        .version
        .as_ref()
        .map_err(|failure| failure.clone().with(Detail::Expected, &artifact.app_version))?;
    let detected = version.version.as_deref().unwrap_or("none");
    if detected != artifact.app_version {
        return Err(unsupported("ZCode", detected, &artifact.app_version, contract));
    }
    let digest = *readings.cli.as_ref().map_err(Clone::clone)?;
    if digest == artifact.cli_sha256 {
        return Ok(CliIdentity::Official);
    }
    // The unpatched CLI of another release need not be run to know its version.
    let known = KnownReleases::embedded().by_cli(&digest).and_then(|release| release.cli_version.as_deref());
    match known {
        Some(version) if version != artifact.cli_version => {
            Err(unsupported("ZCode CLI", version, &artifact.cli_version, contract))
        }
        _ => Ok(CliIdentity::Modified { sha256: digest }),
    }
}

fn unsupported(what: &str, detected: &str, expected: &str, contract: &Contract) -> Failure {
    let detected = foreign(detected);
    let seen = what == "ZCode" && KnownReleases::embedded().by_app_version(&detected).is_some();
    let verdict = if seen { "is known, but not supported" } else { "is not supported" };
    Failure::new(ErrorCode::VersionUnsupported)
        .cause(format!("{what} {detected} {verdict}; this adapter works with {expected}"))
        .next_step(format!(
            "install ZCode {} beside it and use --zcode-install",
            contract.artifact.app_version
        ))
        .with(Detail::Detected, detected)
        .with(Detail::Expected, expected)
        .with(Detail::Contract, contract.id())
}

fn pinned_files(readings: &Readings, contract: &Contract) -> Result<(), Failure> {
    let (host, rpc) = (&contract.artifact.host_index, &contract.artifact.rpc_module);
    let reinstall = format!("reinstall ZCode {}", contract.artifact.app_version);
    let differs = |path: &str, detected, expected, cause: String| {
        Failure::new(ErrorCode::HashMismatch)
            .cause(cause)
            .next_step(&reinstall)
            .with(Detail::File, path)
            .with(Detail::Detected, detected)
            .with(Detail::Expected, expected)
            .with(Detail::Contract, contract.id())
    };

    let digest = *readings.host_index.as_ref().map_err(Clone::clone)?;
    if digest != host.sha256 {
        let cause = match KnownReleases::embedded().by_host_index(&digest) {
            Some(release) => format!("{} is the one of ZCode {}", host.path, release.app_version),
            None => format!("{} differs from the verified one", host.path),
        };
        return Err(differs(&host.path, digest, host.sha256, cause));
    }
    let (digest, exports) = readings.rpc_module.as_ref().map_err(Clone::clone)?;
    if *digest != rpc.sha256 {
        let cause = format!("{} differs from the verified one", rpc.path);
        return Err(differs(&rpc.path, *digest, rpc.sha256, cause));
    }
    match rpc.exports.by_role().into_iter().find(|(_, name)| !exports.contains(*name)) {
        None => Ok(()),
        Some((role, name)) => Err(Failure::new(ErrorCode::ExportsMismatch)
            .cause(format!("{} does not export `{name}` ({role})", rpc.path))
            .next_step(&reinstall)
            .with(Detail::File, &rpc.path)
            .with(
                Detail::Detected,
                exports.iter().take(32).map(String::as_str).collect::<Vec<_>>().join(", "),
            )
            .with(Detail::Expected, rpc.exports.by_role().map(|(_, name)| name).join(", "))),
    }
}

pub(super) fn cli_version(output: &str, expected: &str) -> Result<(), Failure> {
    let detected = version_token(output);
    if detected == Some(expected) {
        return Ok(());
    }
    let detected = foreign(detected.unwrap_or("no version"));
    Err(Failure::new(ErrorCode::VersionUnsupported)
        .cause(format!("the modified ZCode CLI says {detected}; this adapter works with {expected}"))
        .next_step("reinstall the supported ZCode version")
        .with(Detail::Detected, detected)
        .with(Detail::Expected, expected))
}
