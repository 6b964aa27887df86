//! Puts the parts together: which contract, which host.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use diag_model::Failure;
use runtime_discovery::Contract;
use simulator::{ScenarioSource, SimOptions};
use zcode_runtime::host::{HostLauncher, HostSource, HostStream, InstallSource, StreamFactory};
use zcode_runtime::model::{HostProfile, Mode};

use crate::options::{Options, Simulated};

/// Bytes in flight between the adapter and the embedded host, each way.
const DUPLEX: usize = 64 * 1024;

/// What an agent needs.
pub(crate) struct Wired {
    pub(crate) launcher: HostLauncher,
    /// The contract's id when it is not the embedded one.
    pub(crate) unofficial: Option<String>,
}

/// Why the parts cannot be put together.
pub(crate) enum Unusable {
    /// The command line names something that does not exist.
    Usage(String),
    /// A file it names cannot be used.
    Failure(Failure),
}

impl From<Failure> for Unusable {
    fn from(failure: Failure) -> Self {
        Unusable::Failure(failure)
    }
}

/// The simulated host was asked for. It is never chosen by itself.
pub(crate) fn simulated(options: &Options) -> bool {
    matches!(options.simulated, Some(Simulated::ByPrompt | Simulated::Scenario(_)))
}

/// The contract in force, and its file when it is not the embedded one.
pub(crate) fn contract(options: &Options) -> Result<(Arc<Contract>, Option<String>), Failure> {
    match &options.contract {
        None => Ok((Contract::embedded(), None)),
        Some(file) => Ok((Arc::new(Contract::from_file(file)?), Some(file.display().to_string()))),
    }
}

/// Builds the launcher.
pub(crate) fn wire(options: &Options) -> Result<Wired, Unusable> {
    let (contract, file) = contract(options)?;
    let unofficial = file.map(|_| contract.id().to_owned());
    let source = if simulated(options) {
        simulated_source(&contract, unofficial.is_some(), sim_options(scenario(options))?)
    } else {
        HostSource::Install(InstallSource {
            install: options.zcode_install.clone(),
            contract,
            unofficial: unofficial.is_some(),
        })
    };
    Ok(Wired { launcher: HostLauncher::new(source), unofficial })
}

/// Says what is wrong with the options without building anything.
pub(crate) fn check(options: &Options) -> Result<(), Unusable> {
    contract(options)?;
    sim_options(scenario(options)).map(|_| ())
}

fn scenario(options: &Options) -> Option<&str> {
    match &options.simulated {
        Some(Simulated::Scenario(name)) => Some(name),
        _ => None,
    }
}

fn simulated_source(contract: &Contract, unofficial: bool, options: SimOptions) -> HostSource {
    let open: StreamFactory = Arc::new(move || {
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let (ours, theirs) = tokio::io::duplex(DUPLEX);
        let (read, write) = tokio::io::split(ours);
        let (host_read, host_write) = tokio::io::split(theirs);
        let options = options.clone();
        runtime.spawn(async move {
            if let Err(error) = simulator::serve(host_read, host_write, options).await {
                tracing::debug!(reason = %error, "simulator.ended");
            }
        });
        Ok(HostStream { read: Box::new(read), write: Box::new(write) })
    });
    HostSource::Stream { profile: Arc::new(profile(contract, unofficial)), open }
}

/// Options of the simulator for a scenario as a user names it.
pub(crate) fn sim_options(scenario: Option<&str>) -> Result<SimOptions, Unusable> {
    let scenario = match scenario.filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => {
            let loaded =
                ScenarioSource::from_argument(name).load().map_err(|error| unusable_scenario(&error))?;
            Some(ScenarioSource::Loaded(loaded))
        }
    };
    Ok(SimOptions { scenario, ..SimOptions::default() })
}

fn unusable_scenario(error: &simulator::LoadError) -> Unusable {
    let mut text = error.to_string();
    if matches!(error, simulator::LoadError::Unknown(_)) {
        text.push_str("\n\nScenarios:\n");
        for one in simulator::builtin() {
            let _ = writeln!(text, "  {:<18} {}", one.name(), one.description());
        }
    }
    Unusable::Usage(text)
}

fn profile(contract: &Contract, unofficial: bool) -> HostProfile {
    let modes = contract.protocol.modes.iter().map(|mode| Mode {
        id: mode.id.as_str().into(),
        name: mode.name.as_str().into(),
        description: mode.description.as_str().into(),
        strength: mode.strength,
        implicit: mode.implicit,
    });
    HostProfile {
        contract: contract.id().into(),
        protocol: contract.protocol.id.as_str().into(),
        app_version: None,
        unofficial,
        simulated: true,
        modes: modes.collect(),
        cancel_terminal: contract.protocol.timeouts_ms.cancel_terminal(),
    }
}
