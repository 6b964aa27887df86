//! What happens to every text before it becomes part of a record: redaction, home directory, control characters, length.

use std::fmt::{self, Write as _};

use diag_model::{redact, redact_home};

/// The longest text of one fact, in bytes, the mark of a cut not counted.
pub(crate) const TEXT_LIMIT: usize = 512;

/// Stands at the end of a text that was cut.
pub(crate) const CUT: &str = "...[cut]";

/// How much is looked at: redaction must see a secret whole, so it happens before the cut.
const INPUT_LIMIT: usize = 4 * TEXT_LIMIT;

/// Text of an event, collected up to a limit; a huge value costs no more than the limit.
#[derive(Default)]
pub(crate) struct Collected {
    text: String,
    cut: bool,
}

impl Collected {
    pub(crate) fn of(value: &dyn fmt::Debug) -> Self {
        let mut collected = Self::default();
        // The error says that the limit is reached, which `cut` remembers.
        let _ = write!(collected, "{value:?}");
        collected
    }

    pub(crate) fn of_str(text: &str) -> Self {
        let mut collected = Self::default();
        let _ = collected.write_str(text);
        collected
    }

    pub(crate) fn raw(&self) -> &str {
        &self.text
    }

    /// The text as it may stand in a record.
    pub(crate) fn sanitize(mut self, home: Option<&str>) -> String {
        if self.cut {
            // The last word may be half a secret, which nobody would recognise.
            let end = self.text.rfind(char::is_whitespace).unwrap_or(0);
            self.text.truncate(end);
        }
        let known = home.map_or_else(|| self.text.as_str().into(), |home| redact_home(&self.text, home));
        let text = redact(&known);
        let mut out = String::with_capacity(text.len().min(TEXT_LIMIT));
        for ch in text.chars() {
            let before = out.len();
            push_visible(&mut out, ch);
            if out.len() > TEXT_LIMIT {
                out.truncate(before);
                self.cut = true;
                break;
            }
        }
        if self.cut {
            out.push_str(CUT);
        }
        out
    }
}

impl fmt::Write for Collected {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = INPUT_LIMIT - self.text.len();
        if piece.len() <= room {
            self.text.push_str(piece);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| piece.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&piece[..end]);
        self.cut = true;
        Err(fmt::Error)
    }
}

/// Appends a character so that it shows: terminal escapes, line breaks and direction marks become text.
fn push_visible(out: &mut String, ch: char) {
    let hidden = ch.is_control()
        || matches!(ch, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    if hidden {
        out.extend(ch.escape_default());
    } else {
        out.push(ch);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_cut_with_a_mark_and_never_within_a_secret() {
        let long = Collected::of_str(&"word ".repeat(1000)).sanitize(None);
        assert!(long.len() <= TEXT_LIMIT + CUT.len() && long.ends_with(CUT));

        let secret = format!("{} sk-{}", "w ".repeat(INPUT_LIMIT / 2 - 6), "s3cret".repeat(20));
        assert!(!Collected::of_str(&secret).sanitize(None).contains("s3cret"));
        assert_eq!(Collected::of_str(&"x".repeat(INPUT_LIMIT + 1)).sanitize(None), CUT);
    }

    #[test]
    fn control_characters_and_the_home_directory_do_not_show() {
        let text = Collected::of_str("/data/me/x\u{1b}[31m\r\n\u{202e}\u{9b}").sanitize(Some("/data/me"));
        assert_eq!(text, "~/x\\u{1b}[31m\\r\\n\\u{202e}\\u{9b}");
    }

    proptest! {
        #[test]
        fn nothing_invisible_and_nothing_long_comes_out(text in "\\PC{0,40}|[\\x00-\\x7f]{0,3000}", known in any::<bool>()) {
            let out = Collected::of_str(&text).sanitize(known.then_some("/home/me"));
            prop_assert!(out.len() <= TEXT_LIMIT + CUT.len());
            prop_assert!(!out.chars().any(char::is_control));
        }
    }
}
