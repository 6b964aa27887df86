//! Results, failures and progress of tool calls.

use std::fmt::Write as _;
use std::sync::Arc;

use diag_model::ToolCallId;
use serde_json::{Map, Value};
use zcode_runtime::model::{DiffHunk, Todo, TodoStatus, ToolDisplay, ToolResult};

use super::{Presenter, limits, raw};
use crate::client::{Location, ToolContent, ToolPatch, ToolStatus};

/// An image of a result that is shown, base64 bytes: a line with it stays below the 10 MiB some clients refuse.
const IMAGE_LIMIT: usize = 8 * 1024 * 1024;

impl Presenter {
    /// The end of a call. A failure shows its text and never a diff.
    pub fn result(&self, call: ToolCallId, tool: &str, result: &ToolResult) -> ToolPatch {
        let mut patch = ToolPatch::new(call);
        patch.raw_output = Some(raw_output(result));
        if !result.success {
            patch.status = Some(ToolStatus::Failed);
            patch.content = Some(vec![text(tool, result)]);
            return patch;
        }
        patch.status = Some(ToolStatus::Completed);
        match &result.display {
            Some(ToolDisplay::FileDiff { path, hunks, truncated: false })
                if !hunks.is_empty() && small(hunks) =>
            {
                let absolute = self.absolute(path);
                let line = hunks.first().map(|hunk| hunk.new_start.max(1));
                patch.locations = Some(vec![Location { path: absolute.clone(), line }]);
                patch.content = Some(hunks.iter().map(|hunk| diff(absolute.clone(), hunk)).collect());
            }
            Some(ToolDisplay::Backgrounded) => {
                patch.status = Some(ToolStatus::InProgress);
                patch.content = Some(vec![text(tool, result)]);
            }
            Some(ToolDisplay::Todos(todos)) => {
                patch.content = Some(vec![ToolContent::Text(summary(todos))]);
            }
            Some(ToolDisplay::Images(images)) => {
                let images = images.iter().filter(|image| image.data.len() <= IMAGE_LIMIT);
                let mut content: Vec<_> = images
                    .map(|image| ToolContent::Image {
                        mime: image.mime.clone(),
                        data: Arc::clone(&image.data),
                    })
                    .collect();
                if content.is_empty() || !result.content.trim().is_empty() {
                    content.push(text(tool, result));
                }
                patch.content = Some(content);
            }
            _ => patch.content = Some(vec![text(tool, result)]),
        }
        patch
    }

    /// The current tail of a running call's output; it replaces the earlier one.
    pub fn progress(&self, call: ToolCallId, tail: Option<&str>, total: Option<u64>) -> ToolPatch {
        let mut patch = ToolPatch::new(call);
        patch.status = Some(ToolStatus::InProgress);
        patch.content = tail.filter(|tail| !tail.is_empty()).map(|tail| {
            let missing = total.filter(|total| *total > tail.len() as u64);
            vec![ToolContent::Fenced(limits::shown(tail, missing))]
        });
        patch
    }

    /// A call that failed before it had a result, or was given up.
    pub fn failure(&self, call: ToolCallId, error: &str) -> ToolPatch {
        let mut patch = ToolPatch::new(call);
        patch.status = Some(ToolStatus::Failed);
        patch.content = Some(vec![ToolContent::Text(limits::shown(error, None))]);
        patch
    }
}

/// A todo list in one line; the list itself is the client's plan.
fn summary(todos: &[Todo]) -> String {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    match todos.len() {
        0 => "The todo list is empty.".to_owned(),
        count => format!("{done} of {count} done"),
    }
}

fn text(tool: &str, result: &ToolResult) -> ToolContent {
    let full = result.original_bytes.filter(|_| result.truncated);
    let mut shown = limits::shown(&result.content, full);
    if let Some(code) = result.exit_code.filter(|code| *code != 0 && !result.success) {
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        let _ = write!(shown, "[exit code {code}]");
    }
    if raw(tool) { ToolContent::Fenced(shown) } else { ToolContent::Text(shown) }
}

/// The output as it was, bounded.
fn raw_output(result: &ToolResult) -> Value {
    let head = limits::head(&result.content, limits::SHOWN_LIMIT);
    let mut members = Map::new();
    members.insert("success".to_owned(), Value::Bool(result.success));
    members.insert("content".to_owned(), Value::String(head.to_owned()));
    if let Some(code) = result.exit_code {
        members.insert("exitCode".to_owned(), Value::from(code));
    }
    if result.truncated || head.len() < result.content.len() {
        let size = result.original_bytes.unwrap_or(0).max(result.content.len() as u64);
        members.insert("truncated".to_owned(), Value::Bool(true));
        members.insert("originalBytes".to_owned(), Value::from(size));
    }
    Value::Object(members)
}

fn small(hunks: &[DiffHunk]) -> bool {
    hunks.iter().flat_map(|hunk| &hunk.lines).map(String::len).sum::<usize>() <= limits::INPUT_LIMIT
}

fn diff(path: std::path::PathBuf, hunk: &DiffHunk) -> ToolContent {
    let side = |own: char| {
        let lines =
            hunk.lines.iter().filter_map(|line| line.strip_prefix(' ').or_else(|| line.strip_prefix(own)));
        lines.collect::<Vec<_>>().join("\n")
    };
    let old = side('-');
    let created = old.is_empty() && hunk.old_start <= 1;
    ToolContent::Diff { path, old: (!created).then_some(old), new: side('+') }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presenter() -> Presenter {
        Presenter::new("/w")
    }

    fn result(success: bool, content: &str, display: Option<ToolDisplay>) -> ToolResult {
        ToolResult {
            success,
            content: content.to_owned(),
            display,
            exit_code: None,
            truncated: false,
            original_bytes: None,
        }
    }

    fn hunk(old_start: u32, new_start: u32, lines: &[&str]) -> DiffHunk {
        DiffHunk { old_start, new_start, lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }

    fn file_diff(truncated: bool) -> ToolDisplay {
        let hunks =
            vec![hunk(3, 3, &[" a", "-b", "+c"]), hunk(9, 9, &[" x", "+y", "\\ No newline at end of file"])];
        ToolDisplay::FileDiff { path: "f.rs".to_owned(), hunks, truncated }
    }

    #[test]
    fn the_final_diff_comes_from_the_hunks() {
        let patch = presenter().result("c".into(), "Edit", &result(true, "done", Some(file_diff(false))));
        let diff = |old: &str, new: &str| ToolContent::Diff {
            path: "/w/f.rs".into(),
            old: Some(old.into()),
            new: new.into(),
        };
        assert_eq!(patch.content, Some(vec![diff("a\nb", "a\nc"), diff("x", "x\ny")]));
        assert_eq!(patch.locations, Some(vec![Location { path: "/w/f.rs".into(), line: Some(3) }]));
    }

    #[test]
    fn a_created_file_has_no_old_text() {
        let display = ToolDisplay::FileDiff {
            path: "n".into(),
            hunks: vec![hunk(0, 1, &["+a", "+b"])],
            truncated: false,
        };
        let patch = presenter().result("c".into(), "Write", &result(true, "", Some(display)));
        assert_eq!(
            patch.content,
            Some(vec![ToolContent::Diff { path: "/w/n".into(), old: None, new: "a\nb".into() }])
        );
    }

    #[test]
    fn a_truncated_patch_and_a_failure_fall_back_to_text() {
        let cut = presenter().result("c".into(), "Edit", &result(true, "edited f.rs", Some(file_diff(true))));
        assert_eq!(cut.content, Some(vec![ToolContent::Text("edited f.rs".into())]));
        let failed =
            presenter().result("c".into(), "Edit", &result(false, "no match", Some(file_diff(false))));
        assert_eq!(failed.content, Some(vec![ToolContent::Text("no match".into())]));
        assert_eq!(failed.status, Some(ToolStatus::Failed));
    }

    #[test]
    fn command_output_is_fenced_and_cut_with_its_full_size() {
        let mut output = result(false, "# not a heading", None);
        output.exit_code = Some(2);
        let patch = presenter().result("c".into(), "Bash", &output);
        assert_eq!(patch.content, Some(vec![ToolContent::Fenced("# not a heading\n[exit code 2]".into())]));
        let patch = presenter().result("c".into(), "Bash", &result(true, &"x".repeat(1 << 20), None));
        assert!(matches!(patch.content.as_deref(), Some([ToolContent::Fenced(text)])
            if text.len() < 263_000 && text.ends_with("[262144 of 1048576 bytes shown]")));
        assert_eq!(patch.raw_output.as_ref().and_then(|raw| raw["originalBytes"].as_u64()), Some(1 << 20));
    }

    #[test]
    fn a_backgrounded_result_is_not_the_end() {
        let patch =
            presenter().result("c".into(), "Bash", &result(true, "started", Some(ToolDisplay::Backgrounded)));
        assert_eq!(patch.status, Some(ToolStatus::InProgress));
    }
}
