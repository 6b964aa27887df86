//! One occurrence of an error.

use std::borrow::Cow;
use std::fmt;

use crate::catalogue::ErrorCode;
use crate::record::Phase;

/// The longest `message` a client gets to see, in characters.
pub const MESSAGE_LIMIT: usize = 200;

/// A named fact about a failure. The set is closed so that nothing secret can slip in under a free key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Detail {
    /// The parameter or content block at fault.
    Field,
    /// What was found.
    Detected,
    /// What would have been right.
    Expected,
    /// A file of the install, relative to its root, or the root itself.
    File,
    /// All places that were tried, with the reason each was left.
    Tried,
    /// The neutral name of the host operation.
    Operation,
    /// Exit code of a process.
    ExitCode,
    /// Signal that ended a process.
    Signal,
    /// How long the host had been up, milliseconds.
    UptimeMs,
    /// The last request that was sent to the host.
    LastRequest,
    /// The last stderr line, redacted and capped.
    Stderr,
    /// Code given by the provider or by ZCode.
    UpstreamCode,
    /// Event type or kind outside the contract.
    Unknown,
    /// How long was waited, milliseconds.
    WaitedMs,
    /// The contract in force.
    Contract,
    /// The session concerned.
    Session,
}

impl Detail {
    /// The key under which the fact appears in `data`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Detail::Field => "field",
            Detail::Detected => "detected",
            Detail::Expected => "expected",
            Detail::File => "file",
            Detail::Tried => "tried",
            Detail::Operation => "operation",
            Detail::ExitCode => "exitCode",
            Detail::Signal => "signal",
            Detail::UptimeMs => "uptimeMs",
            Detail::LastRequest => "lastRequest",
            Detail::Stderr => "stderr",
            Detail::UpstreamCode => "upstreamCode",
            Detail::Unknown => "unknown",
            Detail::WaitedMs => "waitedMs",
            Detail::Contract => "contract",
            Detail::Session => "sessionId",
        }
    }
}

/// A failure as a user meets it: what failed, why, and the next step.
///
/// `cause` and details must be free of secrets, prompt text and tool text: whoever builds a failure from foreign text
/// redacts it first.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The stable code.
    pub code: ErrorCode,
    /// Where it happened.
    pub phase: Phase,
    cause: Cow<'static, str>,
    next_step: Cow<'static, str>,
    details: Vec<(Detail, String)>,
}

impl Failure {
    /// A failure with the catalogue's own words.
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            phase: code.phase(),
            cause: Cow::Borrowed(code.cause()),
            next_step: Cow::Borrowed(code.next_step()),
            details: Vec::new(),
        }
    }

    /// Replaces the cause; newlines become spaces.
    #[must_use]
    pub fn cause(mut self, cause: impl AsRef<str>) -> Self {
        self.cause = Cow::Owned(one_line(cause.as_ref()));
        self
    }

    /// Replaces the next step.
    #[must_use]
    pub fn next_step(mut self, next: impl AsRef<str>) -> Self {
        self.next_step = Cow::Owned(one_line(next.as_ref()));
        self
    }

    /// Says in which phase it really happened.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    /// Adds a fact. A second value for the same name replaces the first.
    #[must_use]
    pub fn with(mut self, detail: Detail, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        match self.details.iter_mut().find(|(known, _)| *known == detail) {
            Some(entry) => entry.1 = value,
            None => self.details.push((detail, value)),
        }
        self
    }

    /// The cause alone.
    pub fn cause_text(&self) -> &str {
        &self.cause
    }

    /// The next step alone.
    pub fn next_step_text(&self) -> &str {
        &self.next_step
    }

    /// The facts, in the order they were added.
    pub fn details(&self) -> &[(Detail, String)] {
        &self.details
    }

    /// One fact.
    pub fn detail(&self, detail: Detail) -> Option<&str> {
        self.details.iter().find(|(known, _)| *known == detail).map(|(_, value)| value.as_str())
    }

    /// One sentence with cause and next step, at most [`MESSAGE_LIMIT`] characters. The next step survives a cut: it is
    /// what the reader needs. What stands behind the last `; ` is the whole next step.
    pub fn message(&self) -> String {
        let next = self.next_step.replace("; ", ", ");
        let next = truncate(&next, MESSAGE_LIMIT / 2);
        let room = MESSAGE_LIMIT.saturating_sub(next.chars().count() + 2);
        format!("{}; {}", truncate(&self.cause, room), next)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}] {}", self.code, self.phase, self.cause)?;
        for (detail, value) in &self.details {
            write!(f, " {}={value:?}", detail.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for Failure {}

/// Makes text fit on one line: control characters (terminal escapes included) and line breaks become single spaces.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut gap = false;
    for ch in text.chars() {
        if ch.is_control() || ch.is_whitespace() || matches!(ch, '\u{2028}' | '\u{2029}') {
            gap = !out.is_empty();
        } else {
            if gap {
                out.push(' ');
                gap = false;
            }
            out.push(ch);
        }
    }
    out
}

fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        None => Cow::Borrowed(text),
        Some(_) if limit < 4 => Cow::Owned(text.chars().take(limit).collect()),
        Some(_) => Cow::Owned(text.chars().take(limit - 3).chain("...".chars()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique_and_well_formed() {
        let mut seen = std::collections::HashSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.as_str()), "{code} twice");
            assert!(code.as_str().len() == 5 && code.as_str().starts_with("ZA"));
            let message = Failure::new(*code).message();
            assert!(
                message.chars().count() <= MESSAGE_LIMIT,
                "{code}: {} characters",
                message.chars().count()
            );
            let next = message.rsplit_once("; ").unwrap().1;
            assert_eq!(next, code.next_step().replace("; ", ", "), "{code}: the next step is cut");
        }
    }

    #[test]
    fn a_long_cause_keeps_the_next_step() {
        let failure = Failure::new(ErrorCode::HostExited).cause("x".repeat(5000)).next_step("do this");
        assert_eq!(failure.message().chars().count(), MESSAGE_LIMIT);
        assert!(failure.message().ends_with("; do this"));
    }

    #[test]
    fn text_of_others_becomes_one_plain_line() {
        let failure = Failure::new(ErrorCode::TurnFailed).cause("a\r\n\tb\u{1b}[31mc\u{2028}d");
        assert_eq!(failure.cause_text(), "a b [31mc d");
    }

    #[test]
    fn a_detail_is_replaced_not_repeated() {
        let failure = Failure::new(ErrorCode::Internal).with(Detail::ExitCode, 1).with(Detail::ExitCode, 2);
        assert_eq!(failure.details(), &[(Detail::ExitCode, "2".to_owned())]);
    }
}
