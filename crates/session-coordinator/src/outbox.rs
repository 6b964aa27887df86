//! Everything a session says to its client, in one order and bounded.
//!
//! Nothing waits here while the client reads. When it does not, adjacent text of one message grows together, progress of
//! a call and titles keep only the newest, and everything is counted in bytes; nothing is reordered, and no ask, answer
//! or end of a call is dropped.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use diag_model::{AskId, SessionId, ToolCallId};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::client::{
    ClientPort, FormAnswer, FormPrompt, PermissionAnswer, PermissionPrompt, ToolPatch, ToolStatus, Update,
};

/// Bytes handed over and not yet written, above which the outbox waits.
pub(crate) const IN_FLIGHT_LIMIT: usize = 1024 * 1024;
/// Bytes that may wait here; above, the client counts as not reading.
pub(crate) const WAITING_LIMIT: usize = 64 * 1024 * 1024;
/// Text that grows together in one update, so that a line stays small.
const MERGE_LIMIT: usize = 256 * 1024;

#[expect(clippy::large_enum_variant, reason = "nearly every entry is an update")]
enum Item {
    Update(Update),
    Ask(AskId, Question),
    /// Sends an answer, or registers and answers.
    Answer(Box<dyn FnOnce() + Send>),
    /// Replaced by a newer one, or withdrawn.
    Gone,
}

impl Item {
    fn weight(&self) -> usize {
        match self {
            Item::Update(update) => update.weight(),
            Item::Ask(_, Question::Permission(prompt)) => Update::ToolUpdate(prompt.call.clone()).weight(),
            Item::Ask(_, Question::Form(form)) => 256 * (form.questions.len() + 1),
            Item::Answer(_) | Item::Gone => 0,
        }
    }
}

/// What a client is asked.
pub(crate) enum Question {
    Permission(Box<PermissionPrompt>),
    Form(FormPrompt),
}

/// What a client has answered.
pub(crate) enum Answer {
    Permission(PermissionAnswer),
    Form(FormAnswer),
}

/// Kinds of updates of which only the newest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fact {
    Title,
    Mode,
    Options,
    Plan,
    Commands,
    Usage,
}

fn fact(update: &Update) -> Option<Fact> {
    Some(match update {
        Update::Title(_) => Fact::Title,
        Update::Mode(_) => Fact::Mode,
        Update::Options(_) => Fact::Options,
        Update::Plan(_) => Fact::Plan,
        Update::Commands(_) => Fact::Commands,
        Update::Usage(_) => Fact::Usage,
        _ => return None,
    })
}

/// The queue of one session.
pub(crate) struct Outbox {
    client: Arc<dyn ClientPort>,
    session: Option<SessionId>,
    queue: VecDeque<Item>,
    /// Number of the first entry of the queue.
    front: u64,
    bytes: usize,
    /// Waiting progress by call.
    progress: HashMap<ToolCallId, u64>,
    /// Waiting facts.
    facts: HashMap<Fact, u64>,
}

/// A question that has been put to the client.
pub(crate) type Asked = (AskId, BoxFuture<'static, Answer>);

impl Outbox {
    pub(crate) fn new(client: Arc<dyn ClientPort>) -> Self {
        Self {
            client,
            session: None,
            queue: VecDeque::new(),
            front: 0,
            bytes: 0,
            progress: HashMap::new(),
            facts: HashMap::new(),
        }
    }

    /// Names the session whose updates these are.
    pub(crate) fn introduce(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues an update. Text of any length becomes lines of a bounded one: known clients refuse lines over 10 MiB.
    pub(crate) fn update(&mut self, mut update: Update) {
        let Some(text) = text_of(&mut update).filter(|text| text.len() > MERGE_LIMIT) else {
            return self.queue(update);
        };
        let whole = std::mem::take(text);
        let mut rest = whole.as_str();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(rest.floor_char_boundary(MERGE_LIMIT));
            let mut next = update.clone();
            if let Some(text) = text_of(&mut next) {
                piece.clone_into(text);
            }
            self.queue(next);
            rest = tail;
        }
    }

    fn queue(&mut self, update: Update) {
        let next = self.front + self.queue.len() as u64;
        match &update {
            Update::AgentText { .. } | Update::AgentThought { .. } => {
                if let Some(Item::Update(last)) = self.queue.back_mut()
                    && let Some(added) = merge(last, &update)
                {
                    self.bytes += added;
                    return;
                }
            }
            Update::ToolUpdate(patch) if is_progress(patch) => {
                if let Some(older) = self.progress.insert(patch.call.clone(), next) {
                    self.forget(older);
                }
            }
            Update::ToolUpdate(patch) => {
                self.progress.remove(&patch.call);
            }
            update => {
                if let Some(fact) = fact(update)
                    && let Some(older) = self.facts.insert(fact, next)
                {
                    self.forget(older);
                }
            }
        }
        self.push(Item::Update(update));
    }

    /// Queues a question.
    pub(crate) fn ask(&mut self, ask: AskId, question: Question) {
        self.push(Item::Ask(ask, question));
    }

    /// Takes back a question that has not been put yet.
    pub(crate) fn withdraw(&mut self, ask: &AskId) {
        for item in &mut self.queue {
            if matches!(item, Item::Ask(waiting, _) if waiting == ask) {
                self.bytes -= item.weight();
                *item = Item::Gone;
            }
        }
    }

    /// Queues an answer behind everything said so far.
    pub(crate) fn answer(&mut self, answer: impl FnOnce() + Send + 'static) {
        self.push(Item::Answer(Box::new(answer)));
    }

    /// Hands over what the client has room for. Questions that were put come back.
    pub(crate) fn flush(&mut self) -> Vec<Asked> {
        self.drain(|client| client.in_flight() <= IN_FLIGHT_LIMIT)
    }

    /// Hands over everything, room or not: the session or the agent ends.
    pub(crate) fn flush_all(&mut self) -> Vec<Asked> {
        self.drain(|_| true)
    }

    fn drain(&mut self, room: impl Fn(&dyn ClientPort) -> bool) -> Vec<Asked> {
        let mut asked = Vec::new();
        while !self.queue.is_empty() && room(&*self.client) {
            let Some(item) = self.queue.pop_front() else { break };
            self.bytes -= item.weight();
            let number = self.front;
            self.front += 1;
            match (item, &self.session) {
                (Item::Update(update), Some(session)) => {
                    if let Update::ToolUpdate(patch) = &update
                        && self.progress.get(&patch.call) == Some(&number)
                    {
                        self.progress.remove(&patch.call);
                    }
                    if let Some(fact) = fact(&update)
                        && self.facts.get(&fact) == Some(&number)
                    {
                        self.facts.remove(&fact);
                    }
                    self.client.update(session, update);
                }
                (Item::Ask(ask, Question::Permission(prompt)), Some(session)) => {
                    let answer = self.client.ask_permission(session, *prompt);
                    asked.push((ask, answer.map(Answer::Permission).boxed()));
                }
                (Item::Ask(ask, Question::Form(form)), Some(session)) => {
                    let answer = self.client.ask_form(session, form);
                    asked.push((ask, answer.map(Answer::Form).boxed()));
                }
                (Item::Answer(answer), _) => answer(),
                (Item::Gone | Item::Update(_) | Item::Ask(..), _) => {}
            }
        }
        asked
    }

    fn push(&mut self, item: Item) {
        self.bytes += item.weight();
        self.queue.push_back(item);
    }

    fn forget(&mut self, number: u64) {
        let index = usize::try_from(number.wrapping_sub(self.front)).unwrap_or(usize::MAX);
        if let Some(item) = self.queue.get_mut(index) {
            self.bytes -= item.weight();
            *item = Item::Gone;
        }
    }
}

/// Only a status and a tail: a newer one says all that an older one did.
fn is_progress(patch: &ToolPatch) -> bool {
    matches!(patch.status, None | Some(ToolStatus::InProgress))
        && patch.title.is_none()
        && patch.raw_input.is_none()
        && patch.raw_output.is_none()
        && patch.locations.is_none()
        && patch.content.is_some()
}

/// The text of a message, which may be of any length.
fn text_of(update: &mut Update) -> Option<&mut String> {
    match update {
        Update::AgentText { text, .. }
        | Update::AgentThought { text, .. }
        | Update::UserText { text, .. } => Some(text),
        _ => None,
    }
}

/// Appends text of the same message and kind. Says how many bytes were added.
fn merge(last: &mut Update, next: &Update) -> Option<usize> {
    let ((Update::AgentText { message, text }, Update::AgentText { message: next_message, text: next_text })
    | (
        Update::AgentThought { message, text },
        Update::AgentThought { message: next_message, text: next_text },
    )) = (last, next)
    else {
        return None;
    };
    if message != next_message || text.len() + next_text.len() > MERGE_LIMIT {
        return None;
    }
    text.push_str(next_text);
    Some(next_text.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::client::{FormAnswer, FormPrompt, ToolContent};

    #[derive(Default)]
    struct Recorder {
        log: Mutex<Vec<String>>,
        in_flight: AtomicUsize,
    }

    impl ClientPort for Recorder {
        fn update(&self, _: &SessionId, update: Update) {
            let line = match update {
                Update::AgentText { text, .. } => format!("text {text}"),
                Update::AgentThought { text, .. } => format!("thought {text}"),
                Update::Title(title) => format!("title {title}"),
                Update::ToolCall(_) => "call".to_owned(),
                Update::ToolUpdate(patch) => format!("tool {:?} {:?}", patch.status, patch.content),
                other => format!("{other:?}"),
            };
            self.log.lock().unwrap().push(line);
        }

        fn ask_permission(
            &self,
            _: &SessionId,
            prompt: PermissionPrompt,
        ) -> BoxFuture<'static, PermissionAnswer> {
            self.log.lock().unwrap().push(format!("ask {}", prompt.call.call));
            futures::future::pending().boxed()
        }

        fn ask_form(&self, _: &SessionId, form: FormPrompt) -> BoxFuture<'static, FormAnswer> {
            self.log.lock().unwrap().push(format!("form {}", form.message));
            futures::future::pending().boxed()
        }

        fn in_flight(&self) -> usize {
            self.in_flight.load(Ordering::SeqCst)
        }

        fn room(&self, _: usize) -> BoxFuture<'static, ()> {
            futures::future::pending().boxed()
        }
    }

    fn outbox() -> (Arc<Recorder>, Outbox) {
        let recorder = Arc::new(Recorder::default());
        let mut outbox = Outbox::new(recorder.clone());
        outbox.introduce("s".into());
        (recorder, outbox)
    }

    fn text(text: &str) -> Update {
        Update::AgentText { message: Some("m".into()), text: text.to_owned() }
    }

    fn progress(call: &str, tail: &str) -> Update {
        let mut patch = ToolPatch::new(call.into());
        patch.content = Some(vec![ToolContent::Fenced(tail.to_owned())]);
        Update::ToolUpdate(patch)
    }

    fn log(recorder: &Recorder) -> Vec<String> {
        std::mem::take(&mut *recorder.log.lock().unwrap())
    }

    #[test]
    fn text_of_one_message_and_kind_grows_together_and_nothing_is_reordered() {
        let (recorder, mut outbox) = outbox();
        outbox.update(text("a"));
        outbox.update(text("b"));
        outbox.update(Update::AgentThought { message: Some("m".into()), text: "c".into() });
        outbox.update(text("d"));
        outbox.update(Update::AgentText { message: Some("n".into()), text: "e".into() });
        let answered = recorder.clone();
        outbox.answer(move || answered.log.lock().unwrap().push("answer".into()));
        outbox.update(text("f"));
        outbox.flush();
        assert_eq!(log(&recorder), ["text ab", "thought c", "text d", "text e", "answer", "text f"]);
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn progress_and_title_keep_the_newest_and_the_end_of_a_call_is_kept() {
        let (recorder, mut outbox) = outbox();
        outbox.update(progress("c", "1"));
        outbox.update(Update::Title("old".into()));
        outbox.update(progress("c", "2"));
        outbox.update(progress("other", "1"));
        let mut end = ToolPatch::new("c".into());
        end.status = Some(ToolStatus::Completed);
        outbox.update(Update::ToolUpdate(end));
        outbox.update(Update::Title("new".into()));
        outbox.flush();
        let log = log(&recorder);
        assert_eq!(log.len(), 4, "{log:?}");
        assert!(
            log[0].contains('2')
                && log[1].contains('1')
                && log[2].contains("Completed")
                && log[3] == "title new"
        );
        assert_eq!((outbox.bytes(), outbox.progress.len(), outbox.facts.len()), (0, 0, 0));
    }

    #[test]
    fn it_waits_while_too_much_is_in_flight_and_merges_meanwhile() {
        let (recorder, mut outbox) = outbox();
        recorder.in_flight.store(IN_FLIGHT_LIMIT + 1, Ordering::SeqCst);
        for _ in 0..1000 {
            outbox.update(text("0123456789"));
        }
        outbox.flush();
        assert!(log(&recorder).is_empty());
        assert!((10_000..11_000).contains(&outbox.bytes()), "{}", outbox.bytes());
        recorder.in_flight.store(0, Ordering::SeqCst);
        outbox.flush();
        assert_eq!(log(&recorder).len(), 1);
    }

    #[test]
    fn merged_text_stays_below_the_size_of_a_line() {
        let (recorder, mut outbox) = outbox();
        for _ in 0..40 {
            outbox.update(text(&"x".repeat(10_000)));
        }
        outbox.flush();
        let log = log(&recorder);
        assert_eq!(log.len(), 2);
        assert!(log.iter().all(|line| line.len() <= MERGE_LIMIT + 5));
    }

    #[test]
    fn a_text_that_is_too_long_for_a_line_comes_in_pieces() {
        let (recorder, mut outbox) = outbox();
        let whole = "ä".repeat(MERGE_LIMIT);
        outbox.update(text(&whole));
        outbox.flush();
        let log = log(&recorder);
        assert!(log.len() > 1 && log.iter().all(|line| line.len() <= MERGE_LIMIT + 5), "{}", log.len());
        assert_eq!(log.iter().filter_map(|line| line.strip_prefix("text ")).collect::<String>(), whole);
    }

    #[test]
    fn a_withdrawn_question_is_not_put() {
        let (recorder, mut outbox) = outbox();
        let prompt = PermissionPrompt { call: ToolPatch::new("c".into()), options: Vec::new() };
        outbox.ask("a".into(), Question::Permission(Box::new(prompt.clone())));
        outbox.ask("b".into(), Question::Permission(Box::new(prompt)));
        outbox.withdraw(&"a".into());
        let asked: Vec<_> = outbox.flush().into_iter().map(|(ask, _)| ask.to_string()).collect();
        assert_eq!((asked, log(&recorder).len(), outbox.bytes()), (vec!["b".to_owned()], 1, 0));
    }
}
