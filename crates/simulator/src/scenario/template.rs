//! `${name}` in the strings of a scenario.
//!
//! A closed set of names, so that a typing error is found when the file is read and not in the middle of a turn.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Values a scenario may refer to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vars {
    /// The prompt, whole.
    pub(crate) prompt: String,
    /// The prompt after its first word.
    pub(crate) arg: String,
    /// `arg` as an absolute path, resolved against the workspace.
    pub(crate) path: String,
    /// The workspace path.
    pub(crate) cwd: String,
    /// Answer to the last question or permission.
    pub(crate) answer: String,
    /// Round of the innermost `repeat`, from 1.
    pub(crate) n: u64,
    /// Session mode when the turn began.
    pub(crate) mode: String,
}

const NAMES: [&str; 8] = ["prompt", "arg", "path", "cwd", "answer", "n", "mode", "clock"];

impl Vars {
    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "prompt" => self.prompt.clone(),
            "arg" => self.arg.clone(),
            "path" => self.path.clone(),
            "cwd" => self.cwd.clone(),
            "answer" => self.answer.clone(),
            "n" => self.n.to_string(),
            "mode" => self.mode.clone(),
            // For measuring: when this was said, nanoseconds since 1970.
            "clock" => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
            }
            _ => return None,
        })
    }

    /// Fills in the names. `$$` is a dollar sign. What a value contains is never looked at again.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                out.push('$');
                rest = tail;
            } else if let Some((name, tail)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}'))
            {
                out.push_str(&self.get(name).unwrap_or_default());
                rest = tail;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        out
    }

    /// [`Vars::expand`] in every string of a value.
    pub(crate) fn expand_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.expand(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.expand_json(item)).collect()),
            Value::Object(members) => Value::Object(
                members.iter().map(|(key, item)| (key.clone(), self.expand_json(item))).collect(),
            ),
            other => other.clone(),
        }
    }
}

/// Says what is wrong with the names in a text.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            rest = tail;
        } else if let Some(inner) = after.strip_prefix('{') {
            let (name, tail) = inner.split_once('}').ok_or("`${` without `}`")?;
            if !NAMES.contains(&name) {
                return Err(format!("unknown name `${{{name}}}`, expected one of {}", NAMES.join(", ")));
            }
            rest = tail;
        } else {
            rest = after;
        }
    }
    Ok(())
}

/// [`check`] in every string of a value.
pub(crate) fn check_json(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().try_for_each(check_json),
        Value::Object(members) => members.values().try_for_each(check_json),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_once() {
        let vars = Vars { prompt: "${cwd} $$".into(), n: 3, ..Vars::default() };
        assert_eq!(vars.expand("<${prompt}> ${n} $$5 $x $"), "<${cwd} $$> 3 $5 $x $");
    }

    #[test]
    fn unknown_and_open_names_are_refused() {
        assert!(check("${prompt} $$ $5").is_ok());
        assert!(check("${promt}").unwrap_err().contains("promt"));
        assert!(check("${prompt").is_err());
    }
}
