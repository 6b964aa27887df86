//! Questions and plan approvals as the client is asked them, and what its answers mean to the host.
//!
//! With forms a client gets the questions as they are. Without, every question with single choices becomes a request
//! that looks like a permission and says that it is a question; answering it allows no tool. A plan is approved only by
//! the host's own option, chosen by the client.

use diag_model::{AskId, ToolCallId};
use zcode_runtime::model::{InputAnswer, InputAsk, Question};

use crate::client::{
    ChoiceKind, FormAnswer, FormPrompt, PermissionAnswer, PermissionChoice, PermissionPrompt, ToolContent,
    ToolKind, ToolPatch,
};

/// Interaction name of a plan approval.
pub(crate) const PLAN: &str = "plan_approval";
/// Our own way out of a question.
const SKIP: &str = "zcode-acp:skip";
/// Our own way out of a plan approval.
pub(crate) const KEEP_PLANNING: &str = "zcode-acp:keep-planning";
/// Questions of one ask that are put to a client.
const QUESTION_LIMIT: usize = 32;

/// An ask that waits for its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asking {
    questions: Vec<Question>,
    answers: Vec<(String, Vec<String>)>,
    plan: bool,
}

/// What an answer of the client leads to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// The host is answered.
    Answer(InputAnswer),
    /// The next question is asked.
    Ask,
}

impl Asking {
    /// Takes an ask up, or says why it cannot be put to this client.
    pub(crate) fn of(ask: &InputAsk, forms: bool) -> Result<Self, &'static str> {
        let plan = ask.interaction.as_deref() == Some(PLAN);
        let fits = |question: &Question| !question.multi && !question.options.is_empty();
        if ask.questions.is_empty() {
            return Err("it has no question");
        }
        if ask.questions.len() > QUESTION_LIMIT {
            return Err("it has too many questions");
        }
        if !forms && !ask.questions.iter().all(fits) {
            return Err("your client cannot show a question with several or free answers");
        }
        Ok(Self { questions: ask.questions.clone(), answers: Vec::new(), plan })
    }

    /// The whole ask as a form.
    pub(crate) fn form(&self, call: Option<ToolCallId>) -> FormPrompt {
        let mut questions = self.questions.clone();
        let message = if self.plan {
            for question in &mut questions {
                question.options.push(zcode_runtime::model::QuestionOption {
                    value: KEEP_PLANNING.to_owned(),
                    label: "Keep planning".to_owned(),
                    description: None,
                });
            }
            "ZCode asks you to approve its plan".to_owned()
        } else if let [question] = &questions[..] {
            question.question.clone()
        } else {
            format!("ZCode has {} questions", questions.len())
        };
        FormPrompt { message, call, questions }
    }

    /// The question that is next, as a request with choices.
    pub(crate) fn prompt(&self, call: ToolCallId, plan_text: Option<&str>) -> PermissionPrompt {
        let mut call = ToolPatch::new(call);
        let Some(question) = self.questions.get(self.answers.len()) else {
            return PermissionPrompt { call, options: Vec::new() };
        };
        let label = if self.plan { "Plan" } else { "Question" };
        call.title = Some(format!("{label}: {}", question.question));
        call.kind = Some(if self.plan { ToolKind::SwitchMode } else { ToolKind::Other });
        let described = question.options.iter().filter_map(|option| {
            Some(format!(
                "{}: {}",
                option.label,
                option.description.as_ref().filter(|text| !text.is_empty())?
            ))
        });
        let mut text: Vec<_> = plan_text.map(str::to_owned).into_iter().collect();
        if !self.plan {
            text.push(question.question.clone());
        }
        text.extend(described);
        call.content = Some(vec![ToolContent::Text(text.join("\n\n"))]);
        let choice = |(index, option): (usize, &zcode_runtime::model::QuestionOption)| PermissionChoice {
            id: self.choice_id(index, &option.value).into(),
            name: option.label.clone(),
            kind: ChoiceKind::AllowOnce,
            native_kind: if self.plan { "plan" } else { "answer" }.into(),
        };
        let mut options: Vec<_> = question.options.iter().enumerate().map(choice).collect();
        let (id, name) = if self.plan { (KEEP_PLANNING, "Keep planning") } else { (SKIP, "Skip") };
        options.push(PermissionChoice {
            id: id.into(),
            name: name.to_owned(),
            kind: ChoiceKind::RejectOnce,
            native_kind: "decline".into(),
        });
        PermissionPrompt { call, options }
    }

    /// The id under which the question that is next is asked. Each has its own, so that no answer can count twice.
    pub(crate) fn key(&self, ask: &AskId) -> AskId {
        match self.answers.len() {
            0 => ask.clone(),
            index => format!("{ask}#{}", index + 1).into(),
        }
    }

    fn choice_id(&self, index: usize, value: &str) -> String {
        if self.plan { value.to_owned() } else { format!("answer-{}", index + 1) }
    }

    /// Takes the answer to one question. Everything but an offered choice declines all.
    pub(crate) fn chosen(&mut self, answer: &PermissionAnswer) -> Next {
        let selected = match answer {
            PermissionAnswer::Selected(selected) => selected,
            PermissionAnswer::Cancelled => return Next::Answer(InputAnswer::Cancel),
            PermissionAnswer::Failed => return Next::Answer(InputAnswer::Decline),
        };
        let Some(question) = self.questions.get(self.answers.len()) else {
            return Next::Answer(InputAnswer::Decline);
        };
        let chosen = question
            .options
            .iter()
            .enumerate()
            .find(|(index, option)| self.choice_id(*index, &option.value) == *selected)
            .map(|(_, option)| option.value.clone());
        let Some(value) = chosen else { return Next::Answer(InputAnswer::Decline) };
        self.answers.push((question.question.clone(), vec![value]));
        if self.answers.len() < self.questions.len() {
            return Next::Ask;
        }
        Next::Answer(InputAnswer::Accept(std::mem::take(&mut self.answers)))
    }

    /// Takes the answer to the form. A plan is approved only by one of the host's own options.
    pub(crate) fn filled(&self, answer: FormAnswer) -> InputAnswer {
        let values = match answer {
            FormAnswer::Accepted(values) if values.len() == self.questions.len() => values,
            FormAnswer::Cancelled => return InputAnswer::Cancel,
            FormAnswer::Accepted(_) | FormAnswer::Declined | FormAnswer::Failed => {
                return InputAnswer::Decline;
            }
        };
        let offered = |question: &Question, value: &String| {
            question.options.is_empty() && !self.plan
                || question.options.iter().any(|option| option.value == *value)
        };
        let valid = self.questions.iter().zip(&values).all(|(question, values)| {
            !values.is_empty()
                && (question.multi || values.len() == 1)
                && values.iter().all(|value| offered(question, value))
        });
        if !valid {
            return InputAnswer::Decline;
        }
        let keys = self.questions.iter().map(|question| question.question.clone());
        InputAnswer::Accept(keys.zip(values).collect())
    }
}

#[cfg(test)]
mod tests {
    use zcode_runtime::model::QuestionOption;

    use super::*;

    fn question(text: &str, options: &[&str], multi: bool) -> Question {
        let option = |value: &&str| QuestionOption {
            value: (*value).to_owned(),
            label: value.to_uppercase(),
            description: Some(format!("about {value}")),
        };
        Question { question: text.into(), header: None, options: options.iter().map(option).collect(), multi }
    }

    fn ask(interaction: Option<&str>, questions: Vec<Question>) -> InputAsk {
        InputAsk {
            id: "i".into(),
            call: None,
            interaction: interaction.map(Into::into),
            plan: None,
            questions,
        }
    }

    fn select(id: &str) -> PermissionAnswer {
        PermissionAnswer::Selected(id.to_owned())
    }

    #[test]
    fn questions_are_asked_one_after_the_other_and_keyed_by_their_text() {
        let ask = ask(None, vec![question("A?", &["x", "y"], false), question("B?", &["z"], false)]);
        let mut asking = Asking::of(&ask, false).unwrap();
        let prompt = asking.prompt("c".into(), None);
        assert_eq!(prompt.call.title.as_deref(), Some("Question: A?"));
        let shown: Vec<_> = prompt.options.iter().map(|o| (&*o.id, &*o.name, o.kind)).collect();
        let once = ChoiceKind::AllowOnce;
        assert_eq!(
            shown,
            [("answer-1", "X", once), ("answer-2", "Y", once), (SKIP, "Skip", ChoiceKind::RejectOnce)]
        );
        assert_eq!(asking.key(&ask.id), ask.id);
        assert_eq!(asking.chosen(&select("answer-2")), Next::Ask);
        assert_eq!(asking.key(&ask.id).as_str(), "i#2");
        let answers = vec![("A?".to_owned(), vec!["y".to_owned()]), ("B?".to_owned(), vec!["z".to_owned()])];
        assert_eq!(asking.chosen(&select("answer-1")), Next::Answer(InputAnswer::Accept(answers)));
    }

    #[test]
    fn one_way_out_declines_all_and_cancelling_cancels() {
        let ask = ask(None, vec![question("A?", &["x"], false), question("B?", &["z"], false)]);
        for (answer, expected) in [
            (select(SKIP), InputAnswer::Decline),
            (select("x"), InputAnswer::Decline),
            (PermissionAnswer::Failed, InputAnswer::Decline),
            (PermissionAnswer::Cancelled, InputAnswer::Cancel),
        ] {
            let mut asking = Asking::of(&ask, false).unwrap();
            assert_eq!(asking.chosen(&select("answer-1")), Next::Ask);
            assert_eq!(asking.chosen(&answer), Next::Answer(expected));
        }
    }

    #[test]
    fn without_forms_only_single_choices_can_be_asked() {
        for questions in [vec![question("A?", &["x"], true)], vec![question("A?", &[], false)], vec![]] {
            let empty = questions.is_empty();
            let ask = ask(None, questions);
            assert!(Asking::of(&ask, false).is_err());
            assert_eq!(Asking::of(&ask, true).is_err(), empty);
        }
    }

    #[test]
    fn a_form_is_checked_against_what_was_asked() {
        let ask = ask(None, vec![question("A?", &["x", "y"], true), question("B?", &[], false)]);
        let asking = Asking::of(&ask, true).unwrap();
        let fill = |a: &[&str], b: &[&str]| {
            let own = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
            asking.filled(FormAnswer::Accepted(vec![own(a), own(b)]))
        };
        assert!(matches!(fill(&["x", "y"], &["free"]), InputAnswer::Accept(answers) if answers.len() == 2));
        assert_eq!(fill(&["nonsense"], &["free"]), InputAnswer::Decline);
        assert_eq!(fill(&[], &["free"]), InputAnswer::Decline);
        assert_eq!(fill(&["x"], &["a", "b"]), InputAnswer::Decline);
        assert_eq!(asking.filled(FormAnswer::Accepted(Vec::new())), InputAnswer::Decline);
        assert_eq!(asking.filled(FormAnswer::Cancelled), InputAnswer::Cancel);
    }

    #[test]
    fn a_plan_is_approved_only_by_the_hosts_own_option() {
        let ask = ask(Some(PLAN), vec![question("Review", &["approve"], false)]);
        let mut asking = Asking::of(&ask, false).unwrap();
        let options: Vec<_> = asking.prompt("c".into(), Some("# P")).options;
        assert_eq!(options.iter().map(|option| &*option.id).collect::<Vec<_>>(), ["approve", KEEP_PLANNING]);
        let form = |value: &str| asking.filled(FormAnswer::Accepted(vec![vec![value.to_owned()]]));
        assert!(matches!(form("approve"), InputAnswer::Accept(_)));
        assert_eq!(form(KEEP_PLANNING), InputAnswer::Decline);
        assert_eq!(form("yes"), InputAnswer::Decline);
        assert_eq!(asking.clone().chosen(&select(KEEP_PLANNING)), Next::Answer(InputAnswer::Decline));
        assert!(matches!(asking.chosen(&select("approve")), Next::Answer(InputAnswer::Accept(_))));
    }
}
