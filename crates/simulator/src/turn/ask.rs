//! Asks: permissions, questions, plans, provider headers. Each is announced until it is answered, once, or withdrawn.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::tool::{Call, outcome};
use super::{Exit, Flow, Turn};
use crate::scenario::model::{Ask, ErrorDetail, Headers, InputVia, Plan, Question};
use crate::session::PendingKind;

/// What a permission's answer means.
pub(super) enum Verdict {
    Allowed,
    Denied,
}

fn options(tool: &str, always: bool) -> Vec<Value> {
    let mut options = vec![json!({
        "optionId": "allow_once", "kind": "allow_once", "name": "Allow once", "response": { "decision": "allow" },
    })];
    if always {
        options.push(json!({
            "optionId": "allow_project", "kind": "allow_always", "name": "Always allow in this project",
            "response": { "decision": "allow", "permissionUpdates": [
                { "type": "addRules", "behavior": "allow", "destination": "project", "rules": [{ "toolName": tool }] },
            ] },
        }));
    }
    options.push(
        json!({ "optionId": "deny", "kind": "deny", "name": "Deny", "response": { "decision": "deny" } }),
    );
    options
}

impl Turn {
    /// Asks for a permission.
    pub(super) async fn permission(&mut self, ask: &Ask, call: &Call) -> Result<Verdict, Exit> {
        let id = format!("perm_{}", Uuid::new_v4());
        let options = match ask.options.as_ref().map(|options| self.vars.expand_json(options)) {
            Some(Value::Array(options)) => options,
            _ => options(&call.name, ask.always),
        };
        let reason = self.vars.expand(&ask.reason);
        let mut request = json!({
            "requestId": id, "sessionId": self.session.id(), "turnId": self.id, "toolCallId": call.id,
            "toolName": call.name, "reason": reason, "riskLevel": ask.risk, "input": call.input, "options": options,
        });
        if let Some((parent, agent)) = &self.inside {
            request["origin"] = json!({
                "kind": "subagent", "agentId": agent, "agentType": "explore", "childSessionId": Uuid::new_v4().to_string(),
                "parentSessionId": self.session.id(), "parentToolCallId": parent, "parentTurnId": self.id,
            });
        }
        self.say("permission.requested", json!({
            "requestId": id, "toolCallId": call.id, "toolName": call.name, "reason": reason, "riskLevel": ask.risk,
            "input": call.input, "options": options,
        }))
        .await?;
        let answered = self.session.register(&id, PendingKind::Permission, request.clone());
        let event = json!({ "type": "permission.request", "request": request });
        let chosen = self.announce_until(&event, ask.announce, answered, None).await?.unwrap_or_default();
        let chosen = chosen.as_str().unwrap_or_default();
        // An option that was not offered counts as a denial.
        let option = options.iter().find(|option| option["optionId"] == chosen);
        let decision = option.and_then(|option| option["response"]["decision"].as_str()).unwrap_or("deny");
        if option.is_some_and(|option| option["response"].get("permissionUpdates").is_some())
            && decision == "allow"
        {
            self.host.remember(self.session.workspace(), &call.name);
        }
        chosen.clone_into(&mut self.vars.answer);
        self.say(
            "permission.resolved",
            json!({ "requestId": id, "toolCallId": call.id, "decision": decision }),
        )
        .await?;
        if let Some(expected) = &ask.expect
            && expected != chosen
            && expected != decision
        {
            return Err(unexpected("permission", expected, &format!("{chosen} ({decision})")));
        }
        Ok(if matches!(decision, "allow" | "modify") { Verdict::Allowed } else { Verdict::Denied })
    }

    /// Announces an ask every second with the same id until it is answered. `None`: its time is over.
    async fn announce_until(
        &self,
        event: &Value,
        times: u64,
        mut answered: oneshot::Receiver<Value>,
        limit: Option<Duration>,
    ) -> Result<Option<Value>, Exit> {
        let every = Duration::from_millis(self.scenario.session.reannounce_ms);
        let deadline = limit.map(|limit| Instant::now() + limit);
        for _ in 1..times {
            self.or_stop(self.session.dynamic(event)).await?;
        }
        loop {
            self.or_stop(self.session.dynamic(event)).await?;
            let round = Instant::now() + every;
            let until = deadline.map_or(round, |deadline| deadline.min(round));
            match self.or_stop(tokio::time::timeout_at(until, &mut answered)).await? {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(_)) => return Err(Exit::Stopped),
                Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Ok(None),
                Err(_) => {}
            }
        }
    }

    /// Drops the asks nobody has answered and says so.
    pub(super) async fn withdraw_asks(&mut self) {
        let pending = std::mem::take(&mut self.session.state().pending);
        for (id, ask) in pending {
            match ask.kind {
                PendingKind::Permission => {
                    self.emit(
                        "permission.resolved",
                        json!({
                            "requestId": id, "toolCallId": ask.request["toolCallId"], "decision": "deny",
                            "reason": "cancelled",
                        }),
                    )
                    .await;
                }
                PendingKind::Input => self.input_gone(&id, "cancel", "cancelled").await,
                PendingKind::Headers => {}
            }
        }
    }

    async fn input_gone(&self, id: &str, action: &str, reason: &str) {
        self.session
            .dynamic(&json!({
                "type": "userInput.response", "requestId": id, "response": { "action": action, "reason": reason },
            }))
            .await;
    }

    /// Asks the user something.
    pub(super) async fn question(&mut self, question: &Question) -> Flow {
        let questions: Vec<Value> = question
            .questions
            .iter()
            .map(|one| {
                let options: Vec<Value> = one
                    .options
                    .iter()
                    .map(|choice| {
                        let label = self.vars.expand(&choice.label);
                        let mut option = json!({ "value": label, "label": label });
                        if let Some(description) = &choice.description {
                            option["description"] = json!(description);
                        }
                        option
                    })
                    .collect();
                let mut asked = json!({
                    "question": self.vars.expand(&one.question), "header": one.header, "options": options,
                });
                if one.multi {
                    asked["multiSelect"] = json!(true);
                }
                asked
            })
            .collect();
        let input = json!({ "questions": questions });
        let call = self.announce("AskUserQuestion", input.clone(), InputVia::Stream).await?;
        self.begin(&call).await?;
        let mut schema = json!({ "toolName": "AskUserQuestion" });
        if let Some(interaction) = &question.interaction {
            schema["interaction"] = json!(interaction);
        }
        let prompt = self.vars.expand(&question.prompt);
        let limit = Duration::from_millis(self.scenario.session.auto_resolve_ms);
        let answer = self.ask_input(&call, prompt, questions, input, schema, Some(limit)).await?;
        let action = answer["action"].as_str().unwrap_or("decline").to_owned();
        if let Some(expected) = &question.expect
            && *expected != action
        {
            return Err(unexpected("question", expected, &action));
        }
        if action == "accept" {
            self.vars.answer = answers(&answer["content"]);
            let content =
                if self.vars.answer.is_empty() { "No answer.".into() } else { self.vars.answer.clone() };
            self.end_call(&call, outcome(true, &content, None, None, false)).await?;
            self.end_message("tool-calls");
            self.steps(&question.answered).await
        } else {
            self.vars.answer.clone_from(&action);
            self.fail_call(&call, "The user did not answer the question.").await?;
            self.end_message("tool-calls");
            self.steps(&question.declined).await
        }
    }

    /// Asks for approval of a plan.
    pub(super) async fn plan(&mut self, plan: &Plan) -> Flow {
        let text = self.vars.expand(&plan.text);
        let input = json!({ "plan": text });
        let call = self.announce("ExitPlanMode", input.clone(), InputVia::Stream).await?;
        self.begin(&call).await?;
        let question = "Review this implementation plan.";
        let questions = vec![json!({
            "question": question, "header": "Plan", "options": [{ "value": "approve", "label": "approve" }],
        })];
        let schema = json!({ "interaction": "plan_approval", "toolName": "ExitPlanMode" });
        let answer = self.ask_input(&call, question.into(), questions, input, schema, None).await?;
        // Keyed by the question, as the host expects it; the other accepted spellings count too.
        let content = &answer["content"];
        let said = match content["answers"].get(question) {
            Some(named) => answers(&json!({ "answers": named })),
            None => answers(content),
        };
        if answer["action"] == "accept" && said == "approve" {
            let before = self.session.state().record.previous_mode.clone().unwrap_or_else(|| "build".into());
            self.mode(&before, "ExitPlanMode").await?;
            let content =
                json!({ "approved": true, "plan": text, "mode": before, "previousMode": "plan" }).to_string();
            self.end_call(&call, outcome(true, &content, None, None, false)).await?;
            self.end_message("tool-calls");
            return self.steps(&plan.approved).await;
        }
        self.vars.answer = if answer["action"] == "accept" { said } else { "declined".into() };
        self.fail_call(&call, "The plan was not approved.").await?;
        self.end_message("tool-calls");
        self.steps(&plan.rejected).await
    }

    async fn ask_input(
        &mut self,
        call: &Call,
        prompt: String,
        questions: Vec<Value>,
        input: Value,
        schema: Value,
        limit: Option<Duration>,
    ) -> Result<Value, Exit> {
        let id = format!("input_{}", Uuid::new_v4());
        let request = json!({
            "requestId": id, "sessionId": self.session.id(), "turnId": self.id, "toolCallId": call.id,
            "prompt": prompt, "questions": questions, "input": input, "schema": schema,
        });
        let answered = self.session.register(&id, PendingKind::Input, request.clone());
        let event = json!({ "type": "userInput.request", "request": request });
        if let Some(answer) = self.announce_until(&event, 1, answered, limit).await? {
            return Ok(answer);
        }
        self.session.state().pending.remove(&id);
        self.input_gone(&id, "accept", "auto_resolved").await;
        Ok(json!({ "action": "accept", "content": { "answers": {} } }))
    }

    /// Wants headers that only the desktop app can make.
    pub(super) async fn headers(&mut self, headers: &Headers) -> Flow {
        let id = format!("headers_{}", Uuid::new_v4());
        let (provider, model) = ("builtin:zai-start-plan", "glm-5");
        let request = json!({
            "requestId": id, "sessionId": self.session.id(), "turnId": self.id,
            "workspace": crate::snapshot::workspace(self.session.workspace()),
            "modelRef": { "providerId": provider, "modelId": model }, "providerId": provider, "reason": headers.reason,
        });
        let answered = self.session.register(&id, PendingKind::Headers, request.clone());
        let event = json!({ "type": "providerRuntimeHeaders.request", "request": request });
        let limit = Duration::from_millis(headers.timeout_ms);
        let answer = self.announce_until(&event, 1, answered, Some(limit)).await?;
        self.session.state().pending.remove(&id);
        let said = answer.as_ref().and_then(|answer| answer["errorMessage"].as_str());
        match answer.as_ref().map(|answer| &answer["headersApplied"]) {
            Some(Value::Bool(true)) => Ok(()),
            Some(_) => Err(headers_missing(said.unwrap_or("Provider runtime headers were not applied."))),
            None => Err(headers_missing("Provider runtime headers request timed out.")),
        }
    }
}

fn headers_missing(message: &str) -> Exit {
    let mut error = ErrorDetail::plain("Turn execution failed");
    error.code = Some(json!(-32031));
    error.underlying_error_message = Some(message.to_owned());
    Exit::Failed(Box::new(error))
}

fn unexpected(what: &str, expected: &str, got: &str) -> Exit {
    let message =
        format!("The scenario expected the {what} to be answered {expected}, the answer was {got}.");
    Exit::Failed(Box::new(ErrorDetail::plain(message)))
}

/// The answers as one text: several values of one question joined, blank ones dropped.
fn answers(content: &Value) -> String {
    fn collect<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
        match value {
            Value::String(text) if !text.trim().is_empty() => into.push(text.trim()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(members) => members.values().for_each(|item| collect(item, into)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    match content.get("answers") {
        Some(answers) => collect(answers, &mut all),
        None => {
            for (key, value) in content.as_object().into_iter().flatten() {
                if key == "answer" || key.starts_with("answer_") {
                    collect(value, &mut all);
                }
            }
        }
    }
    all.join(", ")
}
