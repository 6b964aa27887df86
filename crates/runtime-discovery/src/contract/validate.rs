//! Checks between the members of a contract that its types cannot express.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde_json::{Map, Value};

use super::{Contract, InvalidContract, Layout};

/// Service key of the agent service; [`super::Protocol::agent_methods`] belongs to it.
pub(super) const AGENT: &str = "agent";

const SCHEMA_VERSION: u32 = 1;

/// Protocols this program speaks.
const KNOWN_PROTOCOLS: &[&str] = &["zcode-task-v1"];

/// The strongest mode that may ever be chosen without the user.
const STRONGEST_IMPLICIT_MODE: &str = "edit";

/// Parameters the runtime fills in itself; a contract may not fix them.
const RESERVED_PARAMETERS: &[&str] = &["workspacePath", "sessionId", "taskId", "mode", "mcpServers"];

/// Makes Electron's executable run as Node.
const NODE_MODE: &str = "ELECTRON_RUN_AS_NODE";

/// No wait is longer than this, whatever a file says.
const LONGEST_TIMEOUT_MS: u64 = 10 * 60 * 1000;

type Check = Result<(), InvalidContract>;

fn fail(field: impl Into<String>, reason: impl Into<String>) -> Check {
    Err(InvalidContract { field: field.into(), reason: reason.into() })
}

pub(super) fn check(contract: &Contract) -> Check {
    if contract.schema_version != SCHEMA_VERSION {
        return fail("schemaVersion", format!("{} is not {SCHEMA_VERSION}", contract.schema_version));
    }
    artifact(contract)?;
    metadata(contract)?;
    layout("layouts.darwin", &contract.layouts.darwin)?;
    layout("layouts.linux", &contract.layouts.linux)?;
    layout("layouts.win32", &contract.layouts.win32)?;
    services(contract)?;
    modes(contract)?;
    timeouts(contract)?;
    fixed_parameters("protocol.createSession", &contract.protocol.create_session)?;
    fixed_parameters("protocol.set", &contract.protocol.set)?;
    launcher(contract)
}

fn artifact(contract: &Contract) -> Check {
    let artifact = &contract.artifact;
    if !is_plain_name(&artifact.id) {
        return fail("artifact.id", "must be 1 to 64 letters, digits, `.`, `_` or `-`");
    }
    version("artifact.appVersion", &artifact.app_version)?;
    version("artifact.cliVersion", &artifact.cli_version)?;
    relative("artifact.hostIndex.path", &artifact.host_index.path)?;
    relative("artifact.rpcModule.path", &artifact.rpc_module.path)?;
    let mut names = BTreeSet::new();
    for (role, name) in artifact.rpc_module.exports.by_role() {
        let field = format!("artifact.rpcModule.exports.{role}");
        not_blank(&field, name)?;
        if !names.insert(name) {
            return fail(field, format!("`{name}` is used by another role"));
        }
    }
    let protocol = contract.protocol.id.as_str();
    if !KNOWN_PROTOCOLS.contains(&protocol) {
        return fail("protocol.id", format!("unknown protocol `{protocol}`"));
    }
    if artifact.protocol_id != protocol {
        return fail(
            "artifact.protocolId",
            format!("`{}` is not protocol.id `{protocol}`", artifact.protocol_id),
        );
    }
    Ok(())
}

fn metadata(contract: &Contract) -> Check {
    let facts = &contract.metadata;
    not_blank("metadata.runtime", &facts.runtime)?;
    not_blank("metadata.entry", &facts.entry)?;
    not_blank("metadata.source", &facts.source)?;
    if facts.platforms.is_empty() {
        return fail("metadata.platforms", "must name a platform");
    }
    distinct("metadata.platforms", &facts.platforms)
}

fn layout(field: &str, layout: &Layout) -> Check {
    if layout.default_roots.is_empty() {
        return fail(format!("{field}.defaultRoots"), "must name a root");
    }
    for (name, roots) in [("defaultRoots", &layout.default_roots), ("otherRoots", &layout.other_roots)] {
        if let Some(wrong) = roots.iter().find(|root| !is_absolute(root)) {
            return fail(format!("{field}.{name}"), format!("`{wrong}` is not absolute"));
        }
    }
    let files = [
        ("executable", Some(&layout.executable)),
        ("cliEntry", Some(&layout.cli_entry)),
        ("metadata", Some(&layout.metadata)),
        ("hostArchive", Some(&layout.host_archive)),
        ("appInfo", layout.app_info.as_ref()),
    ];
    for (name, path) in files {
        if let Some(path) = path {
            relative(&format!("{field}.{name}"), path)?;
        }
    }
    Ok(())
}

fn services(contract: &Contract) -> Check {
    let protocol = &contract.protocol;
    let known = |service: &str| protocol.service_channels.contains_key(service);
    for (service, channel) in &protocol.service_channels {
        not_blank(&format!("protocol.serviceChannels.{service}"), channel)?;
    }
    if !known(AGENT) {
        return fail("protocol.serviceChannels", "must name the service `agent`");
    }
    if protocol.agent_methods.is_empty() {
        return fail("protocol.agentMethods", "must name a method");
    }
    distinct("protocol.agentMethods", &protocol.agent_methods)?;
    for (name, operation) in &protocol.operations {
        let field = format!("protocol.operations.{name}");
        if !known(&operation.service) {
            return fail(format!("{field}.service"), format!("unknown service `{}`", operation.service));
        }
        not_blank(&format!("{field}.method"), &operation.method)?;
        not_blank(&format!("{field}.sessionParameter"), &operation.session_parameter)?;
    }
    if !known(&protocol.subscription.service) {
        let reason = format!("unknown service `{}`", protocol.subscription.service);
        return fail("protocol.subscription.service", reason);
    }
    not_blank("protocol.subscription.event", &protocol.subscription.event)
}

fn modes(contract: &Contract) -> Check {
    let modes = &contract.protocol.modes;
    let Some(ceiling) =
        modes.iter().find(|mode| mode.id == STRONGEST_IMPLICIT_MODE).map(|mode| mode.strength)
    else {
        return fail("protocol.modes", format!("must have the mode `{STRONGEST_IMPLICIT_MODE}`"));
    };
    let (mut ids, mut strengths) = (BTreeSet::new(), BTreeSet::new());
    for (index, mode) in modes.iter().enumerate() {
        not_blank(&format!("protocol.modes.{index}.id"), &mode.id)?;
        not_blank(&format!("protocol.modes.{index}.name"), &mode.name)?;
        if !ids.insert(&mode.id) {
            return fail(format!("protocol.modes.{index}.id"), format!("`{}` is there twice", mode.id));
        }
        if !strengths.insert(mode.strength) {
            return fail(
                format!("protocol.modes.{index}.strength"),
                format!("{} is there twice", mode.strength),
            );
        }
        if mode.implicit && mode.strength > ceiling {
            let reason = format!("`{}` allows more than `{STRONGEST_IMPLICIT_MODE}`", mode.id);
            return fail(format!("protocol.modes.{index}.implicit"), reason);
        }
    }
    Ok(())
}

fn timeouts(contract: &Contract) -> Check {
    let timeouts = &contract.protocol.timeouts_ms;
    let fixed = [
        ("default", timeouts.default),
        ("subscriptionSnapshot", timeouts.subscription_snapshot),
        ("cancelTerminal", timeouts.cancel_terminal),
        ("disposeWorkspace", timeouts.dispose_workspace),
        ("hostReady", timeouts.host_ready),
        ("hostDispose", timeouts.host_dispose),
        ("hostTerm", timeouts.host_term),
    ];
    let methods = timeouts.methods.iter().map(|(name, ms)| (format!("methods.{name}"), *ms));
    for (name, ms) in fixed.into_iter().map(|(name, ms)| (name.to_owned(), ms)).chain(methods) {
        if ms == 0 || ms > LONGEST_TIMEOUT_MS {
            return fail(
                format!("protocol.timeoutsMs.{name}"),
                format!("{ms} is not between 1 and {LONGEST_TIMEOUT_MS}"),
            );
        }
    }
    let allowed = contract.allowed_methods();
    match timeouts.methods.keys().find(|method| !allowed.values().any(|methods| methods.contains(method))) {
        Some(unknown) => fail(format!("protocol.timeoutsMs.methods.{unknown}"), "no such method is allowed"),
        None => Ok(()),
    }
}

fn fixed_parameters(field: &str, parameters: &Map<String, Value>) -> Check {
    match RESERVED_PARAMETERS.iter().find(|name| parameters.contains_key(**name)) {
        Some(name) => fail(format!("{field}.{name}"), "may not be fixed by a contract"),
        None => Ok(()),
    }
}

fn launcher(contract: &Contract) -> Check {
    let launcher = &contract.launcher;
    not_blank("launcher.init.type", &launcher.init.kind)?;
    not_blank("launcher.dispose.type", &launcher.dispose.kind)?;
    // Without it the executable would open the desktop app.
    if launcher.runtime_environment.get(NODE_MODE).map(String::as_str) != Some("1") {
        return fail(format!("launcher.runtimeEnvironment.{NODE_MODE}"), "must be \"1\"");
    }
    let steering = |name: &&String| *name != NODE_MODE && launcher.strip_env.contains(name);
    if let Some(name) = launcher.runtime_environment.keys().find(steering) {
        return fail(
            format!("launcher.runtimeEnvironment.{name}"),
            "is removed by launcher.stripEnv and may not be set",
        );
    }
    for (request, answer) in &launcher.answer_at_once {
        if !answer.get("type").is_some_and(Value::is_string) {
            return fail(format!("launcher.answerAtOnce.{request}.type"), "must be a string");
        }
    }
    let names = launcher.runtime_environment.keys().chain(&launcher.strip_env).chain(&launcher.report_env);
    match names.into_iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        Some(name) => fail("launcher", format!("`{}` is no variable name", name.escape_debug())),
        None => Ok(()),
    }
}

/// The contract's name is shown on every surface, so it has to be harmless on each.
fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn not_blank(field: &str, text: &str) -> Check {
    if text.trim().is_empty() { fail(field, "must not be empty") } else { Ok(()) }
}

fn distinct(field: &str, values: &[String]) -> Check {
    let mut seen = BTreeSet::new();
    match values.iter().find(|value| !seen.insert(*value)) {
        Some(twice) => fail(field, format!("`{twice}` is there twice")),
        None => Ok(()),
    }
}

fn version(field: &str, text: &str) -> Check {
    let numbers =
        text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    if numbers && text.split('.').count() == 3 {
        Ok(())
    } else {
        fail(field, "must be three numbers with dots")
    }
}

/// Absolute on the operating system it is meant for, which need not be this one.
fn is_absolute(root: &str) -> bool {
    let drive = root.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && root.get(1..3) == Some(":\\");
    drive || ["/", "~/", "%LOCALAPPDATA%\\"].iter().any(|start| root.starts_with(start))
}

/// A path that stays below whatever it is joined to, on every operating system.
fn relative(field: &str, path: &str) -> Check {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let foreign =
        path.contains(['\\', ':', '\0']) || path.split('/').any(|part| matches!(part, "" | "." | ".."));
    if plain && !foreign {
        Ok(())
    } else {
        fail(field, "must be a relative path without `..`, with `/` as separator")
    }
}
