//! From a root that was named, or the known roots, to the files of one install.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use diag_model::{Detail, ErrorCode, Failure};

use super::Install;
use crate::contract::{Contract, Layout, io_reason};
use crate::layout::{Environment, below};

pub(super) fn resolve(
    env: &Environment,
    named: Option<&Path>,
    contract: &Contract,
) -> Result<Install, Failure> {
    let Some(layout) = env.platform.layout(contract) else {
        return Err(Failure::new(ErrorCode::PlatformUnsupported)
            .cause(format!("ZCode does not exist for {}", env.platform))
            .with(Detail::Detected, env.platform)
            .with(Detail::Expected, contract.metadata.platforms.join(", ")));
    };
    let root = match named {
        Some(path) => named_root(path, layout)?,
        None => known_root(env, layout)?,
    };
    let file = |relative: &str, access| inside(&root, relative, access);
    Ok(Install {
        executable: file(&layout.executable, Access::Execute)?,
        cli_entry: file(&layout.cli_entry, Access::Read)?,
        metadata: file(&layout.metadata, Access::Read)?,
        host_archive: file(&layout.host_archive, Access::Read)?,
        app_info: layout.app_info.as_deref().map(|path| file(path, Access::Read)).transpose()?,
        platform: env.platform,
        root,
    })
}

fn named_root(path: &Path, layout: &Layout) -> Result<PathBuf, Failure> {
    let refuse = |reason: &str| {
        Failure::new(ErrorCode::InstallPathInvalid)
            .cause(format!("the ZCode install that was named cannot be used: {reason}"))
            .with(Detail::File, path.display())
            .with(Detail::Detected, reason)
            .with(
                Detail::Expected,
                format!("the absolute path of the folder that holds {}", layout.executable),
            )
    };
    if !path.is_absolute() {
        return Err(refuse("the path is not absolute"));
    }
    let root = dunce::canonicalize(path).map_err(|error| refuse(&io_reason(&error)))?;
    if !root.is_dir() {
        return Err(refuse("it is not a folder"));
    }
    holds_executable(&root, layout).map_err(|reason| refuse(&reason))?;
    Ok(root)
}

fn known_root(env: &Environment, layout: &Layout) -> Result<PathBuf, Failure> {
    let mut tried = Vec::new();
    for root in layout.default_roots.iter().chain(&layout.other_roots) {
        let attempt = env.expand(root).map_err(str::to_owned).and_then(|path| {
            if !path.is_absolute() {
                return Err("the path is not absolute".to_owned());
            }
            holds_executable(&path, layout)?;
            Ok(path)
        });
        match attempt {
            Ok(path) => {
                return dunce::canonicalize(&path).map_err(|error| {
                    incomplete(&path.display().to_string(), &io_reason(&error))
                        .with(Detail::File, path.display())
                });
            }
            Err(reason) => {
                let shown = env.expand(root).map_or_else(|_| root.clone(), |path| path.display().to_string());
                tried.push(format!("{shown}: {reason}"));
            }
        }
    }
    Err(Failure::new(ErrorCode::NotInstalled).with(Detail::Tried, tried.join("; ")))
}

/// Whether something is there under the executable's name. Whether it is any good is seen later: the root is final.
fn holds_executable(root: &Path, layout: &Layout) -> Result<(), String> {
    match fs::symlink_metadata(below(root, &layout.executable)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => Err(format!("it has no {}", layout.executable)),
            Ok(_) => Err("it is not a folder".to_owned()),
            Err(error) => Err(io_reason(&error)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err("it is not a folder".to_owned()),
        Err(error) => Err(io_reason(&error)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Execute,
}

/// A file of the install as it really is on disk, refused if that is outside the root.
fn inside(root: &Path, relative: &str, access: Access) -> Result<PathBuf, Failure> {
    let refuse = |reason: &str| incomplete(relative, reason);
    let path = dunce::canonicalize(below(root, relative)).map_err(|error| refuse(&io_reason(&error)))?;
    if !path.starts_with(root) {
        return Err(refuse("it leads outside the install").with(Detail::Expected, root.display()));
    }
    let metadata = fs::metadata(&path).map_err(|error| refuse(&io_reason(&error)))?;
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    match access {
        Access::Read => drop(File::open(&path).map_err(|error| refuse(&io_reason(&error)))?),
        Access::Execute if !is_executable(&metadata) => return Err(refuse("it is not executable")),
        Access::Execute => {}
    }
    Ok(path)
}

fn incomplete(file: &str, reason: &str) -> Failure {
    Failure::new(ErrorCode::InstallIncomplete)
        .cause(format!("the ZCode install is incomplete: {file}: {reason}"))
        .with(Detail::File, file)
        .with(Detail::Detected, reason)
        .with(Detail::Expected, "a regular file inside the install that this user may use")
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_metadata: &fs::Metadata) -> bool {
    true
}
