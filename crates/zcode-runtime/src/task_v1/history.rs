//! Stored messages in neutral words.
//!
//! The semantic filters are here: what was written by the host, for the model only, or instead of something that is gone is
//! not shown. Nothing in a history is an error; what is not understood is skipped and counted.

use std::sync::Arc;

use diag_model::ToolCallId;
use serde_json::Value;
use serde_json::value::RawValue;
use zcode_protocol::task_v1::Text;
use zcode_protocol::task_v1::history as wire;

use super::events::{text_of, value};
use super::tools::{self, error_text};
use crate::model::{
    HistoryFile, HistoryMessage, HistoryPart, HistoryTool, HistoryToolState, Role, ToolResult,
};

/// Kinds of messages that are not part of the conversation, whoever wrote them.
const HIDDEN_KINDS: &[&str] = &[
    "system_reminder",
    "background_notification",
    "subagent_notification",
    "todo_reminder",
    "rewind_notice",
    "fork_notice",
    "timeline_event",
    "compact_summary",
    "shared_context",
];

/// Kinds of parts that are known and of no consequence.
const SILENT_PARTS: &[&str] = &[
    "step-start",
    "step-finish",
    "snapshot",
    "patch",
    "compaction",
    "timeline",
    "subagent",
    "agent",
    "retry",
];

/// A message, and how many of its parts were not understood.
pub(super) fn message(message: &wire::Message<'_>) -> (HistoryMessage, usize) {
    let info = &message.info;
    let role = match info.role.0.as_deref() {
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        _ => None,
    };
    let shown = role.is_some_and(|role| is_shown(info, role));
    let mut unknown = 0;
    // What nobody sees is not read either.
    let raw_parts: &[&RawValue] = if shown { &message.parts } else { &[] };
    let parts = raw_parts
        .iter()
        .map(|raw| {
            part(raw).unwrap_or_else(|| {
                unknown += 1;
                HistoryPart::Skipped
            })
        })
        .collect();
    let message = HistoryMessage {
        id: info.message_id.to_arc(),
        role: role.unwrap_or(Role::Assistant),
        shown,
        parts,
        created_ms: info.time.0.and_then(|time| time.created.0),
    };
    (message, unknown)
}

fn is_shown(info: &wire::MessageInfo<'_>, role: Role) -> bool {
    if info.synthetic.0 == Some(true) || info.visibility.0.as_deref().is_some_and(is_hidden) {
        return false;
    }
    let Some(semantics) = &info.semantics.0 else { return true };
    let visibilities = [&semantics.ui_visibility, &semantics.transcript_visibility];
    if visibilities.into_iter().any(|one| one.0.as_deref().is_some_and(is_hidden)) {
        return false;
    }
    if semantics.kind.0.as_deref().is_some_and(|kind| HIDDEN_KINDS.contains(&kind)) {
        return false;
    }
    // A message in the user's role that no user wrote would be shown as the user's words.
    role == Role::Assistant || matches!(semantics.origin.0.as_deref(), None | Some("real_user"))
}

fn is_hidden(visibility: &str) -> bool {
    matches!(visibility, "model-only" | "model_only" | "hidden" | "none" | "internal")
}

/// None when it is not understood.
fn part(raw: &RawValue) -> Option<HistoryPart> {
    let part: wire::Part<'_> = serde_json::from_str(raw.get()).ok()?;
    if part.synthetic.0 == Some(true) || part.ignored.0 == Some(true) {
        return Some(HistoryPart::Skipped);
    }
    Some(match &*part.kind {
        "text" => HistoryPart::Text(part.text.0?.into_owned()),
        "reasoning" => HistoryPart::Thought(part.text.0?.into_owned()),
        "file" => HistoryPart::File {
            source: file(&part.url.0?)?,
            name: part.filename.0.filter(|name| !name.is_empty()).map(Text::into_owned),
            mime: part.mime.0.map_or_else(|| "application/octet-stream".to_owned(), Text::into_owned),
        },
        "tool" => HistoryPart::Tool(tool(&part)?),
        kind if SILENT_PARTS.contains(&kind) => HistoryPart::Skipped,
        _ => return None,
    })
}

/// Where the bytes of a file are. A `data:` URL that is not base64 is not understood.
fn file(url: &str) -> Option<HistoryFile> {
    let scheme = url.split_once(':')?.0.to_ascii_lowercase();
    Some(match scheme.as_str() {
        "data" => {
            let (head, data) = url.split_once(',')?;
            let base64 = head.rsplit(';').next()?.eq_ignore_ascii_case("base64");
            if !base64 {
                return None;
            }
            HistoryFile::Data(Arc::from(data))
        }
        "zcode-artifact" => HistoryFile::Artifact,
        _ => HistoryFile::Link(url.to_owned()),
    })
}

fn tool(part: &wire::Part<'_>) -> Option<HistoryTool> {
    let name = part.tool.0.as_ref()?;
    let state = part.state.0.as_ref()?;
    let outcome = match &*state.status {
        "pending" => HistoryToolState::Pending,
        "running" => HistoryToolState::Running,
        "completed" => HistoryToolState::Completed(result(name, state)),
        "error" => HistoryToolState::Failed(state.error.map(error_text).unwrap_or_default()),
        _ => return None,
    };
    Some(HistoryTool {
        call: ToolCallId::new(part.call_id.0.as_ref()?.to_arc()),
        tool: name.to_arc(),
        input: state.input.map_or(Value::Null, value),
        state: outcome,
    })
}

/// The result as it was live, so that both look the same.
fn result(tool: &str, state: &wire::ToolState<'_>) -> ToolResult {
    let metadata = state.metadata.0.as_ref();
    let display = metadata.and_then(|metadata| metadata.display.0.as_ref());
    let success = metadata.and_then(|metadata| metadata.success.0) != Some(false);
    ToolResult {
        success,
        content: state.output.map(text_of).unwrap_or_default(),
        display: tools::presentation(display, state.output, success && tool == tools::TODO_TOOL),
        exit_code: metadata
            .and_then(|metadata| metadata.perf.0)
            .and_then(|perf| perf.exit_code)
            .or_else(|| display.and_then(|display| display.exit_code.0)),
        truncated: metadata.and_then(|metadata| metadata.truncated.0) == Some(true),
        original_bytes: metadata.and_then(|metadata| metadata.original_bytes.0),
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
