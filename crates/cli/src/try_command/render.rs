//! A turn as text: what the agent thinks, says and does, in words first and colour second.

use std::collections::HashMap;
use std::fmt::Write as _;

use client::{Diff, PermissionAsk, PlanEntry, PlanStatus, ToolContent, ToolStatus, ToolUpdate, Update};

use super::diff::{self, Line};
use crate::sanitize::{visible, visible_line};

/// Lines of a tool's output that are shown; the rest is counted.
const OUTPUT_LINES: usize = 20;
/// Characters of such a line.
const OUTPUT_WIDTH: usize = 400;
/// Tool calls that are remembered. A call beyond it is shown without what was said of it before.
const MAX_TOOLS: usize = 4096;

/// What is being written without a line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Thought,
    Message,
}

/// Turns updates into text. Keeps what it needs of the turn: the open line, the tools, the answer.
pub(crate) struct Renderer {
    color: bool,
    open: Open,
    at_line_start: bool,
    tools: HashMap<String, Tool>,
    answer: Answer,
    /// The tool whose diff is the last thing on the screen.
    diff_above: Option<String>,
}

#[derive(Default)]
struct Tool {
    kind: Option<String>,
    title: String,
    status: Option<ToolStatus>,
    diffs: Vec<Diff>,
    text: String,
}

impl Tool {
    /// What is done and to what: `edit src/main.rs`. Kinds that say nothing are left out.
    fn label(&self, id: &str) -> String {
        let title = if self.title.is_empty() { id } else { self.title.as_str() };
        match self.kind.as_deref() {
            Some(kind @ ("read" | "edit" | "delete" | "move" | "search" | "execute" | "fetch")) => {
                format!("{kind} {}", visible_line(title))
            }
            _ => visible_line(title),
        }
    }
}

/// The agent's last message.
#[derive(Default)]
struct Answer {
    text: String,
    id: Option<String>,
    /// Something else came in between; the next part without an id begins a new message.
    ended: bool,
}

impl Answer {
    fn add(&mut self, text: &str, id: Option<String>) {
        let other = match (&self.id, &id) {
            (Some(known), Some(id)) => known != id,
            _ => self.ended,
        };
        if other {
            self.text.clear();
        }
        self.text.push_str(text);
        self.id = id;
        self.ended = false;
    }
}

#[derive(Clone, Copy)]
enum Style {
    Label,
    Dim,
    Added,
    Removed,
    Bad,
}

impl Renderer {
    pub(crate) fn new(color: bool) -> Self {
        Self {
            color,
            open: Open::Nothing,
            at_line_start: true,
            tools: HashMap::new(),
            answer: Answer::default(),
            diff_above: None,
        }
    }

    /// The text of the agent's last message.
    pub(crate) fn answer(&self) -> &str {
        &self.answer.text
    }

    /// A line of our own, in brackets before it what it is about.
    pub(crate) fn note(&mut self, label: &str, text: &str) -> String {
        self.diff_above = None;
        let mut out = self.close();
        self.labelled(&mut out, label, &visible_line(text));
        out.push('\n');
        out
    }

    /// An update.
    pub(crate) fn update(&mut self, update: &Update) -> String {
        match update {
            Update::Thought { text, .. } => self.stream(Open::Thought, text),
            Update::Message { text, id } => {
                self.answer.add(text, id.clone());
                self.stream(Open::Message, text)
            }
            Update::Tool(tool) => {
                self.answer.ended = true;
                self.tool(tool)
            }
            Update::Plan(entries) => self.plan(entries),
            Update::Mode(mode) => self.note("mode", mode),
            Update::Title(title) => self.note("title", title),
            Update::Notice(text) => self.note("notice", text),
            _ => String::new(),
        }
    }

    /// Ends an open line.
    pub(crate) fn close(&mut self) -> String {
        self.open = Open::Nothing;
        if std::mem::replace(&mut self.at_line_start, true) { String::new() } else { "\n".to_owned() }
    }

    /// A permission, whole: what is asked, on what, and the possible answers.
    pub(crate) fn permission(&mut self, ask: &PermissionAsk) -> String {
        let tool = self.tools.entry(ask.tool.id.clone()).or_default();
        if let Some(title) = &ask.tool.title {
            tool.title.clone_from(title);
        }
        if ask.tool.kind.is_some() {
            tool.kind.clone_from(&ask.tool.kind);
        }
        let label = tool.label(&ask.tool.id);
        // What was shown long ago is shown again: the question must be answerable from what is on the screen.
        let above = self.diff_above.as_deref() == Some(ask.tool.id.as_str());
        let shown_before = if above { tool.diffs.clone() } else { Vec::new() };
        let mut out = self.note("permission", &label);
        let mut described = false;
        for content in ask.tool.content.iter().flatten() {
            match content {
                ToolContent::Diff(diff) if shown_before.contains(diff) => described = true,
                ToolContent::Diff(diff) => {
                    described = true;
                    self.diff(&mut out, diff);
                }
                ToolContent::Text(text) => {
                    described = true;
                    indent(&mut out, text);
                }
                _ => {}
            }
        }
        if !described
            && let Some(input) = &ask.tool.raw_input
            && let Ok(text) = serde_json::to_string_pretty(input)
        {
            indent(&mut out, &text);
        }
        out
    }

    fn stream(&mut self, kind: Open, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        self.diff_above = None;
        let mut out = String::new();
        if self.open != kind {
            out = self.close();
            self.open = kind;
            self.labelled(&mut out, if kind == Open::Thought { "thinking" } else { "agent" }, "");
        }
        let shown = visible(text);
        if kind == Open::Thought {
            self.styled(&mut out, Style::Dim, &shown);
        } else {
            out.push_str(&shown);
        }
        self.at_line_start = shown.ends_with('\n');
        out
    }

    fn tool(&mut self, update: &ToolUpdate) -> String {
        if self.tools.len() >= MAX_TOOLS && !self.tools.contains_key(&update.id) {
            self.tools.clear();
        }
        let mut tool = self.tools.remove(&update.id).unwrap_or_default();
        let before = tool.status;
        if let Some(title) = &update.title {
            tool.title.clone_from(title);
        }
        if update.kind.is_some() {
            tool.kind.clone_from(&update.kind);
        }
        tool.status = update.status.or(tool.status);
        let mut new_diffs = Vec::new();
        if let Some(content) = &update.content {
            tool.text.clear();
            for content in content {
                match content {
                    ToolContent::Text(text) => tool.text.push_str(text),
                    ToolContent::Diff(diff) if !tool.diffs.contains(diff) => new_diffs.push(diff.clone()),
                    _ => {}
                }
            }
        }
        let mut out = String::new();
        if update.first || tool.status != before {
            let status = status_word(tool.status);
            out = self.close();
            self.diff_above = None;
            self.labelled(&mut out, "tool", &format!("{}: ", tool.label(&update.id)));
            let style = match tool.status {
                Some(ToolStatus::Failed) => Style::Bad,
                Some(ToolStatus::Completed) => Style::Added,
                _ => Style::Dim,
            };
            self.styled(&mut out, style, status);
            out.push('\n');
        }
        for diff in new_diffs {
            out.push_str(&self.close());
            self.diff(&mut out, &diff);
            self.diff_above = Some(update.id.clone());
            tool.diffs.push(diff);
        }
        let now_final = tool.status.is_some_and(ToolStatus::is_final) && tool.status != before;
        if now_final && !tool.text.trim().is_empty() {
            self.diff_above = None;
            output(&mut out, &tool.text);
        }
        self.tools.insert(update.id.clone(), tool);
        out
    }

    fn diff(&self, out: &mut String, diff: &Diff) {
        let path = visible_line(&diff.path.display().to_string());
        let what = if diff.old.is_none() { "new file" } else { "diff" };
        self.styled(out, Style::Dim, &format!("  {what} {path}\n"));
        for line in diff::lines(diff.old.as_deref().unwrap_or(""), &diff.new) {
            match line {
                Line::Same(text) => {
                    let _ = writeln!(out, "    {}", visible(text));
                }
                Line::Removed(text) => self.styled(out, Style::Removed, &format!("  - {}\n", visible(text))),
                Line::Added(text) => self.styled(out, Style::Added, &format!("  + {}\n", visible(text))),
                Line::Skipped(count) => self.styled(out, Style::Dim, &format!("    ... {count} unchanged\n")),
            }
        }
    }

    fn plan(&mut self, entries: &[PlanEntry]) -> String {
        self.diff_above = None;
        let mut out = self.close();
        self.labelled(&mut out, "plan", if entries.is_empty() { "empty\n" } else { "\n" });
        for entry in entries {
            let mark = match entry.status {
                PlanStatus::Completed => "[x]",
                PlanStatus::InProgress => "[>]",
                _ => "[ ]",
            };
            let _ = writeln!(out, "  {mark} {}", visible_line(&entry.content));
        }
        out
    }

    fn labelled(&self, out: &mut String, label: &str, text: &str) {
        self.styled(out, Style::Label, &format!("[{label}]"));
        out.push(' ');
        out.push_str(text);
    }

    fn styled(&self, out: &mut String, style: Style, text: &str) {
        if !self.color {
            out.push_str(text);
            return;
        }
        let code = match style {
            Style::Label => "36",
            Style::Dim => "2",
            Style::Added => "32",
            Style::Removed => "31",
            Style::Bad => "1;31",
        };
        // The line end stays outside, so that a coloured line never colours the next one.
        let (body, end) = text.strip_suffix('\n').map_or((text, ""), |body| (body, "\n"));
        let _ = write!(out, "\x1b[{code}m{body}\x1b[0m{end}");
    }
}

fn status_word(status: Option<ToolStatus>) -> &'static str {
    match status {
        Some(ToolStatus::InProgress) => "running",
        Some(ToolStatus::Completed) => "done",
        Some(ToolStatus::Failed) => "failed",
        _ => "waiting",
    }
}

/// Everything, for a question.
fn indent(out: &mut String, text: &str) {
    for line in visible(text.trim_end()).lines() {
        let _ = writeln!(out, "    {line}");
    }
}

/// The beginning of a tool's output; the fence around it is for clients that render Markdown.
fn output(out: &mut String, text: &str) {
    let text = visible(text.trim_end());
    let mut lines: Vec<&str> = text.lines().collect();
    if let [first, .., last] = lines.as_slice()
        && first.starts_with("```")
        && last.starts_with("```")
    {
        lines = lines[1..lines.len() - 1].to_vec();
    }
    for line in lines.iter().take(OUTPUT_LINES) {
        let cut = line.char_indices().nth(OUTPUT_WIDTH).map(|(at, _)| at);
        let _ = match cut {
            Some(at) => writeln!(out, "    {} ...", &line[..at]),
            None => writeln!(out, "    {line}"),
        };
    }
    if let Some(more @ 1..) = lines.len().checked_sub(OUTPUT_LINES) {
        let _ = writeln!(out, "    ... {more} more lines");
    }
}

#[cfg(test)]
mod tests {
    use client::{OptionKind, PermissionOption};
    use serde_json::json;

    use super::*;

    fn message(text: &str, id: &str) -> Update {
        Update::Message { text: text.into(), id: Some(id.into()) }
    }

    fn edit(status: ToolStatus) -> ToolUpdate {
        ToolUpdate {
            id: "t1".into(),
            status: Some(status),
            content: Some(vec![ToolContent::Diff(Diff {
                path: "/w/a.txt".into(),
                old: Some("one\ntwo\n".into()),
                new: "one\n2\n".into(),
            })]),
            ..ToolUpdate::default()
        }
    }

    fn turn(color: bool) -> String {
        let mut renderer = Renderer::new(color);
        let first = ToolUpdate {
            first: true,
            title: Some("a.txt".into()),
            kind: Some("edit".into()),
            ..edit(ToolStatus::Pending)
        };
        let updates = [
            Update::Thought { text: "Let me ".into(), id: None },
            Update::Thought { text: "look.\n".into(), id: None },
            message("I will ", "m1"),
            message("edit.", "m1"),
            Update::Tool(first),
            Update::Tool(edit(ToolStatus::InProgress)),
            Update::Tool(edit(ToolStatus::InProgress)),
            Update::Tool(edit(ToolStatus::Completed)),
            Update::Plan(vec![PlanEntry { content: "Edit".into(), status: PlanStatus::Completed }]),
            message("Done.", "m2"),
        ];
        let mut out: String = updates.iter().map(|update| renderer.update(update)).collect();
        out.push_str(&renderer.close());
        assert_eq!(renderer.answer(), "Done.");
        out
    }

    #[test]
    fn a_turn_reads_as_lines() {
        insta::assert_snapshot!(turn(false), @r"
        [thinking] Let me look.
        [agent] I will edit.
        [tool] edit a.txt: waiting
          diff /w/a.txt
            one
          - two
          + 2
        [tool] edit a.txt: running
        [tool] edit a.txt: done
        [plan] 
          [x] Edit
        [agent] Done.
        ");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let mut plain = String::new();
        let colored = turn(true);
        let mut rest = colored.as_str();
        while let Some((before, after)) = rest.split_once("\x1b[") {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        assert_eq!(plain, turn(false));
    }

    #[test]
    fn foreign_text_cannot_move_the_cursor() {
        let mut renderer = Renderer::new(false);
        let out = renderer.update(&message("a\x1b[2Jb", "m"));
        assert_eq!(out, "[agent] a\\x1b[2Jb");
        let tool = ToolUpdate {
            id: "x".into(),
            first: true,
            title: Some("Bash\nrm -rf /\r[tool] ls".into()),
            ..ToolUpdate::default()
        };
        let out = renderer.update(&Update::Tool(tool));
        assert_eq!(out, "\n[tool] Bash\\nrm -rf /\\r[tool] ls: waiting\n");
    }

    #[test]
    fn a_permission_shows_the_whole_input() {
        let mut renderer = Renderer::new(false);
        let command = format!("echo {}", "x".repeat(500));
        let ask = PermissionAsk {
            session: "s".into(),
            tool: ToolUpdate {
                id: "b".into(),
                title: Some("Run a command".into()),
                raw_input: Some(json!({"command": command})),
                ..ToolUpdate::default()
            },
            options: vec![PermissionOption {
                id: "a".into(),
                name: "Allow".into(),
                kind: OptionKind::AllowOnce,
            }],
        };
        let out = renderer.permission(&ask);
        assert!(out.starts_with("[permission] Run a command\n") && out.contains(&command));
    }

    #[test]
    fn a_permission_repeats_a_diff_that_is_not_right_above() {
        let ask = PermissionAsk { session: "s".into(), tool: edit(ToolStatus::Pending), options: Vec::new() };
        let first = Update::Tool(ToolUpdate {
            first: true,
            title: Some("a.txt".into()),
            ..edit(ToolStatus::Pending)
        });
        let mut renderer = Renderer::new(false);
        assert!(renderer.update(&first).contains("  + 2"));
        assert!(!renderer.permission(&ask).contains("  + 2"));
        assert!(renderer.permission(&ask).contains("  + 2"), "something else was shown since");
    }

    #[test]
    fn output_is_cut_and_its_fence_left_out() {
        let mut out = String::new();
        output(&mut out, "```text\na\n```");
        assert_eq!(out, "    a\n");
        out.clear();
        output(&mut out, &format!("{}\n{}", "x".repeat(500), "y\n".repeat(30)));
        assert!(
            out.contains(&format!("{} ...\n", "x".repeat(400))) && out.ends_with("    ... 11 more lines\n"),
            "{out}"
        );
    }

    #[test]
    fn the_answer_is_the_last_message() {
        let mut renderer = Renderer::new(false);
        for update in [
            Update::Message { text: "first".into(), id: None },
            Update::Tool(ToolUpdate { id: "t".into(), first: true, ..ToolUpdate::default() }),
            Update::Message { text: "last ".into(), id: None },
            Update::Message { text: "one".into(), id: None },
        ] {
            renderer.update(&update);
        }
        assert_eq!(renderer.answer(), "last one");
    }
}
