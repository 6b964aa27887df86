//! State of sessions and workspaces. Only what the adapter needs; the rest is skipped unread.

use serde::Deserialize;

use super::ask::PermissionRequest;
use super::text::{Lenient, Text};

/// State of a session, as calls answer with it and as the first event of a subscription.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot<'a> {
    /// Identity and mode.
    #[serde(borrow)]
    pub session: SessionInfo<'a>,
    /// Settings.
    #[serde(borrow, default)]
    pub settings: Settings<'a>,
    /// Derived state.
    #[serde(borrow, default)]
    pub projection: Projection<'a>,
    /// Running state.
    #[serde(borrow)]
    pub runtime: Runtime<'a>,
    /// Todo list.
    #[serde(borrow, default)]
    pub todos: Option<Vec<Todo<'a>>>,
    /// Slash commands.
    #[serde(borrow, default)]
    pub slash_commands: Option<Vec<SlashCommand<'a>>>,
}

/// Identity and mode of a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo<'a> {
    /// Id.
    #[serde(borrow)]
    pub session_id: Text<'a>,
    /// Title.
    #[serde(borrow)]
    pub title: Option<Text<'a>>,
    /// Where the title comes from; `default` means there is none yet.
    #[serde(borrow)]
    pub title_source: Option<Text<'a>>,
    /// Mode.
    #[serde(borrow)]
    pub mode: Option<Text<'a>>,
    /// `idle`, `running`, `waiting`, `paused`, `completed` or `error`.
    #[serde(borrow)]
    pub status: Option<Text<'a>>,
}

/// Settings of a session or workspace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings<'a> {
    /// Models.
    #[serde(borrow)]
    pub model: Option<ModelSettings<'a>>,
    /// Thought levels.
    #[serde(borrow)]
    pub thought_level: Option<ThoughtSettings<'a>>,
    /// Mode.
    #[serde(borrow)]
    pub mode: Option<ModeSettings<'a>>,
}

/// Mode in force.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ModeSettings<'a> {
    /// Its id.
    #[serde(borrow)]
    pub current: Option<Text<'a>>,
}

/// Models of a session or workspace. Answers to reads and sets list only the current one as available.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSettings<'a> {
    /// Model in force.
    #[serde(borrow)]
    pub current: Option<ModelRef<'a>>,
    /// Models that can be chosen.
    #[serde(borrow)]
    pub available: Vec<Model<'a>>,
    /// Model used last in this workspace.
    #[serde(borrow)]
    pub last_used: Option<ModelRef<'a>>,
}

/// Identity of a model.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRef<'a> {
    /// Provider.
    #[serde(borrow)]
    pub provider_id: Text<'a>,
    /// Model.
    #[serde(borrow)]
    pub model_id: Text<'a>,
    /// Variant.
    #[serde(borrow)]
    pub variant: Option<Text<'a>>,
}

/// A model that can be chosen.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model<'a> {
    /// Identity.
    #[serde(rename = "ref", borrow)]
    pub id: ModelRef<'a>,
    /// Label.
    #[serde(borrow)]
    pub label: Option<Text<'a>>,
    /// Label of the provider.
    #[serde(borrow)]
    pub provider_label: Option<Text<'a>>,
    /// Why it cannot be chosen now.
    #[serde(borrow)]
    pub disabled_reason: Option<Text<'a>>,
}

/// Thought levels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThoughtSettings<'a> {
    /// Whether they can be chosen at all.
    pub enabled: Option<bool>,
    /// Level in force; a workspace does not say it.
    #[serde(borrow)]
    pub current: Option<Text<'a>>,
    /// Level used when nothing was chosen.
    #[serde(borrow)]
    pub default_level: Option<Text<'a>>,
    /// Levels that can be chosen.
    #[serde(borrow)]
    pub available: Vec<ThoughtLevel<'a>>,
}

/// A thought level.
#[derive(Debug, Clone, Deserialize)]
pub struct ThoughtLevel<'a> {
    /// Value.
    #[serde(borrow)]
    pub value: Text<'a>,
    /// Text for people.
    #[serde(borrow)]
    pub label: Option<Text<'a>>,
}

/// Derived state of a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Projection<'a> {
    /// Status, as in [`SessionInfo::status`].
    #[serde(borrow)]
    pub status: Option<Text<'a>>,
    /// Mode.
    #[serde(borrow)]
    pub mode: Option<Text<'a>>,
    /// Tokens in the context.
    pub context_used: Lenient<u64>,
    /// Size of the context.
    pub context_window: Lenient<u64>,
    /// Turn that runs.
    #[serde(borrow)]
    pub current_turn_id: Option<Text<'a>>,
    /// Permissions that are still open.
    #[serde(borrow)]
    pub pending_permissions: Vec<Lenient<PermissionRequest<'a>>>,
}

/// Running state of a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime<'a> {
    /// Turn that runs.
    #[serde(borrow)]
    pub active_turn_id: Option<Text<'a>>,
    /// Number of the last event that is in this snapshot.
    pub event_seq: u64,
    /// Context occupancy.
    #[serde(default)]
    pub context_usage: Lenient<ContextUsage>,
}

/// Context occupancy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ContextUsage {
    /// Tokens in use.
    pub used: u64,
    /// Size.
    pub size: u64,
}

/// A todo.
#[derive(Debug, Clone, Deserialize)]
pub struct Todo<'a> {
    /// Text.
    #[serde(borrow)]
    pub content: Text<'a>,
    /// `pending`, `in_progress` or `completed`.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// `high`, `medium` or `low`.
    #[serde(borrow)]
    pub priority: Option<Text<'a>>,
}

/// A slash command.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlashCommand<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// One sentence.
    #[serde(borrow)]
    pub description: Option<Text<'a>>,
    /// Hint for its argument.
    #[serde(borrow)]
    pub input_hint: Option<Text<'a>>,
    /// `builtin` or `custom`.
    #[serde(borrow)]
    pub source: Option<Text<'a>>,
}

/// A change of state that is no numbered event. Members are read leniently: the shape of a patch is open.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePatch<'a> {
    /// Mode.
    #[serde(borrow)]
    pub mode: Lenient<ModeSettings<'a>>,
    /// Title.
    #[serde(borrow)]
    pub title: Lenient<Text<'a>>,
    /// Settings.
    #[serde(borrow)]
    pub settings: Lenient<Settings<'a>>,
    /// Todo list.
    #[serde(borrow)]
    pub todos: Lenient<Vec<Todo<'a>>>,
    /// Slash commands.
    #[serde(borrow)]
    pub slash_commands: Lenient<Vec<SlashCommand<'a>>>,
}

/// The notification of a `state.updated` event.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateNotification<'a> {
    /// `server`, `workspace` or `session`.
    #[serde(borrow)]
    pub scope: Option<Text<'a>>,
    /// Session it is about, when it is about one.
    #[serde(borrow)]
    pub session_id: Option<Text<'a>>,
    /// What changed.
    #[serde(borrow, default)]
    pub patch: StatePatch<'a>,
}
