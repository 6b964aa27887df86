//! The one place that ends the process without unwinding.

/// Ends the process at once.
pub(crate) fn now(code: i32) -> ! {
    #[expect(clippy::disallowed_methods, reason = "the binary decides when its process ends")]
    std::process::exit(code)
}
