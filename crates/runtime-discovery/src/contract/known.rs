//! What is known of other releases. It words refusals and decides nothing.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;

pub(super) const EMBEDDED: &str = include_str!("../../../../contract/known-releases.json");

/// Releases somebody has looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownReleases {
    /// Version of this schema.
    pub schema_version: u32,
    /// The releases, oldest first.
    pub releases: Vec<KnownRelease>,
}

/// One release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownRelease {
    /// App version.
    pub app_version: String,
    /// Builds seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<String>,
    /// CLI version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// Digest of the unpatched CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_sha256: Option<Sha256Digest>,
    /// Digest of the host entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_index_sha256: Option<Sha256Digest>,
    /// Path of the RPC module inside the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_module: Option<String>,
    /// Digest of the RPC module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_module_sha256: Option<Sha256Digest>,
    /// What differs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl KnownReleases {
    /// The list this program was built with.
    pub fn embedded() -> &'static KnownReleases {
        static RELEASES: LazyLock<KnownReleases> = LazyLock::new(|| {
            #[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
            serde_json::from_str(EMBEDDED).expect("the embedded list of releases is valid")
        });
        &RELEASES
    }

    /// The release with this app version.
    pub fn by_app_version(&self, version: &str) -> Option<&KnownRelease> {
        self.releases.iter().find(|release| release.app_version == version)
    }

    /// The release whose unpatched CLI has this digest.
    pub fn by_cli(&self, digest: &Sha256Digest) -> Option<&KnownRelease> {
        self.releases.iter().find(|release| release.cli_sha256.as_ref() == Some(digest))
    }

    /// The release whose host entry has this digest.
    pub fn by_host_index(&self, digest: &Sha256Digest) -> Option<&KnownRelease> {
        self.releases.iter().find(|release| release.host_index_sha256.as_ref() == Some(digest))
    }
}
