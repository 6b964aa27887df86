//! Diagnostic records: the one format of stderr, file, ring and attach.
//!
//! Everything a record may hold is a typed field here: ids, names, kinds, sizes, durations, counts and codes. There is
//! no field for prompt text, tool input or output, header or environment values, so none can be logged by accident.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Version of the record format. It rises when a field changes its meaning; new optional fields do not raise it.
pub const RECORD_SCHEMA_VERSION: u32 = 1;

/// The step of the way from an install to an answer in which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Looking for the install.
    Discover,
    /// Comparing it with the contract.
    Verify,
    /// Starting the runtime.
    Spawn,
    /// Waiting for the host to be ready.
    Handshake,
    /// Sign-in.
    Auth,
    /// Workspaces and sessions.
    Session,
    /// Models and modes.
    Model,
    /// A turn.
    Prompt,
}

impl Phase {
    /// The name used in errors and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Discover => "discover",
            Phase::Verify => "verify",
            Phase::Spawn => "spawn",
            Phase::Handshake => "handshake",
            Phase::Auth => "auth",
            Phase::Session => "session",
            Phase::Model => "model",
            Phase::Prompt => "prompt",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
