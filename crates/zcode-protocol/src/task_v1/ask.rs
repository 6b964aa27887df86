//! Questions of the host.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::{Lenient, Text};

/// Whether a tool may run.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest<'a> {
    /// Id to answer under.
    #[serde(borrow)]
    pub request_id: Text<'a>,
    /// Session that asks.
    #[serde(borrow, default)]
    pub session_id: Lenient<Text<'a>>,
    /// Call it is about.
    #[serde(borrow)]
    pub tool_call_id: Text<'a>,
    /// Tool.
    #[serde(borrow)]
    pub tool_name: Text<'a>,
    /// Why it is asked.
    #[serde(borrow)]
    pub reason: Option<Text<'a>>,
    /// Tool input.
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    /// Present when a subagent asks.
    #[serde(borrow)]
    pub origin: Option<&'a RawValue>,
    /// Choices, in order.
    #[serde(borrow)]
    pub options: Vec<PermissionOption<'a>>,
}

/// A choice of a [`PermissionRequest`].
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption<'a> {
    /// Id to answer with.
    #[serde(borrow)]
    pub option_id: Text<'a>,
    /// Kind as the host names it.
    #[serde(borrow)]
    pub kind: Option<Text<'a>>,
    /// Text for people.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// What choosing it does.
    #[serde(borrow)]
    pub response: PermissionResponse<'a>,
}

/// What choosing an option does.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionResponse<'a> {
    /// `allow`, `deny`, `escalate` or `modify`.
    #[serde(borrow)]
    pub decision: Text<'a>,
    /// Rules it changes, so that it counts for later calls too.
    #[serde(borrow)]
    pub permission_updates: Option<Vec<&'a RawValue>>,
}

/// A question for the user that is not a permission.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputRequest<'a> {
    /// Id to answer under.
    #[serde(borrow)]
    pub request_id: Text<'a>,
    /// Session that asks.
    #[serde(borrow, default)]
    pub session_id: Lenient<Text<'a>>,
    /// Present when a subagent asks.
    #[serde(borrow)]
    pub origin: Option<&'a RawValue>,
    /// Call it belongs to.
    #[serde(borrow)]
    pub tool_call_id: Option<Text<'a>>,
    /// Questions.
    #[serde(borrow, default)]
    pub questions: Vec<Question<'a>>,
    /// Input of the tool that asks; holds the text of a plan.
    #[serde(borrow, default)]
    pub input: Lenient<AskInput<'a>>,
    /// What is asked for. An open shape: the member that names the interaction is the contract's.
    #[serde(borrow)]
    pub schema: Option<&'a RawValue>,
}

/// The part of an asking tool's input that is understood.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AskInput<'a> {
    /// Text of a plan, Markdown.
    #[serde(borrow)]
    pub plan: Option<Text<'a>>,
}

/// One question.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question<'a> {
    /// The question.
    #[serde(borrow)]
    pub question: Text<'a>,
    /// Short heading.
    #[serde(borrow)]
    pub header: Option<Text<'a>>,
    /// Choices.
    #[serde(borrow, default)]
    pub options: Vec<QuestionOption<'a>>,
    /// More than one may be chosen.
    #[serde(default)]
    pub multi_select: Option<bool>,
}

/// A choice of a question.
#[derive(Debug, Clone, Deserialize)]
pub struct QuestionOption<'a> {
    /// Value to send back; the label where there is none.
    #[serde(borrow)]
    pub value: Option<Text<'a>>,
    /// Text for people.
    #[serde(borrow)]
    pub label: Text<'a>,
    /// Explanation.
    #[serde(borrow)]
    pub description: Option<Text<'a>>,
}

/// The host wants headers for a provider request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadersRequest<'a> {
    /// Id to answer under.
    #[serde(borrow)]
    pub request_id: Text<'a>,
    /// Session that asks.
    #[serde(borrow, default)]
    pub session_id: Lenient<Text<'a>>,
}

/// What is left of a question that cannot be understood: enough to say no to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadableAsk<'a> {
    /// Id to answer under.
    pub request_id: Text<'a>,
    /// Session that asks.
    pub session_id: Option<Text<'a>>,
    /// What it asks for.
    pub kind: ReadableKind<'a>,
}

/// What a [`ReadableAsk`] asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadableKind<'a> {
    /// A permission.
    Permission {
        /// Option that denies it, if one is offered.
        deny: Option<Text<'a>>,
    },
    /// Something of the user.
    Input,
    /// Provider headers.
    Headers,
}

/// Finds the question in an event that could not be read as a whole.
pub fn readable_ask(json: &str) -> Option<ReadableAsk<'_>> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        request: Asked<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked<'a> {
        #[serde(borrow)]
        request_id: Text<'a>,
        #[serde(borrow, default)]
        session_id: Lenient<Text<'a>>,
        #[serde(borrow, default)]
        options: Lenient<Vec<Lenient<Choice<'a>>>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Choice<'a> {
        #[serde(borrow)]
        option_id: Text<'a>,
        #[serde(borrow)]
        response: Response<'a>,
    }
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        decision: Text<'a>,
    }
    let Event { kind, request } = serde_json::from_str(json).ok()?;
    let kind = match &*kind {
        "permission.request" => {
            let mut options = request.options.0.unwrap_or_default().into_iter().filter_map(|option| option.0);
            let deny = options.find(|option| &*option.response.decision == "deny");
            ReadableKind::Permission { deny: deny.map(|option| option.option_id) }
        }
        "userInput.request" => ReadableKind::Input,
        "providerRuntimeHeaders.request" => ReadableKind::Headers,
        _ => return None,
    };
    Some(ReadableAsk { request_id: request.request_id, session_id: request.session_id.0, kind })
}
