//! The terminal stream of a command: what is new in tails that replace each other.

use zcode_runtime::model::ToolResult;

use crate::presentation::SHOWN_LIMIT;

/// How far the output of one command has been shown, bytes.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    seen: u64,
}

impl Terminal {
    /// The part of a tail that is new, by the number of bytes written so far. Without that number nothing can be told
    /// apart, so the result shows it.
    pub(crate) fn tail(&mut self, tail: &str, total: Option<u64>) -> Option<String> {
        let total = total?;
        let new = total.checked_sub(self.seen).filter(|new| *new > 0)?;
        self.seen = total;
        Some(last(tail, new))
    }

    /// What the result has beyond what was shown.
    pub(crate) fn rest(&mut self, result: &ToolResult) -> Option<String> {
        let held = result.content.len() as u64;
        let total = result.original_bytes.filter(|_| result.truncated).unwrap_or(held).max(held);
        let new = total.checked_sub(self.seen).filter(|new| *new > 0)?;
        let fresh = self.seen == 0;
        self.seen = total;
        let text = if total == held {
            let from = usize::try_from(held - new).unwrap_or(usize::MAX);
            &result.content[result.content.ceil_char_boundary(from)..]
        } else if fresh {
            &result.content
        } else {
            // What the host cut out is not known by place, so nothing is shown twice.
            return Some(format!("[{new} bytes not shown]\n"));
        };
        let shown = &text[..text.floor_char_boundary(SHOWN_LIMIT)];
        let missing = (text.len() - shown.len()) as u64 + (total - held);
        Some(if missing == 0 { shown.to_owned() } else { format!("{shown}\n[{missing} bytes not shown]\n") })
    }
}

/// The last `new` bytes of a tail, with a line for those that it does not hold.
fn last(tail: &str, new: u64) -> String {
    let held = tail.len() as u64;
    if new > held {
        return format!("[{} bytes not shown]\n{tail}", new - held);
    }
    let from = usize::try_from(held - new).unwrap_or(usize::MAX);
    tail[tail.floor_char_boundary(from)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(content: &str, original: Option<u64>) -> ToolResult {
        ToolResult {
            success: true,
            content: content.to_owned(),
            display: None,
            exit_code: Some(0),
            truncated: original.is_some(),
            original_bytes: original,
        }
    }

    #[test]
    fn tails_append_what_is_new_by_byte_count_and_say_what_was_missed() {
        let mut terminal = Terminal::default();
        assert_eq!(terminal.tail("one\n", Some(4)).as_deref(), Some("one\n"));
        assert_eq!(terminal.tail("one\ntwo\n", Some(8)).as_deref(), Some("two\n"));
        assert_eq!(terminal.tail("one\ntwo\n", Some(8)), None, "the same again");
        assert_eq!(terminal.tail("tail\n", Some(20)).as_deref(), Some("[7 bytes not shown]\ntail\n"));
        assert_eq!(terminal.tail("older", Some(5)), None, "an older one");
        assert_eq!(terminal.tail("unknown", None), None);
    }

    #[test]
    fn the_result_sends_only_what_is_missing() {
        let mut terminal = Terminal::default();
        terminal.tail("one\n", Some(4));
        assert_eq!(terminal.rest(&result("one\ntwo\n", None)).as_deref(), Some("two\n"));
        assert_eq!(terminal.rest(&result("one\ntwo\n", None)), None);
        assert_eq!(Terminal::default().rest(&result("all", None)).as_deref(), Some("all"));
        assert_eq!(Terminal::default().rest(&result("", None)), None);
        let cut = Terminal::default().rest(&result("head", Some(10)));
        assert_eq!(cut.as_deref(), Some("head\n[6 bytes not shown]\n"));
        let mut terminal = Terminal::default();
        terminal.tail("one\n", Some(4));
        assert_eq!(terminal.rest(&result("one\n", Some(10))).as_deref(), Some("[6 bytes not shown]\n"));
    }

    #[test]
    fn no_character_is_split() {
        let mut terminal = Terminal::default();
        terminal.tail("ä", Some(1));
        assert_eq!(terminal.rest(&result("äb", None)).as_deref(), Some("b"));
    }
}
