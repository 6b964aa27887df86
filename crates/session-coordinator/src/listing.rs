//! The sessions there are, newest first and in pages.
//!
//! A cursor is the place in the order where a page ended, so that it holds however much is added meanwhile and needs no
//! memory here.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::PathBuf;

use diag_model::{Detail, ErrorCode, Failure, SessionId};

use crate::hosts::Hosts;
use crate::opening::canonical;
use crate::registry::Shared;
use crate::setup::{ListAnswer, ListRequest, ListedSession};

/// Sessions of one page.
const PAGE: usize = 50;
/// A cursor that we gave is never longer.
const CURSOR_LIMIT: usize = 2048;

/// Lists the sessions of a folder, or of all folders of this connection and the one the agent runs in.
pub(crate) async fn list(
    shared: &Shared,
    hosts: &Hosts,
    request: ListRequest,
) -> Result<ListAnswer, Failure> {
    let after = request.cursor.as_deref().map(Place::parse).transpose()?;
    let workspaces = match request.cwd {
        Some(cwd) => match canonical(cwd.clone()).await {
            Ok(workspace) => vec![(workspace, cwd)],
            // A folder that is gone has no sessions that could be opened from it.
            Err(_) if cwd.is_absolute() && !cwd.exists() => return Ok(ListAnswer::default()),
            Err(failure) => return Err(failure),
        },
        None => everywhere(shared).await,
    };
    let mut sessions = Vec::new();
    let mut failed = None;
    let count = workspaces.len();
    for (workspace, spelled) in workspaces {
        match of_workspace(shared, hosts, workspace, spelled).await {
            Ok(listed) => sessions.extend(listed),
            Err(failure) => {
                tracing::warn!(code = failure.code.as_str(), error = %failure, "session.list_failed");
                failed.get_or_insert(failure);
            }
        }
    }
    match failed {
        // What is known of other folders is better than nothing.
        Some(failure) if sessions.is_empty() || count == 1 => Err(failure),
        _ => Ok(page(sessions, after.as_ref())),
    }
}

async fn everywhere(shared: &Shared) -> Vec<(PathBuf, PathBuf)> {
    let mut workspaces = shared.workspaces();
    if let Ok(own) = std::env::current_dir()
        && let Ok(workspace) = canonical(own.clone()).await
        && !workspaces.iter().any(|(known, _)| *known == workspace)
    {
        workspaces.push((workspace, own));
    }
    workspaces
}

async fn of_workspace(
    shared: &Shared,
    hosts: &Hosts,
    workspace: PathBuf,
    spelled: PathBuf,
) -> Result<Vec<ListedSession>, Failure> {
    let host = hosts.get().await?;
    let (_, lease) = host.acquire(&workspace).await.map_err(|error| error.failure().clone())?;
    let listed = host.host.list_sessions(&workspace).await.map_err(|error| error.failure().clone())?;
    drop(lease);
    let mut sessions = Vec::with_capacity(listed.len());
    for summary in listed {
        // A folder that is gone keeps the spelling the host has.
        let same = summary.cwd == workspace || summary.cwd == spelled;
        let home = if same {
            workspace.clone()
        } else {
            canonical(summary.cwd.clone()).await.unwrap_or_else(|_| summary.cwd.clone())
        };
        shared.bind(&summary.id, &home);
        let cwd = if home == workspace { spelled.clone() } else { summary.cwd };
        sessions.push(ListedSession {
            id: summary.id,
            cwd,
            title: summary.title,
            updated_ms: summary.updated_ms.or(summary.created_ms),
        });
    }
    Ok(sessions)
}

/// A place in the order: newest first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place(Reverse<u64>, SessionId);

impl Place {
    fn of(session: &ListedSession) -> Self {
        Self(Reverse(session.updated_ms.unwrap_or(0)), session.id.clone())
    }

    fn cursor(&self) -> String {
        let text = format!("{}:{}", self.0.0, self.1);
        text.bytes().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    fn parse(cursor: &str) -> Result<Self, Failure> {
        let place = || {
            if cursor.len() > CURSOR_LIMIT || cursor.len() % 2 == 1 || !cursor.is_ascii() {
                return None;
            }
            let byte = |at| u8::from_str_radix(cursor.get(at..at + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..cursor.len()).step_by(2).map(byte).collect();
            let text = String::from_utf8(bytes?).ok()?;
            let (updated, id) = text.split_once(':')?;
            let place = Self(Reverse(updated.parse().ok()?), SessionId::from(id));
            (place.cursor() == cursor).then_some(place)
        };
        place().ok_or_else(|| {
            Failure::new(ErrorCode::InvalidRequest)
                .cause("the cursor is not one that this agent gave")
                .next_step("list again without a cursor")
                .with(Detail::Field, "cursor")
        })
    }
}

fn page(mut sessions: Vec<ListedSession>, after: Option<&Place>) -> ListAnswer {
    sessions.sort_by_cached_key(Place::of);
    sessions.dedup_by(|a, b| a.id == b.id);
    if let Some(after) = after {
        sessions.retain(|session| Place::of(session) > *after);
    }
    let more = sessions.len() > PAGE;
    sessions.truncate(PAGE);
    let next = sessions.last().filter(|_| more).map(|last| Place::of(last).cursor());
    ListAnswer { sessions, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: usize, updated_ms: Option<u64>) -> ListedSession {
        ListedSession { id: format!("s{id}").into(), cwd: "/w".into(), title: None, updated_ms }
    }

    #[test]
    fn pages_follow_each_other_newest_first_without_gap_or_repeat() {
        let all = || (0..120).map(|id| session(id, Some(1000 + id as u64 / 2))).collect::<Vec<_>>();
        let mut seen = Vec::new();
        let mut cursor: Option<String> = None;
        for count in [50, 50, 20] {
            let after = cursor.as_deref().map(|cursor| Place::parse(cursor).unwrap());
            // One more that is newer than all does not move what follows.
            let mut sessions = all();
            sessions.push(session(999, Some(5000)));
            let answer = page(if cursor.is_some() { sessions } else { all() }, after.as_ref());
            assert_eq!(answer.sessions.len(), count);
            seen.extend(answer.sessions);
            cursor = answer.next;
        }
        assert_eq!(cursor, None);
        let mut ids: Vec<_> = seen.iter().map(|session| session.id.clone()).collect();
        assert!(seen.windows(2).all(|pair| pair[0].updated_ms >= pair[1].updated_ms));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 120);
    }

    #[test]
    fn a_cursor_of_somebody_else_is_refused() {
        let own = Place::of(&session(1, None)).cursor();
        assert!(Place::parse(&own).is_ok());
        for cursor in ["", "zz", "abc", "3a", "ä", &own.to_uppercase(), &own[2..], &"0".repeat(5000)] {
            let refused = Place::parse(cursor);
            assert!(refused.is_err() || cursor == own, "{cursor}");
        }
    }
}
