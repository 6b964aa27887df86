//! The error catalogue: every failure a user can meet, with a stable code and a next step.
//!
//! A code is published and is never given a second meaning. The number's first digit follows the phase in which the
//! failure usually happens. Facts of one occurrence (a path, an exit code) belong to [`crate::Failure`], not here.

use serde::{Deserialize, Serialize};

use crate::record::Phase;

/// What kind of trouble a failure is; decides the JSON-RPC error class and the exit code of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// ZCode is missing, damaged or a version this adapter does not know.
    Compatibility,
    /// Somebody has to sign in to ZCode.
    Auth,
    /// The model provider, the network or the plan refused.
    Provider,
    /// The caller sent something that can never work.
    InvalidParams,
    /// The named session does not exist.
    NotFound,
    /// It would work later: something else is running or a limit is reached.
    Busy,
    /// Nobody can tell whether it happened; it is not repeated.
    UnknownOutcome,
    /// The host process or its protocol failed.
    Host,
    /// The client stopped answering or reading.
    Client,
    /// The caller withdrew the request.
    Cancelled,
    /// A defect of this program.
    Internal,
}

macro_rules! catalogue {
    ($( $(#[$doc:meta])* $name:ident = $code:literal, $phase:ident, $kind:ident, $cause:literal, $next:literal; )*) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( $(#[$doc])* $name, )*
        }

        impl ErrorCode {
            /// Every code, in the order of the catalogue.
            pub const ALL: &'static [ErrorCode] = &[ $( ErrorCode::$name, )* ];

            /// The published form, for example `ZA101`.
            pub const fn as_str(self) -> &'static str {
                match self { $( ErrorCode::$name => $code, )* }
            }

            /// The phase in which this usually happens.
            pub const fn phase(self) -> Phase {
                match self { $( ErrorCode::$name => Phase::$phase, )* }
            }

            /// What kind of trouble it is.
            pub const fn kind(self) -> ErrorKind {
                match self { $( ErrorCode::$name => ErrorKind::$kind, )* }
            }

            /// The cause in general words, used when an occurrence has no better ones.
            pub const fn cause(self) -> &'static str {
                match self { $( ErrorCode::$name => $cause, )* }
            }

            /// What to do about it.
            pub const fn next_step(self) -> &'static str {
                match self { $( ErrorCode::$name => $next, )* }
            }
        }
    };
}

catalogue! {
    /// No install at any of the places that were tried.
    NotInstalled = "ZA101", Discover, Compatibility,
        "ZCode was not found", "install ZCode or name its folder with --zcode-install";
    /// The place named by flag or environment holds no ZCode.
    InstallPathInvalid = "ZA102", Discover, Compatibility,
        "the ZCode install that was named cannot be used", "correct --zcode-install or ZCODE_ACP_ZCODE_INSTALL";
    /// A file that belongs to the install is missing or lies outside its root.
    InstallIncomplete = "ZA103", Discover, Compatibility,
        "the ZCode install is incomplete", "reinstall ZCode";
    /// There is no ZCode for this operating system or processor.
    PlatformUnsupported = "ZA104", Discover, Compatibility,
        "ZCode does not exist for this platform", "use macOS, Linux or Windows on a supported processor";

    /// App or CLI version differs from the contract.
    VersionUnsupported = "ZA201", Verify, Compatibility,
        "this ZCode version is not supported", "install the supported version beside it and use --zcode-install";
    /// The bundle metadata does not say what the contract expects.
    MetadataMismatch = "ZA202", Verify, Compatibility,
        "the ZCode bundle metadata is not the expected one", "reinstall the supported ZCode version";
    /// Built for another platform.
    PlatformMismatch = "ZA203", Verify, Compatibility,
        "this ZCode was built for another platform", "install the build for this machine";
    /// A pinned file has other content.
    HashMismatch = "ZA204", Verify, Compatibility,
        "a ZCode file differs from the verified one", "reinstall the supported ZCode version";
    /// The RPC module does not offer the pinned exports.
    ExportsMismatch = "ZA205", Verify, Compatibility,
        "ZCode's RPC module lacks a required export", "reinstall the supported ZCode version";
    /// The archive cannot be read.
    ArchiveInvalid = "ZA206", Verify, Compatibility,
        "ZCode's app archive cannot be read", "reinstall ZCode";
    /// A contract file is malformed or names an unknown protocol.
    ContractInvalid = "ZA207", Verify, Compatibility,
        "the compatibility contract cannot be used", "correct the file given with --contract";

    /// The operating system did not start the executable.
    SpawnFailed = "ZA301", Spawn, Host,
        "ZCode's runtime could not be started", "check that the install is complete and executable";
    /// It ended before it was ready.
    HostStartFailed = "ZA302", Spawn, Host,
        "ZCode's host ended before it was ready", "see the last stderr line; start the desktop app once to finish its setup";

    /// No ready line in time.
    HandshakeTimeout = "ZA401", Handshake, Host,
        "ZCode's host did not become ready in time", "try again; a busy machine or a database lock can delay it";
    /// The ready line is not the one we know.
    HandshakeMismatch = "ZA402", Handshake, Host,
        "ZCode's host answered the handshake in an unknown way", "reinstall the supported ZCode version";

    /// Nobody is signed in, or there is no model.
    SignInRequired = "ZA501", Auth, Auth,
        "ZCode is not signed in on this machine", "sign in with the ZCode desktop app as this user";
    /// The sign-in is there and was refused.
    SignInExpired = "ZA502", Auth, Auth,
        "ZCode's sign-in has expired", "sign in again with the ZCode desktop app";
    /// ZCode's CLI did not sign out.
    SignOutFailed = "ZA503", Auth, Host,
        "ZCode's sign-out failed", "sign out in the ZCode desktop app as this user";
    /// ZCode's CLI did not say in time whether it signed out.
    SignOutUnknown = "ZA504", Auth, UnknownOutcome,
        "ZCode did not confirm the sign-out in time", "see in the ZCode desktop app whether it is still signed in";

    /// `cwd` is not an absolute path of an existing directory.
    InvalidWorkspace = "ZA601", Session, InvalidParams,
        "cwd must be an absolute path of an existing directory", "open an existing folder";
    /// No such session.
    SessionNotFound = "ZA602", Session, NotFound,
        "there is no such session", "create a session first";
    /// The limit of open sessions is reached.
    TooManySessions = "ZA603", Session, Busy,
        "too many sessions are open on this connection", "close a session first";
    /// The event stream of a session did not start or was lost.
    SubscriptionFailed = "ZA604", Session, Host,
        "ZCode did not open the session's event stream", "try again";
    /// No safe mode could be determined.
    UnsafeMode = "ZA605", Session, Host,
        "ZCode did not keep the safe permission mode", "choose the mode in the ZCode desktop app, then try again";
    /// MCP servers cannot be forwarded yet.
    McpUnsupported = "ZA606", Session, InvalidParams,
        "mcpServers is not supported yet", "remove the MCP servers from this agent's configuration";
    /// Creating timed out.
    CreateOutcomeUnknown = "ZA607", Session, UnknownOutcome,
        "ZCode did not confirm the new session in time", "it was not repeated; look at the session list before you create another";
    /// The host refused a session call.
    SessionRefused = "ZA608", Session, Host,
        "ZCode refused the session request", "see the reason; try again or restart the agent";
    /// A session belongs to another workspace.
    WorkspaceMismatch = "ZA609", Session, InvalidParams,
        "the session belongs to another folder", "open the folder it was created in";

    /// The model is not in the catalogue.
    ModelUnknown = "ZA701", Model, Provider,
        "the model is not available", "choose another model";
    /// A mode outside the catalogue.
    ModeUnknown = "ZA702", Model, InvalidParams,
        "there is no such mode", "choose one of the session's modes";
    /// A value that a configuration option does not have.
    OptionUnknown = "ZA703", Model, InvalidParams,
        "the option has no such value", "choose one of the option's values";

    /// A content block cannot be sent.
    InvalidContent = "ZA801", Prompt, InvalidParams,
        "the prompt has a content block that cannot be sent", "correct the named block";
    /// A turn is running.
    SessionBusy = "ZA802", Prompt, Busy,
        "a prompt is already running in this session", "wait for it or cancel it";
    /// The limit of running turns is reached.
    TooManyTurns = "ZA803", Prompt, Busy,
        "too many turns are running on this connection", "wait until one has ended";
    /// The host did not confirm the prompt.
    PromptOutcomeUnknown = "ZA804", Prompt, UnknownOutcome,
        "ZCode did not confirm the prompt in time", "it was not sent again; check the session before you repeat it";
    /// The host exited while something was running.
    HostExited = "ZA805", Prompt, Host,
        "ZCode's host process ended", "the outcome is unknown and nothing was sent again; start a new session or try again";
    /// The host sent something outside the contract.
    NativeProtocol = "ZA806", Prompt, Host,
        "ZCode sent something this adapter does not know", "update zcode-acp; nothing was guessed";
    /// The event stream was lost while a turn was running.
    StreamLost = "ZA807", Prompt, Host,
        "the connection to ZCode's session was lost", "the outcome is unknown; check the session before you repeat the prompt";
    /// The client does not read its input.
    ClientStalled = "ZA808", Prompt, Client,
        "the client does not read", "restart the client; the turn was stopped";
    /// The native session was closed.
    SessionClosed = "ZA809", Prompt, Host,
        "the session was closed", "create or load a session";
    /// ZCode or a provider refused without a family of its own.
    TurnFailed = "ZA810", Prompt, Provider,
        "the turn failed", "see the reason; try again";
    /// Rate limit.
    RateLimited = "ZA811", Prompt, Provider,
        "the provider's rate limit was reached", "wait a little; ZCode had already retried";
    /// Overload.
    Overloaded = "ZA812", Prompt, Provider,
        "the provider is overloaded", "try again later or choose another model";
    /// Quota used up.
    QuotaExceeded = "ZA813", Prompt, Provider,
        "the plan's quota is used up", "wait for the reset or switch the plan";
    /// Balance or plan does not cover it.
    PlanInsufficient = "ZA814", Prompt, Provider,
        "the plan or balance does not cover this model", "renew the plan or choose another model";
    /// Context too long.
    ContextTooLong = "ZA815", Prompt, Provider,
        "the conversation is too long for the model", "use /compact or start a new session";
    /// A plan that only works in the desktop app.
    DesktopOnlyPlan = "ZA816", Prompt, Provider,
        "this plan needs the ZCode desktop app", "use a Coding Plan or an API-key provider";
    /// Network, proxy or TLS.
    NetworkFailed = "ZA817", Prompt, Provider,
        "the provider could not be reached", "check network, proxy and NODE_EXTRA_CA_CERTS";
    /// The host held the stop for too long and the session is still settling.
    StillSettling = "ZA818", Prompt, Busy,
        "the session is still finishing its last turn", "your prompt was not sent; try again in a moment";

    /// The request is not of the protocol.
    InvalidRequest = "ZA901", Session, InvalidParams,
        "the request is not valid here", "see the reason";
    /// The agent is ending.
    ShuttingDown = "ZA902", Session, Cancelled,
        "the agent is shutting down", "start it again";
    /// The caller cancelled.
    RequestCancelled = "ZA903", Session, Cancelled,
        "the request was cancelled", "send it again if it is still wanted";
    /// A bounded queue is full.
    QueueFull = "ZA904", Session, Busy,
        "the session has too many requests waiting", "wait for the earlier ones";
    /// A defect.
    Internal = "ZA999", Session, Internal,
        "zcode-acp made a mistake", "please report it with the log";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
