//! Parameters and results of the service methods.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::snapshot::{Model, Settings, SlashCommand, Snapshot};
use super::text::{Lenient, Text};

/// Parameters of methods that concern a workspace.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InWorkspace<'a, T = ()> {
    /// Canonical path.
    pub workspace_path: &'a str,
    /// The method's own parameters.
    #[serde(flatten)]
    pub own: T,
}

/// Parameters of methods that concern a session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfSession<'a> {
    /// Session.
    pub session_id: &'a str,
}

/// Parameters of `createSession`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateSession<'a> {
    /// Servers in the host's strict shape.
    pub mcp_servers: &'a [Value],
    /// Mode.
    pub mode: &'a str,
    /// The contract's fixed parameters.
    #[serde(flatten)]
    pub fixed: &'a Map<String, Value>,
}

/// Parameters of `resumeSession`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeSession<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Servers in the host's strict shape.
    pub mcp_servers: &'a [Value],
}

/// Parameters of `listSessions`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListSessions {
    /// Archived ones too.
    pub include_archived: bool,
    /// At most this many.
    pub limit: u32,
}

/// Parameters of `readSessionMessages`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadMessages<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Message before the first one wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_message_id: Option<&'a str>,
    /// At most this many.
    pub limit: u32,
}

/// Parameters of `setModel`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetModel<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Model.
    pub model: SetModelRef<'a>,
    /// The contract's fixed parameters.
    #[serde(flatten)]
    pub fixed: &'a Map<String, Value>,
}

/// Identity of a model to be set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetModelRef<'a> {
    /// Provider.
    pub provider_id: &'a str,
    /// Model.
    pub model_id: &'a str,
    /// Variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<&'a str>,
}

/// Parameters of `setThoughtLevel`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetThoughtLevel<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Level.
    pub thought_level: &'a str,
    /// The contract's fixed parameters.
    #[serde(flatten)]
    pub fixed: &'a Map<String, Value>,
}

/// Parameters of `compactSession`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactSession<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Id of the input that asked for it.
    pub input_id: &'a str,
    /// What to keep in mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<&'a str>,
}

/// Parameters of `goalSession`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GoalSession<'a> {
    /// Session.
    pub session_id: &'a str,
    /// `show`, `set`, `replace`, `pause`, `resume` or `clear`.
    pub action: &'a str,
    /// The goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<&'a str>,
}

/// Parameters of `setMode`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetMode<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Mode.
    pub mode: &'a str,
}

/// Parameters of `readSession`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadSession<'a> {
    /// Session.
    pub session_id: &'a str,
    /// At most this many messages.
    pub message_limit: u32,
}

/// Parameters of `sendPrompt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SendPrompt<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Id that comes back in the turn's events.
    pub input_id: &'a str,
    /// Text.
    pub content: &'a str,
    /// Attachments.
    pub attachments: Vec<Attachment<'a>>,
}

/// An attachment in the host's strict shape.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment<'a> {
    /// `image`, `audio` or `file`.
    pub kind: &'static str,
    /// Name.
    pub filename: &'a str,
    /// MIME type.
    pub mime_type: &'a str,
    /// The bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<&'a str>,
    /// Where the bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_path: Option<&'a str>,
    /// How many bytes.
    pub size_bytes: u64,
}

/// Parameters of the session event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listen<'a> {
    /// Session.
    pub session_id: &'a str,
    /// Delivery kind.
    pub delivery_kind: &'a str,
    /// The first event is a snapshot.
    pub include_snapshot: bool,
}

/// Parameters of `respondProviderRuntimeHeaders`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RespondHeaders<'a> {
    /// Request.
    pub request_id: &'a str,
    /// Answer.
    pub response: HeadersResponse<'a>,
}

/// The only answer there is: none were applied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadersResponse<'a> {
    /// Always `false`.
    pub headers_applied: bool,
    /// Reason.
    pub error_message: &'a str,
}

/// Result of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialized<'a> {
    /// The workspace can be used.
    pub available: bool,
    /// Why not.
    #[serde(borrow)]
    pub reason: Option<Text<'a>>,
    /// Why not, as a word.
    #[serde(borrow)]
    pub reason_code: Option<Text<'a>>,
}

/// Result of `readWorkspaceState`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceState<'a> {
    /// Settings.
    #[serde(borrow)]
    pub settings: Settings<'a>,
    /// All models.
    #[serde(borrow, default)]
    pub model_catalog: Option<ModelCatalog<'a>>,
    /// Slash commands.
    #[serde(borrow, default)]
    pub slash_commands: Option<Vec<SlashCommand<'a>>>,
}

/// Models of all providers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ModelCatalog<'a> {
    /// Models that can be chosen.
    #[serde(borrow)]
    pub available: Vec<Model<'a>>,
}

/// Result of `sendPrompt`.
#[derive(Debug, Deserialize)]
pub struct Accepted {
    /// The prompt was taken.
    pub accepted: bool,
}

/// Result of `compactSession`.
#[derive(Debug, Deserialize)]
pub struct Compacted<'a> {
    /// Text for people.
    #[serde(borrow, default)]
    pub response: Lenient<Text<'a>>,
    /// State after it.
    #[serde(borrow)]
    pub snapshot: Option<Snapshot<'a>>,
    /// What became of the request.
    #[serde(borrow, default)]
    pub compact: Lenient<CompactState<'a>>,
}

/// What became of a request to compact.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CompactState<'a> {
    /// `accepted` or `already_running`.
    #[serde(borrow)]
    pub state: Option<Text<'a>>,
}

/// Result of `goalSession`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal<'a> {
    /// Text for people.
    #[serde(borrow, default)]
    pub response: Lenient<Text<'a>>,
    /// State after it.
    #[serde(borrow)]
    pub snapshot: Option<Snapshot<'a>>,
    /// A turn was started. Anything but `null`, `false` or absence says so.
    #[serde(borrow)]
    pub started_turn: Option<&'a serde_json::value::RawValue>,
}
