#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use super::*;

/// Reads an entry by the format, independent of the product's reader.
fn entry(archive: &[u8], path: &str) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(word(0), 4);
    let header: Value = serde_json::from_slice(&archive[16..16 + word(12)]).unwrap();
    let node = path.split('/').fold(&header, |node, part| &node["files"][part]);
    let start = 8 + word(4) + node["offset"].as_str().unwrap().parse::<usize>().unwrap();
    archive[start..start + usize::try_from(node["size"].as_u64().unwrap()).unwrap()].to_vec()
}

fn archive_of(install: &FakeInstall, os: Os) -> Vec<u8> {
    let contract = install.contract_json().unwrap();
    std::fs::read(install.root.join(contract["layouts"][os.name()]["hostArchive"].as_str().unwrap())).unwrap()
}

#[test]
fn contract_matches_every_layout() {
    for os in [Os::Darwin, Os::Linux, Os::Win32] {
        let temp = tempfile::tempdir().unwrap();
        let install = FakeInstall::builder().os(os).build(temp.path()).unwrap();
        let contract = install.contract_json().unwrap();
        let artifact = &contract["artifact"];
        let archive = archive_of(&install, os);
        for key in ["hostIndex", "rpcModule"] {
            let bytes = entry(&archive, artifact[key]["path"].as_str().unwrap());
            assert_eq!(artifact[key]["sha256"], sha256(&bytes), "{os:?} {key}");
        }
        assert_eq!(artifact["cliSha256"], sha256(&std::fs::read(&install.cli_entry).unwrap()));
        assert_eq!(artifact["diagnosticOnly"]["asarSha256"], sha256(&archive));
        let package: Value = serde_json::from_slice(&entry(&archive, "package.json")).unwrap();
        assert_eq!(package["version"], artifact["appVersion"]);
        let layout = &contract["layouts"][os.name()];
        assert_eq!(install.root.join("Contents/Info.plist").exists(), layout.get("appInfo").is_some());
        assert!(install.executable.exists());
    }
}

#[test]
fn faults_change_one_file_and_leave_the_contract() {
    let temp = tempfile::tempdir().unwrap();
    let good = FakeInstall::builder().os(Os::Linux).build(&temp.path().join("good")).unwrap();
    let contract = good.contract_json().unwrap();
    let path = |key: &str| contract["artifact"][key]["path"].as_str().unwrap().to_owned();
    for (fault, key) in [
        (Fault::HostIndexByte, "hostIndex"),
        (Fault::RpcModuleByte, "rpcModule"),
        (Fault::RpcExport, "rpcModule"),
    ] {
        let directory = temp.path().join(format!("{fault:?}"));
        let broken = FakeInstall::builder().os(Os::Linux).fault(fault).build(&directory).unwrap();
        assert_eq!(broken.contract_json().unwrap(), contract);
        let (left, right) = (archive_of(&good, Os::Linux), archive_of(&broken, Os::Linux));
        for name in ["hostIndex", "rpcModule"] {
            let same = entry(&left, &path(name)) == entry(&right, &path(name));
            assert_eq!(same, name != key);
        }
    }
    let metadata = |install: &FakeInstall| -> Value {
        serde_json::from_slice(
            &std::fs::read(install.cli_entry.with_file_name(".node-bundle-meta.json")).unwrap(),
        )
        .unwrap()
    };
    let broken = FakeInstall::builder()
        .os(Os::Linux)
        .fault(Fault::Platform("win32-x64".into()))
        .fault(Fault::AppVersion("3.12.0".into()))
        .build(&temp.path().join("platform"))
        .unwrap();
    assert_eq!(metadata(&broken)["platform"], "win32-x64");
    assert_ne!(metadata(&good)["platform"], "win32-x64");
    let package: Value =
        serde_json::from_slice(&entry(&archive_of(&broken, Os::Linux), "package.json")).unwrap();
    assert_eq!(package["version"], "3.12.0");
}

#[cfg(unix)]
#[test]
fn executable_answers_like_the_command_line_entry() {
    let Some(_) = node() else {
        assert!(std::env::var_os("CI").is_none(), "Node is needed and not on PATH");
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let install = FakeInstall::build(&temp.path().join("it's here")).unwrap();
    let run = |args: &[&str], as_node: bool| {
        let mut command = std::process::Command::new(&install.executable);
        command.arg(&install.cli_entry).args(args).env_remove("ELECTRON_RUN_AS_NODE");
        if as_node {
            command.env("ELECTRON_RUN_AS_NODE", "1");
        }
        command.output().unwrap()
    };
    let version = run(&["version"], true);
    assert_eq!(String::from_utf8(version.stdout).unwrap().trim(), "0.16.5");
    let doctor = run(&["doctor", "--json"], true);
    assert!(doctor.status.success());
    assert_eq!(serde_json::from_slice::<Value>(&doctor.stdout).unwrap()["version"], "0.16.5");
    assert_eq!(run(&["version"], false).status.code(), Some(70));
}
