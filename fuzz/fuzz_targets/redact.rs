//! Redaction: it never panics, and what is redacted stays as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let once = diag_model::redact(text).into_owned();
    assert_eq!(diag_model::redact(&once), once);
});
