//! What is asked of and answered about sessions as a whole: opening, listing, configuration.

use std::path::PathBuf;
use std::sync::Arc;

use diag_model::SessionId;
use serde_json::Value;
use zcode_runtime::model::Mode;

use crate::client::ConfigOption;

/// A request for a new session.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSessionRequest {
    /// Working directory as the client wrote it.
    pub cwd: PathBuf,
    /// MCP servers in the host's strict shape. They belong to this session alone and are never kept or logged.
    pub mcp_servers: Vec<Value>,
}

/// A request to load or resume a session.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRequest {
    /// Which.
    pub session: SessionId,
    /// Working directory as the client wrote it; must be the one the session was created in.
    pub cwd: PathBuf,
    /// MCP servers in the host's strict shape.
    pub mcp_servers: Vec<Value>,
}

/// An open session as a client needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetup {
    /// The host's id, which is the client's id too.
    pub session: SessionId,
    /// Permission modes.
    pub modes: ModeState,
    /// Configuration options; one without choices is left out.
    pub options: Vec<ConfigOption>,
}

/// The permission mode in force and the ones there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeState {
    /// In force.
    pub current: Arc<str>,
    /// The contract's catalogue, in its order.
    pub available: Arc<[Mode]>,
}

/// A request for a page of the sessions there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Only of this directory.
    pub cwd: Option<PathBuf>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListAnswer {
    /// Sessions.
    pub sessions: Vec<ListedSession>,
    /// Cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    /// Which.
    pub id: SessionId,
    /// Its directory, as the client spelled it if it named one.
    pub cwd: PathBuf,
    /// Title.
    pub title: Option<Arc<str>>,
    /// Last change, milliseconds since 1970.
    pub updated_ms: Option<u64>,
}
