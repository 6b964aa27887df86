//! Tool calls of a session: joined from the streams that tell of them, shown once, ended once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::ToolCallId;
use serde_json::Value;
use zcode_runtime::model::{
    BackgroundTask, TaskStatus, ToolDisplay, ToolEvent, ToolInput, ToolInputPart, ToolStage,
};

use super::ended::Ended;
use super::terminal::Terminal;
use crate::client::{TerminalExit, TerminalPiece, ToolContent, ToolPatch, ToolStatus, ToolView, Update};
use crate::presentation::Presenter;

/// Calls that can be open at once; more are not shown.
const OPEN_LIMIT: usize = 1024;
/// Ended calls remembered, so that none is reopened.
const ENDED_LIMIT: usize = 4096;
/// Text of an input joined from deltas, bytes. Beyond, the call is shown without input.
const INPUT_LIMIT: usize = 8 * 1024 * 1024;
/// How often a call that others work for shows that it goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Tool {
    name: Option<Arc<str>>,
    parent: Option<ToolCallId>,
    agent: Option<Arc<str>>,
    input: Input,
    shown: bool,
    running: bool,
    background: bool,
    /// When it last showed that calls work for it.
    alive: Option<Instant>,
    /// Shown as a terminal stream.
    terminal: Option<Terminal>,
}

#[derive(Debug, Default)]
enum Input {
    #[default]
    Unknown,
    /// Being written, as JSON text.
    Partial(String),
    /// Known, and whether it has been shown.
    Known(Value, bool),
    /// Too large or not JSON.
    Lost,
}

/// The calls of one session.
#[derive(Debug)]
pub(crate) struct Tools {
    open: HashMap<ToolCallId, Tool>,
    /// Order of first sight, so that the end of a turn closes calls in a stable order.
    order: Vec<ToolCallId>,
    ended: Ended<ToolCallId>,
    presenter: Presenter,
    /// The client shows the output of commands as a terminal.
    terminals: bool,
    dropped: u64,
}

impl Tools {
    pub(crate) fn new(presenter: Presenter, terminals: bool) -> Self {
        let ended = Ended::new(ENDED_LIMIT);
        Self { open: HashMap::new(), order: Vec::new(), ended, presenter, terminals, dropped: 0 }
    }

    /// The same presentation without any call, for a replay.
    pub(crate) fn afresh(&self) -> Self {
        Self::new(self.presenter.clone(), self.terminals)
    }

    /// Whether the call goes on beyond its turn: itself in the background, or made by one that is.
    pub(crate) fn in_background(&self, call: &ToolCallId) -> bool {
        self.open.get(call).is_some_and(|tool| self.outlives(tool))
    }

    fn outlives(&self, tool: &Tool) -> bool {
        let parent = tool.parent.as_ref().and_then(|parent| self.open.get(parent));
        tool.background || parent.is_some_and(|parent| parent.background)
    }

    /// Number of calls that are neither ended nor in the background.
    #[cfg(test)]
    pub(crate) fn unfinished(&self) -> usize {
        self.open.values().filter(|tool| tool.shown && !self.outlives(tool)).count()
    }

    /// The input of a call moves.
    pub(crate) fn input(&mut self, event: ToolInput) -> Vec<Update> {
        let ToolInput { call, tool: name, part } = event;
        let Some(tool) = self.entry(&call) else { return Vec::new() };
        tool.name = tool.name.take().or(name);
        let announce = match part {
            ToolInputPart::Start => {
                if matches!(tool.input, Input::Unknown) {
                    tool.input = Input::Partial(String::new());
                }
                false
            }
            ToolInputPart::Delta(delta) => {
                match &mut tool.input {
                    Input::Partial(text) if text.len() + delta.len() <= INPUT_LIMIT => text.push_str(&delta),
                    Input::Partial(_) => tool.input = Input::Lost,
                    Input::Unknown => tool.input = Input::Partial(delta),
                    Input::Known(..) | Input::Lost => {}
                }
                false
            }
            ToolInputPart::End => {
                if let Input::Partial(text) = &tool.input {
                    let parsed = serde_json::from_str(text).map(|value| Input::Known(value, false));
                    tool.input = parsed.unwrap_or(Input::Lost);
                }
                false
            }
            ToolInputPart::Complete(value) => {
                if !matches!(tool.input, Input::Known(..)) {
                    tool.input = Input::Known(value, false);
                }
                true
            }
        };
        if announce || self.open.get(&call).is_some_and(|tool| tool.shown) {
            self.show(&call)
        } else {
            Vec::new()
        }
    }

    /// What a subagent does is a sign of life of the call that started it, which is silent itself meanwhile.
    pub(crate) fn sign_of_life(&mut self, event: &ToolEvent, now: Instant) -> Option<Update> {
        let known = || self.open.get(&event.call).and_then(|tool| tool.parent.clone());
        let parent = event.parent.clone().or_else(known)?;
        let tool = self.open.get_mut(&parent).filter(|tool| tool.shown)?;
        let last = tool.alive.get_or_insert(now);
        if now.saturating_duration_since(*last) < SIGN_OF_LIFE {
            return None;
        }
        *last = now;
        let mut patch = ToolPatch::new(parent);
        patch.status = Some(ToolStatus::InProgress);
        Some(Update::ToolUpdate(patch))
    }

    /// A call moves.
    pub(crate) fn stage(&mut self, event: ToolEvent) -> Vec<Update> {
        let ToolEvent { call, tool: name, parent, agent, stage } = event;
        let presenter = self.presenter.clone();
        let Some(tool) = self.entry(&call) else { return Vec::new() };
        tool.name = tool.name.take().or(name);
        tool.parent = tool.parent.take().or(parent);
        tool.agent = tool.agent.take().or(agent);
        if let ToolStage::Scheduled { input: Some(input) } = &stage
            && !matches!(tool.input, Input::Known(..))
        {
            tool.input = Input::Known(input.clone(), false);
        }
        let mut updates = self.show(&call);
        let Some(tool) = self.open.get_mut(&call) else { return updates };
        let name = tool.name.clone().unwrap_or_default();
        match stage {
            ToolStage::Scheduled { .. } => {}
            ToolStage::Started => {
                if !tool.running {
                    tool.running = true;
                    let mut patch = ToolPatch::new(call);
                    patch.status = Some(ToolStatus::InProgress);
                    updates.push(Update::ToolUpdate(patch));
                }
            }
            ToolStage::Progress { tail, total_bytes } => {
                let mut patch = presenter.progress(call, tail.as_deref(), total_bytes);
                if let Some(terminal) = &mut tool.terminal {
                    patch.content = None;
                    let output = terminal.tail(tail.as_deref().unwrap_or_default(), total_bytes);
                    patch.terminal = output.map(|output| piece(Some(output), None));
                }
                let first = !std::mem::replace(&mut tool.running, true);
                // A diff that waits to be carried out is not replaced by progress.
                if !first {
                    patch.status = None;
                }
                if first || patch.content.is_some() || patch.terminal.is_some() {
                    updates.push(Update::ToolUpdate(patch));
                }
            }
            ToolStage::Result(result) => {
                let moved_away = result.success && result.display == Some(ToolDisplay::Backgrounded);
                let again = moved_away && std::mem::replace(&mut tool.background, true);
                if !again {
                    tool.running = true;
                    let mut patch = presenter.result(call.clone(), &name, &result);
                    if let Some(terminal) = &mut tool.terminal {
                        if moved_away {
                            beside_terminal(&mut patch);
                        } else {
                            patch.content = None;
                            let exit = TerminalExit { code: result.exit_code };
                            patch.terminal = Some(piece(terminal.rest(&result), Some(exit)));
                        }
                    }
                    updates.push(Update::ToolUpdate(patch));
                }
                if !moved_away {
                    self.end(&call);
                }
            }
            ToolStage::Failed { error } => {
                updates.push(self.failed(&call, &error));
                self.end(&call);
            }
        }
        updates
    }

    /// A task beside the turns moves; its end is the end of the call that started it.
    pub(crate) fn task(&mut self, task: &BackgroundTask) -> Vec<Update> {
        let Some(tool) = self.open.get_mut(&task.call).filter(|tool| tool.background) else {
            return Vec::new();
        };
        if !task.status.is_final() {
            // The total is not said, so a terminal gets no part of it.
            let patch = self.presenter.progress(task.call.clone(), task.tail.as_deref(), None);
            let shown = tool.terminal.is_none() && patch.content.is_some();
            return shown
                .then_some(Update::ToolUpdate(ToolPatch { status: None, ..patch }))
                .into_iter()
                .collect();
        }
        let how = match task.status {
            TaskStatus::Running | TaskStatus::Completed => None,
            TaskStatus::Failed => Some("the background task failed"),
            TaskStatus::TimedOut => Some("the background task took too long and was ended"),
            TaskStatus::Cancelled => Some("the background task was stopped"),
            TaskStatus::SpawnError => Some("the background task could not be started"),
            TaskStatus::Lost => Some("ZCode does not know what became of the background task"),
        };
        let mut patch = self.presenter.progress(task.call.clone(), task.tail.as_deref(), None);
        patch.status = Some(if how.is_none() { ToolStatus::Completed } else { ToolStatus::Failed });
        if let Some(how) = how {
            patch.content.get_or_insert_default().push(ToolContent::Text(how.to_owned()));
        }
        if tool.terminal.is_some() {
            if patch.content.is_some() {
                beside_terminal(&mut patch);
            }
            patch.terminal = Some(piece(None, Some(TerminalExit { code: None })));
        }
        self.end(&task.call);
        vec![Update::ToolUpdate(patch)]
    }

    /// The end of a call that has no result.
    fn failed(&self, call: &ToolCallId, why: &str) -> Update {
        let mut patch = self.presenter.failure(call.clone(), why);
        if self.open.get(call).is_some_and(|tool| tool.terminal.is_some()) {
            beside_terminal(&mut patch);
            patch.terminal = Some(piece(None, Some(TerminalExit { code: None })));
        }
        Update::ToolUpdate(patch)
    }

    /// Describes a call whole, for somebody who has to judge it.
    pub(crate) fn describe(&self, call: &ToolCallId, name: &Arc<str>, input: &Value) -> ToolPatch {
        let mut description = self.presenter.call(call.clone(), Some(name), Some(input));
        description.status = Some(ToolStatus::Pending);
        description
    }

    /// A permission is asked for a call: it is shown if it was not, and described whole.
    pub(crate) fn asked(
        &mut self,
        call: &ToolCallId,
        name: &Arc<str>,
        input: &Value,
    ) -> (Vec<Update>, ToolPatch) {
        let mut description = self.describe(call, name, input);
        let Some(tool) = self.entry(call) else { return (Vec::new(), description) };
        tool.name = tool.name.take().or_else(|| Some(Arc::clone(name)));
        if !matches!(tool.input, Input::Known(..)) {
            tool.input = Input::Known(input.clone(), false);
        }
        description.parent.clone_from(&tool.parent);
        description.agent.clone_from(&tool.agent);
        (self.show(call), description)
    }

    /// The turn is over: whatever is open and does not go on in the background has failed.
    pub(crate) fn finish(&mut self, why: &str) -> Vec<Update> {
        let over: Vec<_> = self
            .order
            .iter()
            .filter(|call| self.open.get(*call).is_some_and(|tool| !self.outlives(tool)))
            .cloned()
            .collect();
        let mut updates = Vec::new();
        for call in over {
            if self.open.get(&call).is_some_and(|tool| tool.shown) {
                updates.push(self.failed(&call, why));
            }
            self.end(&call);
        }
        updates
    }

    /// The entry of a call that has not ended.
    fn entry(&mut self, call: &ToolCallId) -> Option<&mut Tool> {
        if !self.open.contains_key(call) {
            if self.ended.contains(call) || self.open.len() >= OPEN_LIMIT {
                self.dropped += 1;
                return None;
            }
            self.order.push(call.clone());
        }
        Some(self.open.entry(call.clone()).or_default())
    }

    fn end(&mut self, call: &ToolCallId) {
        if self.open.remove(call).is_some() {
            self.order.retain(|open| open != call);
            self.ended.push(call.clone());
        }
    }

    /// Shows a call for the first time, or its input if that has become known since.
    fn show(&mut self, call: &ToolCallId) -> Vec<Update> {
        let Some(tool) = self.open.get_mut(call) else { return Vec::new() };
        let (input, fresh) = match &mut tool.input {
            Input::Known(value, shown) => (Some(&*value), !std::mem::replace(shown, true)),
            _ => (None, false),
        };
        if tool.shown && !fresh {
            return Vec::new();
        }
        let mut patch = self.presenter.call(call.clone(), tool.name.as_ref(), input);
        if std::mem::replace(&mut tool.shown, true) {
            return vec![Update::ToolUpdate(patch)];
        }
        patch.status = Some(ToolStatus::Pending);
        patch.parent.clone_from(&tool.parent);
        patch.agent.clone_from(&tool.agent);
        if self.terminals && tool.name.as_deref() == Some("Bash") {
            tool.terminal = Some(Terminal::default());
            patch.content = Some(vec![ToolContent::Terminal]);
            let cwd = Some(self.presenter.root().to_owned());
            patch.terminal = Some(TerminalPiece { cwd, ..TerminalPiece::default() });
        }
        vec![Update::ToolCall(ToolView::new(patch))]
    }
}

fn piece(output: Option<String>, exit: Option<TerminalExit>) -> TerminalPiece {
    TerminalPiece { cwd: None, output, exit }
}

/// Content replaces, so the terminal has to be named again.
fn beside_terminal(patch: &mut ToolPatch) {
    patch.content.get_or_insert_default().insert(0, ToolContent::Terminal);
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zcode_runtime::model::ToolResult;

    use super::*;
    use crate::client::ToolContent;

    fn tools() -> Tools {
        Tools::new(Presenter::new("/w"), false)
    }

    fn part(tools: &mut Tools, tool: Option<&str>, part: ToolInputPart) -> Vec<Update> {
        tools.input(ToolInput { call: "c".into(), tool: tool.map(Arc::from), part })
    }

    fn at(tools: &mut Tools, stage: ToolStage) -> Vec<Update> {
        tools.stage(ToolEvent { call: "c".into(), tool: None, parent: None, agent: None, stage })
    }

    fn done(display: Option<ToolDisplay>) -> ToolStage {
        ToolStage::Result(ToolResult {
            success: true,
            content: "out".into(),
            display,
            exit_code: None,
            truncated: false,
            original_bytes: None,
        })
    }

    fn progress(tail: &str) -> ToolStage {
        ToolStage::Progress { tail: Some(tail.into()), total_bytes: None }
    }

    #[test]
    fn an_input_is_joined_from_its_deltas_and_shown_once() {
        let mut tools = tools();
        assert!(part(&mut tools, Some("Bash"), ToolInputPart::Start).is_empty());
        assert!(part(&mut tools, None, ToolInputPart::Delta(r#"{"command":"#.into())).is_empty());
        assert!(part(&mut tools, None, ToolInputPart::Delta(r#""ls -la"}"#.into())).is_empty());
        assert!(part(&mut tools, None, ToolInputPart::End).is_empty());
        let updates = at(&mut tools, ToolStage::Scheduled { input: None });
        let [Update::ToolCall(view)] = &updates[..] else { panic!("{updates:?}") };
        assert_eq!(view.patch().title.as_deref(), Some("ls -la"));
        assert_eq!(view.patch().raw_input, Some(json!({"command": "ls -la"})));
        assert!(part(&mut tools, None, ToolInputPart::Complete(json!({"command": "ls -la"}))).is_empty());
        assert!(at(&mut tools, ToolStage::Scheduled { input: None }).is_empty(), "announced once");
    }

    #[test]
    fn an_input_that_comes_after_the_announcement_completes_it() {
        let mut tools = tools();
        part(&mut tools, Some("Bash"), ToolInputPart::Start);
        assert!(matches!(at(&mut tools, ToolStage::Scheduled { input: None })[..], [Update::ToolCall(_)]));
        let updates = part(&mut tools, None, ToolInputPart::Complete(json!({"command": "pwd"})));
        assert!(matches!(&updates[..], [Update::ToolUpdate(patch)] if patch.title.as_deref() == Some("pwd")));
    }

    #[test]
    fn an_input_without_end_or_sense_is_not_invented() {
        let mut tools = tools();
        part(&mut tools, Some("Write"), ToolInputPart::Delta("{\"file_path\": \"a".into()));
        part(&mut tools, None, ToolInputPart::End);
        let updates = at(&mut tools, ToolStage::Started);
        assert!(matches!(&updates[0], Update::ToolCall(view) if view.patch().raw_input.is_none()));
        let mut tools = self::tools();
        for _ in 0..9 {
            part(&mut tools, Some("Write"), ToolInputPart::Delta("x".repeat(1 << 20)));
        }
        assert!(matches!(tools.open[&"c".into()].input, Input::Lost), "bounded");
    }

    #[test]
    fn progress_replaces_and_starting_is_said_once() {
        let mut tools = tools();
        at(&mut tools, ToolStage::Scheduled { input: Some(json!({"command": "x"})) });
        assert_eq!(at(&mut tools, ToolStage::Started).len(), 1);
        assert_eq!(at(&mut tools, ToolStage::Started).len(), 0);
        let updates = at(&mut tools, progress("tail"));
        assert!(matches!(&updates[..], [Update::ToolUpdate(patch)]
            if patch.content == Some(vec![ToolContent::Fenced("tail".into())])));
        assert!(at(&mut tools, ToolStage::Progress { tail: None, total_bytes: Some(3) }).is_empty());
    }

    #[test]
    fn a_final_call_is_never_reopened() {
        let mut tools = tools();
        at(&mut tools, done(None));
        for late in
            [ToolStage::Started, progress("late"), done(None), ToolStage::Failed { error: "late".into() }]
        {
            assert!(at(&mut tools, late).is_empty());
        }
        assert!(part(&mut tools, None, ToolInputPart::Complete(json!({}))).is_empty());
        assert!(tools.finish("cancelled").is_empty());
    }

    #[test]
    fn a_backgrounded_call_survives_its_turn_until_its_own_end() {
        let mut tools = tools();
        at(&mut tools, done(Some(ToolDisplay::Backgrounded)));
        assert!(tools.finish("not finished: the turn ended").is_empty());
        assert!(tools.in_background(&"c".into()));
        let child = ToolEvent {
            call: "child".into(),
            tool: Some("Read".into()),
            parent: Some("c".into()),
            agent: None,
            stage: ToolStage::Started,
        };
        tools.stage(child);
        assert!(tools.in_background(&"child".into()), "a call made by a backgrounded one lives with it");
        let updates = at(&mut tools, done(None));
        assert!(
            matches!(&updates[..], [Update::ToolUpdate(patch)] if patch.status == Some(ToolStatus::Completed))
        );
        assert!(at(&mut tools, progress("late")).is_empty());
    }

    #[test]
    fn a_call_that_a_subagent_works_for_moves_now_and_then() {
        let mut tools = tools();
        at(&mut tools, ToolStage::Started);
        let begun = Instant::now();
        let mut child = ToolEvent {
            call: "child".into(),
            tool: Some("Read".into()),
            parent: Some("c".into()),
            agent: None,
            stage: ToolStage::Started,
        };
        assert_eq!(tools.sign_of_life(&child, begun), None, "it has just been seen");
        tools.stage(child.clone());
        child.parent = None;
        let moved = |update: Option<Update>| {
            matches!(update, Some(Update::ToolUpdate(patch))
                if patch.call == "c".into() && patch.status == Some(ToolStatus::InProgress))
        };
        assert!(!moved(tools.sign_of_life(&child, begun + SIGN_OF_LIFE / 2)));
        assert!(moved(tools.sign_of_life(&child, begun + SIGN_OF_LIFE)));
        assert!(!moved(tools.sign_of_life(&child, begun + SIGN_OF_LIFE)));
        assert!(moved(tools.sign_of_life(&child, begun + 2 * SIGN_OF_LIFE)));
        at(&mut tools, done(None));
        assert!(!moved(tools.sign_of_life(&child, begun + 9 * SIGN_OF_LIFE)), "it is over");
    }

    #[test]
    fn the_name_is_remembered_when_later_events_lack_it() {
        let mut tools = tools();
        part(&mut tools, Some("Bash"), ToolInputPart::Complete(json!({"command": "x"})));
        let updates = at(&mut tools, done(None));
        assert!(
            matches!(&updates[..], [Update::ToolUpdate(patch)]
            if patch.content == Some(vec![ToolContent::Fenced("out".into())])),
            "fenced, since it is Bash"
        );
    }

    #[test]
    fn open_calls_fail_with_the_reason_when_their_turn_ends() {
        let mut tools = tools();
        at(&mut tools, ToolStage::Started);
        assert_eq!(tools.unfinished(), 1);
        let updates = tools.finish("cancelled");
        assert!(
            matches!(&updates[..], [Update::ToolUpdate(patch)] if patch.status == Some(ToolStatus::Failed)
            && patch.content == Some(vec![ToolContent::Text("cancelled".into())]))
        );
        assert_eq!(tools.unfinished(), 0);
    }

    #[test]
    fn open_and_ended_calls_are_bounded() {
        let mut tools = tools();
        for n in 0..6000 {
            let call = ToolCallId::from(format!("n{n}"));
            tools.stage(ToolEvent { call, tool: None, parent: None, agent: None, stage: ToolStage::Started });
        }
        assert_eq!(tools.open.len(), OPEN_LIMIT);
        assert_eq!(tools.dropped, 6000 - OPEN_LIMIT as u64);
    }
}
