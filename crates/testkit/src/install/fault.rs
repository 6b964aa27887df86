//! Ways to break an install, one at a time.

use std::io;

use serde_json::{Value, json};

use super::Parts;

/// One deviation from what the contract describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// One byte of the host entry differs; it still runs.
    HostIndexByte,
    /// One byte of the RPC module differs; it still runs.
    RpcModuleByte,
    /// The RPC module exports the client under another letter (its hash differs too).
    RpcExport,
    /// One byte of the command line entry differs; it still runs. Tolerated by the gate, reported as modified.
    CliByte,
    /// The metadata has a key nobody knows.
    MetadataExtraKey,
    /// A metadata key has another value.
    MetadataValue {
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// A metadata key is missing.
    MetadataMissing {
        /// Key.
        key: String,
    },
    /// The metadata names another platform.
    Platform(String),
    /// The application has another version.
    AppVersion(String),
    /// The command line entry reports another version.
    CliVersion(String),
}

impl Fault {
    pub(super) fn apply(&self, parts: &mut Parts) -> io::Result<()> {
        match self {
            Self::HostIndexByte => flip_comment(&mut parts.host_index.1),
            Self::RpcModuleByte => flip_comment(&mut parts.rpc_module.1),
            Self::CliByte => {
                let mut bytes = std::mem::take(&mut parts.cli_entry).into_bytes();
                flip_comment(&mut bytes)?;
                parts.cli_entry = String::from_utf8(bytes).map_err(io::Error::other)?;
                Ok(())
            }
            Self::RpcExport => {
                let source = String::from_utf8_lossy(&parts.rpc_module.1).replace("as i,", "as z,");
                parts.rpc_module.1 = source.into_bytes();
                Ok(())
            }
            Self::MetadataExtraKey => set(&mut parts.metadata, "unexpected", "value"),
            Self::MetadataValue { key, value } => set(&mut parts.metadata, key, value),
            Self::Platform(platform) => set(&mut parts.metadata, "platform", platform),
            Self::MetadataMissing { key } => {
                parts.metadata.as_object_mut().and_then(|object| object.remove(key)).map(drop).ok_or_else(
                    || {
                        io::Error::new(
                            io::ErrorKind::InvalidInput,
                            format!("the metadata has no {key} to remove"),
                        )
                    },
                )
            }
            Self::AppVersion(version) => {
                version.clone_into(&mut parts.app_version);
                Ok(())
            }
            Self::CliVersion(version) => {
                parts.cli_entry = super::CLI_ENTRY.replace("@CLI_VERSION@", version);
                Ok(())
            }
        }
    }
}

/// Changes one letter of the first comment, so that the file means the same and hashes differently.
fn flip_comment(bytes: &mut [u8]) -> io::Result<()> {
    let start = bytes.windows(3).position(|window| window == b"// ");
    let letter =
        start.and_then(|at| bytes[at..].iter().position(u8::is_ascii_lowercase).map(|offset| at + offset));
    let Some(at) = letter else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file has no comment to change"));
    };
    bytes[at] = bytes[at].to_ascii_uppercase();
    Ok(())
}

fn set(metadata: &mut Value, key: &str, value: &str) -> io::Result<()> {
    let object = metadata.as_object_mut().ok_or_else(|| io::Error::other("the metadata is no object"))?;
    object.insert(key.to_owned(), json!(value));
    Ok(())
}
