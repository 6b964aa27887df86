//! The architecture check: what `docs/architecture.md` states, as a program that fails.

mod documents;
mod edges;
mod scan;
mod sources;

use std::fmt;
use std::path::Path;

/// One thing that is not as it is said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The file, relative to the root, with a line where there is one; or a crate.
    place: String,
    what: String,
}

impl Violation {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(vec!["--locked".to_owned()])
        .no_deps()
        .exec()
        .map_err(|why| format!("cargo metadata: {why}"))?;
    let mut found = edges::check(&metadata);
    found.extend(sources::check(root)?);
    found.extend(documents::check(root)?);
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    Err(format!("{}\n{} violations of the architecture", lines.join("\n"), lines.len()))
}
