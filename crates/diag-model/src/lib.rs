//! The vocabulary every crate shares: identifiers, phases, the error catalogue and the diagnostic records.
//!
//! This is a leaf. It knows no protocol, no clock and no I/O, so that two versions of the program (an adapter and a
//! viewer, say) can agree on what a record means. Redaction is here because it is part of that meaning. Deliberately absent: ACP types, host service names, formatting for
//! terminals.

mod catalogue;
mod failure;
mod ids;
mod record;
mod redact;

pub use catalogue::{ErrorCode, ErrorKind};
pub use failure::{Detail, Failure, MESSAGE_LIMIT, one_line};
pub use ids::{AskId, InputId, SessionId, ToolCallId, WorkspaceKey};
pub use record::{Direction, Facts, Level, Phase, RECORD_SCHEMA_VERSION, Record, RecordError, UnknownName};
pub use redact::{REDACTED, redact, redact_home};
