//! Builds small archives and installs for this crate's own tests.

use std::fs;
use std::path::PathBuf;

use diag_model::Failure;
use serde_json::{Value, json};

use crate::contract::{Contract, Layout};
use crate::digest::Sha256Digest;
use crate::gate::{self, Install};
use crate::layout::{Environment, Platform, below};

pub(crate) const HOST: &[u8] = b"console.log('host')";
pub(crate) const RPC: &[u8] = b"class a{}class b{}class c{}export{a as g,b as i,c as j};";
pub(crate) const CLI: &[u8] = b"#!/usr/bin/env node\nconsole.log('0.16.5')";

/// An archive with a given header, well-formed or not.
pub(crate) fn archive_with_header(header: &Value, data: &[u8]) -> Vec<u8> {
    let json = header.to_string().into_bytes();
    let padded = json.len().next_multiple_of(4);
    let mut bytes = Vec::new();
    for word in [4, padded + 8, padded + 4, json.len()] {
        bytes.extend(u32::try_from(word).unwrap().to_le_bytes());
    }
    bytes.extend(&json);
    bytes.resize(16 + padded, 0);
    bytes.extend(data);
    bytes
}

/// An archive of files.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut root = json!({"files": {}});
    let mut data = Vec::new();
    for (path, content) in files {
        let mut folder = &mut root;
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            if folder["files"][part].is_null() {
                folder["files"][part] = json!({"files": {}});
            }
            folder = &mut folder["files"][part];
        }
        folder["files"][name] = json!({"size": content.len(), "offset": data.len().to_string()});
        data.extend(*content);
    }
    archive_with_header(&root, &data)
}

/// An install in a directory of its own, with a contract that fits it.
pub(crate) struct Fake {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) contract: Contract,
    pub(crate) env: Environment,
}

impl Fake {
    pub(crate) fn new(platform: Platform) -> Self {
        Self::below(platform, "ZCode (größer)")
    }

    pub(crate) fn below(platform: Platform, root: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dunce::canonicalize(dir.path()).unwrap().join(root);
        let mut contract = Contract::clone(&Contract::embedded());
        contract.artifact.cli_sha256 = Sha256Digest::of(CLI);
        contract.artifact.host_index.sha256 = Sha256Digest::of(HOST);
        contract.artifact.rpc_module.sha256 = Sha256Digest::of(RPC);
        let env = Environment { home: None, local_app_data: None, platform };
        let fake = Self { dir, root, contract, env };
        let layout = fake.layout().clone();
        fake.write(&layout.executable, b"#!/bin/sh\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(fake.path(&layout.executable), mode).unwrap();
        }
        fake.write(&layout.cli_entry, CLI);
        fake.write_metadata(&fake.metadata());
        fake.write_archive("3.11.2", HOST, RPC);
        if layout.app_info.is_some() {
            fake.write_info("3.11.2");
        }
        fake
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.env.platform.layout(&self.contract).unwrap()
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        below(&self.root, relative)
    }

    pub(crate) fn write(&self, relative: &str, bytes: &[u8]) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn metadata(&self) -> Value {
        let facts = &self.contract.metadata;
        json!({
            "runtime": facts.runtime, "entry": facts.entry, "source": facts.source,
            "platform": self.env.platform.to_string(),
        })
    }

    pub(crate) fn write_metadata(&self, metadata: &Value) {
        self.write(&self.layout().metadata, metadata.to_string().as_bytes());
    }

    pub(crate) fn write_archive(&self, version: &str, host: &[u8], rpc: &[u8]) {
        let package = json!({"name": "zcode", "version": version}).to_string();
        let artifact = &self.contract.artifact;
        let files: [(&str, &[u8]); 3] = [
            ("package.json", package.as_bytes()),
            (&artifact.host_index.path, host),
            (&artifact.rpc_module.path, rpc),
        ];
        self.write(&self.layout().host_archive, &archive(&files));
    }

    pub(crate) fn write_info(&self, version: &str) {
        let info = format!(
            "<plist version=\"1.0\"><dict><key>CFBundleShortVersionString</key><string>{version}</string>\
             <key>CFBundleVersion</key><string>{version}.6792</string></dict></plist>"
        );
        self.write(self.layout().app_info.as_deref().unwrap(), info.as_bytes());
    }

    pub(crate) fn resolve(&self) -> Result<Install, Failure> {
        gate::resolve(&self.env, Some(&self.root), &self.contract)
    }
}
