//! The scenario reader takes any text without falling over, and says where it went wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

use proptest::prelude::*;
use simulator::{Scenario, builtin};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Scenario::parse(&text);
    }

    /// A built-in file with one piece cut out or put in is read or refused, and a refusal names a line of the file.
    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0..builtin().len(), at in any::<prop::sample::Index>(), cut in 0..40usize, put in "[\\[\\]{}=\"$a-z0-9\\n]{0,6}",
    ) {
        let text = builtin()[which].text();
        let start = at.index(text.len());
        let end = (start + cut).min(text.len());
        prop_assume!(text.is_char_boundary(start) && text.is_char_boundary(end));
        let damaged = format!("{}{put}{}", &text[..start], &text[end..]);
        if let Err(error) = Scenario::parse(&damaged)
            && let Some(line) = error.line
        {
            prop_assert!(line >= 1 && line <= damaged.matches('\n').count() + 1);
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
