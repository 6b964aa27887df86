//! Sessions on disk, so that a client which uses a new process for every prompt finds them again.
//!
//! One file a session, replaced as a whole. When the directory cannot be used the host works in memory; the adapter's log
//! says so once.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::session::{Record, Session};

/// Environment variable that names the directory.
const STATE_VARIABLE: &str = "ZCODE_ACP_SIM_STATE";
/// Sessions kept; the oldest go first.
const MAX_SESSIONS: usize = 200;
/// Largest file. A longer history loses its oldest messages.
const MAX_BYTES: usize = 4 << 20;
/// Version of the file's shape.
pub(crate) const FORMAT: u32 = 1;

/// Where sessions are kept.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    directory: Option<Arc<Path>>,
}

impl Store {
    /// Opens the directory, creating it for this user only.
    pub(crate) fn open(directory: Option<PathBuf>) -> Self {
        let Some(base) = directory.or_else(default_directory) else {
            tracing::warn!(reason = "no per-user directory", "simulator.sessions_in_memory");
            return Self { directory: None };
        };
        let sessions = base.join("sessions");
        match private_directory(&base)
            .and_then(|()| private_directory(&sessions))
            .and_then(|()| probe(&sessions))
        {
            Ok(()) => Self { directory: Some(sessions.into()) },
            Err(error) => {
                tracing::warn!(reason = %error.kind(), "simulator.sessions_in_memory");
                Self { directory: None }
            }
        }
    }

    /// Stores the newest state of a session.
    pub(crate) async fn save(&self, session: &Session) {
        let Some(directory) = self.directory.clone() else { return };
        let _order = session.saving.lock().await;
        let record = session.record();
        let written = tokio::task::spawn_blocking(move || write(&directory, record)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(session = %session.id(), reason = %error.kind(), "simulator.session_not_stored");
        }
    }

    /// Reads a stored session. The id comes from outside and names a file only if it is the canonical form of a UUID.
    pub(crate) async fn load(&self, id: &str) -> Option<Record> {
        let directory = self.directory.clone()?;
        let path = file(&directory, id)?;
        tokio::task::spawn_blocking(move || read(&path)).await.ok().flatten()
    }

    /// All stored sessions, newest first.
    pub(crate) async fn list(&self) -> Vec<Record> {
        let Some(directory) = self.directory.clone() else { return Vec::new() };
        let listed = tokio::task::spawn_blocking(move || {
            let mut all: Vec<Record> =
                files(&directory).into_iter().filter_map(|(_, path)| read(&path)).collect();
            all.sort_by_key(|record| std::cmp::Reverse(record.updated_at));
            all
        });
        listed.await.unwrap_or_default()
    }

    /// Removes a stored session.
    pub(crate) async fn delete(&self, id: &str) -> bool {
        let Some(path) = self.directory.as_ref().and_then(|directory| file(directory, id)) else {
            return false;
        };
        tokio::task::spawn_blocking(move || fs::remove_file(path).is_ok()).await.unwrap_or(false)
    }
}

fn default_directory() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(directory) = named(STATE_VARIABLE) {
        return Some(directory);
    }
    let base = if cfg!(windows) {
        named("LOCALAPPDATA")
    } else {
        named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local").join("state")))
    };
    base.map(|base| base.join("zcode-acp").join("simulated"))
}

fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

fn probe(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".probe-{}", Uuid::new_v4()));
    create(&path)?;
    fs::remove_file(path)
}

fn create(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

/// A session id as this host makes it.
pub(crate) fn valid_id(id: &str) -> bool {
    Uuid::try_parse(id).is_ok_and(|uuid| uuid.hyphenated().to_string() == id)
}

fn file(directory: &Path, id: &str) -> Option<PathBuf> {
    valid_id(id).then(|| directory.join(format!("{id}.json")))
}

/// Session files with their age, at most a few times the number kept.
fn files(directory: &Path) -> Vec<(std::time::SystemTime, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .take(MAX_SESSIONS * 4)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let id = name.to_str()?.strip_suffix(".json")?;
            let metadata = entry.metadata().ok()?;
            (valid_id(id) && metadata.is_file()).then(|| (metadata.modified().ok(), entry.path()))
        })
        .filter_map(|(modified, path)| Some((modified?, path)))
        .collect()
}

fn read(path: &Path) -> Option<Record> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES as u64 {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    let named = path.file_stem().and_then(|stem| stem.to_str()) == Some(record.session_id.as_str());
    (record.format == FORMAT && named).then_some(record)
}

fn write(directory: &Path, mut record: Record) -> io::Result<()> {
    let path = file(directory, &record.session_id).ok_or(io::ErrorKind::InvalidInput)?;
    let bytes = loop {
        let bytes = serde_json::to_vec(&record)?;
        if bytes.len() <= MAX_BYTES {
            break bytes;
        }
        if record.messages.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let half = record.messages.len().div_ceil(2);
        record.messages.drain(..half);
    };
    let temporary = directory.join(format!(".{}.{}", record.session_id, Uuid::new_v4()));
    let written = create(&temporary)
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    let mut all = files(directory);
    if all.len() > MAX_SESSIONS {
        all.sort();
        for (_, old) in all.iter().take(all.len() - MAX_SESSIONS).filter(|(_, old)| *old != path) {
            let _ = fs::remove_file(old);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_ids_name_a_file() {
        assert!(valid_id("0b9c8f3e-3f0d-4a57-9f0e-0d4d2b1f6a11"));
        for id in [
            "",
            "..",
            "../x",
            "0B9C8F3E-3F0D-4A57-9F0E-0D4D2B1F6A11",
            "0b9c8f3e3f0d4a579f0e0d4d2b1f6a11",
            "/etc/passwd",
        ] {
            assert!(!valid_id(id), "{id}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_directory_is_private_and_a_useless_one_is_not_fatal() {
        use std::os::unix::fs::PermissionsExt;
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().join("state");
        assert!(Store::open(Some(base.clone())).directory.is_some());
        assert_eq!(fs::metadata(&base).unwrap().permissions().mode() & 0o777, 0o700);
        let file = temporary.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(Store::open(Some(file)).directory.is_none());
    }
}
