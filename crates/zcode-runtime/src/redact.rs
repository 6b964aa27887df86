//! Makes foreign text fit to be shown: one short line without what looks like a secret.
//!
//! Used for what the host prints and for its error messages. What a secret is, is said in one place for the whole program:
//! [`diag_model::redact`].

use diag_model::{one_line, redact, redact_home};

/// Longest result, characters.
const LIMIT: usize = 400;
/// Longest text that is looked at, bytes. Longer is cut first, so that a flood costs nothing.
const INPUT_LIMIT: usize = 4096;

/// One redacted, capped line.
pub(crate) fn line(text: &str) -> String {
    let line = one_line(cut(text));
    let mut out = redact(&line).into_owned();
    if let Some(home) = std::env::home_dir().as_deref().and_then(std::path::Path::to_str) {
        out = redact_home(&out, home).into_owned();
    }
    if let Some((at, _)) = out.char_indices().nth(LIMIT) {
        out.truncate(at);
        out.push_str("...");
    }
    out
}

/// The beginning, without the word that the cut goes through: half a key is not recognised as one.
fn cut(text: &str) -> &str {
    if text.len() <= INPUT_LIMIT {
        return text;
    }
    let head = &text[..text.floor_char_boundary(INPUT_LIMIT)];
    head.rfind(char::is_whitespace).map_or(head, |at| &head[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_hidden() {
        for (text, shown) in [
            ("401 for Bearer abcDEF123456", "401 for Bearer [redacted]"),
            ("key sk-abcdefghijklmnop1234 refused", "key [redacted] refused"),
            (r#"{"password":"hunter2","n":1}"#, r#"{"password":"[redacted]","n":1}"#),
            ("totalTokens: 1234", "totalTokens: 1234"),
            ("plain words stay", "plain words stay"),
        ] {
            assert_eq!(line(text), shown, "{text}");
        }
    }

    #[test]
    fn the_home_directory_is_not_named() {
        let home = std::env::home_dir().unwrap();
        if home.as_os_str().len() > 2 {
            assert_eq!(line(&format!("open {}/x failed", home.display())), "open ~/x failed");
        }
    }

    #[test]
    fn the_result_is_one_short_line() {
        let out = line(&"é\n\u{1b}[31m".repeat(100_000));
        assert!(out.chars().count() <= LIMIT + 3);
        assert!(!out.contains(['\n', '\u{1b}']));
    }

    #[test]
    fn a_secret_at_the_cut_leaves_nothing_behind() {
        // A long secret that gives way to a short word, and a second one that the limit goes through.
        let text = format!("Bearer {} sk-{}", "a".repeat(4000), "b".repeat(4000));
        assert_eq!(line(&text), "Bearer [redacted]");
    }
}
