//! The product's gate and this builder were written apart; here each checks the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use runtime_discovery::gate::{CliIdentity, Refusal, Verified, resolve, verify};
use runtime_discovery::launch::LaunchPlan;
use runtime_discovery::{Contract, Environment, Platform};

use super::{FakeInstall, Fault, Os};

const LAYOUTS: [(Os, Platform, &str); 3] = [
    (Os::Linux, Platform::LINUX_X64, "x64"),
    (Os::Darwin, Platform::DARWIN_ARM64, "arm64"),
    (Os::Win32, Platform::WIN32_X64, "x64"),
];

fn judge(install: &FakeInstall, platform: Platform) -> Result<Verified, Refusal> {
    let contract = Contract::from_file(&install.contract).unwrap();
    let env = Environment { home: None, local_app_data: None, platform };
    verify(&resolve(&env, Some(&install.root), &contract).unwrap(), &contract)
}

#[test]
fn the_gate_accepts_every_layout_and_plans_the_paths_built() {
    for (os, platform, arch) in LAYOUTS {
        let temp = tempfile::tempdir().unwrap();
        let install = FakeInstall::builder().os(os).arch(arch).build(temp.path()).unwrap();
        let verified = judge(&install, platform).unwrap_or_else(|refusal| panic!("{os:?}: {refusal}"));
        assert_eq!(verified.cli(), CliIdentity::Official);
        let plan = LaunchPlan::new(&verified, &Contract::from_file(&install.contract).unwrap());
        let canonical = install.root.canonicalize().unwrap();
        let inside = |path: &std::path::Path| canonical.join(path.strip_prefix(&install.root).unwrap());
        assert_eq!(plan.executable, inside(&install.executable));
        assert_eq!(plan.host_index, inside(&install.host_index));
        assert_eq!(plan.rpc_module, inside(&install.rpc_module));
        assert_eq!(plan.cli_entry, inside(&install.cli_entry));
    }
}

#[test]
fn the_gate_refuses_every_fault_but_a_changed_command_line_entry() {
    let (platform, other) = (Platform::LINUX_X64, "linux-arm64".to_owned());
    let build = |fault: Fault| {
        let temp = tempfile::tempdir().unwrap();
        let install =
            FakeInstall::builder().os(Os::Linux).arch("x64").fault(fault).build(temp.path()).unwrap();
        judge(&install, platform)
    };
    for (fault, code) in [
        (Fault::HostIndexByte, "HashMismatch"),
        (Fault::RpcModuleByte, "HashMismatch"),
        (Fault::RpcExport, "HashMismatch"),
        (Fault::MetadataExtraKey, "MetadataMismatch"),
        (Fault::MetadataValue { key: "entry".into(), value: "other.cjs".into() }, "MetadataMismatch"),
        (Fault::MetadataMissing { key: "runtime".into() }, "MetadataMismatch"),
        (Fault::Platform(other), "PlatformMismatch"),
        (Fault::AppVersion("3.12.0".into()), "VersionUnsupported"),
    ] {
        let refusal = build(fault.clone()).expect_err(&format!("{fault:?} passed"));
        assert_eq!(format!("{:?}", refusal.failure.code), code, "{fault:?}");
    }
    for fault in [Fault::CliByte, Fault::CliVersion("0.16.4".into())] {
        assert!(matches!(build(fault).unwrap().cli(), CliIdentity::Modified { .. }));
    }
}
