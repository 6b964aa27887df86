//! What changes from run to run, replaced by names. The one place for it, so that snapshots agree.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Patterns and what stands for them, in the order they are applied.
const RULES: &[(&str, &str)] = &[
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "[uuid]"),
    (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})", "[time]"),
    (r#""pid":\s*\d+"#, r#""pid":"[pid]""#),
    (r#""(ms|uptimeMs|waitedMs)":\s*"?\d+"?"#, r#""$1":"[ms]""#),
    (r"\bzcode-acp(?: |/)\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?", "zcode-acp [version]"),
    (r"\b[0-9a-f]{64}\b", "[sha256]"),
];

static COMPILED: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    RULES.iter().filter_map(|(pattern, name)| Some((Regex::new(pattern).ok()?, *name))).collect()
});

/// Redacts text. `paths` are directories of this run with the names that stand for them; a longer one goes first.
pub fn redact(text: &str, paths: &[(&Path, &str)]) -> String {
    let mut out = text.to_owned();
    let mut paths: Vec<_> = paths.iter().map(|(path, name)| (path.display().to_string(), *name)).collect();
    paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    for (path, name) in paths {
        out = out.replace(&path, name);
    }
    for (pattern, name) in COMPILED.iter() {
        out = pattern.replace_all(&out, *name).into_owned();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_a_pattern() {
        assert_eq!(COMPILED.len(), RULES.len());
    }

    #[test]
    fn what_changes_gets_a_name() {
        let text = r#"{"id":"5f0c2d9e-1111-4222-8333-abcdefabcdef","at":"2026-01-02T03:04:05.678Z","pid": 77,"ms":12,"cwd":"/tmp/a/work"}"#;
        assert_eq!(
            redact(text, &[(Path::new("/tmp/a"), "[root]"), (Path::new("/tmp/a/work"), "[cwd]")]),
            r#"{"id":"[uuid]","at":"[time]","pid":"[pid]","ms":"[ms]","cwd":"[cwd]"}"#
        );
        assert_eq!(redact("zcode-acp 0.1.0 (x)", &[]), "zcode-acp [version] (x)");
    }
}
