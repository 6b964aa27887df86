//! Scenarios: what the simulated host does in a turn, as data.

mod builtin;
pub(crate) mod model;
mod parse;
pub(crate) mod template;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use builtin::choose;
pub use builtin::{Builtin, builtin, find};
pub use model::Scenario;
pub use parse::ScenarioError;

impl Scenario {
    /// A scenario without steps.
    pub(crate) fn empty() -> Self {
        Self {
            format: toml::Spanned::new(0..0, 1),
            name: "empty".into(),
            description: String::new(),
            host: model::HostSettings::default(),
            session: model::SessionSettings::default(),
            stream: model::StreamSettings::default(),
            steps: Vec::new(),
        }
    }
}

/// Where a scenario comes from.
#[derive(Debug, Clone)]
pub enum ScenarioSource {
    /// Name of a built-in one.
    Builtin(String),
    /// A file.
    File(PathBuf),
    /// Already read.
    Loaded(Arc<Scenario>),
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such built-in one.
    #[error("there is no built-in scenario `{0}`; a file is named by its path, for example `./{0}.toml`")]
    Unknown(String),
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a scenario.
    #[error("{path}: {source}", path = path.display())]
    Invalid {
        /// File.
        path: PathBuf,
        /// Why.
        source: ScenarioError,
    },
}

impl ScenarioSource {
    /// Reads what a user wrote after `--simulated=`: a path if it looks like one, otherwise a built-in name.
    pub fn from_argument(text: &str) -> Self {
        let is_path = text.contains(['/', '\\'])
            || Path::new(text).extension().is_some_and(|ext| ext.eq_ignore_ascii_case("toml"));
        if is_path { Self::File(PathBuf::from(text)) } else { Self::Builtin(text.to_owned()) }
    }

    /// Reads and checks the scenario.
    pub fn load(&self) -> Result<Arc<Scenario>, LoadError> {
        match self {
            Self::Loaded(scenario) => Ok(Arc::clone(scenario)),
            Self::Builtin(name) => {
                find(name).map(Builtin::scenario).ok_or_else(|| LoadError::Unknown(name.clone()))
            }
            Self::File(path) => {
                let text = read(path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
                let scenario = Scenario::parse(&text)
                    .map_err(|source| LoadError::Invalid { path: path.clone(), source })?;
                Ok(Arc::new(scenario))
            }
        }
    }
}

/// A regular file, and of one beyond the limit only as much as shows that: a device or a pipe may never end.
fn read(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(parse::MAX_FILE as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_regular_file_or_too_long_is_refused() {
        let refused = |path: &Path| ScenarioSource::File(path.to_owned()).load().unwrap_err().to_string();
        assert!(refused(Path::new("/dev/zero")).contains("not a regular file"));
        let dir = tempfile::tempdir().unwrap();
        assert!(refused(dir.path()).contains("not a regular file"));
        let long = dir.path().join("long.toml");
        std::fs::write(&long, vec![b'#'; 2 * parse::MAX_FILE]).unwrap();
        let error = ScenarioSource::File(long).load().unwrap_err();
        assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    }
}
