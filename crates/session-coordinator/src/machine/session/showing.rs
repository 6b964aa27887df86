//! What is shown of the facts about a session, and what of the host's own remarks.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use zcode_runtime::model::{CompactionStage, Retry, SessionFacts, Violation};

use super::asks::Proposal;
use super::{Session, State};
use crate::client::{CompactionStatus, Severity, Update};

/// A wait that is worth a line in the conversation when there is no better place for it.
const LONG_WAIT: Duration = Duration::from_secs(10);

impl Session {
    /// Takes facts without showing any.
    pub(super) fn absorb(&mut self, facts: &SessionFacts) {
        if let Some(title) = &facts.title {
            self.title.held = Some(Arc::clone(title));
        }
        self.config.absorb(facts, &self.profile);
        self.facts.absorb(facts);
    }

    pub(super) fn facts(&mut self, facts: &SessionFacts) {
        self.absorb(facts);
        self.show_facts();
        if let Some(mode) = facts.mode.as_deref().filter(|mode| self.profile.mode(mode).is_none()) {
            let what = format!("mode {mode}");
            self.violation(&Violation { what });
        }
    }

    /// Facts are shown while the session is open, but not right behind a cancelled answer or within a replay.
    pub(super) fn shows_facts(&self) -> bool {
        self.is_open() && self.fence.is_none() && self.replay.is_none()
    }

    /// Shows what is not as shown.
    pub(super) fn show_facts(&mut self) {
        if self.shows_facts() {
            self.show_known();
        }
    }

    /// The plan, the title and everything else that is not as shown, in this order.
    pub(super) fn show_known(&mut self) {
        self.show_plan();
        if let Some(title) = self.title.held.take() {
            self.show_title(&title);
        }
        self.show_configuration();
        let updates = self.facts.news(self.now);
        self.show(updates);
    }

    pub(super) fn show_configuration(&mut self) {
        let options = self.config.options(&self.profile);
        let updates = self.facts.configuration(self.config.mode(), options);
        self.show(updates);
    }

    /// The todo list. A client that does not know plans of text sees a proposed one as an entry of it.
    pub(super) fn show_plan(&mut self) {
        let count = if self.client.plans { 0 } else { self.proposals.len().min(1) };
        let update = self.facts.plan((0..count).map(|_| Proposal::entry()));
        self.show(update);
    }

    pub(super) fn show_title(&mut self, title: &Arc<str>) {
        if self.title.shown.as_ref() != Some(title) && !title.is_empty() {
            self.title.shown = Some(Arc::clone(title));
            self.show([Update::Title(Arc::clone(title))]);
        }
    }

    /// Session facts flow again; only the newest of each kind is shown.
    pub(super) fn lift_fence(&mut self) {
        self.fence = None;
        self.show_facts();
    }

    /// A remark that is not part of the conversation. Clients without a place for it get a thought if it explains a long
    /// wait.
    pub(super) fn remark(&mut self, severity: Severity, title: &str, text: Option<String>, wait: Duration) {
        if self.client.notices {
            self.show([Update::Notice { severity, title: title.to_owned(), text }]);
        } else if wait >= LONG_WAIT {
            let text = text.map_or_else(|| title.to_owned(), |text| format!("{title}: {text}"));
            self.show([Update::AgentThought { message: None, text: format!("\n{text}\n") }]);
        }
    }

    pub(super) fn retry(&mut self, retry: Retry) {
        let mut text = format!("attempt {}", retry.attempt);
        if let Some(max) = retry.max {
            let _ = write!(text, " of {max}");
        }
        let _ = write!(text, " in {} s", retry.delay.as_secs_f32().ceil());
        let title = match retry.status {
            Some(429) => "ZCode waits for the provider's rate limit".to_owned(),
            Some(status) => format!("ZCode repeats a model request after HTTP {status}"),
            None => "ZCode repeats a model request".to_owned(),
        };
        self.remark(Severity::Warning, &title, Some(text), retry.delay);
    }

    pub(super) fn compaction(&mut self, stage: CompactionStage) {
        if !self.client.compaction || !self.is_open() {
            return;
        }
        let id = self.compaction.take().unwrap_or_else(|| {
            self.serial += 1;
            format!("zcode-compaction-{}", self.serial).into()
        });
        let status = match stage {
            CompactionStage::Started => {
                self.compaction = Some(Arc::clone(&id));
                CompactionStatus::InProgress
            }
            CompactionStage::Completed => CompactionStatus::Completed,
            CompactionStage::Failed(why) => {
                CompactionStatus::Failed(why.unwrap_or_else(|| "ZCode did not say why".to_owned()))
            }
        };
        self.show([Update::Compaction { id, status }]);
    }

    /// The client knows the session and has not closed it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Idle | State::Running(_) | State::Background(_) | State::Settling(_))
    }
}
