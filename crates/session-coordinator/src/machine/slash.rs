//! Slash commands that the host does not run when they come as text.

/// A command at the beginning of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slash {
    /// `/compact [instructions]`.
    Compact(Option<String>),
    /// `/goal [action] [objective]`.
    Goal {
        /// The host's name of the action.
        action: &'static str,
        /// The goal.
        objective: Option<String>,
    },
    /// `/plan [prompt]`.
    Plan(String),
}

/// The command of a prompt, if it begins with one that is not sent as text.
pub(crate) fn parse(text: &str) -> Option<Slash> {
    let text = text.trim();
    let (name, rest) = text.strip_prefix('/').map(word)?;
    match name {
        "compact" => Some(Slash::Compact(said(rest))),
        "plan" => Some(Slash::Plan(rest.to_owned())),
        "goal" => {
            let (action, objective) = word(rest);
            Some(match action {
                "" | "show" if objective.is_empty() => Slash::Goal { action: "show", objective: None },
                "pause" if objective.is_empty() => Slash::Goal { action: "pause", objective: None },
                "resume" if objective.is_empty() => Slash::Goal { action: "resume", objective: None },
                "clear" if objective.is_empty() => Slash::Goal { action: "clear", objective: None },
                "set" if !objective.is_empty() => Slash::Goal { action: "set", objective: said(objective) },
                "replace" if !objective.is_empty() => {
                    Slash::Goal { action: "replace", objective: said(objective) }
                }
                _ => Slash::Goal { action: "set", objective: said(rest) },
            })
        }
        _ => None,
    }
}

fn word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(action: &'static str, objective: Option<&str>) -> Slash {
        Slash::Goal { action, objective: objective.map(str::to_owned) }
    }

    #[test]
    fn commands_are_told_from_text_that_looks_like_them() {
        assert_eq!(parse("/compact"), Some(Slash::Compact(None)));
        assert_eq!(parse(" /compact keep the API\n"), Some(Slash::Compact(Some("keep the API".into()))));
        assert_eq!(parse("/plan"), Some(Slash::Plan(String::new())));
        assert_eq!(parse("/plan\nfirst this\nthen that"), Some(Slash::Plan("first this\nthen that".into())));
        for text in ["/planet", "compact", "please /compact", "/review it", "/", "", "/ compact"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_goal_without_a_known_action_is_set() {
        assert_eq!(parse("/goal"), Some(goal("show", None)));
        assert_eq!(parse("/goal pause"), Some(goal("pause", None)));
        assert_eq!(parse("/goal set green tests"), Some(goal("set", Some("green tests"))));
        assert_eq!(parse("/goal replace it all"), Some(goal("replace", Some("it all"))));
        assert_eq!(parse("/goal all tests pass"), Some(goal("set", Some("all tests pass"))));
        assert_eq!(parse("/goal clear the table"), Some(goal("set", Some("clear the table"))));
    }
}
