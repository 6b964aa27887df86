use super::*;
use diag_model::{Detail, ErrorCode};
use serde_json::json;
use std::fs;

use crate::launch::LaunchPlan;
use crate::testing::{CLI, Fake, HOST, RPC};

const LINUX: Platform = Platform::LINUX_X64;

fn install(fake: &Fake) -> Install {
    fake.resolve().unwrap()
}

fn refused(fake: &Fake) -> Refusal {
    verify(&install(fake), &fake.contract).unwrap_err()
}

#[track_caller]
fn assert_refused(fake: &Fake, code: ErrorCode, detected: &str, expected: &str) {
    let failure = refused(fake).failure;
    assert_eq!(failure.code, code, "{failure:?}");
    assert_eq!(failure.detail(Detail::Detected), Some(detected), "{failure:?}");
    assert_eq!(failure.detail(Detail::Expected), Some(expected), "{failure:?}");
}

#[test]
fn every_layout_passes_on_any_system() {
    for platform in [Platform::LINUX_X64, Platform::DARWIN_ARM64, Platform::WIN32_X64] {
        let fake = Fake::new(platform);
        let verified = verify(&install(&fake), &fake.contract).unwrap();
        assert_eq!(verified.cli(), CliIdentity::Official, "{platform}");
        assert_eq!(verified.facts().app_version.as_deref(), Some("3.11.2"));
        assert_eq!(verified.facts().app_build.is_some(), platform == Platform::DARWIN_ARM64);
        assert_eq!(verified.facts().platform, Some(platform.to_string()));

        let plan = LaunchPlan::new(&verified, &fake.contract);
        let layout = fake.layout();
        assert_eq!(plan.executable, fake.path(&layout.executable));
        assert_eq!(plan.cwd, fake.root);
        assert_eq!(
            plan.host_index,
            fake.path(&layout.host_archive).join("out").join("host").join("index.js")
        );
        assert_eq!(plan.rpc_module.parent(), plan.host_index.parent());
        assert_eq!(plan.cli_version_arguments()[0], fake.path(&layout.cli_entry));
        assert_eq!(plan.exports.client, "i");
    }
}

#[test]
fn a_wrong_byte_in_a_pinned_file_is_refused_with_both_digests() {
    let fake = Fake::new(LINUX);
    let pins = (fake.contract.artifact.host_index.clone(), fake.contract.artifact.rpc_module.clone());
    for at in [0, HOST.len() - 1] {
        let mut host = HOST.to_vec();
        host[at] ^= 1;
        fake.write_archive("3.11.2", &host, RPC);
        let (detected, expected) = (Sha256Digest::of(&host).to_string(), pins.0.sha256.to_string());
        assert_refused(&fake, ErrorCode::HashMismatch, &detected, &expected);
        assert_eq!(refused(&fake).failure.detail(Detail::File), Some(pins.0.path.as_str()));
    }
    for at in [0, RPC.len() - 1] {
        let mut rpc = RPC.to_vec();
        rpc[at] ^= 1;
        fake.write_archive("3.11.2", HOST, &rpc);
        let (detected, expected) = (Sha256Digest::of(&rpc).to_string(), pins.1.sha256.to_string());
        assert_refused(&fake, ErrorCode::HashMismatch, &detected, &expected);
        assert_eq!(refused(&fake).failure.detail(Detail::File), Some(pins.1.path.as_str()));
    }
}

#[test]
fn a_module_without_a_required_export_is_refused_even_if_its_digest_is_pinned() {
    let mut fake = Fake::new(LINUX);
    let rpc = b"class a{}class b{}export{a as g,b as i};";
    fake.contract.artifact.rpc_module.sha256 = Sha256Digest::of(rpc);
    fake.write_archive("3.11.2", HOST, rpc);
    assert_refused(&fake, ErrorCode::ExportsMismatch, "g, i", "g, i, j");
}

#[test]
fn metadata_decides_by_its_meaning_and_not_by_its_bytes() {
    let fake = Fake::new(LINUX);
    fake.write(&fake.layout().metadata, serde_json::to_string_pretty(&fake.metadata()).unwrap().as_bytes());
    assert!(verify(&install(&fake), &fake.contract).is_ok());

    for (member, detected) in [("runtime", "node"), ("entry", "zcode.js"), ("source", "elsewhere")] {
        let mut metadata = fake.metadata();
        let expected = metadata[member].as_str().unwrap().to_owned();
        metadata[member] = json!(detected);
        fake.write_metadata(&metadata);
        assert_refused(&fake, ErrorCode::MetadataMismatch, detected, &expected);
        assert_eq!(refused(&fake).failure.detail(Detail::Field), Some(member));
    }
    let mut metadata = fake.metadata();
    metadata["platform"] = json!("plan9-mips");
    fake.write_metadata(&metadata);
    assert_eq!(refused(&fake).failure.code, ErrorCode::MetadataMismatch);
    let mut metadata = fake.metadata();
    metadata["more"] = json!(1);
    fake.write_metadata(&metadata);
    let failure = refused(&fake).failure;
    assert_eq!(failure.code, ErrorCode::MetadataMismatch);
    assert_eq!(failure.detail(Detail::File), Some("resources/glm/.node-bundle-meta.json"));
}

#[test]
fn another_platform_is_refused() {
    let fake = Fake::new(LINUX);
    let mut metadata = fake.metadata();
    metadata["platform"] = json!("linux-arm64");
    fake.write_metadata(&metadata);
    assert_refused(&fake, ErrorCode::PlatformMismatch, "linux-arm64", "linux-x64");
}

#[test]
fn text_of_a_damaged_install_stays_short_and_on_one_line() {
    let fake = Fake::new(LINUX);
    let mut metadata = fake.metadata();
    metadata["runtime"] = json!(format!("a\u{1b}[31m\n{}", "x".repeat(10_000)));
    fake.write_metadata(&metadata);
    let failure = refused(&fake).failure;
    let detected = failure.detail(Detail::Detected).unwrap();
    assert!(detected.len() <= 200 && detected.starts_with("a [31m x"), "{detected}");
}

#[test]
fn another_version_is_refused_and_a_known_one_by_name() {
    let fake = Fake::new(LINUX);
    fake.write_archive("3.14.3", HOST, RPC);
    assert_refused(&fake, ErrorCode::VersionUnsupported, "3.14.3", "3.11.2");
    let failure = refused(&fake).failure;
    assert!(failure.message().contains("3.14.3 is known, but not supported"), "{failure}");
    assert!(
        failure.message().ends_with("install ZCode 3.11.2 beside it and use --zcode-install"),
        "{failure}"
    );
    fake.write_archive("9.9.9", HOST, RPC);
    assert!(refused(&fake).failure.message().contains("9.9.9 is not supported"));
}

#[test]
fn the_bundle_of_macos_says_its_version_itself() {
    let fake = Fake::new(Platform::DARWIN_ARM64);
    fake.write_archive("9.9.9", HOST, RPC);
    assert!(verify(&install(&fake), &fake.contract).is_ok());
    fake.write_info("3.12.3");
    assert_refused(&fake, ErrorCode::VersionUnsupported, "3.12.3", "3.11.2");
    assert_eq!(refused(&fake).facts.app_build.as_deref(), Some("3.12.3.6792"));
    fake.write(fake.layout().app_info.as_deref().unwrap(), b"<plist version=\"1.0\"><dict/></plist>");
    assert_refused(&fake, ErrorCode::VersionUnsupported, "9.9.9", "3.11.2");
}

#[test]
fn a_modified_cli_is_reported_and_has_to_say_its_version() {
    let fake = Fake::new(LINUX);
    fake.write(&fake.layout().cli_entry, b"patched");
    let verified = verify(&install(&fake), &fake.contract).unwrap();
    assert_eq!(verified.cli(), CliIdentity::Modified { sha256: Sha256Digest::of(b"patched") });
    assert_eq!(verified.facts().cli_integrity, Some(CliIntegrity::Modified));
    assert!(verified.check_cli_version("zcode 0.16.5\n").is_ok());
    for (output, detected) in [("0.16.9", "0.16.9"), ("", "no version"), ("0.16.55", "0.16.55")] {
        let failure = verified.check_cli_version(output).unwrap_err();
        assert_eq!(failure.code, ErrorCode::VersionUnsupported);
        assert_eq!(failure.detail(Detail::Detected), Some(detected));
        assert_eq!(failure.detail(Detail::Expected), Some("0.16.5"));
    }
}

#[test]
fn the_first_difference_in_the_fixed_order_is_the_one_reported() {
    let fake = Fake::new(LINUX);
    let good = fake.metadata();
    fake.write_archive("9.9.9", b"other", b"other");
    fake.write_metadata(&json!({}));
    assert_eq!(refused(&fake).failure.code, ErrorCode::MetadataMismatch);
    let mut other = good.clone();
    other["platform"] = json!("win32-x64");
    fake.write_metadata(&other);
    assert_eq!(refused(&fake).failure.code, ErrorCode::PlatformMismatch);
    fake.write_metadata(&good);
    assert_eq!(refused(&fake).failure.code, ErrorCode::VersionUnsupported);
    fake.write_archive("3.11.2", b"other", b"other");
    assert_eq!(refused(&fake).failure.detail(Detail::File), Some("out/host/index.js"));
    fake.write_archive("3.11.2", HOST, b"other");
    assert_eq!(refused(&fake).failure.code, ErrorCode::HashMismatch);
}

#[test]
fn facts_are_there_even_when_it_is_refused() {
    let fake = Fake::new(LINUX);
    fake.write_metadata(&json!({"runtime": "x", "entry": "x", "source": "x", "platform": "x"}));
    let facts = refused(&fake).facts;
    assert_eq!(facts.cli_sha256, Some(Sha256Digest::of(CLI)));
    assert_eq!(facts.host_index_sha256, Some(Sha256Digest::of(HOST)));
    assert_eq!(facts.archive.unwrap().entries, 5);
    fake.write(&fake.layout().host_archive, b"not an archive");
    let facts = inspect(&install(&fake), &fake.contract);
    assert_eq!((facts.archive, facts.app_version, facts.platform.as_deref()), (None, None, Some("x")));
    assert_eq!(facts.cli_integrity, Some(CliIntegrity::Verified));
    fake.write_metadata(&fake.metadata());
    assert_eq!(refused(&fake).failure.code, ErrorCode::ArchiveInvalid);
}

#[test]
fn a_named_root_is_used_or_refused() {
    let fake = Fake::new(LINUX);
    let refused = |path: &Path| resolve(&fake.env, Some(path), &fake.contract).unwrap_err();
    for (path, reason) in [
        (PathBuf::from("relative/ZCode"), "not absolute"),
        (fake.dir.path().join("none"), "does not exist"),
        (fake.path("zcode"), "not a folder"),
        (fake.path("resources"), "it has no zcode"),
    ] {
        let failure = refused(&path);
        assert_eq!(failure.code, ErrorCode::InstallPathInvalid, "{failure:?}");
        assert!(failure.cause_text().contains(reason), "{failure:?}");
        assert_eq!(failure.detail(Detail::File), Some(path.to_str().unwrap()));
    }
}

#[test]
fn known_roots_are_tried_in_order_and_all_are_listed() {
    let mut fake = Fake::below(LINUX, "second");
    let base = fake.root.parent().unwrap().to_path_buf();
    let text = |name: &str| base.join(name).to_str().unwrap().to_owned();
    fs::create_dir(base.join("empty")).unwrap();
    fs::write(base.join("file"), "").unwrap();
    fake.env.home = Some(base.clone());
    fake.contract.layouts.linux.default_roots = vec![text("first"), text("empty"), text("file")];
    fake.contract.layouts.linux.other_roots = vec!["~/second".to_owned()];
    assert_eq!(resolve(&fake.env, None, &fake.contract).unwrap().root, fake.root);

    fake.env.home = None;
    let failure = resolve(&fake.env, None, &fake.contract).unwrap_err();
    assert_eq!(failure.code, ErrorCode::NotInstalled);
    let tried = failure.detail(Detail::Tried).unwrap();
    let expected = format!(
        "{}: it does not exist; {}: it has no zcode; {}: it is not a folder; ~/second: the home directory is not known",
        text("first"),
        text("empty"),
        text("file")
    );
    assert_eq!(tried, expected);

    fake.env.home = Some(PathBuf::from("not/absolute"));
    let failure = resolve(&fake.env, None, &fake.contract).unwrap_err();
    assert!(
        failure.detail(Detail::Tried).unwrap().ends_with("not/absolute/second: the path is not absolute")
    );

    // The first that holds the executable is final, also when it turns out to be incomplete.
    fs::write(base.join("empty/zcode"), "").unwrap();
    fake.env.home = Some(base);
    let failure = resolve(&fake.env, None, &fake.contract).unwrap_err();
    assert_eq!(failure.code, ErrorCode::InstallIncomplete);
}

#[test]
fn roots_below_local_app_data_are_found() {
    let mut fake = Fake::below(Platform::WIN32_X64, "Programs/ZCode");
    fake.env.local_app_data = Some(dunce::canonicalize(fake.dir.path()).unwrap());
    assert_eq!(resolve(&fake.env, None, &fake.contract).unwrap().root, fake.root);
}

#[test]
fn a_missing_file_is_named() {
    let layout = Contract::embedded().layouts.linux.clone();
    for file in [layout.cli_entry, layout.metadata, layout.host_archive] {
        let fake = Fake::new(LINUX);
        fs::remove_file(fake.path(&file)).unwrap();
        let failure = fake.resolve().unwrap_err();
        assert_eq!(failure.code, ErrorCode::InstallIncomplete);
        assert_eq!(failure.detail(Detail::File), Some(file.as_str()));
        fs::create_dir(fake.path(&file)).unwrap();
        let failure = fake.resolve().unwrap_err();
        assert_eq!(failure.detail(Detail::Detected), Some("it is not a regular file"));
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_leads_out_of_the_root_is_refused() {
    use std::os::unix::fs::symlink;
    let fake = Fake::new(LINUX);
    let layout = fake.layout().clone();
    for file in [&layout.executable, &layout.cli_entry, &layout.metadata, &layout.host_archive] {
        let outside = fake.root.with_extension("outside");
        fs::rename(fake.path(file), &outside).unwrap();
        symlink(&outside, fake.path(file)).unwrap();
        let failure = fake.resolve().unwrap_err();
        assert_eq!(failure.code, ErrorCode::InstallIncomplete);
        assert_eq!(failure.detail(Detail::File), Some(file.as_str()));
        assert_eq!(failure.detail(Detail::Detected), Some("it leads outside the install"));
        fs::remove_file(fake.path(file)).unwrap();
        fs::rename(&outside, fake.path(file)).unwrap();
    }
    // A root beside it with the same beginning of the name is outside too, and a link within the root is not.
    let inside = fake.path("moved.cjs");
    fs::rename(fake.path(&layout.cli_entry), &inside).unwrap();
    symlink(&inside, fake.path(&layout.cli_entry)).unwrap();
    assert_eq!(install(&fake).cli_entry, inside);
}

#[cfg(unix)]
#[test]
fn a_root_that_is_a_link_is_followed_once_and_for_all() {
    let fake = Fake::new(LINUX);
    let link = fake.dir.path().join("link");
    std::os::unix::fs::symlink(&fake.root, &link).unwrap();
    let found = resolve(&fake.env, Some(&link), &fake.contract).unwrap();
    assert_eq!(found.root, fake.root);
    assert!(found.executable.starts_with(&fake.root));
}

#[cfg(target_os = "linux")]
#[test]
fn a_root_whose_name_is_no_text_is_found_and_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let fake = Fake::new(LINUX);
    let odd = fake.dir.path().join(std::ffi::OsStr::from_bytes(b"ZCode\xff"));
    fs::rename(&fake.root, &odd).unwrap();
    let install = resolve(&fake.env, Some(&odd), &fake.contract).unwrap();
    let verified = verify(&install, &fake.contract).unwrap();
    let report = serde_json::to_value(verified.facts()).unwrap();
    assert!(report["root"].as_str().unwrap().ends_with("ZCode\u{fffd}"));
    assert_eq!(report["cliIntegrity"], "verified");
    assert_eq!(report["cliSha256"], Sha256Digest::of(CLI).to_string());
}

#[cfg(unix)]
#[test]
fn permissions_are_looked_at() {
    use std::os::unix::fs::PermissionsExt as _;
    let fake = Fake::new(LINUX);
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&fake.root, 0o775);
    assert!(inspect(&install(&fake), &fake.contract).writable_by_others);
    mode(&fake.root, 0o755);
    assert!(!inspect(&install(&fake), &fake.contract).writable_by_others);
    mode(&fake.path("zcode"), 0o644);
    let failure = fake.resolve().unwrap_err();
    assert_eq!(failure.detail(Detail::Detected), Some("it is not executable"));
}

#[test]
fn a_platform_without_zcode_is_said_to_be_one() {
    let mut fake = Fake::new(LINUX);
    fake.contract.metadata.platforms.retain(|platform| platform != "linux-x64");
    let failure = fake.resolve().unwrap_err();
    assert_eq!(failure.code, ErrorCode::PlatformUnsupported);
    assert_eq!(failure.detail(Detail::Detected), Some("linux-x64"));
}
