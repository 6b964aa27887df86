//! The scenarios that come with the program, and which one a prompt means.

use std::sync::{Arc, OnceLock};

use super::model::Scenario;

/// A built-in scenario.
#[derive(Debug, Clone)]
pub struct Builtin {
    name: &'static str,
    text: &'static str,
    scenario: Arc<Scenario>,
}

impl Builtin {
    /// Name, as `--simulated=NAME` takes it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// One sentence.
    pub fn description(&self) -> &str {
        self.scenario.description()
    }

    /// The file, to start one's own from.
    pub fn text(&self) -> &'static str {
        self.text
    }

    pub(crate) fn scenario(&self) -> Arc<Scenario> {
        Arc::clone(&self.scenario)
    }
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = &files![
    "tour",
    "greeting",
    "tool",
    "read",
    "edit",
    "bash",
    "slow",
    "question",
    "plan",
    "subagent",
    "background",
    "yolo-workspace",
    "evicted",
    "retry",
    "not-signed-in",
    "sign-in-expired",
    "rate-limit",
    "overload",
    "quota",
    "balance",
    "context-too-long",
    "model-unknown",
    "captcha",
    "network",
    "max-turns",
    "refusal",
    "crash-mid-turn",
    "silence",
    "host-hang",
    "garbage",
    "huge-frame",
    "duplicate-ask",
    "seq-disorder",
    "no-snapshot",
    "stdout-noise",
    "stderr-flood",
    "unknown-event",
    "missing-field",
    "flood",
    "flood-mixed",
    "paced",
];

/// All built-in scenarios, in the order a list should show them.
///
/// A file that does not parse is left out; a test makes sure there is none.
pub fn builtin() -> &'static [Builtin] {
    static ALL: OnceLock<Vec<Builtin>> = OnceLock::new();
    ALL.get_or_init(|| {
        FILES
            .iter()
            .filter_map(|&(name, text)| {
                let scenario = Scenario::parse(text).ok()?;
                Some(Builtin { name, text, scenario: Arc::new(scenario) })
            })
            .collect()
    })
}

/// The built-in scenario of this name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    builtin().iter().find(|one| one.name == name)
}

/// Which scenario a prompt means when none was named. `sim:NAME` anywhere at the start picks one for this prompt.
pub(crate) fn choose(prompt: &str) -> &'static str {
    let prompt = prompt.trim();
    let mut words = prompt.split_whitespace();
    let first =
        words.next().unwrap_or_default().trim_matches(|c: char| c.is_ascii_punctuation()).to_lowercase();
    let argument = words.next();
    if let Some(name) = prompt.split_whitespace().next().and_then(|word| word.strip_prefix("sim:"))
        && let Some(found) = find(name)
    {
        return found.name;
    }
    if prompt.to_lowercase().contains("use a tool") {
        return "tool";
    }
    match (first.as_str(), argument) {
        ("hello" | "hi", _) => "greeting",
        ("perm", _) => "edit",
        ("slow", _) => "slow",
        ("read", Some(path)) if path.contains(['/', '\\', '.']) => "read",
        ("term", Some(_)) => "bash",
        _ => "tour",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_has_its_own_name() {
        for (name, text) in FILES {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
            assert_eq!(scenario.name(), *name);
            assert!(!scenario.description().is_empty(), "{name}");
            assert!(!scenario.description().contains('\n'), "{name}");
        }
        assert_eq!(builtin().len(), FILES.len());
    }

    #[test]
    fn the_guide_lists_every_scenario_with_its_description() {
        let guide = include_str!("../../../../docs/simulator.md");
        for one in builtin() {
            let row = format!("| `{}` | {} |", one.name(), one.description());
            assert!(guide.contains(&row), "docs/simulator.md lacks: {row}");
        }
        let start = guide.find("```toml\n").unwrap() + 8;
        let example = &guide[start..start + guide[start..].find("```").unwrap()];
        assert_eq!(Scenario::parse(example).unwrap().name(), "rename");
    }

    #[test]
    fn the_prompt_chooses() {
        for (prompt, name) in [
            ("hello", "greeting"),
            ("Hello!\n\nhostname: x", "greeting"),
            ("please use a tool", "tool"),
            ("perm", "edit"),
            ("slow", "slow"),
            ("read /tmp/a b.txt", "read"),
            ("read the specification aloud", "tour"),
            ("term echo hi-there", "bash"),
            ("sim:rate-limit", "rate-limit"),
            ("sim:no-such", "tour"),
            ("fix the bug", "tour"),
            ("", "tour"),
        ] {
            assert_eq!(choose(prompt), name, "{prompt:?}");
        }
    }
}
