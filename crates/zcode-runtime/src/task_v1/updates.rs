//! `session.updated`: one type under which the host reports many things.
//!
//! Its shape is open, so what is not recognised is of no consequence. Some variants carry HTTP headers; those members are
//! not even read.

use std::time::Duration;

use zcode_protocol::task_v1::payload::{ApiRetry, SessionUpdated};

use super::events::{arc, call};
use super::tools::error_text;
use crate::model::{
    BackgroundTask, CompactionStage, ContextUsage, EventBody, Retry, SessionFacts, TaskStatus,
};

/// Longest pause that is believed.
const MAX_DELAY_MS: f64 = 86_400_000.0;

pub(super) fn session_updated(updated: &SessionUpdated<'_>) -> EventBody {
    if let Some(stage) = compaction(updated) {
        return EventBody::Compaction(stage);
    }
    if let Some(retry) = updated.meta.0.and_then(|meta| meta.zcode.0).and_then(|zcode| zcode.api_retry.0) {
        return EventBody::Retry(self::retry(retry));
    }
    if let Some(task) = background(updated) {
        return EventBody::BackgroundTask(task);
    }
    let mut facts = SessionFacts::default();
    if updated.previous_mode.0.is_some() {
        facts.mode = updated.mode.0.as_ref().map(arc);
    }
    // Side requests (titles, summaries) say nothing about the conversation's own context.
    if updated.query_source.0.as_deref().is_some_and(|source| source.starts_with("main"))
        && let (Some(usage), Some(size)) = (updated.usage.0, updated.context_window.0)
    {
        let sum = || Some(usage.input_tokens?.saturating_add(usage.output_tokens.unwrap_or(0)));
        facts.context = usage.total_tokens.or_else(sum).map(|used| ContextUsage { used, size });
    }
    if facts == SessionFacts::default() {
        return EventBody::Informational("session.updated");
    }
    EventBody::Facts(facts)
}

/// However the words are joined. A micro-compaction trims tool output in passing; nobody waits for it.
fn compaction(updated: &SessionUpdated<'_>) -> Option<CompactionStage> {
    let kind = updated.kind.0.as_deref()?.to_ascii_lowercase();
    if !kind.contains("compaction") || kind.contains("micro") {
        return None;
    }
    if kind.ends_with("started") {
        Some(CompactionStage::Started)
    } else if kind.ends_with("completed") {
        Some(CompactionStage::Completed)
    } else if kind.ends_with("failed") {
        let said = updated.error.map(error_text).map(|said| crate::redact::line(&said));
        Some(CompactionStage::Failed(said.filter(|said| !said.is_empty())))
    } else {
        None
    }
}

fn retry(retry: ApiRetry) -> Retry {
    let delay_ms = retry.retry_delay_ms.0.filter(|ms| ms.is_finite()).unwrap_or(0.0);
    Retry {
        attempt: retry.attempt,
        max: retry.max_retries.0,
        delay: Duration::from_secs_f64(delay_ms.clamp(0.0, MAX_DELAY_MS) / 1000.0),
        status: retry.error_status.0,
    }
}

fn background(updated: &SessionUpdated<'_>) -> Option<BackgroundTask> {
    let (task, id) = (updated.task_id.0.as_ref()?, updated.tool_call_id.0.as_ref()?);
    let status = match updated.status.0.as_deref()? {
        "running" => TaskStatus::Running,
        "completed" => TaskStatus::Completed,
        "failed" => TaskStatus::Failed,
        "timed_out" => TaskStatus::TimedOut,
        "cancelled" => TaskStatus::Cancelled,
        "spawn_error" => TaskStatus::SpawnError,
        "lost" => TaskStatus::Lost,
        // Not a failure of the turn: other things than background tasks may have ids and a status.
        other => {
            tracing::info!(state = zcode_protocol::task_v1::event::name(other), "host.task.unknown_status");
            return None;
        }
    };
    Some(BackgroundTask {
        task: arc(task),
        call: call(id),
        tool: updated.tool_name.0.as_ref().map(arc),
        status,
        description: updated.description.0.as_ref().map(|text| text.to_string()),
        tail: updated.output_tail.0.as_ref().filter(|tail| !tail.is_empty()).map(|text| text.to_string()),
    })
}

#[cfg(test)]
#[path = "updates_tests.rs"]
mod tests;
