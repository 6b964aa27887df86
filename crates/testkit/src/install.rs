//! Builds a fake ZCode install: the files the compatibility gate reads, and an executable that really runs.
//!
//! The archive, the metadata, the manifest and the command line entry are real files in the layout of any of the three
//! systems. The executable is a shell wrapper around Node whose loader can import from inside the archive; the host in
//! the archive offers the services and relays every call to the simulator binary named by `ZCODE_ACP_SIM_BINARY`. Next to
//! the root lies a contract that matches the files hash by hash, for `--contract`. Layout and names come from the
//! embedded contract, so they are not written down a second time.
//!
//! It deliberately has no opinion of its own on what a service answers, and the Windows layout cannot be executed: it
//! exists for tests of the gate.

mod asar;
mod fault;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use fault::Fault;

const CONTRACT: &str = include_str!("../../../contract/zcode-3.11.2.json");
const WIRE: &str = include_str!("../../../fixtures/installs/host/wire.js");
const RPC_MODULE: &str = include_str!("../../../fixtures/installs/host/rpc.js");
const HOST_INDEX: &str = include_str!("../../../fixtures/installs/host/index.js");
const CLI_ENTRY: &str = include_str!("../../../fixtures/installs/zcode.cjs");
const EXECUTABLE: &str = include_str!("../../../fixtures/installs/executable.sh");
const LOADER: &[(&str, &str)] = &[
    ("loader.cjs", include_str!("../../../fixtures/installs/loader/loader.cjs")),
    ("hooks.cjs", include_str!("../../../fixtures/installs/loader/hooks.cjs")),
    ("hooks.mjs", include_str!("../../../fixtures/installs/loader/hooks.mjs")),
    ("asar.cjs", include_str!("../../../fixtures/installs/loader/asar.cjs")),
];
/// Directory inside the root that holds what only the fake needs.
const LOADER_DIR: &str = "fake-loader";
/// Where the shared wire text goes, as a bundler would put it.
const WIRE_MARK: &str = "/* @wire */";

/// An operating system's install layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    /// macOS bundle.
    Darwin,
    /// Linux tree.
    Linux,
    /// Windows tree; can be judged, not run.
    Win32,
}

impl Os {
    /// The system this process runs on.
    #[must_use]
    pub fn current() -> Self {
        if cfg!(windows) {
            Self::Win32
        } else if cfg!(target_os = "macos") {
            Self::Darwin
        } else {
            Self::Linux
        }
    }

    /// Name in the contract and in the metadata.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Darwin => "darwin",
            Self::Linux => "linux",
            Self::Win32 => "win32",
        }
    }
}

/// A built install.
#[derive(Debug, Clone)]
pub struct FakeInstall {
    /// Install root, for `--zcode-install`.
    pub root: PathBuf,
    /// Matching contract, for `--contract`. It describes the install before any fault.
    pub contract: PathBuf,
    /// The executable inside the root.
    pub executable: PathBuf,
    /// The command line entry inside the root.
    pub cli_entry: PathBuf,
    /// Absolute path of the host entry, as the bridge is told it.
    pub host_index: PathBuf,
    /// Absolute path of the RPC module, as the bridge is told it.
    pub rpc_module: PathBuf,
}

impl FakeInstall {
    /// Builds an unbroken install for the running system below `directory`.
    pub fn build(directory: &Path) -> io::Result<Self> {
        Self::builder().build(directory)
    }

    /// Starts a build with choices.
    #[must_use]
    pub fn builder() -> FakeInstallBuilder {
        FakeInstallBuilder { os: Os::current(), arch: node_arch().to_owned(), faults: Vec::new(), host: None }
    }

    /// The contract as JSON.
    pub fn contract_json(&self) -> io::Result<Value> {
        Ok(serde_json::from_slice(&std::fs::read(&self.contract)?)?)
    }
}

/// Choices of a build.
#[derive(Debug, Clone)]
pub struct FakeInstallBuilder {
    os: Os,
    arch: String,
    faults: Vec<Fault>,
    host: Option<String>,
}

impl FakeInstallBuilder {
    /// Uses another system's layout.
    #[must_use]
    pub fn os(mut self, os: Os) -> Self {
        self.os = os;
        self
    }

    /// Names another architecture (`x64`, `arm64`) in the metadata.
    #[must_use]
    pub fn arch(mut self, arch: &str) -> Self {
        arch.clone_into(&mut self.arch);
        self
    }

    /// Breaks one thing. The contract still describes the unbroken install.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Replaces the host entry by another ES module; the contract matches it.
    #[must_use]
    pub fn host(mut self, source: &str) -> Self {
        self.host = Some(source.to_owned());
        self
    }

    /// Writes root and contract below `directory`.
    pub fn build(&self, directory: &Path) -> io::Result<FakeInstall> {
        let directory = std::path::absolute(directory)?;
        let embedded: Value = serde_json::from_str(CONTRACT)?;
        let layout = &embedded["layouts"][self.os.name()];
        let root = directory.join(if self.os == Os::Darwin { "ZCode.app" } else { "ZCode" });
        let place = |key: &str| text(layout, key).map(|relative| root.join(relative));

        let parts = Parts::new(&embedded, self)?;
        let contract_json = parts.contract(embedded.clone(), self)?;
        let mut broken = parts.clone();
        for fault in &self.faults {
            fault.apply(&mut broken)?;
        }

        let archive = place("hostArchive")?;
        write(&archive, &broken.archive()?)?;
        let unpacked = PathBuf::from(format!("{}.unpacked", archive.display()));
        write(&unpacked.join(asar::UNPACKED), asar::UNPACKED_BYTES)?;
        write(&place("metadata")?, &serde_json::to_vec_pretty(&broken.metadata)?)?;
        let cli_entry = place("cliEntry")?;
        write(&cli_entry, broken.cli_entry.as_bytes())?;
        if layout.get("appInfo").is_some() {
            write(&place("appInfo")?, broken.info_plist().as_bytes())?;
        }
        for (name, source) in LOADER {
            write(&root.join(LOADER_DIR).join(name), source.as_bytes())?;
        }
        let executable = place("executable")?;
        write(&executable, wrapper(&root).as_bytes())?;
        make_executable(&executable)?;
        let contract = directory.join("contract.json");
        write(&contract, &serde_json::to_vec_pretty(&contract_json)?)?;

        Ok(FakeInstall {
            host_index: archive.join(&parts.host_index.0),
            rpc_module: archive.join(&parts.rpc_module.0),
            root,
            contract,
            executable,
            cli_entry,
        })
    }
}

/// What an install is made of, before it is written.
#[derive(Debug, Clone)]
struct Parts {
    app_version: String,
    app_build: String,
    cli_entry: String,
    metadata: Value,
    host_index: (String, Vec<u8>),
    rpc_module: (String, Vec<u8>),
}

impl Parts {
    fn new(contract: &Value, choices: &FakeInstallBuilder) -> io::Result<Self> {
        let artifact = &contract["artifact"];
        let host = choices.host.as_deref().unwrap_or(HOST_INDEX);
        Ok(Self {
            app_version: text(artifact, "appVersion")?,
            app_build: artifact["observedBuilds"][0].as_str().unwrap_or_default().to_owned(),
            cli_entry: CLI_ENTRY.replace("@CLI_VERSION@", &text(artifact, "cliVersion")?),
            metadata: json!({
                "runtime": contract["metadata"]["runtime"],
                "entry": contract["metadata"]["entry"],
                "source": contract["metadata"]["source"],
                "platform": format!("{}-{}", choices.os.name(), choices.arch),
            }),
            host_index: (
                text(&artifact["hostIndex"], "path")?,
                host.replacen(WIRE_MARK, WIRE, 1).into_bytes(),
            ),
            rpc_module: (text(&artifact["rpcModule"], "path")?, rpc_module().into_bytes()),
        })
    }

    fn archive(&self) -> io::Result<Vec<u8>> {
        let package = json!({ "name": "zcode", "version": self.app_version, "type": "module", "main": "out/main/index.js" });
        asar::write(&[
            ("package.json", &serde_json::to_vec(&package)?),
            (&self.host_index.0, &self.host_index.1),
            (&self.rpc_module.0, &self.rpc_module.1),
        ])
    }

    /// The embedded contract with the hashes of these parts.
    fn contract(&self, mut contract: Value, choices: &FakeInstallBuilder) -> io::Result<Value> {
        let platform = format!("{}-{}", choices.os.name(), choices.arch);
        let artifact = &mut contract["artifact"];
        artifact["id"] = json!(format!("fake-zcode-host-{}", self.app_version));
        artifact["cliSha256"] = json!(sha256(self.cli_entry.as_bytes()));
        artifact["hostIndex"]["sha256"] = json!(sha256(&self.host_index.1));
        artifact["rpcModule"]["sha256"] = json!(sha256(&self.rpc_module.1));
        artifact["diagnosticOnly"] = json!({
            "asarSha256": sha256(&self.archive()?),
            "metadataSha256": { &platform: sha256(&serde_json::to_vec_pretty(&self.metadata)?) },
        });
        if let Some(platforms) = contract["metadata"]["platforms"].as_array_mut()
            && !platforms.contains(&json!(platform))
        {
            platforms.push(json!(platform));
        }
        Ok(contract)
    }

    fn info_plist(&self) -> String {
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>CFBundleName</key><string>ZCode</string>
  <key>CFBundleShortVersionString</key><string>{}</string>
  <key>CFBundleVersion</key><string>{}</string>
</dict>
</plist>
"#,
            self.app_version, self.app_build
        )
    }
}

/// Text of the RPC module as it lies in the archive. Its exports `a` and `b` are the wire's encoder and decoder.
#[must_use]
pub fn rpc_module() -> String {
    RPC_MODULE.replacen(WIRE_MARK, WIRE, 1)
}

/// Node on the search path.
#[must_use]
pub fn node() -> Option<PathBuf> {
    let name = if cfg!(windows) { "node.exe" } else { "node" };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

/// Node's name of the running architecture.
fn node_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn wrapper(root: &Path) -> String {
    let node = node().unwrap_or_else(|| PathBuf::from("node"));
    let loader = root.join(LOADER_DIR).join(LOADER[0].0);
    EXECUTABLE.replace("@NODE@", &quoted(&node)).replace("@LOADER@", &quoted(&loader))
}

/// Quotes for a POSIX shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn text(object: &Value, key: &str) -> io::Result<String> {
    let missing =
        || io::Error::new(io::ErrorKind::InvalidData, format!("the embedded contract has no {key}"));
    object.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(missing)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, bytes)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod tests;
