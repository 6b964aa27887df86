//! The compatibility contract: every pinned fact about the one supported ZCode, as data.
//!
//! A contract is checked as a whole when it is loaded, so that nobody who holds a [`Contract`] has to doubt it. Nothing
//! here loosens the gate: releases listed in `known-releases.json` only improve the words of a refusal.

mod known;
mod locate;
mod schema;
mod validate;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use diag_model::{Detail, ErrorCode, Failure};

pub use known::{KnownRelease, KnownReleases};
pub use schema::*;

const EMBEDDED: &str = include_str!("../../../../contract/zcode-3.11.2.json");

/// Largest contract file that is read.
const SIZE_LIMIT: u64 = 1024 * 1024;

/// Why a text is no contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidContract {
    /// The member at fault, as a path such as `protocol.modes.2.strength`; `-` for the file as a whole.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Contract {
    /// The contract this program was built with.
    pub fn embedded() -> Arc<Contract> {
        static CONTRACT: LazyLock<Arc<Contract>> = LazyLock::new(|| {
            #[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
            Arc::new(Contract::parse(EMBEDDED).expect("the embedded contract is valid"))
        });
        Arc::clone(&CONTRACT)
    }

    /// Reads a contract from a file somebody named.
    pub fn from_file(path: &Path) -> Result<Contract, Failure> {
        let refuse = |reason: &str| {
            Failure::new(ErrorCode::ContractInvalid)
                .cause(format!("the contract file cannot be read: {reason}"))
                .with(Detail::File, path.display())
        };
        let file = File::open(path).map_err(|error| refuse(&io_reason(&error)))?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(refuse("it is not a regular file"));
        }
        let mut text = String::new();
        file.take(SIZE_LIMIT + 1).read_to_string(&mut text).map_err(|error| refuse(&io_reason(&error)))?;
        if text.len() as u64 > SIZE_LIMIT {
            return Err(refuse("it is larger than 1 MiB"));
        }
        Self::parse(&text).map_err(|invalid| {
            Failure::new(ErrorCode::ContractInvalid)
                .cause(format!("the contract is not valid at {}: {}", invalid.field, invalid.reason))
                .with(Detail::Field, &invalid.field)
                .with(Detail::Detected, &invalid.reason)
                .with(Detail::File, path.display())
        })
    }

    /// Reads a contract from text and checks it as a whole.
    pub fn parse(text: &str) -> Result<Contract, InvalidContract> {
        let contract: Contract = serde_json::from_str(text).map_err(|error| InvalidContract {
            field: locate::field_at(text, error.line(), error.column()),
            reason: error.to_string(),
        })?;
        validate::check(&contract)?;
        Ok(contract)
    }

    /// Name of the contract, for example `zcode-host-3.11.2`.
    pub fn id(&self) -> &str {
        &self.artifact.id
    }

    /// Methods that may be called, by service key; everything else is refused at the bridge.
    pub fn allowed_methods(&self) -> BTreeMap<String, Vec<String>> {
        let mut allowed: BTreeMap<String, Vec<String>> =
            self.protocol.service_channels.keys().map(|service| (service.clone(), Vec::new())).collect();
        let agent = self.protocol.agent_methods.iter().map(|method| (validate::AGENT, method));
        let others = self.protocol.operations.values().map(|op| (op.service.as_str(), &op.method));
        for (service, method) in agent.chain(others) {
            let methods = allowed.entry(service.to_owned()).or_default();
            if !methods.contains(method) {
                methods.push(method.clone());
            }
        }
        allowed
    }

    /// Events that may be listened to, by service key.
    pub fn allowed_events(&self) -> BTreeMap<String, Vec<String>> {
        let subscription = &self.protocol.subscription;
        BTreeMap::from([(subscription.service.clone(), vec![subscription.event.clone()])])
    }

    /// The mode with this id.
    pub fn mode(&self, id: &str) -> Option<&ModeFacts> {
        self.protocol.modes.iter().find(|mode| mode.id == id)
    }
}

impl TimeoutsMs {
    /// How long an answer to this method may take.
    pub fn of(&self, method: &str) -> Duration {
        Duration::from_millis(self.methods.get(method).copied().unwrap_or(self.default))
    }

    /// How long the first snapshot of a subscription may take.
    pub fn subscription_snapshot(&self) -> Duration {
        Duration::from_millis(self.subscription_snapshot)
    }

    /// How long the terminal event may take after a stop.
    pub fn cancel_terminal(&self) -> Duration {
        Duration::from_millis(self.cancel_terminal)
    }

    /// How long disposing a workspace may take.
    pub fn dispose_workspace(&self) -> Duration {
        Duration::from_millis(self.dispose_workspace)
    }

    /// How long the host may take from its spawn to the ready line.
    pub fn host_ready(&self) -> Duration {
        Duration::from_millis(self.host_ready)
    }

    /// Grace after the dispose message.
    pub fn host_dispose(&self) -> Duration {
        Duration::from_millis(self.host_dispose)
    }

    /// Grace after the terminate signal.
    pub fn host_term(&self) -> Duration {
        Duration::from_millis(self.host_term)
    }
}

impl RpcExports {
    /// Role and export name, in a fixed order.
    pub fn by_role(&self) -> [(&'static str, &str); 3] {
        [("protocol", &self.protocol), ("client", &self.client), ("service", &self.service)]
    }
}

/// The operating system's reason without its error number.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
