//! Makes foreign text fit to be shown: one short line, without what looks like a secret.
//!
//! Used for what the host prints and for its error messages. It errs on the side of hiding.

use std::borrow::Cow;
use std::sync::LazyLock;

use diag_model::one_line;
use regex::{Captures, Regex};

/// Longest result, characters.
const LIMIT: usize = 400;
/// Longest text that is looked at, bytes. Longer is cut first, so that a flood costs nothing.
const INPUT_LIMIT: usize = 4096;

const HIDDEN: &str = "[redacted]";

struct Rule {
    pattern: Regex,
    replacement: &'static str,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let rule = |pattern: &str, replacement| {
        #[expect(clippy::expect_used, reason = "compiled-in patterns; a test applies all of them")]
        let pattern = Regex::new(pattern).expect("the pattern is valid");
        Rule { pattern, replacement }
    };
    vec![
        rule(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", "$1 [redacted]"),
        rule(r"enc:v1:[A-Za-z0-9._~+/=-]+", HIDDEN),
        rule(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?", HIDDEN),
        rule(r"(?i)\b(?:sk|pk|api|key)[-_][A-Za-z0-9_-]{12,}", HIDDEN),
        rule(r"\b[A-Za-z0-9]{20,}\.[A-Za-z0-9_-]{12,}", HIDDEN),
        rule(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@]+@", "$1[redacted]@"),
        rule(
            r"(?i)([?&][^=&\s]*(?:token|key|secret|passw|auth|sig|code|cookie)[^=&\s]*=)[^&\s#]+",
            "$1[redacted]",
        ),
    ]
});

/// `name: value` where the name says that the value is secret. Counters such as `totalTokens: 12` stay.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a compiled-in pattern; a test applies it")]
    Regex::new(concat!(
        r#"(?i)([A-Za-z0-9_.-]*(?:authorization|cookie|credential|passw|secret|token|api[_-]?key)[A-Za-z0-9_-]*["']?"#,
        r#"\s*[:=]\s*["']?)([^\s"',;}&]+)"#,
    ))
    .expect("the pattern is valid")
});

/// One redacted, capped line.
pub(crate) fn line(text: &str) -> String {
    let mut end = text.len().min(INPUT_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = one_line(&text[..end]);
    for Rule { pattern, replacement } in &*RULES {
        if let Cow::Owned(changed) = pattern.replace_all(&out, *replacement) {
            out = changed;
        }
    }
    let named = NAMED.replace_all(&out, |found: &Captures<'_>| {
        let value = &found[2];
        if value.bytes().all(|byte| byte.is_ascii_digit()) || value.starts_with(HIDDEN) {
            found[0].to_owned()
        } else {
            format!("{}{HIDDEN}", &found[1])
        }
    });
    if let Cow::Owned(changed) = named {
        out = changed;
    }
    if let Some(home) = std::env::home_dir().as_deref().and_then(std::path::Path::to_str)
        && home.len() > 1
    {
        out = out.replace(home, "~");
    }
    match out.char_indices().nth(LIMIT) {
        Some((at, _)) => {
            out.truncate(at);
            out.push_str("...");
            out
        }
        None => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_hidden() {
        for (text, shown) in [
            ("401 for Bearer abcDEF123456", "401 for Bearer [redacted]"),
            ("header Authorization: Basic dXNlcjpwYXNz", "header Authorization: [redacted] [redacted]"),
            ("key sk-abcdefghijklmnop1234 refused", "key [redacted] refused"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2ln end", "jwt [redacted] end"),
            ("zhipu 0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp", "zhipu [redacted]"),
            ("value enc:v1:aa.bb.cc=", "value [redacted]"),
            ("proxy http://me:pass@proxy:8080/x", "proxy http://[redacted]@proxy:8080/x"),
            ("GET https://h/p?a=1&access_token=zzz&b=2", "GET https://h/p?a=1&access_token=[redacted]&b=2"),
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
        if home.as_os_str().len() > 1 {
            assert_eq!(line(&format!("open {}/x failed", home.display())), "open ~/x failed");
        }
    }

    #[test]
    fn the_result_is_one_short_line() {
        let out = line(&"é\n\u{1b}[31m".repeat(100_000));
        assert!(out.chars().count() <= LIMIT + 3);
        assert!(!out.contains(['\n', '\u{1b}']));
    }
}
