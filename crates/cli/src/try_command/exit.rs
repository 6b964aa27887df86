//! Exit codes of `try`: they tell how the turn ended.

use client::{RequestError, StopReason};
use diag_model::{ErrorCode, ErrorKind};

use crate::report;

pub(crate) const DONE: i32 = 0;
pub(crate) const OTHER: i32 = 1;
pub(crate) const USAGE: i32 = 2;
pub(crate) const CANCELLED: i32 = 3;
const REFUSED: i32 = 4;
const LIMIT: i32 = 5;
const SIGN_IN: i32 = 6;
const HOST: i32 = 7;

/// ACP's "authentication required".
const AUTH_REQUIRED: i32 = -32000;
/// JSON-RPC's "request cancelled" as ACP uses it.
const REQUEST_CANCELLED: i32 = -32800;

/// The code for a turn that ended.
pub(crate) fn of_stop(reason: StopReason) -> i32 {
    match reason {
        StopReason::EndTurn => DONE,
        StopReason::Cancelled => CANCELLED,
        StopReason::Refusal => REFUSED,
        StopReason::MaxTokens | StopReason::MaxTurnRequests => LIMIT,
        _ => OTHER,
    }
}

/// The code for a request that failed.
pub(crate) fn of_error(error: &RequestError) -> i32 {
    let Some(code) = error.stable_code().and_then(report::error_code) else {
        return match error.code {
            AUTH_REQUIRED => SIGN_IN,
            REQUEST_CANCELLED => CANCELLED,
            _ => OTHER,
        };
    };
    match (code, code.kind()) {
        (ErrorCode::RateLimited | ErrorCode::QuotaExceeded | ErrorCode::ContextTooLong, _) => LIMIT,
        (_, ErrorKind::Auth) => SIGN_IN,
        (_, ErrorKind::Compatibility | ErrorKind::Host | ErrorKind::UnknownOutcome) => HOST,
        (_, ErrorKind::Cancelled) => CANCELLED,
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: i32, stable: Option<&str>) -> RequestError {
        RequestError { code, message: String::new(), data: stable.map(|code| json!({"code": code})) }
    }

    #[test]
    fn every_ending_has_its_code() {
        assert_eq!(of_stop(StopReason::EndTurn), 0);
        assert_eq!(of_stop(StopReason::Unknown), 1);
        assert_eq!(of_stop(StopReason::Cancelled), 3);
        assert_eq!(of_stop(StopReason::Refusal), 4);
        assert_eq!(of_stop(StopReason::MaxTokens), 5);
        assert_eq!(of_stop(StopReason::MaxTurnRequests), 5);
        assert_eq!(of_error(&error(-32000, None)), 6);
        assert_eq!(of_error(&error(-32000, Some("ZA501"))), 6);
        assert_eq!(of_error(&error(4200, Some("ZA811"))), 5);
        assert_eq!(of_error(&error(4100, Some("ZA101"))), 7);
        assert_eq!(of_error(&error(4500, Some("ZA805"))), 7);
        assert_eq!(of_error(&error(-32800, Some("ZA903"))), 3);
        assert_eq!(of_error(&error(4200, Some("ZA810"))), 1);
        assert_eq!(of_error(&error(-32602, None)), 1);
    }
}
