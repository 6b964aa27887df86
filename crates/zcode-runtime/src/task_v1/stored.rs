//! Stored sessions: opening, listing, reading.

use std::path::{Path, PathBuf};

use diag_model::SessionId;
use serde_json::Value;
use zcode_protocol::task_v1::{Lenient, call as wire, history as stored, snapshot};

use super::operations::{Called, result_of};
use super::{TaskV1, facts, history};
use crate::client::Client;
use crate::model::{CallError, HistoryMessage, OpenedSession, Refusal, SessionSummary};

pub(super) const RESUME: &str = "resume session";
const LIST: &str = "list sessions";
const HISTORY: &str = "read history";

/// Sessions of a workspace that are listed, and how many are asked for: some of them belong to others.
const LISTED: usize = 1000;
const ASKED: u32 = 2000;
/// Messages in a page.
const PAGE: u32 = 200;
/// Messages that are counted. Beyond that a history is as good as settled.
const COUNTED: u64 = 100_000;

impl TaskV1 {
    pub(crate) async fn resume_session(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        mcp_servers: &[Value],
    ) -> Called<OpenedSession> {
        let own = wire::ResumeSession { session_id: session.as_str(), mcp_servers };
        let result = self.call_agent(client, RESUME, "resumeSession", ws, own).await?;
        let snapshot: snapshot::Snapshot<'_> = result_of(RESUME, &result)?;
        Ok(OpenedSession {
            id: SessionId::new(snapshot.session.session_id.to_arc()),
            facts: facts::of_snapshot(&snapshot),
        })
    }

    pub(crate) async fn list_sessions(&self, client: &Client, ws: &Path) -> Called<Vec<SessionSummary>> {
        let own = wire::ListSessions { include_archived: false, limit: ASKED };
        let result = self.call_agent(client, LIST, "listSessions", ws, own).await?;
        let entries: Vec<Lenient<stored::Summary<'_>>> = result_of(LIST, &result)?;
        let all = entries.len();
        let understood: Vec<_> = entries.into_iter().filter_map(|entry| entry.0).collect();
        if understood.len() < all {
            tracing::warn!(count = all - understood.len(), "host.list.unreadable");
        }
        let mut sessions: Vec<_> = understood.iter().filter(|entry| is_own(entry)).map(summary).collect();
        sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_ms));
        sessions.truncate(LISTED);
        Ok(sessions)
    }

    async fn page(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        after: Option<&str>,
        limit: u32,
    ) -> Called<Box<serde_json::value::RawValue>> {
        let own = wire::ReadMessages {
            session_id: session.as_str(),
            after_message_id: after,
            limit: limit.clamp(1, PAGE),
        };
        self.call_agent(client, HISTORY, "readSessionMessages", ws, own).await
    }

    pub(crate) async fn read_history(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        after: Option<&str>,
        limit: u32,
    ) -> Called<Vec<HistoryMessage>> {
        let page = self.page(client, ws, session, after, limit).await?;
        let messages: Vec<stored::Message<'_>> = result_of(HISTORY, &page)?;
        let messages: Vec<_> = messages.iter().map(history::message).collect();
        let skipped: usize = messages.iter().map(|(_, unknown)| *unknown).sum();
        if skipped > 0 {
            tracing::info!(session = %session, count = skipped, "host.history.parts_skipped");
        }
        Ok(messages.into_iter().map(|(message, _)| message).collect())
    }

    /// Page by page, so that no frame holds a whole history.
    pub(crate) async fn message_count(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
    ) -> Called<Option<u64>> {
        let mut count = 0;
        let mut after: Option<String> = None;
        while count < COUNTED {
            let page = match self.page(client, ws, session, after.as_deref(), PAGE).await {
                Ok(page) => page,
                Err(CallError::Refused { why: Refusal::Unavailable, .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let heads: Vec<stored::MessageHead<'_>> = result_of(HISTORY, &page)?;
            let last = heads.last().map(|head| head.info.message_id.to_string());
            // A host that goes round in circles must not keep us here.
            if last.is_none() || last == after {
                break;
            }
            count += heads.len() as u64;
            after = last;
        }
        Ok(Some(count))
    }
}

/// A session that stands for itself. One that says nothing about its kind does, unless it has a parent.
fn is_own(entry: &stored::Summary<'_>) -> bool {
    let own = match entry.session_kind.as_deref() {
        Some(kind) => matches!(kind, "interactive" | "fork"),
        None => entry.parent_session_id.is_none(),
    };
    own && entry.archived_at.is_none()
}

fn summary(entry: &stored::Summary<'_>) -> SessionSummary {
    let titled = entry.title_source.0.as_deref() != Some("default");
    let title = entry.title.0.as_ref().filter(|title| titled && !title.trim().is_empty());
    SessionSummary {
        id: SessionId::new(entry.session_id.to_arc()),
        title: title.map(zcode_protocol::task_v1::Text::to_arc),
        cwd: PathBuf::from(&*entry.workspace.workspace_path),
        updated_ms: entry.updated_at.0.or(entry.created_at.0),
        created_ms: entry.created_at.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(json: &str) -> Option<SessionSummary> {
        let entry: stored::Summary<'_> = serde_json::from_str(json).unwrap();
        is_own(&entry).then(|| summary(&entry))
    }

    #[test]
    fn only_sessions_that_stand_for_themselves_are_listed() {
        for (more, listed) in [
            (r#""sessionKind":"interactive""#, true),
            (r#""sessionKind":"fork","parentSessionId":"p""#, true),
            (r#""sessionKind":"interactive","archivedAt":null"#, true),
            (r#""sessionKind":"interactive","archivedAt":5"#, false),
            (r#""sessionKind":"subagent_child","parentSessionId":"p""#, false),
            (r#""sessionKind":"workflow_parent""#, false),
            (r#""sessionKind":"selection_side_chat""#, false),
            (r#""sessionKind":"novel""#, false),
            (r#""updatedAt":1"#, true),
            (r#""parentSessionId":"p""#, false),
        ] {
            let json = format!(r#"{{"sessionId":"s","workspace":{{"workspacePath":"/w"}},{more}}}"#);
            assert_eq!(entry(&json).is_some(), listed, "{more}");
        }
    }

    #[test]
    fn a_placeholder_is_no_title_and_odd_times_are_no_times() {
        let read = |more: &str| {
            entry(&format!(r#"{{"sessionId":"s","workspace":{{"workspacePath":"/w"}},{more}}}"#)).unwrap()
        };
        assert_eq!(read(r#""title":"New session","titleSource":"default""#).title, None);
        assert_eq!(read(r#""title":" ","titleSource":"generated""#).title, None);
        let session = read(r#""title":"T","titleSource":"custom","createdAt":3,"updatedAt":"yesterday""#);
        assert_eq!(
            (session.title.as_deref(), session.updated_ms, session.created_ms),
            (Some("T"), Some(3), Some(3))
        );
    }
}
