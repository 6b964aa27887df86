//! Documents that state facts about the code: decisions are numbered without a gap, every dependency has its reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Violation;

const ADR: &str = "docs/adr";
const DEPENDENCIES: &str = "docs/dependencies.md";

pub(crate) fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let mut found = Vec::new();
    let mut decisions = Vec::new();
    let entries = fs::read_dir(root.join(ADR)).map_err(|why| format!("{ADR}: {why}"))?;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "README.md" {
            let text = fs::read_to_string(entry.path()).map_err(|why| format!("{ADR}/{name}: {why}"))?;
            decisions.push((name, text));
        }
    }
    decisions.sort();
    found.extend(check_decisions(&decisions));

    let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|why| format!("Cargo.toml: {why}"))?;
    let reasons =
        fs::read_to_string(root.join(DEPENDENCIES)).map_err(|why| format!("{DEPENDENCIES}: {why}"))?;
    found.extend(check_dependencies(&manifest, &reasons)?);
    Ok(found)
}

/// `0001-a-name.md`, `0002-…`: each with its number in the title and a status.
fn check_decisions(decisions: &[(String, String)]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, (name, text)) in decisions.iter().enumerate() {
        let number = format!("{:04}", index + 1);
        let mut complain = |what: String| found.push(Violation::new(format!("{ADR}/{name}"), what));
        if !(name.starts_with(&format!("{number}-"))
            && Path::new(name).extension().is_some_and(|ext| ext == "md"))
        {
            complain(format!("the next decision is {number}-….md"));
        }
        if !text.starts_with(&format!("# {number}. ")) {
            complain(format!("the title must begin with `# {number}. `"));
        }
        let status = text.lines().find_map(|line| line.strip_prefix("Status: "));
        if !status
            .is_some_and(|status| status.starts_with("accepted") || status.starts_with("superseded by "))
        {
            complain("needs a line `Status: accepted` or `Status: superseded by NNNN`".to_owned());
        }
    }
    if decisions.is_empty() {
        found.push(Violation::new(ADR, "there is no decision"));
    }
    found
}

/// Every external dependency of the workspace has a row `| \`name\` | why |`, and no row is left over.
fn check_dependencies(manifest: &str, reasons: &str) -> Result<Vec<Violation>, String> {
    let manifest: toml::Table = manifest.parse().map_err(|why| format!("Cargo.toml: {why}"))?;
    let listed = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(toml::Value::as_table)
        .ok_or("Cargo.toml has no [workspace.dependencies]")?;
    let used: BTreeSet<&str> = listed
        .iter()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let named: BTreeSet<&str> = reasons
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .filter(|(_, why)| !why.trim_matches(['|', ' ']).is_empty())
        .map(|(name, _)| name)
        .collect();
    let missing =
        used.difference(&named).map(|name| Violation::new(DEPENDENCIES, format!("`{name}` has no reason")));
    let left = named
        .difference(&used)
        .map(|name| Violation::new(DEPENDENCIES, format!("`{name}` is no dependency any more")));
    Ok(missing.chain(left).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn decisions_are_numbered_without_a_gap_and_have_a_status() {
        let first = decision("0001-a.md", "# 0001. A\n\nStatus: accepted\n");
        assert!(check_decisions(std::slice::from_ref(&first)).is_empty());
        for second in [
            decision("0003-b.md", "# 0003. B\n\nStatus: accepted\n"),
            decision("0002-b.md", "# B\n\nStatus: accepted\n"),
            decision("0002-b.md", "# 0002. B\n\nStatus: maybe\n"),
            decision("notes.md", "# 0002. B\n\nStatus: accepted\n"),
        ] {
            assert!(!check_decisions(&[first.clone(), second.clone()]).is_empty(), "{second:?}");
        }
        assert!(!check_decisions(&[]).is_empty());
    }

    #[test]
    fn every_dependency_has_a_reason_and_no_reason_is_left_over() {
        let manifest = "[workspace.dependencies]\nown = { path = \"x\" }\nserde = \"1\"\n";
        assert!(check_dependencies(manifest, "| `serde` | formats |").unwrap().is_empty());
        assert_eq!(check_dependencies(manifest, "| `serde` | |").unwrap().len(), 1);
        assert_eq!(check_dependencies(manifest, "serde").unwrap().len(), 1);
        assert_eq!(check_dependencies(manifest, "| `serde` | formats |\n| `gone` | x |").unwrap().len(), 1);
    }
}
