//! Which crate may depend on which. Dependencies of tests are exempt: a test may look from anywhere.

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::Violation;

/// Every crate with those it may use. `diag-model` is allowed to all and not repeated.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "zcode-acp",
        &["acp-server", "client", "diagnostics", "simulator", "zcode-runtime", "runtime-discovery"],
    ),
    ("acp-server", &["session-coordinator"]),
    ("session-coordinator", &["zcode-runtime"]),
    ("zcode-runtime", &["zcode-protocol", "runtime-discovery"]),
    ("zcode-protocol", &[]),
    ("runtime-discovery", &[]),
    ("simulator", &["zcode-protocol"]),
    ("diagnostics", &[]),
    ("client", &[]),
    ("diag-model", &[]),
    // For tests only; nothing of the product may use it.
    ("testkit", &["client", "runtime-discovery", "simulator", "zcode-protocol"]),
    ("xtask", &[]),
];

/// The vocabulary.
const VOCABULARY: &str = "diag-model";

pub(crate) fn check(metadata: &Metadata) -> Vec<Violation> {
    let members = metadata.workspace_packages();
    let own = |name: &str| members.iter().any(|member| member.name.as_str() == name);
    members.iter().flat_map(|member| check_member(member, own)).collect()
}

fn check_member(member: &Package, own: impl Fn(&str) -> bool) -> Vec<Violation> {
    let name = member.name.as_str();
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        return vec![Violation::new(name, "a new crate needs its edges in crates/xtask/src/arch/edges.rs")];
    };
    member
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind != DependencyKind::Development && own(dependency.name.as_str()))
        .filter(|dependency| !is_allowed(name, dependency.name.as_str(), allowed))
        .map(|dependency| Violation::new(name, format!("must not depend on {}", dependency.name)))
        .collect()
}

fn is_allowed(from: &str, to: &str, allowed: &[&str]) -> bool {
    from != to && (to == VOCABULARY || allowed.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata of two crates with one edge between them, as cargo prints it.
    fn metadata(from: &str, to: &str, kind: &str) -> Metadata {
        let package = |name: &str, dependencies: &str| {
            format!(
                r#"{{"name":"{name}","version":"0.1.0","id":"path+file:///w/{name}#0.1.0","license":null,"license_file":null,
                "description":null,"source":null,"dependencies":[{dependencies}],"targets":[],"features":{{}},
                "manifest_path":"/w/{name}/Cargo.toml","metadata":null,"publish":null,"authors":[],"categories":[],"keywords":[],
                "readme":null,"repository":null,"homepage":null,"documentation":null,"edition":"2024","links":null,"default_run":null}}"#
            )
        };
        let edge = format!(
            r#"{{"name":"{to}","source":null,"req":"*","kind":{kind},"rename":null,"optional":false,
            "uses_default_features":true,"features":[],"target":null,"registry":null,"path":"/w/{to}"}}"#
        );
        let json = format!(
            r#"{{"packages":[{},{}],"workspace_members":["path+file:///w/{from}#0.1.0","path+file:///w/{to}#0.1.0"],
            "resolve":null,"target_directory":"/w/target","version":1,"workspace_root":"/w","metadata":null}}"#,
            package(from, &edge),
            package(to, "")
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_forbidden_edge_is_found_and_a_test_may_have_it() {
        assert!(check(&metadata("acp-server", "session-coordinator", "null")).is_empty());
        assert!(check(&metadata("simulator", "diag-model", "null")).is_empty());
        assert!(check(&metadata("acp-server", "zcode-runtime", "\"dev\"")).is_empty());
        for (from, to, kind) in [
            ("acp-server", "zcode-runtime", "null"),
            ("diag-model", "diagnostics", "null"),
            ("zcode-acp", "testkit", "null"),
            ("client", "acp-server", "\"build\""),
        ] {
            let found = check(&metadata(from, to, kind));
            assert_eq!(found, [Violation::new(from, format!("must not depend on {to}"))]);
        }
    }

    #[test]
    fn an_unknown_crate_is_named() {
        let found = check(&metadata("novel", "client", "null"));
        assert!(found[0].what.contains("edges.rs"), "{found:?}");
    }
}
