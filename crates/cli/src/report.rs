//! How a failure looks to a person: what failed, the code, the facts, and the next step.

use std::fmt::Write as _;

use client::RequestError;
use diag_model::{Detail, ErrorCode, Failure};
use serde_json::Value;

use crate::sanitize::{visible, visible_line};

/// Renders a failure.
pub(crate) fn failure(failure: &Failure) -> String {
    let mut out = headline(failure.cause_text());
    code_line(&mut out, Some(failure.code.as_str()), Some(failure.phase.as_str()));
    for (detail, value) in failure.details() {
        fact(&mut out, detail.as_str(), value);
    }
    next(&mut out, failure.next_step_text());
    out
}

/// Renders a usage error that the parser could not see.
pub(crate) fn usage(text: &str) -> String {
    format!("error: {}\n\nFor more information, try '--help'.\n", visible(text.trim_end()))
}

/// Renders an error an agent answered with. Our own carries the same facts in its data; a foreign one has its message.
pub(crate) fn request_error(error: &RequestError) -> String {
    let known = error.stable_code().and_then(error_code);
    // The message is "cause; next step". They are told apart only when we know the step.
    let (cause, step) = match error.message.rsplit_once("; ") {
        Some((cause, step)) if known.is_some() => (cause, Some(step)),
        _ => (error.message.as_str(), None),
    };
    let mut out = headline(cause);
    let data = error.data.as_ref().and_then(Value::as_object);
    let text = |key: &str| data.and_then(|data| data.get(key)).and_then(Value::as_str);
    code_line(&mut out, text("code"), text("phase"));
    for (key, value) in data.into_iter().flatten() {
        match value {
            _ if matches!(key.as_str(), "code" | "phase") => {}
            Value::String(value) => fact(&mut out, key, value),
            Value::Array(values) => {
                let lines: Vec<String> = values
                    .iter()
                    .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                    .collect();
                fact(&mut out, key, &lines.join("\n"));
            }
            value => fact(&mut out, key, &value.to_string()),
        }
    }
    if let Some(step) = step.or(known.map(ErrorCode::next_step)) {
        next(&mut out, step);
    }
    out
}

/// The catalogue's entry for a published code.
pub(crate) fn error_code(code: &str) -> Option<ErrorCode> {
    ErrorCode::ALL.iter().copied().find(|known| known.as_str() == code)
}

fn headline(cause: &str) -> String {
    format!("error: {}\n", visible_line(cause))
}

fn code_line(out: &mut String, code: Option<&str>, phase: Option<&str>) {
    let facts = [("code", code), ("phase", phase)];
    let facts: Vec<String> = facts
        .iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} {}", visible_line(value))))
        .collect();
    if !facts.is_empty() {
        let _ = writeln!(out, "  {}", facts.join("  "));
    }
}

fn fact(out: &mut String, name: &str, value: &str) {
    let value = visible(value);
    // A list of places reads one a line.
    let list = name == Detail::Tried.as_str();
    let lines: Vec<&str> =
        if list { value.split(['\n', ';']).map(str::trim).collect() } else { value.lines().collect() };
    match lines.as_slice() {
        [] => {}
        [line] => {
            let _ = writeln!(out, "  {}: {line}", visible_line(name));
        }
        lines => {
            let _ = writeln!(out, "  {}:", visible_line(name));
            for line in lines.iter().filter(|line| !line.is_empty()) {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
}

fn next(out: &mut String, step: &str) {
    let _ = writeln!(out, "next: {}", visible_line(step));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_reads_from_cause_to_next_step() {
        let shown = failure(
            &Failure::new(ErrorCode::HashMismatch)
                .with(Detail::File, "resources/app.asar")
                .with(Detail::Detected, "aa")
                .with(Detail::Expected, "bb"),
        );
        insta::assert_snapshot!(shown, @r"
        error: a ZCode file differs from the verified one
          code ZA204  phase verify
          file: resources/app.asar
          detected: aa
          expected: bb
        next: reinstall the supported ZCode version
        ");
    }

    #[test]
    fn an_agents_error_reads_the_same() {
        let error = RequestError {
            code: -32603,
            message: "ZCode was not found; install ZCode or name its folder with --zcode-install".into(),
            data: Some(
                json!({"code": "ZA101", "phase": "discover", "tried": "/opt/ZCode: none; /b\u{1b}[1m: none"}),
            ),
        };
        insta::assert_snapshot!(request_error(&error), @r"
        error: ZCode was not found
          code ZA101  phase discover
          tried:
            /opt/ZCode: none
            /b\x1b[1m: none
        next: install ZCode or name its folder with --zcode-install
        ");
    }

    #[test]
    fn a_foreign_error_keeps_its_message() {
        let error = RequestError { code: -32603, message: "a; b".into(), data: None };
        assert_eq!(request_error(&error), "error: a; b\n");
    }
}
