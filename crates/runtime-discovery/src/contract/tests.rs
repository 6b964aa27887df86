use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn embedded() -> Value {
    serde_json::from_str(EMBEDDED).unwrap()
}

/// The embedded contract with one member replaced, as the text of a file.
fn with(pointer: &str, value: Value) -> String {
    let mut contract = embedded();
    *contract.pointer_mut(pointer).unwrap() = value;
    contract.to_string()
}

fn field_of(text: &str) -> String {
    Contract::parse(text).unwrap_err().field
}

#[test]
fn the_types_lose_nothing_of_the_embedded_data() {
    assert_eq!(serde_json::to_value(Contract::embedded().as_ref()).unwrap(), embedded());
    let releases: Value = serde_json::from_str(known::EMBEDDED).unwrap();
    assert_eq!(serde_json::to_value(KnownReleases::embedded()).unwrap(), releases);
}

#[test]
fn the_embedded_copies_are_the_shared_ones() {
    let shared = match std::env::var_os("ZCODE_ACP_SHARED_CONTRACT") {
        Some(path) => std::path::PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/contract"),
    };
    if !shared.is_dir() {
        eprintln!("skipped: no shared contract data beside the checkout ({})", shared.display());
        return;
    }
    for (name, embedded) in [("zcode-3.11.2.json", EMBEDDED), ("known-releases.json", known::EMBEDDED)] {
        let theirs: Value =
            serde_json::from_str(&std::fs::read_to_string(shared.join(name)).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(embedded).unwrap(), theirs, "{name}");
    }
}

#[test]
fn unknown_and_missing_members_are_refused_by_name() {
    let mut more = embedded();
    more["protocol"]["permissions"]["extra"] = json!(1);
    let error = Contract::parse(&more.to_string()).unwrap_err();
    assert!(error.reason.contains("`extra`"), "{error}");
    assert!(error.field.starts_with("protocol.permissions"), "{error}");

    let mut less = embedded();
    less["artifact"].as_object_mut().unwrap().remove("cliVersion");
    let error = Contract::parse(&less.to_string()).unwrap_err();
    assert!(error.reason.contains("`cliVersion`"), "{error}");
    assert!(error.field.starts_with("artifact"), "{error}");
}

#[test]
fn wrong_types_are_refused_by_path() {
    for (pointer, value, field) in [
        ("/artifact/hostIndex/sha256", json!("ABC"), "artifact.hostIndex.sha256"),
        ("/artifact/cliSha256", json!("z".repeat(64)), "artifact.cliSha256"),
        ("/protocol/sessionEvents/turn.started", json!("whatever"), "protocol.sessionEvents.turn.started"),
        ("/protocol/modes/3/strength", json!("strong"), "protocol.modes.3.strength"),
        ("/launcher/kind", json!("app-server"), "launcher.kind"),
        ("/launcher/init/fields/1", json!("unheardOf"), "launcher.init.fields.1"),
    ] {
        assert_eq!(field_of(&with(pointer, value)), field);
    }
    assert_eq!(field_of("{"), "-");
    assert_eq!(field_of(""), "-");
}

#[test]
fn contradictions_are_refused_by_path() {
    for (pointer, value, field) in [
        ("/artifact/id", json!("zcode\u{1b}[2J"), "artifact.id"),
        ("/schemaVersion", json!(2), "schemaVersion"),
        ("/artifact/protocolId", json!("zcode-task-v2"), "artifact.protocolId"),
        ("/protocol/id", json!("zcode-task-v2"), "protocol.id"),
        ("/artifact/appVersion", json!("3.11"), "artifact.appVersion"),
        ("/artifact/rpcModule/path", json!("../../etc/passwd"), "artifact.rpcModule.path"),
        ("/artifact/rpcModule/exports/client", json!("g"), "artifact.rpcModule.exports.client"),
        ("/layouts/linux/executable", json!("/bin/sh"), "layouts.linux.executable"),
        ("/layouts/win32/cliEntry", json!("C:\\x"), "layouts.win32.cliEntry"),
        (
            "/protocol/operations/respondPermission/service",
            json!("tasks"),
            "protocol.operations.respondPermission.service",
        ),
        ("/protocol/subscription/service", json!("event"), "protocol.subscription.service"),
        ("/protocol/modes/2/strength", json!(1), "protocol.modes.2.strength"),
        ("/protocol/modes/3/implicit", json!(true), "protocol.modes.3.implicit"),
        ("/protocol/modes/1/id", json!("edits"), "protocol.modes"),
        ("/protocol/timeoutsMs/default", json!(0), "protocol.timeoutsMs.default"),
        ("/protocol/timeoutsMs/methods/setMode", json!(900_000), "protocol.timeoutsMs.methods.setMode"),
        ("/protocol/createSession", json!({"mode": "yolo"}), "protocol.createSession.mode"),
        (
            "/launcher/answerAtOnce/browser-execute-request/type",
            json!(1),
            "launcher.answerAtOnce.browser-execute-request.type",
        ),
        ("/layouts/linux/otherRoots/0", json!("node_modules/zcode"), "layouts.linux.otherRoots"),
        (
            "/launcher/runtimeEnvironment",
            json!({"NODE_OPTIONS": "-r x"}),
            "launcher.runtimeEnvironment.ELECTRON_RUN_AS_NODE",
        ),
        (
            "/launcher/runtimeEnvironment",
            json!({"ELECTRON_RUN_AS_NODE": "1", "NODE_OPTIONS": "-r x"}),
            "launcher.runtimeEnvironment.NODE_OPTIONS",
        ),
        ("/launcher/stripEnv/0", json!("A=B"), "launcher"),
    ] {
        assert_eq!(field_of(&with(pointer, value)), field);
    }
}

#[test]
fn a_file_is_read_within_limits_and_its_failure_names_the_member() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("contract.json");
    std::fs::write(&path, EMBEDDED).unwrap();
    assert_eq!(&Contract::from_file(&path).unwrap(), Contract::embedded().as_ref());

    std::fs::write(&path, with("/protocol/modes/3/implicit", json!(true))).unwrap();
    let failure = Contract::from_file(&path).unwrap_err();
    assert_eq!(failure.code, ErrorCode::ContractInvalid);
    assert_eq!(failure.detail(Detail::Field), Some("protocol.modes.3.implicit"));

    std::fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    assert!(Contract::from_file(&path).unwrap_err().cause_text().contains("larger than 1 MiB"));
    assert_eq!(Contract::from_file(dir.path()).unwrap_err().code, ErrorCode::ContractInvalid);
    assert_eq!(Contract::from_file(&dir.path().join("none")).unwrap_err().code, ErrorCode::ContractInvalid);
}

#[test]
fn what_may_be_called_is_what_the_contract_lists() {
    let contract = Contract::embedded();
    let allowed = contract.allowed_methods();
    assert_eq!(allowed["agent"], contract.protocol.agent_methods);
    assert_eq!(allowed["task"], ["stopGeneration", "respondPermission", "respondElicitation"]);
    assert!(allowed["usage"].is_empty());
    assert_eq!(contract.allowed_events()["agent"], ["onDynamicSessionEvent"]);
    assert_eq!(contract.protocol.timeouts_ms.of("createSession"), Duration::from_secs(90));
    assert_eq!(contract.protocol.timeouts_ms.of("closeSession"), Duration::from_secs(30));
    assert!(!contract.mode("yolo").unwrap().implicit);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,120}", line in 0..5_usize, column in 0..200_usize) {
        let _ = Contract::parse(&text);
        locate::field_at(&text, line, column);
    }
}
