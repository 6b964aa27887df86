//! Opaque identifiers.
//!
//! All of them are chosen by somebody else (the host, the client) or are random; nothing is ever read out of one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps an identifier as it came.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self::new(id)
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self::new(id)
            }
        }
    };
}

opaque_id!(
    /// A session. The host's own id *is* the ACP session id; it is never translated.
    SessionId
);
opaque_id!(
    /// One submitted prompt, chosen by the adapter. Host events name it back, which is how a turn is known to belong
    /// to a prompt.
    InputId
);
opaque_id!(
    /// A tool call, chosen by the host and unique within its session.
    ToolCallId
);
opaque_id!(
    /// A question of the host that waits for an answer (permission, input, headers): the host's request id.
    AskId
);
opaque_id!(
    /// The canonical absolute path of a workspace. Two spellings of one directory have one key.
    WorkspaceKey
);
