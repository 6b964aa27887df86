//! Settings of a session and the commands that are no prompts.

use std::path::Path;

use diag_model::{InputId, SessionId};
use zcode_protocol::task_v1::{Lenient, Text, call as wire, snapshot};

use super::operations::{Called, result_of};
use super::{TaskV1, facts};
use crate::client::Client;
use crate::model::{CompactOutcome, Feature, GoalOutcome, ModelRef, SessionFacts};

const MODE: &str = "set mode";
const MODEL: &str = "set model";
const THOUGHT: &str = "set thought level";
pub(super) const COMPACT: &str = "compact conversation";
pub(super) const GOAL: &str = "goal";

impl TaskV1 {
    /// Whether the contract has what a feature needs.
    pub(crate) fn offers(&self, feature: Feature) -> bool {
        let method = match feature {
            Feature::Resume => "resumeSession",
            Feature::List => "listSessions",
            Feature::History => "readSessionMessages",
            Feature::Model => "setModel",
            Feature::Thought => "setThoughtLevel",
            Feature::Mode => "setMode",
            Feature::Compact => "compactSession",
            Feature::Goal => "goalSession",
        };
        self.contract.protocol.agent_methods.iter().any(|known| known == method)
    }

    pub(crate) async fn set_mode(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        mode: &str,
    ) -> Called<SessionFacts> {
        let own = wire::SetMode { session_id: session.as_str(), mode };
        let result = self.call_agent(client, MODE, "setMode", ws, own).await?;
        let snapshot: snapshot::Snapshot<'_> = result_of(MODE, &result)?;
        Ok(facts::of_snapshot(&snapshot))
    }

    pub(crate) async fn set_model(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        model: &ModelRef,
    ) -> Called<SessionFacts> {
        let own = wire::SetModel {
            session_id: session.as_str(),
            model: wire::SetModelRef {
                provider_id: &model.provider,
                model_id: &model.model,
                variant: model.variant.as_deref(),
            },
            fixed: &self.contract.protocol.set,
        };
        let result = self.call_agent(client, MODEL, "setModel", ws, own).await?;
        let snapshot: snapshot::Snapshot<'_> = result_of(MODEL, &result)?;
        Ok(facts::of_snapshot(&snapshot))
    }

    pub(crate) async fn set_thought(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        level: &str,
    ) -> Called<SessionFacts> {
        let own = wire::SetThoughtLevel {
            session_id: session.as_str(),
            thought_level: level,
            fixed: &self.contract.protocol.set,
        };
        let result = self.call_agent(client, THOUGHT, "setThoughtLevel", ws, own).await?;
        let snapshot: snapshot::Snapshot<'_> = result_of(THOUGHT, &result)?;
        Ok(facts::of_snapshot(&snapshot))
    }

    pub(crate) async fn compact(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        input: &InputId,
        instructions: Option<&str>,
    ) -> Called<CompactOutcome> {
        let own =
            wire::CompactSession { session_id: session.as_str(), input_id: input.as_str(), instructions };
        let quoted = instructions.as_slice();
        let result = self.call_quoting(client, COMPACT, "compactSession", ws, own, quoted).await?;
        let wire::Compacted { response, snapshot, compact } = result_of(COMPACT, &result)?;
        let state = compact.0.and_then(|compact| compact.state);
        Ok(CompactOutcome {
            text: text(response),
            already_running: state.as_deref() == Some("already_running"),
            facts: snapshot.as_ref().map(facts::of_snapshot).unwrap_or_default(),
        })
    }

    pub(crate) async fn goal(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        action: &str,
        objective: Option<&str>,
    ) -> Called<GoalOutcome> {
        let own = wire::GoalSession { session_id: session.as_str(), action, objective };
        let quoted = objective.as_slice();
        let result = self.call_quoting(client, GOAL, "goalSession", ws, own, quoted).await?;
        let wire::Goal { response, snapshot, started_turn } = result_of(GOAL, &result)?;
        Ok(GoalOutcome {
            text: text(response),
            // A flag, or a description of the turn.
            started_turn: started_turn.is_some_and(|started| !matches!(started.get(), "false" | "null")),
            facts: snapshot.as_ref().map(facts::of_snapshot).unwrap_or_default(),
        })
    }
}

fn text(response: Lenient<Text<'_>>) -> String {
    response.0.map(Text::into_owned).unwrap_or_default()
}
