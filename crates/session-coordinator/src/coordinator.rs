//! The handle a connection talks to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diag_model::{ErrorCode, Failure, SessionId};
use tokio_util::sync::CancellationToken;
use zcode_runtime::host::HostLauncher;
use zcode_runtime::model::Attachment;

use crate::client::{ClientPort, Reply, StopReason};

/// Choices of the user that hold for the whole connection.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Waiting longer than this for a permission counts as a denial. Without it, waiting has no end.
    pub permission_timeout: Option<Duration>,
}

/// A request for a new session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSessionRequest {
    /// Working directory as the client wrote it.
    pub cwd: PathBuf,
}

/// A new session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSessionAnswer {
    /// The host's id, which is the client's id too.
    pub session: SessionId,
    /// Permission mode in force.
    pub mode: Arc<str>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Text.
    pub text: String,
    /// Files, images and sounds beside the text.
    pub attachments: Vec<Attachment>,
}

/// All sessions of one connection, and the host behind them. Cheap to clone.
#[derive(Clone)]
pub struct Coordinator {
    client: Arc<dyn ClientPort>,
}

impl Coordinator {
    /// A coordinator without a host: that starts with the first session. To be called inside a tokio runtime.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(_launcher: HostLauncher, client: Arc<dyn ClientPort>, _options: Options) -> Self {
        Self { client }
    }

    /// Opens a session. `cancel` withdraws the request.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new_session(&self, _request: NewSessionRequest, _cancel: CancellationToken, reply: Reply<NewSessionAnswer>) {
        let _ = self.client.in_flight();
        reply.send(Err(Failure::new(ErrorCode::Internal)));
    }

    /// Submits a prompt. It is answered behind the session's last update.
    #[allow(clippy::needless_pass_by_value)]
    pub fn prompt(&self, _session: &SessionId, _prompt: Prompt, reply: Reply<StopReason>) {
        reply.send(Err(Failure::new(ErrorCode::SessionNotFound)));
    }

    /// Cancels what runs in a session. Unknown or idle: nothing happens.
    pub fn cancel(&self, _session: &SessionId) {}

    /// Closes a session.
    pub fn close(&self, _session: &SessionId, reply: Reply<()>) {
        reply.send(Err(Failure::new(ErrorCode::SessionNotFound)));
    }

    /// Refuses new work, denies open asks, answers everything and ends the host.
    pub async fn shutdown(&self) {}
}
