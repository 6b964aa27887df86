//! Questions as a form (`elicitation/create`), and its answer.
//!
//! The fields are named `q1`, `q2` … because a client shows them sorted by name. What comes back is checked against what
//! was asked: clients need not do it.

use agent_client_protocol::v1::schema as acp;
use diag_model::SessionId;
use session_coordinator::client::{FormAnswer, FormPrompt};
use session_coordinator::model::Question;

/// The form's params.
pub(crate) fn request(session: &SessionId, form: &FormPrompt) -> acp::CreateElicitationRequest {
    let schema =
        form.questions.iter().enumerate().fold(acp::ElicitationSchema::new(), |schema, (index, question)| {
            schema.property(field(index, form.questions.len()), property(question), true)
        });
    let scope = acp::ElicitationSessionScope::new(session.as_str().to_owned())
        .tool_call_id(form.call.as_ref().map(|call| acp::ToolCallId::new(call.as_str())));
    acp::CreateElicitationRequest::new(acp::ElicitationFormMode::new(scope, schema), form.message.clone())
}

/// The name of a field; with ten questions and more all names are of one length, so that they sort as they were asked.
fn field(index: usize, count: usize) -> String {
    let width = count.to_string().len();
    format!("q{:0width$}", index + 1)
}

fn property(question: &Question) -> acp::ElicitationPropertySchema {
    let (title, description) = match &question.header {
        Some(header) => (header.clone(), Some(question.question.clone())),
        None => (question.question.clone(), None),
    };
    let options: Vec<_> = question
        .options
        .iter()
        .map(|option| {
            acp::EnumOption::new(&*option.value, &*option.label).description(option.description.clone())
        })
        .collect();
    if question.multi {
        acp::MultiSelectPropertySchema::titled(options)
            .title(title)
            .description(description)
            .min_items(1u64)
            .into()
    } else {
        let text = acp::StringPropertySchema::new().title(title).description(description);
        // A question without choices is one for free text.
        if options.is_empty() { text.min_length(1u32).into() } else { text.one_of(options).into() }
    }
}

/// The client's answer. What is not exactly an answer to the questions is a failure, never a guess.
pub(crate) fn answer(questions: &[Question], answer: acp::CreateElicitationResponse) -> FormAnswer {
    let accepted = match answer.action {
        acp::ElicitationAction::Accept(accepted) => accepted,
        acp::ElicitationAction::Decline => return FormAnswer::Declined,
        acp::ElicitationAction::Cancel => return FormAnswer::Cancelled,
        _ => return FormAnswer::Failed,
    };
    let mut content = accepted.content.unwrap_or_default();
    let values = questions.iter().enumerate().map(|(index, question)| {
        let values = match content.remove(&field(index, questions.len()))? {
            acp::ElicitationContentValue::String(value) if !question.multi => vec![value],
            acp::ElicitationContentValue::StringArray(values) if question.multi => values,
            _ => return None,
        };
        let offered = |value: &String| {
            let free = question.options.is_empty() && !question.multi && !value.trim().is_empty();
            free || question.options.iter().any(|option| option.value == *value)
        };
        let once = values.iter().enumerate().all(|(at, value)| !values[..at].contains(value));
        (!values.is_empty() && once && values.iter().all(offered)).then_some(values)
    });
    match values.collect() {
        Some(values) => FormAnswer::Accepted(values),
        None => FormAnswer::Failed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use session_coordinator::model::QuestionOption;

    use super::*;

    fn option(value: &str) -> QuestionOption {
        QuestionOption {
            value: value.into(),
            label: value.to_uppercase(),
            description: (value == "a").then(|| "The first.".into()),
        }
    }

    fn questions() -> Vec<Question> {
        vec![
            Question {
                question: "Which one?".into(),
                header: Some("One".into()),
                options: vec![option("a"), option("b")],
                multi: false,
            },
            Question {
                question: "Which ones?".into(),
                header: None,
                options: vec![option("a"), option("b"), option("c")],
                multi: true,
            },
            Question { question: "What else?".into(), header: None, options: vec![], multi: false },
        ]
    }

    #[test]
    fn the_form() {
        let form =
            FormPrompt { message: "ZCode asks".into(), call: Some("call-1".into()), questions: questions() };
        insta::assert_json_snapshot!(request(&"s-1".into(), &form));
    }

    #[test]
    fn many_fields_sort_as_they_were_asked() {
        let names: Vec<_> = (0..12).map(|index| field(index, 12)).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(field(0, 3), "q1");
    }

    #[test]
    fn answers_are_checked_again() {
        let answered = |value: Value| answer(&questions(), serde_json::from_value(value).unwrap());
        let accepted = |content: Value| answered(json!({"action": "accept", "content": content}));
        let good = json!({"q1": "b", "q2": ["c", "a"], "q3": "more", "other": 1});
        assert_eq!(
            accepted(good.clone()),
            FormAnswer::Accepted(vec![vec!["b".into()], vec!["c".into(), "a".into()], vec!["more".into()]])
        );
        for (field, value) in [
            ("q1", json!("nope")),
            ("q1", json!(["a"])),
            ("q1", json!(true)),
            ("q2", json!("a")),
            ("q2", json!([])),
            ("q2", json!(["a", "nope"])),
            ("q2", json!(["a", "a"])),
            ("q3", json!(" ")),
        ] {
            let mut content = good.clone();
            content[field] = value;
            assert_eq!(accepted(content.clone()), FormAnswer::Failed, "{content}");
        }
        assert_eq!(accepted(json!({"q1": "a"})), FormAnswer::Failed);
        assert_eq!(answered(json!({"action": "accept"})), FormAnswer::Failed);
        assert_eq!(answered(json!({"action": "decline"})), FormAnswer::Declined);
        assert_eq!(answered(json!({"action": "cancel"})), FormAnswer::Cancelled);
        assert_eq!(answered(json!({"action": "_other"})), FormAnswer::Failed);
    }
}
