//! Tool calls as people see them: kind, title, locations and content from a tool's name, input and result.
//!
//! Pure text work: nothing here reads a file or decides anything. Titles are whole and relative to the workspace,
//! locations are absolute, and what is too large is cut with a note of its full size.

mod limits;
mod result;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use diag_model::ToolCallId;
use serde_json::Value;

use crate::client::{Location, ToolContent, ToolKind, ToolPatch};

pub use limits::{INPUT_LIMIT, SHOWN_LIMIT};

/// Presents the tools of one workspace.
#[derive(Debug, Clone)]
pub struct Presenter {
    root: PathBuf,
}

impl Presenter {
    /// Presents paths relative to `root`, which is absolute.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The workspace.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What can be said of a call from its tool and input.
    pub fn call(&self, call: ToolCallId, tool: Option<&Arc<str>>, input: Option<&Value>) -> ToolPatch {
        let name = tool.map_or("", |tool| tool.as_ref());
        ToolPatch {
            title: Some(self.title(name, input)),
            tool: tool.cloned(),
            kind: Some(kind(name)),
            content: self.provisional(name, input).map(|content| vec![content]),
            locations: self.location(name, input).map(|location| vec![location]),
            raw_input: input.map(limits::bounded_input),
            ..ToolPatch::new(call)
        }
    }

    fn title(&self, tool: &str, input: Option<&Value>) -> String {
        let field = |key| text(input, key);
        let path = || field("file_path").or_else(|| field("path")).map(|path| self.shown(path));
        let title = match tool {
            "Read" | "Write" | "Edit" => path(),
            "Bash" => field("command").map(str::to_owned),
            "Glob" | "Grep" => field("pattern").map(str::to_owned),
            "WebFetch" => field("url").map(str::to_owned),
            "WebSearch" | "web_search" => field("query").map(str::to_owned),
            "Agent" | "Task" => field("description").map(str::to_owned),
            "Skill" => field("skill").or_else(|| field("name")).map(|skill| format!("Skill {skill}")),
            "TodoWrite" => Some("Update the todo list".to_owned()),
            "EnterPlanMode" => Some("Enter plan mode".to_owned()),
            "ExitPlanMode" => Some("Present the plan".to_owned()),
            "AskUserQuestion" => input
                .and_then(|input| input.get("questions")?.get(0)?.get("question")?.as_str())
                .map(str::to_owned),
            "js" => Some("Run JavaScript".to_owned()),
            _ => None,
        };
        title.filter(|title| !title.trim().is_empty()).unwrap_or_else(|| self.generic_title(tool, input))
    }

    fn generic_title(&self, tool: &str, input: Option<&Value>) -> String {
        if let Some((server, tool)) = mcp(tool) {
            return format!("{server}: {tool}");
        }
        let name = if tool.is_empty() { "Tool" } else { tool };
        let said = ["command", "description", "query", "file_path", "path", "pattern", "prompt", "task_id"]
            .into_iter()
            .find_map(|key| Some((key, text(input, key).filter(|value| !value.trim().is_empty())?)));
        match said {
            Some(("file_path" | "path", path)) => format!("{name}: {}", self.shown(path)),
            Some((_, value)) => format!("{name}: {value}"),
            None => name.to_owned(),
        }
    }

    fn location(&self, tool: &str, input: Option<&Value>) -> Option<Location> {
        let (key, line) = match tool {
            "Read" => {
                let offset = input.and_then(|input| input.get("offset")?.as_u64());
                ("file_path", offset.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0))
            }
            "Write" | "Edit" => ("file_path", None),
            "Glob" | "Grep" => ("path", None),
            _ => return None,
        };
        Some(Location { path: self.absolute(text(input, key)?), line })
    }

    /// What a call will do, before it is done.
    fn provisional(&self, tool: &str, input: Option<&Value>) -> Option<ToolContent> {
        match tool {
            "Write" => self.provisional_diff(input, None, "content"),
            "Edit" => {
                let old = text(input, "old_string").filter(|old| !old.is_empty());
                self.provisional_diff(input, old, "new_string")
            }
            "ExitPlanMode" => text(input, "plan").map(|plan| ToolContent::Text(limits::shown(plan, None))),
            "js" => text(input, "code").map(|code| ToolContent::Fenced(limits::shown(code, None))),
            _ => None,
        }
    }

    fn provisional_diff(&self, input: Option<&Value>, old: Option<&str>, new: &str) -> Option<ToolContent> {
        let path = self.absolute(text(input, "file_path")?);
        let new = text(input, new)?;
        let size = old.map_or(0, str::len) + new.len();
        if size > INPUT_LIMIT {
            let note = format!("The change is too large to be shown ({size} bytes).");
            return Some(ToolContent::Text(note));
        }
        Some(ToolContent::Diff { path, old: old.map(str::to_owned), new: new.to_owned() })
    }

    /// An absolute path, `.` and `..` resolved by name only.
    fn absolute(&self, path: &str) -> PathBuf {
        let mut absolute = PathBuf::new();
        for component in self.root.join(path).components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    absolute.pop();
                }
                other => absolute.push(other),
            }
        }
        absolute
    }

    /// A path as shown: relative if inside the workspace.
    fn shown(&self, path: &str) -> String {
        let absolute = self.absolute(path);
        match absolute.strip_prefix(&self.root) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => display(&absolute),
        }
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn text<'a>(input: Option<&'a Value>, key: &str) -> Option<&'a str> {
    input?.get(key)?.as_str()
}

/// Server and tool of an MCP tool's name.
fn mcp(tool: &str) -> Option<(&str, &str)> {
    tool.strip_prefix("mcp__")?
        .split_once("__")
        .filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
}

fn kind(tool: &str) -> ToolKind {
    match tool {
        "Read" => ToolKind::Read,
        "Write" | "Edit" => ToolKind::Edit,
        "Bash" | "js" => ToolKind::Execute,
        "Glob" | "Grep" => ToolKind::Search,
        "WebFetch" | "WebSearch" | "web_search" => ToolKind::Fetch,
        "Agent" | "Task" | "TodoWrite" => ToolKind::Think,
        "EnterPlanMode" | "ExitPlanMode" => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

/// Tools whose output is raw text, where a line that begins with `#` is no heading.
fn raw(tool: &str) -> bool {
    matches!(tool, "Read" | "Bash" | "Glob" | "Grep" | "js" | "TaskOutput")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn present(tool: &str, input: &Value) -> ToolPatch {
        Presenter::new("/w/project").call("c1".into(), Some(&Arc::from(tool)), Some(input))
    }

    #[test]
    fn each_tool_has_the_title_and_kind_of_the_table() {
        let table = [
            ("Read", json!({"file_path": "/w/project/src/a.rs"}), "src/a.rs", ToolKind::Read),
            ("Read", json!({"file_path": "/etc/hosts"}), "/etc/hosts", ToolKind::Read),
            ("Write", json!({"file_path": "b c.txt", "content": "x"}), "b c.txt", ToolKind::Edit),
            ("Edit", json!({"file_path": "./x/../y.rs"}), "y.rs", ToolKind::Edit),
            (
                "Bash",
                json!({"command": "cargo test\n# all", "description": "Test"}),
                "cargo test\n# all",
                ToolKind::Execute,
            ),
            ("Glob", json!({"pattern": "**/*.rs"}), "**/*.rs", ToolKind::Search),
            ("Grep", json!({"pattern": "fn main", "path": "src"}), "fn main", ToolKind::Search),
            (
                "WebFetch",
                json!({"url": "https://a.example/", "prompt": "p"}),
                "https://a.example/",
                ToolKind::Fetch,
            ),
            ("WebSearch", json!({"query": "rust"}), "rust", ToolKind::Fetch),
            ("Agent", json!({"description": "Look around", "prompt": "p"}), "Look around", ToolKind::Think),
            ("Task", json!({"description": "Look around"}), "Look around", ToolKind::Think),
            ("Skill", json!({"skill": "review"}), "Skill review", ToolKind::Other),
            ("TodoWrite", json!({"todos": []}), "Update the todo list", ToolKind::Think),
            ("ExitPlanMode", json!({"plan": "# P"}), "Present the plan", ToolKind::SwitchMode),
            ("AskUserQuestion", json!({"questions": [{"question": "Which?"}]}), "Which?", ToolKind::Other),
            ("mcp__db__run_query", json!({"query": "select"}), "db: run_query", ToolKind::Other),
            ("TaskOutput", json!({"task_id": "b1"}), "TaskOutput: b1", ToolKind::Other),
            ("Novel", json!({"path": "/w/project/z"}), "Novel: z", ToolKind::Other),
            ("Novel", json!({}), "Novel", ToolKind::Other),
            ("Bash", json!({"command": 7}), "Bash", ToolKind::Execute),
        ];
        for (tool, input, title, kind) in table {
            let patch = present(tool, &input);
            assert_eq!((patch.title.as_deref(), patch.kind), (Some(title), Some(kind)), "{tool}");
        }
    }

    #[test]
    fn locations_are_absolute_and_a_read_starts_at_its_offset() {
        let locations = present("Read", &json!({"file_path": "src/a.rs", "offset": 12})).locations;
        assert_eq!(locations, Some(vec![Location { path: "/w/project/src/a.rs".into(), line: Some(12) }]));
        let locations = present("Edit", &json!({"file_path": "../b.rs"})).locations;
        assert_eq!(locations, Some(vec![Location { path: "/w/b.rs".into(), line: None }]));
        assert_eq!(present("Bash", &json!({"command": "ls"})).locations, None);
    }

    #[test]
    fn edit_and_write_show_one_provisional_diff() {
        let diff = |old: Option<&str>, new: &str| {
            Some(vec![ToolContent::Diff {
                path: "/w/project/a".into(),
                old: old.map(Into::into),
                new: new.into(),
            }])
        };
        let edit = |old, new| {
            present("Edit", &json!({"file_path": "a", "old_string": old, "new_string": new})).content
        };
        assert_eq!(edit("1", "2"), diff(Some("1"), "2"));
        assert_eq!(edit("", "2"), diff(None, "2"), "an empty old string creates the file");
        assert_eq!(present("Write", &json!({"file_path": "a", "content": "x"})).content, diff(None, "x"));
        let huge =
            present("Write", &json!({"file_path": "a", "content": "x".repeat(INPUT_LIMIT + 1)})).content;
        assert!(matches!(huge.as_deref(), Some([ToolContent::Text(note)]) if note.contains("2097153 bytes")));
    }

    #[test]
    fn a_call_without_input_claims_none() {
        let patch = Presenter::new("/w").call("c".into(), None, None);
        assert_eq!((patch.title.as_deref(), patch.raw_input), (Some("Tool"), None));
    }
}
