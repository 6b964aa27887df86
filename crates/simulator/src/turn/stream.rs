//! Text and reasoning, and the history that is written along.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Flow, Turn};
use crate::scenario::model::Flood;
use crate::session::model_ref;

/// Text of a turn that is kept for the history.
const MAX_RESPONSE: usize = 256 * 1024;

impl Turn {
    pub(super) async fn text(&mut self, text: &str, chunk: usize, delay: u64) -> Flow {
        let text = self.vars.expand(text);
        self.deltas("text_delta", &text, chunk, delay).await
    }

    pub(super) async fn thought(&mut self, text: &str, chunk: usize, delay: u64) -> Flow {
        let text = self.vars.expand(text);
        self.deltas("reasoning_delta", &text, chunk, delay).await
    }

    async fn deltas(&mut self, kind: &str, text: &str, chunk: usize, delay: u64) -> Flow {
        let mut rest = text;
        while !rest.is_empty() {
            let cut = rest.char_indices().nth(chunk).map_or(rest.len(), |(at, _)| at);
            let (delta, tail) = rest.split_at(cut);
            self.delta(kind, delta).await?;
            if delay > 0 {
                self.pause(delay).await?;
            }
            rest = tail;
        }
        Ok(())
    }

    async fn delta(&mut self, kind: &str, delta: &str) -> Flow {
        self.remember(kind, delta);
        let mut payload = json!({ "kind": kind, "delta": delta, "assistantMessageId": self.message });
        self.tag(&mut payload);
        self.say("model.streaming", payload).await
    }

    /// Marks what a subagent says.
    pub(super) fn tag(&self, payload: &mut Value) {
        if let Some((call, agent)) = &self.inside {
            payload["parentToolCallId"] = json!(call);
            payload["source"] = json!("subagent");
            payload["agentId"] = json!(agent);
            payload["agentType"] = json!("explore");
        }
    }

    /// Adds streamed text to the message being written.
    fn remember(&mut self, kind: &str, delta: &str) {
        if self.response.len() + delta.len() > MAX_RESPONSE {
            return;
        }
        let part = if kind == "text_delta" { "text" } else { "reasoning" };
        if part == "text" {
            self.response.push_str(delta);
        }
        match self.parts.last_mut() {
            Some(last) if last["type"] == part => {
                if let Some(Value::String(text)) = last.get_mut("text") {
                    text.push_str(delta);
                }
            }
            _ => self.parts.push(json!({ "type": part, "text": delta })),
        }
    }

    /// Puts the message being written into the history and begins another.
    pub(super) fn end_message(&mut self, finish: &str) {
        let id = std::mem::replace(&mut self.message, format!("msg_{}", Uuid::new_v4()));
        let parts = std::mem::take(&mut self.parts);
        if parts.is_empty() {
            return;
        }
        let mut all = vec![json!({ "type": "step-start" })];
        all.extend(parts);
        all.push(json!({ "type": "step-finish", "reason": finish }));
        let mut info = json!({
            "messageId": id, "parentMessageId": self.parent, "role": "assistant",
            "time": { "created": crate::session::now_ms() }, "agent": "main", "cost": 0, "finish": finish,
            "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
        });
        if let Some(model) = &self.session.state().record.model {
            info["model"] = model_ref(model);
        }
        self.session.push_message(json!({ "info": info, "parts": all }));
    }

    /// Deltas as fast as the reader takes them.
    pub(super) async fn flood(&mut self, flood: &Flood) -> Flow {
        let asked = if flood.count_from_prompt { numbers(&self.vars.prompt) } else { [None, None] };
        let count = asked[0].unwrap_or(flood.count);
        let Some(pace) = asked[1].or(flood.per_second).filter(|pace| *pace > 0) else {
            let text = self.vars.expand(&flood.text);
            for n in 0..count {
                let kind = if flood.alternate && n % 2 == 1 { "reasoning_delta" } else { "text_delta" };
                self.delta(kind, &text).await?;
            }
            return Ok(());
        };
        let begin = Instant::now();
        for n in 0..count {
            let due = begin + Duration::from_nanos(n.saturating_mul(1_000_000_000) / pace);
            if due > Instant::now() {
                self.or_stop(tokio::time::sleep_until(due)).await?;
            }
            // Expanded for each, because it may say the time.
            let text = self.vars.expand(&flood.text);
            self.delta("text_delta", &text).await?;
        }
        Ok(())
    }

    /// One delta of many bytes. It is not part of the history.
    pub(super) async fn huge(&mut self, bytes: u64) -> Flow {
        let delta = "x".repeat(usize::try_from(bytes).unwrap_or(usize::MAX / 2));
        self.say(
            "model.streaming",
            json!({
                "kind": "text_delta", "delta": delta, "assistantMessageId": self.message,
            }),
        )
        .await
    }
}

/// The first two whole numbers of a prompt, within reason.
fn numbers(prompt: &str) -> [Option<u64>; 2] {
    let mut found = prompt
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.parse().ok().filter(|n| *n <= 10_000_000));
    [found.next().flatten(), found.next().flatten()]
}
