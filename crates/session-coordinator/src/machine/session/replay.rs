//! The history of a session, shown again: through the same presentation as what happens live.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::{ErrorCode, Failure};
use serde_json::Value;
use zcode_runtime::model::{
    CallError, EventBody, HistoryFile, HistoryMessage, HistoryPart, HistoryTool, HistoryToolState, HostEvent,
    Refusal, Role, ToolDisplay, ToolEvent, ToolStage,
};

use super::super::tool::Tools;
use super::super::{Call, Effect};
use super::{Session, State};
use crate::client::{Reply, Severity, Update};
use crate::setup::SessionSetup;

/// Between two counts of messages that must be equal.
const COUNT_AGAIN: Duration = Duration::from_millis(150);
/// How long the history may take to be loaded by the host.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
/// Text of one update, so that a line stays small.
const PIECE: usize = 256 * 1024;
/// A file that is shown, base64 bytes; larger ones are only named, since some clients refuse lines over 10 MiB.
const MEDIA_LIMIT: usize = 8 * 1024 * 1024;
/// Host events that wait for the end of a replay.
const WAITING: usize = 16 * 1024;

/// A replay under way.
#[derive(Debug)]
pub(super) struct Replay {
    /// Waiting for the host to have loaded the history; then its pages are read.
    settle: Option<Settle>,
    after: Option<Arc<str>>,
    seen: HashSet<Arc<str>>,
    tools: Tools,
    healed: bool,
    /// Duty to answer, of a session that was open before.
    pub(super) reply: Option<Reply<SessionSetup>>,
}

/// Whether the host has said that the history is complete.
#[derive(Debug, Clone, Copy)]
enum Complete {
    Unsaid,
    Said,
    /// With this many messages.
    With(u64),
}

#[derive(Debug)]
struct Settle {
    resumed: Complete,
    last: Option<(u64, Instant)>,
    next: Option<Instant>,
    until: Instant,
}

impl Replay {
    /// Of a session that has just been opened.
    pub(super) fn settling(tools: Tools, now: Instant) -> Self {
        let settle = Settle { resumed: Complete::Unsaid, last: None, next: None, until: now + SETTLE_WITHIN };
        Self { settle: Some(settle), ..Self::reading(tools, None) }
    }

    fn reading(tools: Tools, reply: Option<Reply<SessionSetup>>) -> Self {
        Self { settle: None, after: None, seen: HashSet::new(), tools, healed: false, reply }
    }

    /// When it wants to go on.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let settle = self.settle.as_ref()?;
        Some(settle.next.map_or(settle.until, |next| next.min(settle.until)))
    }

    fn page(&self) -> Call {
        Call::History { after: self.after.clone() }
    }
}

impl Session {
    /// The client opens a session again that it has open.
    pub(super) fn reopen(&mut self, history: bool, reply: Reply<SessionSetup>) {
        let runs = matches!(self.state, State::Running(_) | State::Background(_) | State::Settling(_));
        let refused = self.not_open().or_else(|| {
            let busy = history && (runs || self.held.is_some() || self.replay.is_some());
            busy.then(|| Failure::new(ErrorCode::SessionBusy))
        });
        if let Some(failure) = refused {
            return self.out.push(Effect::AnswerSetup { reply, result: Err(failure) });
        }
        if !history {
            return self.answer_setup(reply);
        }
        let reading = Replay::reading(self.tools.afresh(), Some(reply));
        self.out.push(Effect::Call(reading.page()));
        self.replay = Some(reading);
    }

    fn answer_setup(&mut self, reply: Reply<SessionSetup>) {
        let setup = self.setup().ok_or_else(|| Failure::new(ErrorCode::Internal));
        if let Ok(setup) = &setup {
            self.facts.told(Some(&setup.modes.current), &setup.options);
        }
        self.out.push(Effect::AnswerSetup { reply, result: setup });
    }

    /// The host says that the history is complete.
    pub(super) fn history_complete(&mut self, count: Option<u64>) {
        if let Some(Settle { resumed, next, .. }) =
            self.replay.as_mut().and_then(|replay| replay.settle.as_mut())
        {
            *resumed = count.map_or(Complete::Said, Complete::With);
            // A count that is under way decides; one that waits is taken at once.
            if next.is_some() {
                *next = Some(self.now);
            }
        }
    }

    pub(super) fn counted(&mut self, result: Result<Option<u64>, CallError>) {
        let Some(replay) = &mut self.replay else { return };
        let Some(settle) = &mut replay.settle else { return };
        match result {
            Ok(count) => {
                let settled = match (count, settle.resumed) {
                    (None, _) | (_, Complete::Said) => true,
                    (Some(count), Complete::With(said)) if count >= said => true,
                    (Some(count), _) => {
                        settle.last.is_some_and(|(last, at)| last == count && at + COUNT_AGAIN <= self.now)
                    }
                };
                if settled {
                    self.history_settled();
                } else {
                    if settle.last.map(|(last, _)| last) != count {
                        settle.last = count.map(|count| (count, self.now));
                    }
                    settle.next = Some(self.now + COUNT_AGAIN);
                }
            }
            Err(error) => self.replay_refused(Call::Count, error),
        }
    }

    fn history_settled(&mut self) {
        if let Some(replay) = &mut self.replay {
            replay.settle = None;
            let page = replay.page();
            self.out.push(Effect::Call(page));
        }
    }

    pub(super) fn replay_due(&mut self) {
        let now = self.now;
        let Some(settle) = self.replay.as_mut().and_then(|replay| replay.settle.as_mut()) else { return };
        if settle.until <= now {
            self.remark(
                Severity::Warning,
                "The history may be incomplete",
                Some("ZCode was still loading it after 10 s".to_owned()),
                SETTLE_WITHIN,
            );
            self.history_settled();
        } else if settle.next.is_some_and(|next| next <= now) {
            settle.next = None;
            self.out.push(Effect::Call(Call::Count));
        }
    }

    pub(super) fn history(&mut self, result: Result<Vec<HistoryMessage>, CallError>) {
        let Some(replay) = &mut self.replay else { return };
        let page = match result {
            Ok(page) => page,
            Err(error) => {
                let call = replay.page();
                return self.replay_refused(call, error);
            }
        };
        let last = page.last().map(|message| Arc::clone(&message.id));
        let mut fresh = false;
        for message in page {
            if !replay.seen.insert(Arc::clone(&message.id)) {
                self.dropped += 1;
                continue;
            }
            fresh = true;
            if message.shown {
                let mut updates = Vec::new();
                show_message(message, &mut replay.tools, &self.tools, &mut updates);
                self.out.extend(updates.into_iter().map(Effect::Update));
            }
        }
        // A page without news means that there are no more, whatever the host makes of the place to go on from.
        if fresh {
            replay.after = last;
            let page = replay.page();
            self.out.push(Effect::Call(page));
        } else {
            self.replayed();
        }
    }

    fn replay_refused(&mut self, call: Call, error: CallError) {
        match error {
            CallError::Refused { why: Refusal::NotActive, .. }
                if self.is_open() && self.replay.as_ref().is_some_and(|replay| !replay.healed) =>
            {
                if let Some(replay) = &mut self.replay {
                    replay.healed = true;
                }
                self.heal(call);
            }
            error if matches!(self.state, State::Opening(_)) => {
                let failure = error.failure().clone();
                self.give_up_opening(failure);
            }
            CallError::Gone(failure) => self.lost(failure),
            error => {
                if let Some(reply) = self.replay.take().and_then(|replay| replay.reply) {
                    let failure = error.failure().clone();
                    self.out.push(Effect::AnswerSetup { reply, result: Err(failure) });
                }
                self.catch_up();
            }
        }
    }

    /// Everything is shown: plan, title, commands and usage follow, then the answer.
    fn replayed(&mut self) {
        let Some(Replay { tools, reply, .. }) = self.replay.take() else { return };
        match reply {
            None => {
                // Nothing was open before: what the history knows as ended stays ended.
                self.tools = tools;
                self.introduce();
            }
            Some(reply) => {
                self.facts.forget_shown();
                self.title.held = self.title.held.take().or_else(|| self.title.shown.take());
                self.title.shown = None;
                self.show_known();
                self.answer_setup(reply);
                self.catch_up();
            }
        }
    }

    /// Keeps what the host says during a replay for later. Gives it back if it has to be known at once.
    pub(super) fn wait_for_replay(&mut self, event: HostEvent) -> Option<HostEvent> {
        if self.replay.is_none() {
            return Some(event);
        }
        match &event {
            HostEvent::Event(numbered) => {
                if let EventBody::SessionResumed { message_count } = numbered.body {
                    self.history_complete(message_count);
                }
            }
            HostEvent::Lost(_) => return Some(event),
            _ => {}
        }
        if self.waiting.len() < WAITING {
            self.waiting.push(event);
        } else {
            self.drop_content();
        }
        None
    }

    /// Takes what the host said during a replay.
    pub(super) fn catch_up(&mut self) {
        for event in std::mem::take(&mut self.waiting) {
            self.event(event);
        }
    }
}

/// One message as updates.
fn show_message(message: HistoryMessage, tools: &mut Tools, live: &Tools, out: &mut Vec<Update>) {
    let HistoryMessage { id, role, parts, .. } = message;
    for part in parts {
        match (role, part) {
            (Role::User, HistoryPart::Text(text)) => {
                pieces(&text, |text| out.push(Update::UserText { message: Some(Arc::clone(&id)), text }));
            }
            (Role::Assistant, HistoryPart::Text(text)) => {
                pieces(&text, |text| out.push(Update::AgentText { message: Some(Arc::clone(&id)), text }));
            }
            (Role::Assistant, HistoryPart::Thought(text)) => {
                pieces(&text, |text| out.push(Update::AgentThought { message: Some(Arc::clone(&id)), text }));
            }
            (Role::User, HistoryPart::File { mime, source: HistoryFile::Data(data), .. })
                if data.len() <= MEDIA_LIMIT =>
            {
                out.push(Update::UserMedia { message: Some(Arc::clone(&id)), mime, data });
            }
            (role, HistoryPart::File { name, mime, source }) => {
                let name = name.unwrap_or(mime);
                let text = match source {
                    HistoryFile::Link(uri) => format!("[attachment {name}: {uri}]"),
                    HistoryFile::Data(_) | HistoryFile::Artifact => format!("[attachment {name}]"),
                };
                let message = Some(Arc::clone(&id));
                out.push(match role {
                    Role::User => Update::UserText { message, text },
                    Role::Assistant => Update::AgentText { message, text },
                });
            }
            (Role::Assistant, HistoryPart::Tool(tool)) => show_tool(tool, tools, live, out),
            (Role::User, HistoryPart::Thought(_) | HistoryPart::Tool(_)) | (_, HistoryPart::Skipped) => {}
        }
    }
}

/// A call with its end. One that was left behind has failed, unless it still goes on.
fn show_tool(tool: HistoryTool, tools: &mut Tools, live: &Tools, out: &mut Vec<Update>) {
    let HistoryTool { call, tool, input, state } = tool;
    let goes_on = live.in_background(&call);
    let end = match state {
        HistoryToolState::Completed(mut result) => {
            if !goes_on && result.display == Some(ToolDisplay::Backgrounded) {
                result.display = None;
            }
            ToolStage::Result(result)
        }
        HistoryToolState::Failed(error) => ToolStage::Failed { error },
        HistoryToolState::Pending | HistoryToolState::Running if goes_on => ToolStage::Started,
        HistoryToolState::Pending | HistoryToolState::Running => {
            ToolStage::Failed { error: "not finished".to_owned() }
        }
    };
    let input = (!matches!(input, Value::Null)).then_some(input);
    for stage in [ToolStage::Scheduled { input }, end] {
        let event =
            ToolEvent { call: call.clone(), tool: Some(Arc::clone(&tool)), parent: None, agent: None, stage };
        out.extend(tools.stage(event));
    }
}

/// A text in pieces that fit on a line.
fn pieces(text: &str, mut piece: impl FnMut(String)) {
    let mut rest = text;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(PIECE));
        piece(head.to_owned());
        rest = tail;
    }
}
