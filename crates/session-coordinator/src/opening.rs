//! Everything before the host is asked to open a session: the folder, the host, the workspace, the sign-in, and whose
//! session it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diag_model::{Detail, ErrorCode, Failure, SessionId};
use zcode_runtime::host::Host;
use zcode_runtime::model::WorkspaceState;

use crate::actor::{Handle, Prepared};
use crate::hosts::{Hosts, Lease};
use crate::machine::{Origin, mode};
use crate::registry::Shared;
use crate::setup::{NewSessionRequest, OpenRequest};

/// How long a session that is being closed may take before it can be opened again.
const CLOSED_WITHIN: Duration = Duration::from_secs(8);
/// Sessions the host lists at most; of a longer list nobody knows what is missing.
const LISTED: usize = 1000;

/// A stored session that was asked for.
pub(crate) enum Found {
    /// It is open on this connection.
    Open(Handle),
    /// It can be opened.
    Stored(Box<Prepared>),
}

/// A workspace that is open, with somebody signed in.
struct Opened {
    host: Host,
    lease: Lease,
    offers: Arc<WorkspaceState>,
}

async fn open(hosts: &Hosts, workspace: &Path) -> Result<Opened, Failure> {
    let host = hosts.get().await?;
    let (offers, lease) = host.acquire(workspace).await.map_err(|error| error.failure().clone())?;
    if offers.models.is_empty() {
        return Err(Failure::new(ErrorCode::SignInRequired));
    }
    Ok(Opened { host: host.host.clone(), lease, offers })
}

/// For a new session.
pub(crate) async fn prepare_new(
    shared: &Shared,
    hosts: &Hosts,
    request: NewSessionRequest,
) -> Result<Prepared, Failure> {
    let workspace = canonical(request.cwd.clone()).await?;
    shared.spell(&workspace, &request.cwd);
    let Opened { host, lease, offers } = open(hosts, &workspace).await?;
    let origin = Origin::New { mode: mode::choose(host.profile(), &offers)? };
    Ok(Prepared { host, lease, workspace, offers, origin, mcp_servers: request.mcp_servers })
}

/// For a session that the host has stored, or that is open already.
pub(crate) async fn prepare_stored(
    shared: &Shared,
    hosts: &Hosts,
    request: OpenRequest,
    history: bool,
) -> Result<Found, Failure> {
    let OpenRequest { session, cwd, mcp_servers } = request;
    let workspace = canonical(cwd.clone()).await?;
    let home = shared.home(&session);
    if let Some(home) = home.as_deref().filter(|home| *home != workspace) {
        return Err(elsewhere(shared, &session, home));
    }
    if let Ok(handle) = shared.find(&session) {
        if !handle.is_ending() {
            shared.spell(&workspace, &cwd);
            return Ok(Found::Open(handle));
        }
        if tokio::time::timeout(CLOSED_WITHIN, handle.gone()).await.is_err() {
            return Err(Failure::new(ErrorCode::SessionClosed)
                .cause("the session is still being closed")
                .next_step("try again in a moment")
                .with(Detail::Session, &session));
        }
    }
    let Opened { host, lease, offers } = open(hosts, &workspace).await?;
    if home.is_none() {
        belongs(shared, hosts, &host, &workspace, &session).await?;
    }
    shared.spell(&workspace, &cwd);
    let origin = Origin::Stored { session, history };
    Ok(Found::Stored(Box::new(Prepared { host, lease, workspace, offers, origin, mcp_servers })))
}

/// Refuses a session that the workspace does not have. It may be one of another workspace of this connection.
async fn belongs(
    shared: &Shared,
    hosts: &Hosts,
    host: &Host,
    workspace: &Path,
    session: &SessionId,
) -> Result<(), Failure> {
    // A host that cannot list decides by itself.
    let Ok(listed) = host.list_sessions(workspace).await else { return Ok(()) };
    if let Some(found) = listed.iter().find(|listed| listed.id == *session) {
        let home = canonical(found.cwd.clone()).await.unwrap_or_else(|_| found.cwd.clone());
        shared.bind(session, &home);
        return if home == workspace { Ok(()) } else { Err(elsewhere(shared, session, &home)) };
    }
    if listed.len() >= LISTED {
        return Ok(());
    }
    for (other, _) in shared.workspaces().into_iter().filter(|(other, _)| other != workspace) {
        let Ok(opened) = open(hosts, &other).await else { continue };
        let Ok(listed) = opened.host.list_sessions(&other).await else { continue };
        if listed.iter().any(|listed| listed.id == *session) {
            shared.bind(session, &other);
            return Err(elsewhere(shared, session, &other));
        }
    }
    Err(Failure::new(ErrorCode::SessionNotFound).with(Detail::Session, session))
}

/// The refusal of a session that belongs to another folder, named as the client spells it.
fn elsewhere(shared: &Shared, session: &SessionId, home: &Path) -> Failure {
    let spelled = shared.workspaces().into_iter().find(|(known, _)| known == home);
    let home = spelled.map_or_else(|| home.to_owned(), |(_, spelled)| spelled);
    Failure::new(ErrorCode::WorkspaceMismatch)
        .cause(format!("the session belongs to {}", home.display()))
        .with(Detail::Field, "cwd")
        .with(Detail::Expected, home.display())
        .with(Detail::Session, session)
}

/// Opens some workspace and looks whether it has models.
pub(crate) async fn check_sign_in(hosts: &Hosts) -> Result<(), Failure> {
    let mut refusal = Failure::new(ErrorCode::InvalidWorkspace).cause("there is no folder to look from");
    for folder in [std::env::current_dir().ok(), std::env::home_dir()].into_iter().flatten() {
        match canonical(folder).await {
            Ok(folder) => return open(hosts, &folder).await.map(drop),
            Err(failure) => refusal = failure,
        }
    }
    Err(refusal)
}

/// The one spelling of a directory.
pub(crate) async fn canonical(cwd: PathBuf) -> Result<PathBuf, Failure> {
    let invalid = |rule: &str| {
        Failure::new(ErrorCode::InvalidWorkspace).cause(format!("cwd {rule}")).with(Detail::Field, "cwd")
    };
    if !cwd.is_absolute() {
        return Err(invalid("must be an absolute path"));
    }
    // A network drive can take its time.
    let looked_up = tokio::task::spawn_blocking(move || {
        let path = dunce::canonicalize(&cwd)?;
        let directory = std::fs::metadata(&path)?.is_dir();
        Ok::<_, std::io::Error>((path, directory))
    });
    match looked_up.await {
        Ok(Ok((path, true))) if path.to_str().is_some() => Ok(path),
        Ok(Ok((_, true))) => Err(invalid("must be valid Unicode")),
        Ok(Ok((_, false))) => Err(invalid("must be a directory")),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Err(invalid("must exist")),
        Ok(Err(error)) => Err(invalid(&format!("cannot be opened: {error}"))),
        Err(_) => Err(Failure::new(ErrorCode::Internal).cause("looking up cwd was abandoned")),
    }
}
