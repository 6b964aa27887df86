//! Words for what the host says when something fails.
//!
//! The host's top message is often only "Turn execution failed"; the attribution and the message underneath say more. What
//! kind of trouble it is follows from codes first, then from words, then from the HTTP status.

use diag_model::{Detail, ErrorCode, Failure};
use serde_json::Value;
use zcode_protocol::task_v1::error::ErrorDetail;
use zcode_protocol::task_v1::event::name;

use super::TaskV1;
use crate::client::{RemoteError, Trouble, millis};
use crate::model::{CallError, Refusal};
use crate::redact;

/// Codes of providers and of ZCode, as they are written.
const CODES: &[(ErrorCode, &[&str])] = &[
    (ErrorCode::SignInExpired, &["1006", "3007"]),
    (ErrorCode::SignInRequired, &["provider_not_ready", "provider_not_configured"]),
    (
        ErrorCode::RateLimited,
        &["1302", "1303", "1305", "2007", "3002", "model_rate_limited", "rate_limit_error"],
    ),
    (ErrorCode::Overloaded, &["1312", "overloaded_error"]),
    (
        ErrorCode::QuotaExceeded,
        &[
            "1308",
            "1310",
            "1304",
            "1313",
            "1316",
            "1317",
            "1318",
            "1319",
            "1320",
            "1321",
            "3008",
            "3009",
            "3010",
            "1005",
            "insufficient_quota",
        ],
    ),
    (ErrorCode::PlanInsufficient, &["1113", "1309", "1311", "1008", "1314", "1315"]),
    (ErrorCode::ContextTooLong, &["1261", "model_context_exceeded"]),
    (ErrorCode::ModelUnknown, &["3006", "model_not_found"]),
    (ErrorCode::NetworkFailed, &["model_request_timeout"]),
];

/// Words in messages, lower case.
const WORDS: &[(ErrorCode, &[&str])] = &[
    (ErrorCode::DesktopOnlyPlan, &["clientrequestsigningv4error", "client signing credential"]),
    (ErrorCode::SignInRequired, &["provider_not_ready", "provider_not_configured"]),
    (ErrorCode::SignInExpired, &["provider authentication failed"]),
    (ErrorCode::QuotaExceeded, &["insufficient_quota"]),
    (ErrorCode::ContextTooLong, &["model_context_exceeded"]),
    (ErrorCode::ModelUnknown, &["model_not_found"]),
    (ErrorCode::RateLimited, &["model_rate_limited", "rate_limit_error"]),
    (ErrorCode::Overloaded, &["overloaded_error"]),
    (
        ErrorCode::NetworkFailed,
        &[
            "network connection failed",
            "proxy connection failed",
            "tls validation failed",
            "model_request_timeout",
        ],
    ),
];

/// Messages that say nothing.
const GENERIC: &[&str] = &["turn execution failed", "unknown_error", "unknown error", "error"];

fn by_code(code: &str, headers_code: i64) -> Option<ErrorCode> {
    if code.parse() == Ok(headers_code) {
        return Some(ErrorCode::DesktopOnlyPlan);
    }
    CODES.iter().find(|(_, codes)| codes.contains(&code)).map(|(family, _)| *family)
}

fn by_words(text: &str) -> Option<ErrorCode> {
    let text = text.to_ascii_lowercase();
    WORDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word))).map(|(family, _)| *family)
}

fn by_status(status: &str) -> Option<ErrorCode> {
    match status {
        "401" | "403" => Some(ErrorCode::SignInExpired),
        "429" => Some(ErrorCode::RateLimited),
        "529" => Some(ErrorCode::Overloaded),
        _ => None,
    }
}

fn is_generic(text: &str) -> bool {
    GENERIC.contains(&text.trim().trim_end_matches('.').to_ascii_lowercase().as_str())
}

/// The message of an error that says most.
pub(super) fn telling(error: &ErrorDetail<'_>) -> Option<String> {
    let reason = error.attribution.0.as_ref().and_then(|at| at.reason.0.as_deref());
    let (underlying, message) = (error.underlying_error_message.0.as_deref(), error.message.0.as_deref());
    // A reason that is one word is a code, not an explanation.
    let sentence = reason.filter(|reason| reason.trim().contains(' '));
    let said = [sentence, underlying, message, reason].into_iter().flatten();
    let mut said = said.filter(|text| !text.trim().is_empty());
    let first = said.clone().find(|text| !is_generic(text));
    first.or_else(|| said.next()).map(str::to_owned)
}

impl TaskV1 {
    /// A feature that the host does not have.
    pub(super) fn unavailable_feature(&self, operation: &'static str) -> Failure {
        let version = &self.contract.artifact.app_version;
        Failure::new(ErrorCode::SessionRefused)
            .cause(format!("ZCode {version} does not offer \"{operation}\""))
            .next_step("use a ZCode version that has it, or go on without it")
            .with(Detail::Operation, operation)
            .with(Detail::Detected, version)
    }

    /// A turn that failed.
    pub(super) fn turn_failure(&self, error: &ErrorDetail<'_>) -> Failure {
        let headers = self.contract.protocol.error_codes.provider_headers;
        let attribution = error.attribution.0.as_ref();
        let text = |text: &zcode_protocol::task_v1::Lenient<zcode_protocol::task_v1::Text<'_>>| {
            text.0.as_deref().filter(|text| !text.trim().is_empty()).map(str::to_owned)
        };
        let scalar = |code: &zcode_protocol::task_v1::Lenient<zcode_protocol::task_v1::Scalar>| {
            code.0.clone().map(|code| code.0)
        };
        let reason = attribution.and_then(|at| text(&at.reason));
        let underlying = text(&error.underlying_error_message);
        let message = text(&error.message);
        let provider_code = attribution.and_then(|at| scalar(&at.provider_error_code));
        let status = attribution.and_then(|at| scalar(&at.status_code));
        let code = scalar(&error.code);
        let exception = attribution.and_then(|at| text(&at.exception_kind));
        let kind = text(&error.kind);

        let codes = [&provider_code, &reason, &code, &exception, &kind];
        let texts = [&reason, &underlying, &message, &exception, &kind];
        let from_network = attribution.and_then(|at| at.source.0.as_deref()) == Some("network");
        let family = codes
            .iter()
            .find_map(|code| by_code(code.as_deref()?, headers))
            .or_else(|| texts.iter().find_map(|text| by_words(text.as_deref()?)))
            .or_else(|| by_status(status.as_deref()?))
            .or_else(|| by_status(code.as_deref()?))
            .or(from_network.then_some(ErrorCode::NetworkFailed))
            .unwrap_or(ErrorCode::TurnFailed);

        let said = telling(error).filter(|text| !is_generic(text));
        let upstream = [provider_code, status, code].into_iter().flatten().next();
        worded(family, said.as_deref(), upstream.as_deref())
    }

    /// A call that was not answered with a result. `quoted` is user text that the host's message must not repeat.
    pub(super) fn call_error(&self, operation: &'static str, trouble: Trouble, quoted: &[&str]) -> CallError {
        let codes = &self.contract.protocol.error_codes;
        match trouble {
            Trouble::Gone(failure) => CallError::Gone(failure),
            Trouble::Unwritable => CallError::Refused {
                failure: Failure::new(ErrorCode::Internal).with(Detail::Operation, operation),
                why: Refusal::Other,
            },
            Trouble::TimedOut(waited) => {
                CallError::TimedOut(timed_out(operation).with(Detail::WaitedMs, millis(waited)))
            }
            Trouble::Remote(error) if error.code == codes.request_timeout => {
                CallError::TimedOut(timed_out(operation).with(Detail::UpstreamCode, error.code))
            }
            Trouble::Remote(error) => self.refused(operation, &error, quoted),
        }
    }

    fn refused(&self, operation: &'static str, error: &RemoteError, quoted: &[&str]) -> CallError {
        let codes = &self.contract.protocol.error_codes;
        let lower = error.message.to_ascii_lowercase();
        let data_code = error.data.as_ref().and_then(|data| data.get("code")).and_then(scalar_of);
        let named = [error.name.clone(), data_code, Some(error.code.to_string())];
        let family = named
            .iter()
            .flatten()
            .find_map(|code| by_code(code, codes.provider_headers))
            .or_else(|| by_words(&error.message));
        if error.code == codes.method_not_found
            || error.name.as_deref() == Some("Unknown channel")
            || lower.starts_with("not allowed:")
        {
            let failure = self.unavailable_feature(operation).with(Detail::UpstreamCode, error.code);
            return CallError::Refused { failure, why: Refusal::Unavailable };
        }
        // After an attempt to open it, a session that is not active is one that does not exist.
        let not_active = error.code == codes.session_not_active || lower.contains("session is not active");
        let missing = error.name.as_deref() == Some("SessionNotFoundError")
            || lower.starts_with("session not found")
            || not_active && operation == super::stored::RESUME;
        if missing {
            let failure = Failure::new(ErrorCode::SessionNotFound)
                .with(Detail::UpstreamCode, error.code)
                .with(Detail::Operation, operation);
            return CallError::Refused { failure, why: Refusal::NotFound };
        }
        let (why, code) = if not_active {
            (Refusal::NotActive, ErrorCode::SessionNotFound)
        } else if lower.contains("already running") {
            (Refusal::Busy, ErrorCode::SessionBusy)
        } else if matches!(family, Some(ErrorCode::SignInRequired | ErrorCode::SignInExpired)) {
            (Refusal::SignIn, family.unwrap_or(ErrorCode::SignInRequired))
        } else {
            (Refusal::Other, family.unwrap_or(ErrorCode::SessionRefused))
        };
        let said =
            Some(error.message.as_str()).filter(|message| !is_generic(message) && !quotes(message, quoted));
        let mut failure =
            worded(code, said, Some(&error.code.to_string())).with(Detail::Operation, operation);
        if why == Refusal::NotActive {
            failure = failure.next_step("the session was put aside by ZCode; open it again");
        }
        CallError::Refused { failure, why }
    }

    /// A result that is not of the shape the contract has.
    pub(super) fn bad_result(operation: &'static str) -> CallError {
        let failure = Failure::new(ErrorCode::NativeProtocol)
            .cause(format!("ZCode's answer to \"{operation}\" has an unknown shape"))
            .with(Detail::Operation, operation);
        CallError::Refused { failure, why: Refusal::Other }
    }
}

fn scalar_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether a message repeats a longer word of the user's.
fn quotes(message: &str, quoted: &[&str]) -> bool {
    const LONG: usize = 6;
    quoted
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter(|word| word.len() >= LONG)
        .take(10_000)
        .any(|word| message.contains(word))
}

/// Creating and prompting must not be repeated after a timeout, so those say that the outcome is unknown.
fn timed_out(operation: &'static str) -> Failure {
    let failure = match operation {
        super::operations::CREATE => Failure::new(ErrorCode::CreateOutcomeUnknown),
        super::operations::PROMPT => Failure::new(ErrorCode::PromptOutcomeUnknown),
        super::operations::SUBSCRIBE => Failure::new(ErrorCode::SubscriptionFailed)
            .cause("ZCode did not open the session's event stream in time"),
        _ => Failure::new(ErrorCode::SessionRefused)
            .cause(format!("ZCode did not answer \"{operation}\" in time")),
    };
    failure.with(Detail::Operation, operation)
}

/// Cause in the catalogue's words, then what was said, redacted.
fn worded(code: ErrorCode, said: Option<&str>, upstream: Option<&str>) -> Failure {
    let mut cause = code.cause().to_owned();
    let upstream = upstream.map(name);
    if let Some(upstream) = &upstream {
        cause.push_str(" (");
        cause.push_str(upstream);
        cause.push(')');
    }
    if let Some(said) = said {
        cause.push_str(": ");
        cause.push_str(redact::line(said).trim_end_matches('.'));
    }
    let failure = Failure::new(code).cause(cause);
    match upstream {
        Some(upstream) => failure.with(Detail::UpstreamCode, upstream),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use runtime_discovery::Contract;

    use super::*;

    fn protocol() -> TaskV1 {
        TaskV1::new(Contract::embedded())
    }

    fn turn(json: &str) -> Failure {
        protocol().turn_failure(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn each_family_is_told_apart() {
        for (json, code) in [
            (r#"{"attribution":{"statusCode":401}}"#, ErrorCode::SignInExpired),
            (r#"{"message":"Provider authentication failed."}"#, ErrorCode::SignInExpired),
            (r#"{"attribution":{"statusCode":429,"providerErrorCode":"1302"}}"#, ErrorCode::RateLimited),
            (r#"{"attribution":{"statusCode":429}}"#, ErrorCode::RateLimited),
            (r#"{"attribution":{"statusCode":429,"providerErrorCode":1308}}"#, ErrorCode::QuotaExceeded),
            (r#"{"attribution":{"statusCode":429,"providerErrorCode":"1113"}}"#, ErrorCode::PlanInsufficient),
            (r#"{"attribution":{"statusCode":529}}"#, ErrorCode::Overloaded),
            (r#"{"attribution":{"reason":"model_context_exceeded"}}"#, ErrorCode::ContextTooLong),
            (r#"{"code":"model_not_found"}"#, ErrorCode::ModelUnknown),
            (r#"{"code":-32031,"message":"headers"}"#, ErrorCode::DesktopOnlyPlan),
            (r#"{"type":"ClientRequestSigningV4Error"}"#, ErrorCode::DesktopOnlyPlan),
            (r#"{"underlyingErrorMessage":"TLS validation failed for host"}"#, ErrorCode::NetworkFailed),
            (r#"{"attribution":{"source":"network"}}"#, ErrorCode::NetworkFailed),
            (r#"{"code":"provider_not_configured"}"#, ErrorCode::SignInRequired),
            (r#"{"message":"Turn execution failed"}"#, ErrorCode::TurnFailed),
            (r#"{"message":17,"attribution":[],"code":{}}"#, ErrorCode::TurnFailed),
        ] {
            assert_eq!(turn(json).code, code, "{json}");
        }
    }

    #[test]
    fn the_better_message_is_shown_redacted() {
        let failure = turn(
            r#"{"type":"UNKNOWN_ERROR","message":"Turn execution failed","underlyingErrorMessage":"boom\nfor Bearer abcdef123456",
                "attribution":{"source":"provider","reason":"bad_gateway","statusCode":502}}"#,
        );
        assert_eq!(failure.cause_text(), "the turn failed (502): boom for Bearer [redacted]");
        assert_eq!(failure.detail(Detail::UpstreamCode), Some("502"));
        let failure =
            turn(r#"{"message":"Turn execution failed","attribution":{"reason":"The model said no"}}"#);
        assert_eq!(failure.cause_text(), "the turn failed: The model said no");
        assert_eq!(turn(r#"{"message":"Turn execution failed."}"#).cause_text(), "the turn failed");
    }

    fn remote(code: i64, message: &str) -> Trouble {
        Trouble::Remote(Box::new(RemoteError { code, message: message.to_owned(), name: None, data: None }))
    }

    #[test]
    fn refusals_the_adapter_acts_on_are_named() {
        for (trouble, why) in [
            (remote(-32004, "Session is not active"), Refusal::NotActive),
            (remote(-32000, "A prompt is already running for this session"), Refusal::Busy),
            (remote(-32601, "no such method"), Refusal::Unavailable),
            (remote(-32000, "not allowed: agent.x"), Refusal::Unavailable),
            (remote(-32000, "provider_not_ready"), Refusal::SignIn),
            (remote(-32000, "whatever"), Refusal::Other),
        ] {
            let text = format!("{trouble:?}");
            let CallError::Refused { why: found, .. } = protocol().call_error("prompt", trouble, &[]) else {
                panic!("{text}: not refused")
            };
            assert_eq!(found, why, "{text}");
        }
    }

    #[test]
    fn a_feature_that_is_gone_is_named_with_the_version() {
        let error = protocol().call_error("compact conversation", remote(-32601, "Method not found: x"), &[]);
        let message = error.failure().to_string();
        assert!(message.contains("compact conversation") && message.contains("3.11.2"), "{message}");
    }

    #[test]
    fn a_session_that_cannot_be_opened_does_not_exist() {
        let why = |operation, code, name: &str| {
            let error =
                RemoteError { code, message: "gone".to_owned(), name: Some(name.to_owned()), data: None };
            match protocol().call_error(operation, Trouble::Remote(Box::new(error)), &[]) {
                CallError::Refused { failure, why } => (failure.code, why),
                other => panic!("{other:?}"),
            }
        };
        let missing = (ErrorCode::SessionNotFound, Refusal::NotFound);
        let resume = crate::task_v1::stored::RESUME;
        assert_eq!(why(resume, -32000, "SessionNotFoundError"), missing);
        assert_eq!(why(resume, -32004, "ZCodeProtocolError"), missing);
        assert_eq!(why("set mode", -32000, "SessionNotFoundError"), missing);
        assert_eq!(why("set mode", -32004, "ZCodeProtocolError").1, Refusal::NotActive);
        assert_eq!(why(resume, -32000, "Error"), (ErrorCode::SessionRefused, Refusal::Other));
    }

    #[test]
    fn a_timeout_of_create_or_prompt_has_an_unknown_outcome() {
        let code = |operation, trouble| protocol().call_error(operation, trouble, &[]).failure().code;
        assert_eq!(
            code(crate::task_v1::operations::CREATE, remote(-32022, "late")),
            ErrorCode::CreateOutcomeUnknown
        );
        let waited = Trouble::TimedOut(Duration::from_mins(1));
        assert_eq!(code(crate::task_v1::operations::PROMPT, waited), ErrorCode::PromptOutcomeUnknown);
    }

    #[test]
    fn a_message_that_repeats_the_prompt_is_not_shown() {
        let error =
            protocol().call_error("prompt", remote(-32000, "bad content: CANARY-1"), &["my CANARY-1 text"]);
        assert!(!format!("{:?}", error.failure()).contains("CANARY"));
        let error = protocol().call_error("prompt", remote(-32000, "bad mode"), &["my CANARY-1 text"]);
        assert!(error.failure().cause_text().contains("bad mode"));
    }
}
