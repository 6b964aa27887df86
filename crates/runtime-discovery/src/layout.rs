//! Where an install may be: the contract's layouts, expanded for one user and one operating system.
//!
//! Roots and file names are data of the contract. The environment is handed in, so that every system's layout can be
//! worked out on any other.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::contract::{Contract, Layout};

/// Operating system and processor, in Node's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Platform {
    os: &'static str,
    arch: &'static str,
}

impl Platform {
    /// macOS on Apple silicon.
    pub const DARWIN_ARM64: Platform = Platform { os: "darwin", arch: "arm64" };
    /// Linux on x86-64.
    pub const LINUX_X64: Platform = Platform { os: "linux", arch: "x64" };
    /// Windows on x86-64.
    pub const WIN32_X64: Platform = Platform { os: "win32", arch: "x64" };

    /// The one this program was built for.
    pub const fn current() -> Self {
        let os = if cfg!(target_os = "macos") {
            "darwin"
        } else if cfg!(windows) {
            "win32"
        } else {
            std::env::consts::OS
        };
        let arch = if cfg!(target_arch = "x86_64") {
            "x64"
        } else if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            std::env::consts::ARCH
        };
        Self { os, arch }
    }

    /// Whether names of variables are compared without regard to case.
    pub(crate) fn is_windows(self) -> bool {
        self.os == "win32"
    }

    /// The contract's layout, if ZCode exists for this operating system and processor.
    pub(crate) fn layout(self, contract: &Contract) -> Option<&Layout> {
        let name = self.to_string();
        if !contract.metadata.platforms.contains(&name) {
            return None;
        }
        match self.os {
            "darwin" => Some(&contract.layouts.darwin),
            "linux" => Some(&contract.layouts.linux),
            "win32" => Some(&contract.layouts.win32),
            _ => None,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.os, self.arch)
    }
}

impl Serialize for Platform {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What discovery needs to know of the process it runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Home directory.
    pub home: Option<PathBuf>,
    /// `%LOCALAPPDATA%`.
    pub local_app_data: Option<PathBuf>,
    /// The running platform.
    pub platform: Platform,
}

impl Environment {
    /// Reads it from the process.
    pub fn from_process() -> Self {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            home: std::env::home_dir(),
            local_app_data: named("LOCALAPPDATA"),
            platform: Platform::current(),
        }
    }

    /// A root of the contract as a path; `Err` names what is not known.
    pub(crate) fn expand(&self, root: &str) -> Result<PathBuf, &'static str> {
        const LOCAL_APP_DATA: &str = "%LOCALAPPDATA%";
        if let Some(rest) = root.strip_prefix("~/") {
            let home = self.home.as_deref().ok_or("the home directory is not known")?;
            return Ok(below(home, rest));
        }
        if let Some(rest) = root.strip_prefix(LOCAL_APP_DATA) {
            let base = self.local_app_data.as_deref().ok_or("LOCALAPPDATA is not set")?;
            return Ok(below(base, rest));
        }
        Ok(PathBuf::from(root))
    }
}

/// Joins a path written with either separator, so that the result has the running system's own.
pub(crate) fn below(base: &Path, relative: &str) -> PathBuf {
    let mut path = base.to_path_buf();
    path.extend(relative.split(['/', '\\']).filter(|part| !part.is_empty()));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(platform: Platform) -> Environment {
        Environment {
            home: Some(PathBuf::from("/home/zoë")),
            local_app_data: Some(PathBuf::from("/data/Local")),
            platform,
        }
    }

    #[test]
    fn user_roots_are_expanded_and_others_kept() {
        let environment = environment(Platform::LINUX_X64);
        assert_eq!(
            environment.expand("~/Applications/ZCode.app").unwrap(),
            Path::new("/home/zoë/Applications/ZCode.app")
        );
        assert_eq!(
            environment.expand(r"%LOCALAPPDATA%\Programs\ZCode").unwrap(),
            Path::new("/data/Local/Programs/ZCode")
        );
        assert_eq!(
            environment.expand(r"C:\Program Files\ZCode").unwrap(),
            Path::new(r"C:\Program Files\ZCode")
        );
        assert_eq!(environment.expand("/opt/ZCode").unwrap(), Path::new("/opt/ZCode"));
    }

    #[test]
    fn a_user_root_without_its_variable_is_not_guessed() {
        let nobody = Environment { home: None, local_app_data: None, platform: Platform::WIN32_X64 };
        assert!(nobody.expand("~/Applications/ZCode.app").is_err());
        assert!(nobody.expand(r"%LOCALAPPDATA%\Programs\ZCode").is_err());
    }

    #[test]
    fn each_platform_has_its_layout_and_others_have_none() {
        let contract = Contract::embedded();
        assert!(Platform::DARWIN_ARM64.layout(&contract).unwrap().app_info.is_some());
        assert_eq!(Platform::LINUX_X64.layout(&contract).unwrap().executable, "zcode");
        assert_eq!(Platform::WIN32_X64.layout(&contract).unwrap().executable, "ZCode.exe");
        assert!(Platform { os: "win32", arch: "arm64" }.layout(&contract).is_none());
        assert!(Platform { os: "freebsd", arch: "x64" }.layout(&contract).is_none());
    }

    #[test]
    fn a_platform_is_named_as_node_does() {
        assert_eq!(Platform::DARWIN_ARM64.to_string(), "darwin-arm64");
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            assert_eq!(Platform::current(), Platform::LINUX_X64);
        }
    }
}
