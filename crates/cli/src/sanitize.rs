//! Foreign text on its way to a terminal: control characters become visible, so that a file name or an answer cannot
//! move the cursor, recolour the screen or hide what a permission is about.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Makes text safe to show. Newlines and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(ch) = chars.next() {
        match ch {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push_str("\\r"),
            ch if is_unsafe(ch) => {
                // Writing to a string cannot fail.
                let _ = match u32::from(ch) {
                    code @ 0..=0xff => write!(out, "\\x{code:02x}"),
                    code => write!(out, "\\u{{{code:x}}}"),
                };
            }
            ch => out.push(ch),
        }
    }
    Cow::Owned(out)
}

/// Makes text safe to show within one line.
pub(crate) fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', " ")
}

fn is_unsafe(ch: char) -> bool {
    match ch {
        '\n' | '\t' => false,
        ch if ch.is_control() => true,
        // Line separators, and the marks that turn text around.
        '\u{2028}'
        | '\u{2029}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{061c}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_and_text_is_kept() {
        assert_eq!(visible("a\tb\nü 漢"), "a\tb\nü 漢");
        assert_eq!(visible("\x1b[2J\x07\u{9b}31m\x7f"), "\\x1b[2J\\x07\\x9b31m\\x7f");
        assert_eq!(visible("one\r\ntwo\rthree"), "one\ntwo\\rthree");
        assert_eq!(visible("rm \u{202e}txt.exe"), "rm \\u{202e}txt.exe");
        assert_eq!(visible_line("a\nb\tc"), "a\\nb c");
    }

    #[test]
    fn nothing_below_space_survives() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        assert!(visible(&all).chars().all(|ch| ch == '\n' || ch == '\t' || !ch.is_control()));
    }
}
