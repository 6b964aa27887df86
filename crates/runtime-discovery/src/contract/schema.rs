//! The contract file's own schema. Unknown members are refused: a contract that says more than this program understands
//! must not be taken for one it does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Sha256Digest;

macro_rules! schema {
    ($( $(#[$doc:meta])* pub struct $name:ident { $($body:tt)* } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            pub struct $name { $($body)* }
        )*
    };
}

schema! {
    /// Everything that is pinned about the one supported ZCode.
    pub struct Contract {
        /// Version of this schema.
        pub schema_version: u32,
        /// Identity of the supported release.
        pub artifact: Artifact,
        /// Required values of the bundle metadata.
        pub metadata: MetadataFacts,
        /// Where the files are, per operating system.
        pub layouts: Layouts,
        /// Services, events and literals of the host.
        pub protocol: Protocol,
        /// How the host is started and ended.
        pub launcher: Launcher,
    }

    /// Identity of the supported release.
    pub struct Artifact {
        /// Name of the contract, for example `zcode-host-3.11.2`.
        pub id: String,
        /// App version; decides.
        pub app_version: String,
        /// Builds this was observed with; diagnostic.
        pub observed_builds: Vec<String>,
        /// CLI version; decides.
        pub cli_version: String,
        /// Digest of the unpatched CLI. A different one is reported and makes the CLI say its version itself.
        pub cli_sha256: Sha256Digest,
        /// Entry of the host worker; decides.
        pub host_index: PinnedFile,
        /// Module with the RPC client; decides.
        pub rpc_module: RpcModule,
        /// Protocol the release speaks.
        pub protocol_id: String,
        /// Facts that are shown and decide nothing.
        pub diagnostic_only: DiagnosticOnly,
    }

    /// A file inside the archive with its digest.
    pub struct PinnedFile {
        /// Path inside the archive, `/` as separator.
        pub path: String,
        /// Digest of its content.
        pub sha256: Sha256Digest,
    }

    /// The RPC module.
    pub struct RpcModule {
        /// Path inside the archive, `/` as separator.
        pub path: String,
        /// Digest of its content.
        pub sha256: Sha256Digest,
        /// Names it must export.
        pub exports: RpcExports,
    }

    /// Export names of the RPC module by role.
    pub struct RpcExports {
        /// Class that speaks the wire over a message port.
        pub protocol: String,
        /// Channel client.
        pub client: String,
        /// Service proxy factory.
        pub service: String,
    }

    /// Facts that are shown and decide nothing.
    pub struct DiagnosticOnly {
        /// Digest of the whole archive.
        pub asar_sha256: Sha256Digest,
        /// Digest of the metadata file by platform.
        pub metadata_sha256: BTreeMap<String, Sha256Digest>,
    }

    /// Required values of the bundle metadata.
    pub struct MetadataFacts {
        /// `runtime`.
        pub runtime: String,
        /// `entry`.
        pub entry: String,
        /// `source`.
        pub source: String,
        /// The values `platform` may have.
        pub platforms: Vec<String>,
    }

    /// Layout per operating system.
    pub struct Layouts {
        /// macOS.
        pub darwin: Layout,
        /// Linux.
        pub linux: Layout,
        /// Windows.
        pub win32: Layout,
    }

    /// Where the files of an install are. All but the roots are relative to the root, `/` as separator.
    pub struct Layout {
        /// Roots to try first.
        pub default_roots: Vec<String>,
        /// Roots to try after them.
        pub other_roots: Vec<String>,
        /// Executable that runs as Node.
        pub executable: String,
        /// The CLI.
        pub cli_entry: String,
        /// Bundle metadata.
        pub metadata: String,
        /// Archive with the host.
        pub host_archive: String,
        /// Property list with the app's version, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub app_info: Option<String>,
    }

    /// Services, events and literals of the host.
    pub struct Protocol {
        /// Protocol id; equals the artifact's.
        pub id: String,
        /// Channel name by service key.
        pub service_channels: BTreeMap<String, String>,
        /// Methods of the `agent` service that may be called.
        pub agent_methods: Vec<String>,
        /// Neutral operations that other services carry out.
        pub operations: BTreeMap<String, Operation>,
        /// The one event that is listened to.
        pub subscription: SubscriptionFacts,
        /// Permission modes.
        pub modes: Vec<ModeFacts>,
        /// Top-level types of the dynamic event.
        pub dynamic_events: BTreeMap<String, DynamicEventClass>,
        /// Types inside `session.event`.
        pub session_events: BTreeMap<String, EventClass>,
        /// Kinds of `model.streaming`.
        pub model_stream_kinds: BTreeMap<String, StreamClass>,
        /// Kinds of `tool.updated`.
        pub tool_update_kinds: BTreeMap<String, ToolUpdateClass>,
        /// Results of a turn.
        pub turn_results: BTreeMap<String, TurnResultClass>,
        /// Time limits.
        pub timeouts_ms: TimeoutsMs,
        /// Fixed parameters of `createSession`.
        pub create_session: Map<String, Value>,
        /// Fixed parameters of the `set…` methods.
        pub set: Map<String, Value>,
        /// Member that holds the default thought level.
        pub default_thought_level_field: String,
        /// Error codes with a meaning.
        pub error_codes: ErrorCodes,
        /// Values that permission asks use.
        pub permissions: PermissionFacts,
        /// Literals of special interactions.
        pub interactions: Interactions,
        /// Kinds of attachment a prompt may carry.
        pub attachment_kinds: Vec<String>,
        /// Members of an MCP server in the host's strict shape.
        pub mcp_server: McpServerFacts,
    }

    /// A neutral operation and the method that carries it out.
    pub struct Operation {
        /// Service key.
        pub service: String,
        /// Method name.
        pub method: String,
        /// Name of the parameter that carries the session id.
        pub session_parameter: String,
        /// Member whose content is spread into the parameters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub flatten: Option<String>,
    }

    /// The one event that is listened to.
    pub struct SubscriptionFacts {
        /// Service key.
        pub service: String,
        /// Event name.
        pub event: String,
        /// Delivery kind asked for.
        pub delivery_kind: String,
    }

    /// A permission mode.
    pub struct ModeFacts {
        /// ZCode's own id.
        pub id: String,
        /// Name for people.
        pub name: String,
        /// One sentence.
        pub description: String,
        /// Order of permission: a higher one allows more without asking.
        pub strength: u8,
        /// May be chosen without the user having said so.
        pub implicit: bool,
    }

    /// Time limits in milliseconds.
    pub struct TimeoutsMs {
        /// Of every method without its own.
        pub default: u64,
        /// By method.
        pub methods: BTreeMap<String, u64>,
        /// First snapshot of a subscription.
        pub subscription_snapshot: u64,
        /// Terminal event after a stop.
        pub cancel_terminal: u64,
        /// `disposeWorkspace`.
        pub dispose_workspace: u64,
        /// From the spawn to the ready line.
        pub host_ready: u64,
        /// Grace after the dispose message.
        pub host_dispose: u64,
        /// Grace after the terminate signal.
        pub host_term: u64,
    }

    /// Error codes with a meaning.
    pub struct ErrorCodes {
        /// The session is not active in the host.
        pub session_not_active: i64,
        /// No such method.
        pub method_not_found: i64,
        /// The host gave up waiting.
        pub request_timeout: i64,
        /// Provider headers were not given.
        pub provider_headers: i64,
    }

    /// Values that permission asks use.
    pub struct PermissionFacts {
        /// Decisions.
        pub decisions: Vec<String>,
        /// Risk levels, lowest first.
        pub risk_levels: Vec<String>,
    }

    /// Literals of special interactions.
    pub struct Interactions {
        /// How a plan approval is recognised and approved.
        pub plan_approval: PlanApproval,
        /// Tool that ends plan mode.
        pub exit_plan_tool: String,
    }

    /// How a plan approval is recognised and approved.
    pub struct PlanApproval {
        /// Schema member that is looked at.
        pub schema_field: String,
        /// Its value for a plan approval.
        pub value: String,
        /// Option that approves.
        pub approve_option: String,
    }

    /// Members of an MCP server in the host's strict shape.
    pub struct McpServerFacts {
        /// Of a stdio server.
        pub stdio: Vec<String>,
        /// Of a remote server.
        pub remote: Vec<String>,
        /// Values of the remote server's type.
        pub remote_types: Vec<String>,
    }

    /// How the host is started and ended.
    pub struct Launcher {
        /// What is started.
        pub kind: LauncherKind,
        /// Variables set for the runtime.
        pub runtime_environment: BTreeMap<String, String>,
        /// The message that initializes the host.
        pub init: InitMessage,
        /// What counts as ready.
        pub readiness: Readiness,
        /// The message that asks the host to end.
        pub dispose: HostMessage,
        /// Host messages to be answered at once: request type to the answer.
        pub answer_at_once: BTreeMap<String, Value>,
        /// Variables removed from the child.
        pub strip_env: Vec<String>,
        /// Variables whose presence is reported.
        pub report_env: Vec<String>,
    }

    /// The message that initializes the host.
    pub struct InitMessage {
        /// Message type.
        #[serde(rename = "type")]
        pub kind: String,
        /// Members to be filled in.
        pub fields: Vec<InitField>,
    }

    /// A message without members.
    pub struct HostMessage {
        /// Message type.
        #[serde(rename = "type")]
        pub kind: String,
    }
}

macro_rules! literals {
    ($( $(#[$doc:meta])* pub enum $name:ident { $( $(#[$vdoc:meta])* $variant:ident = $text:literal, )* } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
            pub enum $name { $( $(#[$vdoc])* #[serde(rename = $text)] $variant, )* }

            impl $name {
                /// The word used in the contract file.
                pub const fn as_str(self) -> &'static str {
                    match self { $( $name::$variant => $text, )* }
                }
            }
        )*
    };
}

literals! {
    /// What a top-level dynamic event is.
    pub enum DynamicEventClass {
        /// State of the session.
        State = "state",
        /// The host asks something.
        Ask = "ask",
        /// An ask has been answered elsewhere or withdrawn.
        AskWithdrawn = "ask-withdrawn",
        /// Carries a session event.
        Event = "event",
    }

    /// What a session event is.
    pub enum EventClass {
        /// Known and without effect.
        Informational = "informational",
        /// Changes what is known of the session.
        State = "state",
        /// Content of a turn.
        Content = "content",
        /// Ends a turn.
        Terminal = "terminal",
    }

    /// What a kind of `model.streaming` is.
    pub enum StreamClass {
        /// Text of the answer.
        Text = "text",
        /// Text of a thought.
        Thought = "thought",
        /// Input of a tool, in pieces.
        ToolInput = "tool-input",
        /// A tool call, whole.
        ToolCall = "tool-call",
        /// Known and without effect.
        Informational = "informational",
    }

    /// What a kind of `tool.updated` is.
    pub enum ToolUpdateClass {
        /// The call waits.
        Pending = "pending",
        /// It runs.
        InProgress = "in-progress",
        /// It has ended.
        Final = "final",
        /// Known and without effect.
        Informational = "informational",
    }

    /// How a turn ended.
    pub enum TurnResultClass {
        /// By itself.
        EndTurn = "end_turn",
        /// At the token limit.
        MaxTokens = "max_tokens",
        /// At the request limit.
        MaxTurnRequests = "max_turn_requests",
        /// The model refused.
        Refusal = "refusal",
        /// It was stopped.
        Cancelled = "cancelled",
        /// It failed.
        Error = "error",
    }

    /// What is started.
    pub enum LauncherKind {
        /// The host worker in the bundled runtime.
        HostWorker = "host-worker",
    }

    /// What counts as ready.
    pub enum Readiness {
        /// The RPC client of the host answers.
        RpcReady = "rpc-ready",
    }

    /// A member of the init message this program can fill in.
    pub enum InitField {
        /// Identity of the device.
        DeviceMid = "deviceMid",
        /// Working directory for agents that have none.
        AgentSpawnFallbackCwd = "agentSpawnFallbackCwd",
    }
}
