//! What can go wrong between a client and its agent.

use serde_json::Value;

/// The agent answered a request with an error.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestError {
    /// JSON-RPC error code.
    pub code: i32,
    /// One sentence for people.
    pub message: String,
    /// Structured facts, as the agent sent them.
    pub data: Option<Value>,
}

impl RequestError {
    /// The agent's own stable code (`ZA…`), when it sent one.
    pub fn stable_code(&self) -> Option<&str> {
        self.data.as_ref()?.get("code")?.as_str()
    }
}

/// How a connection or a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The agent answered with an error.
    #[error("the agent answered with error {}: {}", .0.code, .0.message)]
    Request(RequestError),
    /// The agent closed its output before it had answered.
    #[error("the agent ended the connection before it had answered")]
    Closed,
    /// The byte stream failed.
    #[error("the connection to the agent failed: {0}")]
    Transport(String),
}

impl ClientError {
    pub(crate) fn from_sdk(error: agent_client_protocol::Error) -> Self {
        if agent_client_protocol::is_incoming_transport_closed(&error)
            || agent_client_protocol::is_connection_terminated(&error)
        {
            return ClientError::Closed;
        }
        ClientError::Request(RequestError {
            code: i32::from(error.code),
            message: error.message,
            data: error.data,
        })
    }
}
