//! `version`: what is installed and whether it fits. Reads files; starts nothing.

use std::fmt::Write as _;

use diag_model::{Detail, Failure};
use runtime_discovery::gate::{self, CliIdentity, CliIntegrity, InstallFacts};
use runtime_discovery::{Contract, Environment};
use serde_json::{Value, json};

use crate::options::Options;
use crate::sanitize::visible_line;
use crate::wiring;

const ADAPTER: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = env!("ZCODE_ACP_TARGET");
/// The one protocol version that is spoken.
const ACP: u32 = 1;
/// Versions of the SDK and of the schema it pins.
const SDK: &str = "5.2.0";
const SCHEMA: &str = "1.17.0";

/// What was found out about ZCode.
enum Detected {
    Simulated,
    Supported { facts: InstallFacts, cli: Option<String> },
    Refused { facts: Option<Box<InstallFacts>>, failure: Failure },
}

/// The answer, as text or as one JSON object.
pub(crate) fn run(options: &Options, json: bool) -> Result<String, Failure> {
    let (contract, unofficial) = wiring::contract(options)?;
    let detected = if wiring::simulated(options) { Detected::Simulated } else { detect(options, &contract) };
    let text = if json {
        format!("{}\n", as_json(&contract, unofficial.as_deref(), &detected))
    } else {
        as_text(&contract, unofficial.as_deref(), &detected)
    };
    Ok(text)
}

fn detect(options: &Options, contract: &Contract) -> Detected {
    let environment = Environment::from_process();
    let install = match gate::resolve(&environment, options.zcode_install.as_deref(), contract) {
        Ok(install) => install,
        Err(failure) => return Detected::Refused { facts: None, failure },
    };
    match gate::verify(&install, contract) {
        Ok(verified) => Detected::Supported {
            facts: verified.facts().clone(),
            // A modified CLI would have to be run to say its version.
            cli: (verified.cli() == CliIdentity::Official).then(|| contract.artifact.cli_version.clone()),
        },
        Err(refusal) => Detected::Refused { facts: Some(refusal.facts), failure: refusal.failure },
    }
}

fn as_json(contract: &Contract, unofficial: Option<&str>, detected: &Detected) -> Value {
    let zcode = match detected {
        Detected::Simulated => json!({"status": "simulated"}),
        Detected::Supported { facts, cli } => {
            json!({"status": "supported", "cliVersion": cli, "install": facts})
        }
        Detected::Refused { facts, failure } => {
            let details: serde_json::Map<String, Value> = failure
                .details()
                .iter()
                .map(|(detail, value)| (detail.as_str().to_owned(), Value::String(value.clone())))
                .collect();
            json!({
                "status": if facts.is_some() { "unsupported" } else { "not_found" },
                "install": facts,
                "error": {
                    "code": failure.code,
                    "phase": failure.phase,
                    "cause": failure.cause_text(),
                    "nextStep": failure.next_step_text(),
                    "details": details,
                },
            })
        }
    };
    json!({
        "adapter": {"name": "zcode-acp", "version": ADAPTER, "target": TARGET},
        "acp": {"protocolVersion": ACP, "sdk": SDK, "schema": SCHEMA},
        "contract": {"id": contract.id(), "unofficial": unofficial.is_some(), "file": unofficial},
        "zcode": zcode,
    })
}

fn as_text(contract: &Contract, unofficial: Option<&str>, detected: &Detected) -> String {
    let mut out = format!("zcode-acp {ADAPTER} ({TARGET})\n");
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<9} {value}");
    };
    line("ACP", &format!("{ACP} (SDK {SDK}, schema {SCHEMA})"));
    match unofficial {
        Some(file) => {
            line("contract", &format!("{}, unofficial contract", visible_line(contract.id())));
            line("", &format!("from {}", visible_line(file)));
        }
        None => line("contract", contract.id()),
    }
    match detected {
        Detected::Simulated => line("ZCode", "simulated host"),
        Detected::Supported { facts, cli } => {
            line("ZCode", &format!("{}, supported", app(facts)));
            line("", &facts.root.display().to_string());
            let integrity = match facts.cli_integrity {
                Some(CliIntegrity::Verified) => "verified",
                Some(CliIntegrity::Modified) => "modified",
                None => "not read",
            };
            line("CLI", &format!("{} ({integrity})", cli.as_deref().unwrap_or("version not asked")));
        }
        Detected::Refused { facts, failure } => {
            match facts {
                Some(facts) => {
                    line("ZCode", &format!("{}, not supported", app(facts)));
                    line("", &facts.root.display().to_string());
                }
                None => line("ZCode", "not found"),
            }
            line("", &format!("{} ({})", visible_line(failure.cause_text()), failure.code));
            for (detail, value) in failure.details() {
                let tried = *detail == Detail::Tried;
                for part in value.split(if tried { ';' } else { '\n' }) {
                    line("", &format!("{}: {}", detail.as_str(), visible_line(part.trim())));
                }
            }
            line("", &format!("next: {}", visible_line(failure.next_step_text())));
        }
    }
    out
}

/// Version with build and the start of the host's digest: two builds with one version are told apart.
fn app(facts: &InstallFacts) -> String {
    let mut shown = facts.app_version.as_deref().map_or_else(|| "unknown version".to_owned(), visible_line);
    if let Some(build) = &facts.app_build {
        let _ = write!(shown, " build {}", visible_line(build));
    }
    if let Some(digest) = &facts.host_index_sha256 {
        let digest = digest.to_string();
        let _ = write!(shown, " host {}", digest.get(..12).unwrap_or(&digest));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_versions_are_the_locked_ones() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        for (name, version) in [("agent-client-protocol", SDK), ("agent-client-protocol-schema", SCHEMA)] {
            assert!(
                lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")),
                "{name} is not {version} in Cargo.lock"
            );
        }
    }
}
