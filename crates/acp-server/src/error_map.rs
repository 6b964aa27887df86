//! Failures as JSON-RPC errors.
//!
//! The codes of JSON-RPC and ACP are used where they fit. The others get a number of their own outside the reserved
//! ranges (-32768..-32000 and -32899..-32800); clients show the message, so the numbers only have to be stable:
//!
//! | code | kind |
//! | --- | --- |
//! | 4100 | compatibility: ZCode is missing, damaged or of another version |
//! | 4200 | provider: model provider, network or plan refused |
//! | 4300 | busy: it works later |
//! | 4400 | unknown outcome: nobody can tell whether it happened |
//! | 4500 | host: the host process or its protocol failed |
//! | 4600 | client: the client stopped reading or answering |
//!
//! `data` carries the stable `ZA…` code, the phase and the facts of the occurrence. Nothing the client sent is in it.

use agent_client_protocol::{Error, ErrorCode as WireCode};
use diag_model::{Detail, ErrorCode, ErrorKind, Failure};
use serde_json::{Map, Value};

/// ZCode is missing, damaged or of another version.
pub(crate) const COMPATIBILITY: i32 = 4100;
/// The model provider, the network or the plan refused.
pub(crate) const PROVIDER: i32 = 4200;
/// It works later.
pub(crate) const BUSY: i32 = 4300;
/// Nobody can tell whether it happened.
pub(crate) const UNKNOWN_OUTCOME: i32 = 4400;
/// The host process or its protocol failed.
pub(crate) const HOST: i32 = 4500;
/// The client stopped reading or answering.
pub(crate) const CLIENT: i32 = 4600;

/// The error to answer with.
pub(crate) fn to_error(failure: &Failure) -> Error {
    let code = match failure.code.kind() {
        ErrorKind::InvalidParams => WireCode::INVALID_PARAMS.value(),
        ErrorKind::NotFound => WireCode::RESOURCE_NOT_FOUND.value(),
        ErrorKind::Auth => WireCode::AUTH_REQUIRED.value(),
        ErrorKind::Cancelled => WireCode::REQUEST_CANCELLED.value(),
        ErrorKind::Internal => WireCode::INTERNAL_ERROR.value(),
        ErrorKind::Compatibility => COMPATIBILITY,
        ErrorKind::Provider => PROVIDER,
        ErrorKind::Busy => BUSY,
        ErrorKind::UnknownOutcome => UNKNOWN_OUTCOME,
        ErrorKind::Host => HOST,
        ErrorKind::Client => CLIENT,
    };
    with_code(code, failure)
}

/// A request that is not allowed in this state of the connection (-32600).
pub(crate) fn invalid_request(cause: &str, next: &str) -> Error {
    let failure = Failure::new(ErrorCode::InvalidRequest).cause(cause).next_step(next);
    with_code(WireCode::INVALID_REQUEST.value(), &failure)
}

/// A method that is not offered (-32601). The name is not repeated: it is the client's text.
pub(crate) fn method_not_found(reason: Option<&str>) -> Error {
    let failure = Failure::new(ErrorCode::InvalidRequest)
        .cause(reason.unwrap_or("there is no such method"))
        .next_step("use the methods the initialize answer offers");
    with_code(WireCode::METHOD_NOT_FOUND.value(), &failure)
}

/// Invalid params that name the field and the rule, never the value.
pub(crate) fn invalid_params(field: &str, rule: &str) -> Failure {
    Failure::new(ErrorCode::InvalidRequest)
        .cause(format!("{field} {rule}"))
        .next_step("correct the request")
        .with(Detail::Field, field)
}

fn with_code(code: i32, failure: &Failure) -> Error {
    let mut data = Map::new();
    data.insert("code".into(), failure.code.as_str().into());
    data.insert("phase".into(), failure.phase.as_str().into());
    for (detail, value) in failure.details() {
        data.insert(detail.as_str().into(), value.as_str().into());
    }
    Error::new(code, failure.message()).data(Value::Object(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_lawful_code_and_one_line() {
        for code in ErrorCode::ALL {
            let error = to_error(&Failure::new(*code).cause("first\nsecond").with(Detail::Session, "s1"));
            let number = error.code.value();
            let reserved = (-32768..=-32000).contains(&number) || (-32899..=-32800).contains(&number);
            let standard = [-32602, -32603, -32002, -32000, -32800].contains(&number);
            assert_eq!(reserved, standard, "{code}: {number}");
            assert!(!error.message.is_empty() && !error.message.contains('\n'), "{code}");
            let data = error.data.unwrap();
            assert_eq!(data["code"], code.as_str());
            assert_eq!(data["phase"], code.phase().as_str());
            assert_eq!(data["sessionId"], "s1");
        }
    }

    #[test]
    fn classes() {
        let code = |code| to_error(&Failure::new(code)).code.value();
        assert_eq!(code(ErrorCode::InvalidWorkspace), -32602);
        assert_eq!(code(ErrorCode::SessionNotFound), -32002);
        assert_eq!(code(ErrorCode::SignInRequired), -32000);
        assert_eq!(code(ErrorCode::RequestCancelled), -32800);
        assert_eq!(code(ErrorCode::Internal), -32603);
        assert_eq!(code(ErrorCode::SessionBusy), BUSY);
        assert_eq!(code(ErrorCode::HostExited), HOST);
        assert_eq!(invalid_request("a", "b").code.value(), -32600);
        assert_eq!(method_not_found(None).code.value(), -32601);
    }
}
