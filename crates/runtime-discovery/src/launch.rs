//! What is needed to start a verified install's runtime: paths, working directory and the environment rule.
//!
//! Pure values. Starting the process belongs to the runtime crate.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::contract::{Contract, RpcExports};
use crate::gate::Verified;
use crate::layout::{Platform, below};

/// Paths of a verified install as its runtime needs them. All are absolute and canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchPlan {
    /// Executable that runs as Node.
    pub executable: PathBuf,
    /// Working directory: the root, so that no module or configuration of the user's folder is ever picked up.
    pub cwd: PathBuf,
    /// Host entry, inside the archive.
    pub host_index: PathBuf,
    /// RPC module, inside the archive.
    pub rpc_module: PathBuf,
    /// Export names of the RPC module by role.
    pub exports: RpcExports,
    /// The CLI.
    pub cli_entry: PathBuf,
}

impl LaunchPlan {
    /// The plan for an install that has passed the gate.
    pub fn new(verified: &Verified, contract: &Contract) -> Self {
        let install = verified.install();
        let inside = |path: &str| below(&install.host_archive, path);
        Self {
            executable: install.executable.clone(),
            cwd: install.root.clone(),
            host_index: inside(&contract.artifact.host_index.path),
            rpc_module: inside(&contract.artifact.rpc_module.path),
            exports: contract.artifact.rpc_module.exports.clone(),
            cli_entry: install.cli_entry.clone(),
        }
    }

    /// Arguments of the executable that make the CLI say its version, see [`Verified::check_cli_version`].
    pub fn cli_version_arguments(&self) -> [OsString; 2] {
        [self.cli_entry.clone().into_os_string(), OsString::from("version")]
    }
}

/// The difference between this process's environment and the child's. Everything else is inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// Names to remove, before [`Self::set`] is applied.
    pub remove: Vec<OsString>,
    /// Variables to set.
    pub set: Vec<(OsString, OsString)>,
    /// Names, never values, of variables that are left in place and can change what the runtime loads.
    pub reported: Vec<String>,
}

impl ChildEnvironment {
    /// Works it out from the names of the variables that are present.
    ///
    /// Windows compares names without regard to case, so there every spelling is removed.
    pub fn new<I>(contract: &Contract, platform: Platform, present: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let launcher = &contract.launcher;
        let same = |present: &OsStr, name: &str| {
            present == OsStr::new(name)
                || platform.is_windows()
                    && present.to_str().is_some_and(|present| present.eq_ignore_ascii_case(name))
        };
        let mut remove: Vec<OsString> = launcher.strip_env.iter().map(OsString::from).collect();
        let mut reported: Vec<String> = Vec::new();
        for name in present {
            let name = name.as_ref();
            let stripped = launcher.strip_env.iter().chain(launcher.runtime_environment.keys());
            if stripped.into_iter().any(|strip| same(name, strip))
                && !remove.iter().any(|known| known == name)
            {
                remove.push(name.to_owned());
            }
            let report = launcher.report_env.iter().find(|report| same(name, report));
            if let Some(report) = report.filter(|report| !reported.contains(report)) {
                reported.push(report.clone());
            }
        }
        let set =
            launcher.runtime_environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { remove, set, reported }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_steer_the_runtime_are_removed_and_node_mode_is_set() {
        let names =
            ["PATH", "NODE_OPTIONS", "node_options", "LD_PRELOAD", "HTTP_PROXY", "ELECTRON_RUN_AS_NODE"];
        let child = ChildEnvironment::new(&Contract::embedded(), Platform::LINUX_X64, names);
        let strip: Vec<OsString> =
            Contract::embedded().launcher.strip_env.iter().map(OsString::from).collect();
        assert_eq!(
            child.remove, strip,
            "on Unix names have one spelling, and each is removed even if absent"
        );
        assert_eq!(child.set, [("ELECTRON_RUN_AS_NODE".into(), "1".into())]);
        assert_eq!(child.reported, ["LD_PRELOAD"]);
    }

    #[test]
    fn windows_spellings_of_one_variable_are_all_removed() {
        let names = ["Path", "Node_Options", "electron_run_as_node", "dyld_library_path"];
        let child = ChildEnvironment::new(&Contract::embedded(), Platform::WIN32_X64, names);
        for name in ["Node_Options", "electron_run_as_node", "NODE_OPTIONS"] {
            assert!(child.remove.contains(&OsString::from(name)), "{name}");
        }
        assert!(!child.remove.contains(&OsString::from("Path")));
        assert_eq!(child.reported, ["DYLD_LIBRARY_PATH"]);
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_text_are_inherited() {
        use std::os::unix::ffi::OsStrExt as _;
        let child =
            ChildEnvironment::new(&Contract::embedded(), Platform::WIN32_X64, [OsStr::from_bytes(b"\xff")]);
        assert!(!child.remove.iter().any(|name| name.as_bytes() == b"\xff"));
    }
}
