//! Tool calls: their stages, their results and how those are presented. The same for live calls and stored ones.

use std::sync::Arc;

use runtime_discovery::contract::ToolUpdateClass;
use serde_json::value::RawValue;
use zcode_protocol::task_v1::error::ErrorDetail;
use zcode_protocol::task_v1::payload::{Display, Image, TodoOutput, ToolResult as WireResult, ToolUpdated};

use super::events::{Read, arc, call, lacks, text_of, unknown, value};
use super::{Memory, REMEMBERED, TaskV1, facts, failure};
use crate::model::{DiffHunk, EventBody, Todo, ToolDisplay, ToolEvent, ToolImage, ToolResult, ToolStage};

/// The tool that keeps the todo list.
pub(super) const TODO_TOOL: &str = "TodoWrite";

impl TaskV1 {
    pub(super) fn tool(&self, update: &ToolUpdated<'_>, memory: &mut Memory) -> Read<EventBody> {
        const EVENT: &str = "tool.updated";
        let kind = &*update.kind;
        let Some(class) = self.contract.protocol.tool_update_kinds.get(kind) else {
            return Err(unknown("tool.updated kind", kind));
        };
        // The todo list of a subagent is its own.
        let own_call = (update.parent_tool_call_id.is_none() && update.agent_id.is_none())
            .then_some(update.tool_call_id.as_ref())
            .flatten();
        if let Some(id) = own_call {
            memory.note_tool(id, update.tool_name.as_deref());
        }
        let stage = match class {
            ToolUpdateClass::Informational => return Ok(EventBody::Informational(EVENT)),
            ToolUpdateClass::Pending => ToolStage::Scheduled {
                input: update.input.filter(|_| update.input_omitted != Some(true)).map(value),
            },
            ToolUpdateClass::InProgress if kind == "progress" => {
                ToolStage::Progress { tail: tail(update), total_bytes: update.output_bytes.0 }
            }
            ToolUpdateClass::InProgress => ToolStage::Started,
            ToolUpdateClass::Final if kind == "error" => {
                ToolStage::Failed { error: update.error.map(error_text).unwrap_or_default() }
            }
            ToolUpdateClass::Final => {
                let result = update.result.as_ref().ok_or_else(|| lacks(EVENT, kind, "result"))?;
                ToolStage::Result(tool_result(result, own_call.is_some_and(|id| memory.todo_call_over(id))))
            }
        };
        let id = update.tool_call_id.as_ref().ok_or_else(|| lacks(EVENT, kind, "toolCallId"))?;
        Ok(EventBody::Tool(ToolEvent {
            call: call(id),
            tool: update.tool_name.as_ref().map(arc),
            parent: update.parent_tool_call_id.as_ref().map(call),
            agent: update.agent_id.as_ref().map(arc),
            stage,
        }))
    }
}

/// Both streams, or the preview when there are none.
fn tail(update: &ToolUpdated<'_>) -> Option<String> {
    let streams: Vec<&str> = [&update.stdout_tail, &update.stderr_tail]
        .into_iter()
        .filter_map(|tail| tail.0.as_deref())
        .filter(|tail| !tail.is_empty())
        .collect();
    match streams.as_slice() {
        [] => update.output_preview.0.as_ref().map(|text| text.0.clone().into_owned()),
        [one] => Some((*one).to_owned()),
        [first, rest @ ..] => {
            let gap = if first.ends_with('\n') { "" } else { "\n" };
            Some(format!("{first}{gap}{}", rest.concat()))
        }
    }
}

/// A message, wherever it is: errors are texts or details with a message.
pub(super) fn error_text(error: &RawValue) -> String {
    match error.get().as_bytes().first() {
        Some(b'{') => {
            let detail: ErrorDetail<'_> = serde_json::from_str(error.get()).unwrap_or_default();
            failure::telling(&detail).unwrap_or_else(|| error.get().to_owned())
        }
        _ => text_of(error),
    }
}

fn tool_result(result: &WireResult<'_>, is_todo: bool) -> ToolResult {
    let display = result.display.0.as_ref();
    ToolResult {
        success: result.success,
        content: result.content.map(text_of).unwrap_or_default(),
        display: presentation(display, result.content, is_todo && result.success),
        exit_code: result
            .perf
            .0
            .and_then(|perf| perf.exit_code)
            .or_else(|| display.and_then(|display| display.exit_code.0)),
        truncated: result.truncated.0.unwrap_or(false),
        original_bytes: result.original_bytes.0,
    }
}

/// The structured presentation of a result. The todo tool may say its list in the presentation or in the output itself.
pub(super) fn presentation(
    display: Option<&Display<'_>>,
    output: Option<&RawValue>,
    is_todo: bool,
) -> Option<ToolDisplay> {
    if is_todo {
        let shown = display.and_then(|display| display.todos.0.as_deref()).map(facts::todos);
        if let Some(todos) = shown.or_else(|| output.and_then(todos_in)) {
            return Some(ToolDisplay::Todos(todos));
        }
    }
    display.map(self::display)
}

/// The list in the todo tool's output: an object, or the text of one.
fn todos_in(output: &RawValue) -> Option<Vec<Todo>> {
    let text = text_of(output);
    let output: TodoOutput<'_> = serde_json::from_str(&text).ok()?;
    Some(facts::todos(&output.todos))
}

fn display(display: &Display<'_>) -> ToolDisplay {
    if display.status.0.as_deref() == Some("backgrounded") {
        return ToolDisplay::Backgrounded;
    }
    if let Some(images) = display.images.0.as_deref().filter(|images| !images.is_empty()) {
        let image =
            |image: &Image<'_>| ToolImage { mime: image.mime_type.to_string(), data: arc(&image.base64) };
        return ToolDisplay::Images(images.iter().map(image).collect());
    }
    match (&*display.kind, &display.file_path, &display.structured_patch) {
        ("file_diff", Some(path), Some(hunks)) => ToolDisplay::FileDiff {
            path: path.0.clone().into_owned(),
            hunks: hunks
                .iter()
                .map(|hunk| DiffHunk {
                    old_start: hunk.old_start,
                    new_start: hunk.new_start,
                    lines: hunk.lines.iter().map(|line| line.0.clone().into_owned()).collect(),
                })
                .collect(),
            truncated: display.truncated == Some(true),
        },
        (kind, ..) => ToolDisplay::Other(Arc::from(kind)),
    }
}

impl Memory {
    pub(super) fn note_tool(&mut self, call: &str, tool: Option<&str>) {
        if tool == Some(TODO_TOOL) && self.todo_calls.len() < REMEMBERED && !self.todo_calls.contains(call) {
            self.todo_calls.insert(call.to_owned());
        }
    }

    fn todo_call_over(&mut self, call: &str) -> bool {
        self.todo_calls.remove(call)
    }
}
