//! Questions of the host: each is asked once and answered once, and only the client's own choice can allow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use diag_model::AskId;
use zcode_runtime::model::{Decision, InputAnswer, PermissionAsk, PermissionOption};

use super::question::{Asking, Next};
use crate::client::{ChoiceKind, FormAnswer, PermissionAnswer, PermissionChoice};

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
        /// The client chose to allow or to answer.
        allowed: bool,
    },
    /// Nobody has to answer any more.
    Withdrawn,
}

/// A question that waits for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Id under which the client is being asked; each question of an ask has its own.
    key: AskId,
    about: About,
    subagent: bool,
    deadline: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    /// Whether a tool may run.
    Permission { offered: Vec<Arc<str>>, allows: Vec<Arc<str>>, deny: Option<Arc<str>> },
    /// A question or a plan.
    Input(Asking),
}

/// What has to be told to the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// This option.
    Option(Arc<str>),
    /// This answer to a question.
    Input(InputAnswer),
    /// Nothing yet: the client is asked the next question, under this id.
    Next(AskId),
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
        self.entries.iter().any(|(_, state)| matches!(state, Interaction::Answered { confirmed: false, .. }))
    }

    /// Remembers a question that will be put to the client.
    pub(crate) fn ask(&mut self, ask: &PermissionAsk, deadline: Option<Instant>) {
        let offered = choices(&ask.options).into_iter().map(|choice| choice.id).collect();
        let allowing = ask.options.iter().filter(|option| option.decision == Decision::Allow);
        let allows = allowing.map(|option| Arc::clone(&option.id)).collect();
        let about = About::Permission { offered, allows, deny: deny_option(&ask.options) };
        let pending = Pending { key: ask.id.clone(), about, subagent: ask.subagent, deadline };
        self.remember(ask.id.clone(), Interaction::Pending(pending));
    }

    /// Remembers a question or plan that will be put to the client.
    pub(crate) fn ask_input(&mut self, id: &AskId, asking: Asking, deadline: Option<Instant>) {
        let pending = Pending { key: id.clone(), about: About::Input(asking), subagent: false, deadline };
        self.remember(id.clone(), Interaction::Pending(pending));
    }

    /// The question or plan that the client is being asked under this id.
    pub(crate) fn asking(&self, key: &AskId) -> Option<&Asking> {
        self.pending().find(|(_, pending)| pending.key == *key).and_then(|(_, pending)| {
            match &pending.about {
                About::Input(asking) => Some(asking),
                About::Permission { .. } => None,
            }
        })
    }

    /// The host's id of what the client is being asked under this id.
    pub(crate) fn host_id(&self, key: &AskId) -> Option<AskId> {
        self.pending().find(|(_, pending)| pending.key == *key).map(|(id, _)| id.clone())
    }

    /// Remembers a question that is answered without the client.
    pub(crate) fn answered_at_once(&mut self, id: AskId) {
        self.remember(id, Interaction::Answered { confirmed: false, allowed: false });
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
    pub(crate) fn answer(&mut self, key: &AskId, answer: &PermissionAnswer) -> Option<Verdict> {
        let (id, state) = self.waiting(key)?;
        let Interaction::Pending(pending) = &mut *state else { return None };
        let verdict = match &mut pending.about {
            About::Permission { offered, deny, .. } => {
                let chosen = match answer {
                    PermissionAnswer::Selected(option) => {
                        offered.iter().find(|offered| &***offered == option).cloned()
                    }
                    PermissionAnswer::Cancelled | PermissionAnswer::Failed => None,
                };
                chosen.or_else(|| deny.clone()).map_or(Verdict::Stop, Verdict::Option)
            }
            About::Input(asking) => match asking.chosen(answer) {
                Next::Answer(answer) => Verdict::Input(answer),
                Next::Ask => {
                    pending.key = asking.key(id);
                    return Some(Verdict::Next(pending.key.clone()));
                }
            },
        };
        let allowed = match (&verdict, &pending.about) {
            (Verdict::Option(option), About::Permission { allows, .. }) => allows.contains(option),
            (Verdict::Input(InputAnswer::Accept(_)), _) => true,
            _ => false,
        };
        *state = match verdict {
            Verdict::Stop => Interaction::Withdrawn,
            _ => Interaction::Answered { confirmed: false, allowed },
        };
        Some(verdict)
    }

    /// Takes the client's answer to a form. A form never answers a permission.
    pub(crate) fn fill(&mut self, key: &AskId, answer: FormAnswer) -> Option<Verdict> {
        let (_, state) = self.waiting(key)?;
        let Interaction::Pending(Pending { about: About::Input(asking), .. }) = &*state else { return None };
        let verdict = Verdict::Input(asking.filled(answer));
        let allowed = matches!(verdict, Verdict::Input(InputAnswer::Accept(_)));
        *state = Interaction::Answered { confirmed: false, allowed };
        Some(verdict)
    }

    fn waiting(&mut self, key: &AskId) -> Option<(&AskId, &mut Interaction)> {
        self.entries
            .iter_mut()
            .find(|(_, state)| matches!(state, Interaction::Pending(pending) if pending.key == *key))
            .map(|(id, state)| (&*id, state))
    }

    /// Whether the answer that was given to a permission allows.
    pub(crate) fn allowed(&self, id: &AskId) -> bool {
        let answered = self.entries.iter().find(|(known, _)| known == id);
        matches!(answered, Some((_, Interaction::Answered { allowed: true, .. })))
    }

    /// Denies a question that waits for the client, by the host's id. Says under which id the client is asked.
    pub(crate) fn deny(&mut self, id: &AskId) -> Option<(AskId, Verdict)> {
        let key = self.pending().find(|(known, _)| *known == id).map(|(_, pending)| pending.key.clone())?;
        let verdict = self.answer(&key, &PermissionAnswer::Cancelled)?;
        Some((key, verdict))
    }

    /// It was settled elsewhere. Says under which id the client was still being asked.
    pub(crate) fn gone(&mut self, id: &AskId) -> Option<AskId> {
        match self.entries.iter_mut().find(|(known, _)| known == id) {
            Some((_, state)) => {
                let Interaction::Pending(pending) = &*state else { return None };
                let key = pending.key.clone();
                *state = Interaction::Withdrawn;
                Some(key)
            }
            None => None,
        }
    }

    /// The host has confirmed an answer, or failed to.
    pub(crate) fn confirmed(&mut self, id: &AskId) {
        if let Some((_, Interaction::Answered { confirmed, .. })) =
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
        assert_eq!(asks.deny(&id), Some((id, Verdict::Option("no".into()))));
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
