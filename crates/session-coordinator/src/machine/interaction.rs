//! Questions of the host: each is asked once and answered once, and only the client's own choice can allow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use diag_model::AskId;
use zcode_runtime::model::{Decision, PermissionAsk, PermissionOption};

use crate::client::{ChoiceKind, PermissionAnswer, PermissionChoice};

/// Open questions of one session. A person cannot judge more at once; beyond, they are denied.
pub(crate) const OPEN_LIMIT: usize = 64;
/// Settled questions remembered, so that a repeated announcement is not asked again.
const REMEMBERED: usize = 256;

/// Where a question is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interaction {
    /// The client is being asked.
    Pending(Pending),
    /// An answer went to the host.
    Answered {
        /// The host has confirmed it or failed to.
        confirmed: bool,
    },
    /// Nobody has to answer any more.
    Withdrawn,
}

/// A question that waits for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    offered: Vec<Arc<str>>,
    deny: Option<Arc<str>>,
    subagent: bool,
    deadline: Option<Instant>,
}

/// What has to be told to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This option.
    Option(Arc<str>),
    /// There is no way to deny: only stopping the generation keeps the tool from running.
    Stop,
}

/// All questions of a session.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    entries: VecDeque<(AskId, Interaction)>,
}

impl Asks {
    /// Announced before, in whatever state.
    pub(crate) fn known(&self, id: &AskId) -> bool {
        self.entries.iter().any(|(known, _)| known == id)
    }

    /// Number of questions that wait for the client.
    pub(crate) fn open(&self) -> usize {
        self.pending().count()
    }

    fn pending(&self) -> impl Iterator<Item = (&AskId, &Pending)> {
        self.entries.iter().filter_map(|(id, state)| match state {
            Interaction::Pending(pending) => Some((id, pending)),
            _ => None,
        })
    }

    /// Ids of the questions that wait for the client; without those of subagents if `main_only`.
    pub(crate) fn pending_ids(&self, main_only: bool) -> Vec<AskId> {
        self.pending().filter(|(_, ask)| !(main_only && ask.subagent)).map(|(id, _)| id.clone()).collect()
    }

    /// Ids of the questions whose time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<AskId> {
        self.pending()
            .filter(|(_, ask)| ask.deadline.is_some_and(|at| at <= now))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// The earliest end of waiting.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pending().filter_map(|(_, ask)| ask.deadline).min()
    }

    /// Answers that the host has not confirmed.
    pub(crate) fn unconfirmed(&self) -> bool {
        self.entries.iter().any(|(_, state)| matches!(state, Interaction::Answered { confirmed: false }))
    }

    /// Remembers a question that will be put to the client.
    pub(crate) fn ask(&mut self, ask: &PermissionAsk, deadline: Option<Instant>) {
        let offered = choices(&ask.options).into_iter().map(|choice| choice.id).collect();
        let pending = Pending { offered, deny: deny_option(&ask.options), subagent: ask.subagent, deadline };
        self.remember(ask.id.clone(), Interaction::Pending(pending));
    }

    /// Remembers a question that is answered without the client.
    pub(crate) fn answered_at_once(&mut self, id: AskId) {
        self.remember(id, Interaction::Answered { confirmed: false });
    }

    /// Denies a question that is not put to the client.
    pub(crate) fn refuse(&mut self, ask: &PermissionAsk) -> Verdict {
        let Some(option) = deny_option(&ask.options) else {
            self.remember(ask.id.clone(), Interaction::Withdrawn);
            return Verdict::Stop;
        };
        self.answered_at_once(ask.id.clone());
        Verdict::Option(option)
    }

    /// Takes the client's answer. Anything but an offered option denies. `None`: nobody waits for it any more.
    pub(crate) fn answer(&mut self, id: &AskId, answer: &PermissionAnswer) -> Option<Verdict> {
        let (_, state) = self.entries.iter_mut().find(|(known, _)| known == id)?;
        let Interaction::Pending(pending) = state else { return None };
        let chosen = match answer {
            PermissionAnswer::Selected(option) => {
                pending.offered.iter().find(|offered| &***offered == option).cloned()
            }
            PermissionAnswer::Cancelled | PermissionAnswer::Failed => None,
        };
        let Some(option) = chosen.or_else(|| pending.deny.clone()) else {
            *state = Interaction::Withdrawn;
            return Some(Verdict::Stop);
        };
        *state = Interaction::Answered { confirmed: false };
        Some(Verdict::Option(option))
    }

    /// Denies a question that waits for the client.
    pub(crate) fn deny(&mut self, id: &AskId) -> Option<Verdict> {
        self.answer(id, &PermissionAnswer::Cancelled)
    }

    /// It was settled elsewhere. Says whether the client was still being asked.
    pub(crate) fn gone(&mut self, id: &AskId) -> bool {
        match self.entries.iter_mut().find(|(known, _)| known == id) {
            Some((_, state @ Interaction::Pending(_))) => {
                *state = Interaction::Withdrawn;
                true
            }
            _ => false,
        }
    }

    /// The host has confirmed an answer, or failed to.
    pub(crate) fn confirmed(&mut self, id: &AskId) {
        if let Some((_, Interaction::Answered { confirmed })) =
            self.entries.iter_mut().find(|(known, _)| known == id)
        {
            *confirmed = true;
        }
    }

    fn remember(&mut self, id: AskId, state: Interaction) {
        if self.entries.len() >= REMEMBERED
            && let Some(oldest) =
                self.entries.iter().position(|(_, state)| !matches!(state, Interaction::Pending(_)))
        {
            self.entries.remove(oldest);
        }
        self.entries.push_back((id, state));
    }
}

/// The options a client can be offered, in order. What neither allows nor denies is left out.
pub(crate) fn choices(options: &[PermissionOption]) -> Vec<PermissionChoice> {
    options
        .iter()
        .filter_map(|option| {
            let kind = match (option.decision, option.lasting) {
                (Decision::Allow, false) => ChoiceKind::AllowOnce,
                (Decision::Allow, true) => ChoiceKind::AllowAlways,
                (Decision::Deny, false) => ChoiceKind::RejectOnce,
                (Decision::Deny, true) => ChoiceKind::RejectAlways,
                (Decision::Escalate | Decision::Modify, _) => return None,
            };
            Some(PermissionChoice {
                id: Arc::clone(&option.id),
                name: option.name.clone(),
                kind,
                native_kind: Arc::clone(&option.native_kind),
            })
        })
        .collect()
}

/// The option that denies; one that does not last is preferred.
fn deny_option(options: &[PermissionOption]) -> Option<Arc<str>> {
    let denials = || options.iter().filter(|option| option.decision == Decision::Deny);
    denials().find(|option| !option.lasting).or_else(|| denials().next()).map(|option| Arc::clone(&option.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::session::fixture::{option, permission};

    fn asked(options: Vec<PermissionOption>) -> (Asks, AskId) {
        let mut asks = Asks::default();
        let ask = PermissionAsk { options, ..permission("p1") };
        asks.ask(&ask, None);
        (asks, ask.id)
    }

    #[test]
    fn kinds_come_from_decision_and_lasting_and_never_from_the_native_kind() {
        let kinds: Vec<_> = choices(&[
            option("a", Decision::Allow, false),
            option("b", Decision::Allow, true),
            option("c", Decision::Escalate, false),
            option("d", Decision::Deny, false),
            option("e", Decision::Modify, true),
            option("f", Decision::Deny, true),
        ])
        .into_iter()
        .map(|choice| (choice.id.to_string(), choice.kind))
        .collect();
        let expected = [
            ("a", ChoiceKind::AllowOnce),
            ("b", ChoiceKind::AllowAlways),
            ("d", ChoiceKind::RejectOnce),
            ("f", ChoiceKind::RejectAlways),
        ];
        assert_eq!(kinds, expected.map(|(id, kind)| (id.to_owned(), kind)));
    }

    #[test]
    fn every_answer_that_is_not_an_offered_option_denies_once() {
        let options = || vec![option("yes", Decision::Allow, false), option("no", Decision::Deny, false)];
        for answer in [
            PermissionAnswer::Selected("other".into()),
            PermissionAnswer::Selected("YES".into()),
            PermissionAnswer::Selected(String::new()),
            PermissionAnswer::Cancelled,
            PermissionAnswer::Failed,
        ] {
            let (mut asks, id) = asked(options());
            assert_eq!(asks.answer(&id, &answer), Some(Verdict::Option("no".into())), "{answer:?}");
            assert_eq!(asks.answer(&id, &PermissionAnswer::Selected("yes".into())), None, "answered twice");
        }
    }

    #[test]
    fn an_option_that_was_left_out_cannot_be_selected() {
        let (mut asks, id) =
            asked(vec![option("up", Decision::Escalate, false), option("no", Decision::Deny, false)]);
        assert_eq!(
            asks.answer(&id, &PermissionAnswer::Selected("up".into())),
            Some(Verdict::Option("no".into()))
        );
    }

    #[test]
    fn without_a_way_to_deny_only_a_stop_is_left() {
        let (mut asks, id) = asked(vec![option("yes", Decision::Allow, false)]);
        assert_eq!(asks.answer(&id, &PermissionAnswer::Failed), Some(Verdict::Stop));
        let (mut asks, id) = asked(vec![option("yes", Decision::Allow, false)]);
        assert_eq!(
            asks.answer(&id, &PermissionAnswer::Selected("yes".into())),
            Some(Verdict::Option("yes".into()))
        );
    }

    #[test]
    fn a_denial_that_lasts_is_the_second_choice() {
        let (mut asks, id) =
            asked(vec![option("never", Decision::Deny, true), option("no", Decision::Deny, false)]);
        assert_eq!(asks.deny(&id), Some(Verdict::Option("no".into())));
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_no_open_question() {
        let (mut asks, open) = asked(vec![option("no", Decision::Deny, false)]);
        for n in 0..1000 {
            asks.answered_at_once(AskId::from(format!("n{n}")));
        }
        assert!(asks.entries.len() <= REMEMBERED);
        assert!(asks.known(&open));
        assert!(asks.known(&AskId::from("n999")) && !asks.known(&AskId::from("n0")));
    }
}
