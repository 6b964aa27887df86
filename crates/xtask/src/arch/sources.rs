//! The stated absences: what must not appear in the sources outside its owners.

use std::fs;
use std::path::{Path, PathBuf};

use super::Violation;
use super::scan::Source;

/// Lines outside tests above which a file needs a reason.
const LINE_LIMIT: usize = 800;

/// Files above the limit, with the reason that was accepted.
const LONG_FILES: &[(&str, &str)] = &[];

enum View {
    /// Names in code; strings and comments do not count.
    Code,
    /// Strings count too.
    Text,
}

struct Rule {
    view: View,
    needles: &'static [&'static str],
    /// Path prefixes, relative to `crates/`, where it may appear.
    owners: &'static [&'static str],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        view: View::Code,
        needles: &["agent_client_protocol"],
        owners: &["acp-server/", "client/", "testkit/"],
        why: "ACP types belong to acp-server and client",
    },
    Rule {
        view: View::Text,
        needles: &["app.asar", "zcode.cjs", ".node-bundle-meta.json", "resources/glm", "out/host"],
        owners: &["runtime-discovery/", "testkit/", "xtask/"],
        why: "paths and file names of the install belong to runtime-discovery",
    },
    Rule {
        view: View::Code,
        needles: &["println!", "print!", "eprintln!", "eprint!", "dbg!"],
        owners: &["cli/", "xtask/", "testkit/src/bin/"],
        why: "only commands print; the agent's stdout is protocol",
    },
    Rule {
        view: View::Code,
        needles: &["io::stdout"],
        owners: &["acp-server/", "cli/", "xtask/", "testkit/src/bin/"],
        why: "stdout has one owner",
    },
    Rule {
        view: View::Code,
        needles: &["Command::new"],
        owners: &["zcode-runtime/", "client/", "testkit/", "xtask/"],
        why: "processes are started by zcode-runtime and client",
    },
    Rule {
        view: View::Code,
        needles: &["process::exit"],
        owners: &["cli/"],
        why: "only cli ends the process",
    },
];

pub(crate) fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let crates = root.join("crates");
    let mut found = Vec::new();
    let mut seen = 0;
    for name in children(&crates)? {
        let folder = crates.join(&name);
        found.extend(check_lints(&folder, &name)?);
        let mut files = Vec::new();
        walk(&folder, &mut files)?;
        let sources = files.iter().filter_map(|file| {
            let path = file.strip_prefix(&crates).ok()?.to_string_lossy().replace('\\', "/");
            let rust = file.extension().is_some_and(|ext| ext == "rs");
            let script = file.extension().is_some_and(|ext| ext == "cjs" || ext == "mjs" || ext == "js");
            (rust || script).then(|| {
                fs::read_to_string(file)
                    .map(|text| (path, text))
                    .map_err(|why| format!("{}: {why}", file.display()))
            })
        });
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        seen += sources.len();
        found.extend(check_crate(&sources));
    }
    // A scan that looked at nothing would always pass.
    if seen == 0 { Err("no sources found under crates/".to_owned()) } else { Ok(found) }
}

/// Every crate takes the workspace's lints, so that `unsafe` is forbidden and unwrapping denied everywhere.
fn check_lints(folder: &Path, name: &str) -> Result<Option<Violation>, String> {
    let manifest =
        fs::read_to_string(folder.join("Cargo.toml")).map_err(|why| format!("{name}/Cargo.toml: {why}"))?;
    let manifest: toml::Table = manifest.parse().map_err(|why| format!("{name}/Cargo.toml: {why}"))?;
    let inherited =
        manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
    let missing = || Violation::new(format!("crates/{name}/Cargo.toml"), "needs `[lints] workspace = true`");
    Ok((inherited != Some(true)).then(missing))
}

/// Checks the sources of one crate, given as path (relative to `crates/`) and content.
fn check_crate(sources: &[(String, String)]) -> Vec<Violation> {
    let parsed: Vec<_> = sources.iter().map(|(path, text)| (path, Source::new(text))).collect();
    let test_files: Vec<String> = parsed
        .iter()
        .flat_map(|(path, source)| source.test_modules.iter().flat_map(|module| module_files(path, module)))
        .collect();
    let mut found = Vec::new();
    for (path, source) in &parsed {
        if is_test(path) || test_files.iter().any(|prefix| path.starts_with(prefix.as_str())) {
            continue;
        }
        for rule in RULES.iter().filter(|rule| !rule.owners.iter().any(|owner| path.starts_with(owner))) {
            let view = match rule.view {
                View::Code => &source.code,
                View::Text => &source.text,
            };
            for (number, line) in view.lines().enumerate() {
                if let Some(needle) = rule.needles.iter().find(|needle| mentions(line, needle)) {
                    found.push(Violation::new(
                        format!("crates/{path}:{}", number + 1),
                        format!("`{needle}`: {}", rule.why),
                    ));
                }
            }
        }
        if source.lines > LINE_LIMIT && !LONG_FILES.iter().any(|(known, _)| known == path) {
            let what = format!(
                "{} lines outside tests, {LINE_LIMIT} is the limit; split it or give a reason in the check",
                source.lines
            );
            found.push(Violation::new(format!("crates/{path}"), what));
        }
    }
    found
}

/// Where the file of a module may be, as prefixes: `a/mod.rs` and `a.rs` differ.
fn module_files(parent: &str, module: &str) -> Vec<String> {
    let (folder, file) = parent.rsplit_once('/').unwrap_or(("", parent));
    let base = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    vec![format!("{base}/{module}.rs"), format!("{base}/{module}/")]
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

/// Whether a line holds the needle and not only the end of a longer name.
fn mentions(line: &str, needle: &str) -> bool {
    let whole = needle.starts_with(|first: char| first.is_ascii_alphabetic());
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !whole || !before.is_some_and(|ch| ch.is_alphanumeric() || ch == '_')
    })
}

fn children(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .map_err(|why| format!("{}: {why}", folder.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> Vec<String> {
        check_crate(&[(path.to_owned(), text.to_owned())]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_planted_violation_is_found_with_its_line() {
        for (path, line) in [
            ("session-coordinator/src/lib.rs", "use agent_client_protocol::schema;"),
            ("zcode-runtime/src/lib.rs", "let x = \"resources/app.asar\";"),
            ("zcode-runtime/bridge/host-bridge.cjs", "const x = 'out/host/index.js';"),
            ("acp-server/src/lib.rs", "println!(\"x\");"),
            ("acp-server/src/lib.rs", "eprintln!(\"x\");"),
            ("client/src/lib.rs", "std::io::stdout().lock();"),
            ("acp-server/src/lib.rs", "std::process::Command::new(\"x\");"),
            ("client/src/lib.rs", "std::process::exit(1);"),
        ] {
            let found = one(path, &format!("// first line\n{line}\n"));
            assert_eq!(found.len(), 1, "{path} {line}: {found:?}");
            assert!(found[0].starts_with(&format!("crates/{path}:2: ")), "{found:?}");
        }
    }

    #[test]
    fn owners_tests_comments_and_longer_names_are_exempt() {
        for (path, text) in [
            ("acp-server/src/lib.rs", "use agent_client_protocol::schema;"),
            ("runtime-discovery/src/layout.rs", "const A: &str = \"app.asar\";"),
            ("cli/src/main.rs", "println!(\"x\");"),
            (
                "client/src/lib.rs",
                "// println! and app.asar\nfn x() { pretty_print!(); let a = \"println!\"; }",
            ),
            ("client/tests/x.rs", "println!(\"app.asar\");"),
            ("client/src/lib.rs", "#[cfg(test)]\nmod tests { fn x() { println!(\"app.asar\"); } }"),
            ("client/src/x/tests.rs", "println!(\"app.asar\");"),
        ] {
            assert!(one(path, text).is_empty(), "{path} {text}");
        }
        let found = check_crate(&[
            ("client/src/a.rs".to_owned(), "#[cfg(test)]\nmod fake;".to_owned()),
            ("client/src/a/fake.rs".to_owned(), "println!();".to_owned()),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_long_file_needs_a_reason_and_tests_do_not_count() {
        let long = "fn a() {}\n".repeat(LINE_LIMIT);
        assert!(one("client/src/lib.rs", &long).is_empty());
        assert!(
            one("client/src/lib.rs", &format!("{long}#[cfg(test)]\nmod tests {{\n{long}}}\n")).is_empty()
        );
        assert_eq!(one("client/src/lib.rs", &format!("{long}fn b() {{}}\n")).len(), 1);
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("crates/x");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/lib.rs"), "//! Nothing.\n").unwrap();
        for (manifest, count) in [("[lints]\nworkspace = true\n", 0), ("[package]\nname = \"x\"\n", 1)] {
            fs::write(folder.join("Cargo.toml"), manifest).unwrap();
            assert_eq!(check(root.path()).unwrap().len(), count, "{manifest}");
        }
    }

    #[test]
    fn a_scan_that_finds_no_source_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("crates")).unwrap();
        assert!(check(root.path()).is_err());
    }
}
