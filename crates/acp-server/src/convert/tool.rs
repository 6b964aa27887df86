//! Tool calls as ACP types.

use agent_client_protocol::v1::schema as acp;
use diag_model::ToolCallId;
use serde_json::{Map, json};
use session_coordinator::client::{Location, TerminalPiece, ToolContent, ToolKind, ToolPatch, ToolStatus};

use crate::capabilities::meta;

/// A new tool call.
pub(crate) fn tool_call(patch: ToolPatch) -> acp::ToolCall {
    let update = tool_update(patch);
    let fields = update.fields;
    let mut call = acp::ToolCall::new(update.tool_call_id, fields.title.unwrap_or_default())
        .kind(fields.kind.unwrap_or_default())
        .status(fields.status.unwrap_or_default())
        .content(fields.content.unwrap_or_default())
        .locations(fields.locations.unwrap_or_default());
    call.name = fields.name;
    call.raw_input = fields.raw_input;
    call.raw_output = fields.raw_output;
    call.meta = update.meta;
    call
}

/// A change of a tool call.
pub(crate) fn tool_update(patch: ToolPatch) -> acp::ToolCallUpdate {
    let mut fields = acp::ToolCallUpdateFields::new();
    fields.title = patch.title;
    fields.name = patch.tool.map(|tool| tool.to_string());
    fields.kind = patch.kind.map(tool_kind);
    fields.status = patch.status.map(|status| match status {
        ToolStatus::Pending => acp::ToolCallStatus::Pending,
        ToolStatus::InProgress => acp::ToolCallStatus::InProgress,
        ToolStatus::Completed => acp::ToolCallStatus::Completed,
        ToolStatus::Failed => acp::ToolCallStatus::Failed,
    });
    let call = patch.call;
    fields.content = patch
        .content
        .map(|content| content.into_iter().map(|content| tool_content(&call, content)).collect());
    fields.locations = patch.locations.map(|locations| {
        let one = |location: Location| acp::ToolCallLocation::new(location.path).line(location.line);
        locations.into_iter().map(one).collect()
    });
    fields.raw_input = patch.raw_input;
    fields.raw_output = patch.raw_output;

    let mut facts = Map::new();
    if let Some(parent) = patch.parent {
        facts.insert("parentToolCallId".into(), parent.as_str().into());
    }
    if let Some(agent) = patch.agent {
        facts.insert("agentId".into(), (*agent).into());
    }
    let mut keys = if facts.is_empty() { acp::Meta::new() } else { meta(facts) };
    if let Some(piece) = patch.terminal {
        terminal(&call, piece, &mut keys);
    }
    let update = acp::ToolCallUpdate::new(call.as_str().to_owned(), fields);
    if keys.is_empty() { update } else { update.meta(keys) }
}

/// The terminal stream in the form clients with `_meta.terminal_output` know: the terminal has the id of the call.
fn terminal(call: &ToolCallId, piece: TerminalPiece, keys: &mut acp::Meta) {
    let id = call.as_str();
    if let Some(cwd) = piece.cwd {
        keys.insert("terminal_info".into(), json!({"terminal_id": id, "cwd": cwd}));
    }
    if let Some(output) = piece.output {
        keys.insert("terminal_output".into(), json!({"terminal_id": id, "data": output}));
    }
    if let Some(exit) = piece.exit {
        let exit = json!({"terminal_id": id, "exit_code": exit.code, "signal": null});
        keys.insert("terminal_exit".into(), exit);
    }
}

fn tool_kind(kind: ToolKind) -> acp::ToolKind {
    match kind {
        ToolKind::Read => acp::ToolKind::Read,
        ToolKind::Edit => acp::ToolKind::Edit,
        ToolKind::Search => acp::ToolKind::Search,
        ToolKind::Execute => acp::ToolKind::Execute,
        ToolKind::Think => acp::ToolKind::Think,
        ToolKind::Fetch => acp::ToolKind::Fetch,
        ToolKind::SwitchMode => acp::ToolKind::SwitchMode,
        ToolKind::Other => acp::ToolKind::Other,
    }
}

fn tool_content(call: &ToolCallId, content: ToolContent) -> acp::ToolCallContent {
    let text =
        |text: String| acp::ToolCallContent::from(acp::ContentBlock::Text(acp::TextContent::new(text)));
    match content {
        ToolContent::Text(markdown) => text(markdown),
        ToolContent::Fenced(raw) => text(fenced(&raw)),
        ToolContent::Diff { path, old, new } => {
            acp::ToolCallContent::Diff(acp::Diff::new(path, new).old_text(old))
        }
        ToolContent::Image { mime, data } => acp::ToolCallContent::from(acp::ContentBlock::Image(
            acp::ImageContent::new(data.to_string(), mime),
        )),
        ToolContent::Terminal => acp::ToolCallContent::Terminal(acp::Terminal::new(call.as_str().to_owned())),
    }
}

/// Raw text in a fence longer than any run of backticks inside, so that nothing in it ends the fence or becomes markup.
fn fenced(raw: &str) -> String {
    let longest = raw.split(|ch| ch != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if raw.is_empty() || raw.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{raw}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn nothing_inside_ends_the_fence(raw in "[`a#\\n ]{0,40}") {
            let text = fenced(&raw);
            let fence: String = text.chars().take_while(|ch| *ch == '`').collect();
            prop_assert!(fence.len() >= 3);
            prop_assert!(!raw.contains(&fence));
            let body = text.strip_prefix(&format!("{fence}\n")).unwrap().strip_suffix(&fence).unwrap();
            prop_assert_eq!(body.trim_end_matches('\n'), raw.trim_end_matches('\n'));
        }
    }
}
