//! How much of a tool's text is shown.

use serde_json::Value;

/// Output shown of one call, bytes. More is cut with a note of the full size.
pub const SHOWN_LIMIT: usize = 256 * 1024;

/// Input and diff shown of one call, bytes: larger than output, since it is what a person has to judge, and small enough
/// that a line with both stays below the 10 MiB some clients refuse.
pub const INPUT_LIMIT: usize = 2 * 1024 * 1024;

/// One string of an input beyond [`INPUT_LIMIT`], bytes.
const STRING_LIMIT: usize = 64 * 1024;

/// The beginning of a text, with a note if something is missing. `full` is the size before the host itself cut it.
pub(super) fn shown(text: &str, full: Option<u64>) -> String {
    let head = head(text, SHOWN_LIMIT);
    let size = full.unwrap_or(0).max(text.len() as u64);
    if head.len() == text.len() && full.is_none() {
        return head.to_owned();
    }
    format!("{head}\n[{} of {size} bytes shown]", head.len())
}

/// The longest beginning of at most `limit` bytes.
pub(super) fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// An input as it was, or with its long strings cut if it is very large.
pub(super) fn bounded_input(input: &Value) -> Value {
    if weight(input) <= INPUT_LIMIT {
        return input.clone();
    }
    let cut = cut(input);
    if weight(&cut) <= INPUT_LIMIT {
        cut
    } else {
        Value::String(format!("[{} bytes, not shown]", weight(input)))
    }
}

fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > STRING_LIMIT => {
            Value::String(format!("{}\n[{} bytes in all]", head(text, STRING_LIMIT), text.len()))
        }
        Value::Array(items) => Value::Array(items.iter().map(cut).collect()),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), cut(value))).collect())
        }
        other => other.clone(),
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>() + 2
        }
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cut_names_the_full_size_and_never_splits_a_character() {
        let text = "ä".repeat(SHOWN_LIMIT);
        let shown = shown(&text, None);
        assert!(shown.ends_with("[262144 of 524288 bytes shown]"), "{}", &shown[shown.len() - 60..]);
        assert_eq!(super::shown("short", None), "short");
        assert_eq!(super::shown("tail", Some(9000)), "tail\n[4 of 9000 bytes shown]");
    }

    #[test]
    fn a_large_input_keeps_its_shape() {
        let input = json!({"file_path": "a", "content": "x".repeat(3 * 1024 * 1024)});
        let bounded = bounded_input(&input);
        assert_eq!(bounded["file_path"], "a");
        assert!(bounded["content"].as_str().is_some_and(|text| text.ends_with("[3145728 bytes in all]")));
        let wide = Value::Array(vec![Value::String("y".repeat(1000)); 5000]);
        assert!(bounded_input(&wide).as_str().is_some_and(|note| note.contains("not shown")));
    }
}
