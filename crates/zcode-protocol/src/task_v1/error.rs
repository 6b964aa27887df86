//! What the host says when a turn or a call fails.

use serde::Deserialize;

use super::text::{Lenient, Scalar, Text};

/// Error detail of a failed turn. The top message is often generic; [`ErrorDetail::attribution`] and the underlying message
/// say more. Nothing here is required: a failure that is badly described is still a failure.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorDetail<'a> {
    /// Error class.
    #[serde(rename = "type", borrow)]
    pub kind: Lenient<Text<'a>>,
    /// Top message.
    #[serde(borrow)]
    pub message: Lenient<Text<'a>>,
    /// Code.
    pub code: Lenient<Scalar>,
    /// Message of the cause.
    #[serde(borrow)]
    pub underlying_error_message: Lenient<Text<'a>>,
    /// Who is at fault.
    #[serde(borrow)]
    pub attribution: Lenient<Attribution<'a>>,
}

/// Who is at fault, according to the host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attribution<'a> {
    /// `provider`, `runtime`, `tool` or `network`.
    #[serde(borrow)]
    pub source: Lenient<Text<'a>>,
    /// Reason, a word or a sentence.
    #[serde(borrow)]
    pub reason: Lenient<Text<'a>>,
    /// Class of the exception.
    #[serde(borrow)]
    pub exception_kind: Lenient<Text<'a>>,
    /// HTTP status.
    pub status_code: Lenient<Scalar>,
    /// The provider's own code.
    pub provider_error_code: Lenient<Scalar>,
}
