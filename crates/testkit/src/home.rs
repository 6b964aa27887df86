//! A sealed place to run the binary in: its own home, temp and state directories, and no environment but what is given.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process;

/// Variables a Windows process cannot start without.
const KEPT: &[&str] = &["SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT"];

/// A sealed home. Removed when dropped.
pub struct Home {
    dir: TempDir,
    envs: Vec<(OsString, OsString)>,
}

impl Home {
    /// Makes one with an empty home, a temp directory, and a workspace.
    pub fn new() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("za-").tempdir()?;
        // Canonical, because paths in answers are.
        let root = dir.path().canonicalize()?;
        let mut envs: Vec<(OsString, OsString)> = Vec::new();
        for (name, folder) in [
            ("HOME", "home"),
            ("USERPROFILE", "home"),
            ("LOCALAPPDATA", "home/local"),
            ("XDG_CONFIG_HOME", "home/.config"),
            ("XDG_DATA_HOME", "home/.local/share"),
            ("XDG_STATE_HOME", "home/.local/state"),
            ("XDG_CACHE_HOME", "home/.cache"),
            ("XDG_RUNTIME_DIR", "run"),
            ("TMPDIR", "tmp"),
            ("TEMP", "tmp"),
            ("ZCODE_ACP_SIM_STATE", "sim"),
        ] {
            let path = root.join(folder);
            std::fs::create_dir_all(&path)?;
            envs.push((name.into(), path.into()));
        }
        std::fs::create_dir_all(root.join("work"))?;
        envs.push(("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()));
        for name in KEPT {
            if let Some(value) = std::env::var_os(name) {
                envs.push(((*name).into(), value));
            }
        }
        Ok(Self { dir, envs })
    }

    /// The directory everything is in.
    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap_or_else(|_| self.dir.path().to_path_buf())
    }

    /// The home directory; empty at first.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// A workspace.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Sets a variable for every command from here on.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs.retain(|(known, _)| known != name.as_ref());
        self.envs.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// A command that runs `program` in here, in the workspace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the test kit starts what is tested")]
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work());
        command
    }

    /// Processes that were started in here and still run, however deep and however detached: they carry its
    /// environment. Linux only; elsewhere nothing is known.
    pub fn processes(&self) -> Vec<u32> {
        process::with_variable("HOME", &self.home())
    }

    /// The directory, for a path that is put into the environment by hand.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}
