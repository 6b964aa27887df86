//! Stored sessions and their messages.
//!
//! Read leniently throughout: nothing is running, so a part that is not understood is skipped by the reader, never an error.
//! Only what a page cannot be continued without, the id of a message, is required.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::payload::Display;
use super::text::{Lenient, Text};

/// An entry of `listSessions`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary<'a> {
    /// Id.
    #[serde(borrow)]
    pub session_id: Text<'a>,
    /// Workspace it belongs to.
    #[serde(borrow)]
    pub workspace: Workspace<'a>,
    /// `interactive`, `fork`, or one of the kinds that belong to another session.
    #[serde(borrow)]
    pub session_kind: Option<Text<'a>>,
    /// Session it comes from.
    #[serde(borrow)]
    pub parent_session_id: Option<Text<'a>>,
    /// Title.
    #[serde(borrow, default)]
    pub title: Lenient<Text<'a>>,
    /// Where the title comes from; `default` means there is none yet.
    #[serde(borrow, default)]
    pub title_source: Lenient<Text<'a>>,
    /// Creation, milliseconds since 1970.
    #[serde(default)]
    pub created_at: Lenient<u64>,
    /// Last change, milliseconds since 1970.
    #[serde(default)]
    pub updated_at: Lenient<u64>,
    /// Present when it is archived.
    #[serde(borrow)]
    pub archived_at: Option<&'a RawValue>,
}

/// A workspace.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace<'a> {
    /// Its path.
    #[serde(borrow)]
    pub workspace_path: Text<'a>,
}

/// A message with its parts unread.
#[derive(Debug, Clone, Deserialize)]
pub struct Message<'a> {
    /// What it is.
    #[serde(borrow)]
    pub info: MessageInfo<'a>,
    /// Its parts; see [`Part`].
    #[serde(borrow, default)]
    pub parts: Vec<&'a RawValue>,
}

/// A message of which only the id is read.
#[derive(Debug, Clone, Deserialize)]
pub struct MessageHead<'a> {
    /// What it is.
    #[serde(borrow)]
    pub info: MessageId<'a>,
}

/// Identity of a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageId<'a> {
    /// Id.
    #[serde(borrow)]
    pub message_id: Text<'a>,
}

/// What a message is.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageInfo<'a> {
    /// Id.
    #[serde(borrow)]
    pub message_id: Text<'a>,
    /// `user` or `assistant`.
    #[serde(borrow, default)]
    pub role: Lenient<Text<'a>>,
    /// When.
    #[serde(default)]
    pub time: Lenient<MessageTime>,
    /// Written by the host, not by a person.
    #[serde(default)]
    pub synthetic: Lenient<bool>,
    /// `user-visible` or `model-only`.
    #[serde(borrow, default)]
    pub visibility: Lenient<Text<'a>>,
    /// What it stands for.
    #[serde(borrow, default)]
    pub semantics: Lenient<Semantics<'a>>,
}

/// When a message was written.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct MessageTime {
    /// Milliseconds since 1970.
    pub created: Lenient<u64>,
}

/// What a message stands for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Semantics<'a> {
    /// `real_user`, `agent_runtime`, `system`, `migration` or `import`.
    #[serde(borrow)]
    pub origin: Lenient<Text<'a>>,
    /// `user_prompt`, `slash_command`, `system_reminder` and others.
    #[serde(borrow)]
    pub kind: Lenient<Text<'a>>,
    /// Whether people see it.
    #[serde(borrow)]
    pub ui_visibility: Lenient<Text<'a>>,
    /// Whether it is part of the transcript.
    #[serde(borrow)]
    pub transcript_visibility: Lenient<Text<'a>>,
}

/// A part of a message: the members of all kinds, of which [`Part::kind`] says which count.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part<'a> {
    /// Kind.
    #[serde(rename = "type", borrow)]
    pub kind: Text<'a>,
    /// Text of `text` and `reasoning`.
    #[serde(borrow, default)]
    pub text: Lenient<Text<'a>>,
    /// Written by the host.
    #[serde(default)]
    pub synthetic: Lenient<bool>,
    /// Not part of the conversation any more.
    #[serde(default)]
    pub ignored: Lenient<bool>,
    /// MIME type of a `file`.
    #[serde(borrow, default)]
    pub mime: Lenient<Text<'a>>,
    /// Name of a `file`.
    #[serde(borrow, default)]
    pub filename: Lenient<Text<'a>>,
    /// Where the bytes of a `file` are: `data:` or `zcode-artifact:`.
    #[serde(borrow, default)]
    pub url: Lenient<Text<'a>>,
    /// Id of a `tool` call.
    #[serde(borrow, default)]
    pub call_id: Lenient<Text<'a>>,
    /// Name of the `tool`.
    #[serde(borrow, default)]
    pub tool: Lenient<Text<'a>>,
    /// How far the `tool` call came.
    #[serde(borrow, default)]
    pub state: Lenient<ToolState<'a>>,
}

/// How far a tool call came.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolState<'a> {
    /// `pending`, `running`, `completed` or `error`.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Input.
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    /// Output: text, or an open shape.
    #[serde(borrow)]
    pub output: Option<&'a RawValue>,
    /// Error: text, or an object with a message.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    /// More about the result.
    #[serde(borrow, default)]
    pub metadata: Lenient<ToolMetadata<'a>>,
}

/// More about the result of a stored tool call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolMetadata<'a> {
    /// Structured presentation, as in a live result.
    #[serde(borrow)]
    pub display: Lenient<Display<'a>>,
    /// Worked.
    pub success: Lenient<bool>,
    /// Facts about a process.
    pub perf: Lenient<super::payload::Perf>,
    /// The output was cut.
    pub truncated: Lenient<bool>,
    /// Size of the whole output.
    pub original_bytes: Lenient<u64>,
}
