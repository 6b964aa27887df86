//! Saying no to questions of the host that cannot be understood, as far as they can be answered at all.
//!
//! An unanswered question would block the host's turn; the violation itself is told to the session as well.

use std::path::PathBuf;
use std::sync::Arc;

use diag_model::{AskId, SessionId};
use zcode_protocol::task_v1::ask::{PermissionRequest, ReadableAsk, ReadableKind};
use zcode_protocol::task_v1::{DynamicEvent, EventError, Text, parse_event, readable_ask};

use super::{Memory, TaskV1};
use crate::client::Client;
use crate::model::InputAnswer;

const REASON: &str = "the request is not understood by zcode-acp";

/// An event that cannot be read, and the question in it if there is one.
#[derive(Debug)]
pub(crate) struct BadEvent {
    pub(crate) error: EventError,
    pub(crate) ask: Option<ForeignAsk>,
}

/// Reads an event that stands alone.
pub(crate) fn read_event(json: &str) -> Result<DynamicEvent<'_>, BadEvent> {
    parse_event(json).map_err(|error| BadEvent { error, ask: readable_ask(json).map(Into::into) })
}

/// A question with the session it names.
#[derive(Debug)]
pub(crate) struct ForeignAsk {
    pub(super) session: Option<Arc<str>>,
    pub(super) ask: RefusedAsk,
}

/// A question that is answered with no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RefusedAsk {
    /// A permission, denied by an option. Without one nobody can answer it.
    Permission(AskId, Option<Arc<str>>),
    /// An input, declined.
    Input(AskId),
    /// Headers, not applied.
    Headers(AskId),
}

impl From<ReadableAsk<'_>> for ForeignAsk {
    fn from(ask: ReadableAsk<'_>) -> Self {
        let id = AskId::new(ask.request_id.to_arc());
        Self {
            session: ask.session_id.as_ref().map(Text::to_arc),
            ask: match ask.kind {
                ReadableKind::Permission { deny } => {
                    RefusedAsk::Permission(id, deny.as_ref().map(Text::to_arc))
                }
                ReadableKind::Input => RefusedAsk::Input(id),
                ReadableKind::Headers => RefusedAsk::Headers(id),
            },
        }
    }
}

impl RefusedAsk {
    /// A well-formed permission request whose choices are outside the contract.
    pub(super) fn permission(request: &PermissionRequest<'_>) -> Self {
        let deny = request.options.iter().find(|option| &*option.response.decision == "deny");
        Self::Permission(
            AskId::new(request.request_id.to_arc()),
            deny.map(|option| option.option_id.to_arc()),
        )
    }
}

impl TaskV1 {
    /// Answers with no. That nothing comes of it changes nothing: the turn fails anyway.
    pub(crate) async fn refuse(&self, client: &Client, of: RefusalOf, ask: RefusedAsk) {
        let RefusalOf { session, workspace } = of;
        let (id, answered) = match ask {
            RefusedAsk::Permission(id, Some(option)) => {
                let answered = self.answer_permission(client, &session, &id, &option).await.map(drop);
                (id, answered)
            }
            RefusedAsk::Permission(id, None) => {
                tracing::warn!(session = %session, ask = %id, "host.ask.unanswerable");
                return;
            }
            RefusedAsk::Input(id) => {
                let answered =
                    self.answer_input(client, &session, &id, &InputAnswer::Decline).await.map(drop);
                (id, answered)
            }
            RefusedAsk::Headers(id) => {
                let answered = self.refuse_headers(client, &workspace, &id, REASON).await;
                (id, answered)
            }
        };
        match answered {
            Ok(()) => tracing::info!(session = %session, ask = %id, "host.ask.refused"),
            Err(error) => {
                tracing::warn!(session = %session, ask = %id, error = %error.failure(), "host.ask.not_refused");
            }
        }
    }
}

/// Whose question it is.
pub(crate) struct RefusalOf {
    session: SessionId,
    workspace: PathBuf,
}

impl Memory {
    /// Whose question it would be.
    pub(crate) fn refusal_of(&self) -> Option<RefusalOf> {
        self.of
            .as_ref()
            .map(|(session, workspace)| RefusalOf { session: session.clone(), workspace: workspace.clone() })
    }
}
