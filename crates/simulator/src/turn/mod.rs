//! Plays a turn: one task a turn, which walks the steps of a scenario and always leaves the session idle.

mod ask;
mod fault;
mod stream;
mod tool;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toml::Spanned;
use uuid::Uuid;

use crate::host::Host;
use crate::scenario::Scenario;
use crate::scenario::model::{Background, ErrorDetail, Retry, Silence, Step, Usage};
use crate::scenario::template::Vars;
use crate::session::{RunningTurn, Session, Shared, now_ms};

/// Why a turn runs.
pub(crate) enum Cause {
    /// A prompt.
    Prompt {
        /// Its input id.
        input: String,
        /// Its text.
        content: String,
        /// Id of the user's message.
        message: String,
        /// Number of attachments.
        attachments: usize,
    },
    /// The end of a background task.
    Background {
        /// What to do.
        plan: Box<Background>,
        /// Scenario and values of the turn that started the task.
        scenario: Arc<Scenario>,
        vars: Box<Vars>,
    },
}

/// Why the steps of a turn do not go on.
enum Exit {
    /// Stopped from outside.
    Stopped,
    /// The scenario ends the turn.
    Ended(String),
    /// The scenario fails the turn.
    Failed(Box<ErrorDetail>),
}

type Flow = Result<(), Exit>;

/// What to do after a turn.
struct Job {
    plan: Box<Background>,
    task: String,
    call: String,
}

struct Turn {
    host: Arc<Host>,
    session: Shared,
    scenario: Arc<Scenario>,
    id: String,
    stop: CancellationToken,
    vars: Vars,
    input: Option<String>,
    /// Message the answer belongs to.
    parent: String,
    /// The assistant message being written, and its parts so far.
    message: String,
    parts: Vec<Value>,
    /// All text of the turn.
    response: String,
    /// Tool call whose inner steps run.
    inside: Option<(String, String)>,
    tool_calls: u64,
    usage: Option<Usage>,
    started: Instant,
    jobs: Vec<Job>,
}

/// Starts the task of a turn. The session already says that the turn runs.
pub(crate) fn start(host: &Arc<Host>, session: Shared, running: RunningTurn, cause: Cause) {
    let keep = Arc::clone(host);
    host.spawn(async move { run(keep, session, running, cause).await });
}

/// Changes the mode. Returns the one before, if it is another.
pub(crate) fn change_mode(session: &Session, mode: &str) -> Option<String> {
    let mut state = session.state();
    let before = std::mem::replace(&mut state.record.mode, mode.to_owned());
    if before == mode {
        return None;
    }
    state.record.previous_mode = Some(before.clone());
    Some(before)
}

async fn run(host: Arc<Host>, session: Shared, running: RunningTurn, cause: Cause) {
    let number = session.state().record.turn_count;
    let (mut turn, steps, started) = match cause {
        Cause::Prompt { input, content, message, attachments } => {
            let scenario = host.scenario_for(&content);
            let vars = variables(&session, &content);
            let started = json!({
                "turnNumber": number, "input": content, "inputId": input, "inputSource": "user",
                "inputVisibility": "user-visible", "executionKind": "agent", "messageId": message,
                "attachments": attachments, "executionStartedAt": now_ms(),
            });
            let steps = None;
            (Turn::new(&host, &session, scenario, &running, vars, Some(input), message), steps, started)
        }
        Cause::Background { plan, scenario, vars } => {
            let message = format!("msg_{}", Uuid::new_v4());
            let started = json!({
                "turnNumber": number, "input": "A background task has ended.", "inputSource": "background_task",
                "inputVisibility": "model-only", "executionKind": "agent", "messageId": message,
                "backgroundSource": "bash", "executionStartedAt": now_ms(),
            });
            (Turn::new(&host, &session, scenario, &running, *vars, None, message), Some(plan), started)
        }
    };
    host.store.save(&session).await;
    turn.emit("turn.started", started).await;
    session.state_updated("turn_started", json!({ "status": "running" })).await;
    let scenario = Arc::clone(&turn.scenario);
    let flow = match turn.model_request().await {
        Ok(()) => turn.steps(steps.as_ref().map_or(&scenario.steps, |plan| &plan.steps)).await,
        stopped => stopped,
    };
    turn.finish(flow).await;
    running.done.cancel();
}

fn variables(session: &Session, prompt: &str) -> Vars {
    let arg = prompt.trim().split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
    let cwd = session.workspace().to_owned();
    let path = std::path::Path::new(&cwd).join(arg).to_string_lossy().into_owned();
    let mode = session.state().record.mode.clone();
    Vars { prompt: prompt.to_owned(), arg: arg.to_owned(), path, cwd, answer: String::new(), n: 0, mode }
}

impl Turn {
    fn new(
        host: &Arc<Host>,
        session: &Shared,
        scenario: Arc<Scenario>,
        running: &RunningTurn,
        vars: Vars,
        input: Option<String>,
        parent: String,
    ) -> Self {
        Self {
            host: Arc::clone(host),
            session: Arc::clone(session),
            scenario,
            id: running.id.clone(),
            stop: running.stop.clone(),
            vars,
            input,
            parent,
            message: format!("msg_{}", Uuid::new_v4()),
            parts: Vec::new(),
            response: String::new(),
            inside: None,
            tool_calls: 0,
            usage: None,
            started: Instant::now(),
            jobs: Vec::new(),
        }
    }

    /// Sends a numbered event of this turn, whatever happens.
    async fn emit(&self, kind: &str, payload: Value) {
        self.session.event(Some(&self.id), kind, &payload).await;
    }

    /// Waits for something, unless the turn is stopped first.
    async fn or_stop<T>(&self, wait: impl Future<Output = T>) -> Result<T, Exit> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Exit::Stopped),
            value = wait => Ok(value),
        }
    }

    async fn pause(&self, ms: u64) -> Flow {
        self.or_stop(tokio::time::sleep(Duration::from_millis(ms))).await
    }

    /// [`Turn::emit`], unless the turn is stopped while the reader is slow.
    async fn say(&self, kind: &str, payload: Value) -> Flow {
        self.or_stop(self.emit(kind, payload)).await
    }

    /// What precedes every answer of the model. It carries headers as the real host's does, so that an adapter which logs
    /// or forwards it whole is found out.
    async fn model_request(&mut self) -> Flow {
        let model = self.session.state().record.model.as_ref().map(crate::session::model_ref);
        self.say(
            "session.updated",
            json!({
                "messageCount": 1, "model": model, "modelRef": model, "toolCount": 20, "iteration": 1,
            }),
        )
        .await?;
        self.say(
            "session.updated",
            json!({
                "type": "model_request_started", "attempt": 1, "maxAttempts": 11,
                "requestHeaders": { "authorization": "Bearer simulated-secret-that-must-not-be-shown" },
            }),
        )
        .await
    }

    /// Runs steps. Boxed, since steps nest.
    fn steps<'a>(
        &'a mut self,
        steps: &'a [Spanned<Step>],
    ) -> Pin<Box<dyn Future<Output = Flow> + Send + 'a>> {
        Box::pin(async move {
            for step in steps {
                // A long run of steps that never wait must not starve the other sessions.
                tokio::task::yield_now().await;
                if self.stop.is_cancelled() {
                    return Err(Exit::Stopped);
                }
                self.step(step.get_ref()).await?;
            }
            Ok(())
        })
    }

    async fn step(&mut self, step: &Step) -> Flow {
        let pace = self.scenario.stream;
        match step {
            Step::Text(text) => self.text(text, pace.chunk, pace.delay_ms).await,
            Step::Thought(text) => self.thought(text, pace.chunk, pace.delay_ms).await,
            Step::Stream(stream) => {
                let chunk = stream.chunk.unwrap_or(pace.chunk);
                let delay = stream.delay_ms.unwrap_or(pace.delay_ms);
                if stream.thought {
                    self.thought(&stream.text, chunk, delay).await
                } else {
                    self.text(&stream.text, chunk, delay).await
                }
            }
            Step::Flood(flood) => self.flood(flood).await,
            Step::Huge(bytes) => self.huge(*bytes).await,
            Step::Tool(tool) => self.tool(tool).await,
            Step::Question(question) => self.question(question).await,
            Step::Plan(plan) => self.plan(plan).await,
            Step::Todos(todos) => self.todos(todos).await,
            Step::Title(title) => self.title(title).await,
            Step::Usage(usage) => {
                self.usage = Some(*usage);
                Ok(())
            }
            Step::DelayMs(ms) => self.pause(*ms).await,
            Step::Mode(mode) => self.mode(mode, "EnterPlanMode").await,
            Step::Retry(retry) => self.retry(retry).await,
            Step::Headers(headers) => self.headers(headers).await,
            Step::Repeat(repeat) => {
                let outer = self.vars.n;
                for round in 1..=repeat.times {
                    self.vars.n = round;
                    self.steps(&repeat.steps).await?;
                }
                self.vars.n = outer;
                Ok(())
            }
            Step::Background(plan) => self.background(plan).await,
            Step::Emit(_)
            | Step::Event(_)
            | Step::SeqGap(_)
            | Step::ResendLast(_)
            | Step::Line(_)
            | Step::Stderr(_)
            | Step::Crash(_)
            | Step::Silence(Silence::Host) => self.fault(step).await,
            Step::Silence(Silence::Turn) => self.or_stop(std::future::pending()).await,
            Step::Evict(evict) => {
                self.session.state().evict = *evict;
                Ok(())
            }
            Step::End(result) => Err(Exit::Ended(result.clone())),
            Step::Fail(error) => {
                let mut error = error.clone();
                error.message = self.vars.expand(&error.message);
                Err(Exit::Failed(error))
            }
        }
    }

    async fn title(&mut self, title: &str) -> Flow {
        let title = self.vars.expand(title);
        let before = {
            let mut state = self.session.state();
            state.record.title_source = "generated".into();
            std::mem::replace(&mut state.record.title, title.clone())
        };
        self.say(
            "session.titleUpdated",
            json!({
                "title": title, "previousTitle": before, "source": "generated", "messageID": self.parent,
            }),
        )
        .await
    }

    /// The agent changes the mode; there are two traces of it, as in the real host.
    async fn mode(&mut self, mode: &str, source: &str) -> Flow {
        if let Some(before) = change_mode(&self.session, mode) {
            self.say(
                "session.updated",
                json!({
                    "mode": mode, "previousMode": before, "source": "tool", "toolName": source,
                }),
            )
            .await?;
            self.or_stop(self.session.state_updated("mode_changed", json!({ "mode": { "current": mode } })))
                .await?;
        }
        Ok(())
    }

    async fn retry(&mut self, retry: &Retry) -> Flow {
        self.session.state().record.usage.errors += 1;
        self.say(
            "session.updated",
            json!({
                "type": "model_request_completed", "attempt": retry.attempt, "maxAttempts": retry.max,
                "responseHeaders": { "set-cookie": "simulated-secret-that-must-not-be-shown" },
                "_meta": { "zcode": { "apiRetry": {
                    "kind": "api_retry", "attempt": retry.attempt, "maxRetries": retry.max,
                    "retryDelayMs": retry.delay_ms, "errorStatus": retry.status, "error": retry.error,
                } } },
            }),
        )
        .await?;
        self.pause(retry.delay_ms).await
    }

    /// Ends the turn in every case: asks withdrawn, tools closed, history written, terminal event sent, session idle.
    async fn finish(mut self, flow: Flow) {
        let stopped = matches!(flow, Err(Exit::Stopped));
        self.withdraw_asks().await;
        self.close_tools(if stopped {
            "The call was stopped."
        } else {
            "The turn ended before the call did."
        })
        .await;
        if stopped {
            tokio::time::sleep(Duration::from_millis(self.scenario.session.stop_delay_ms)).await;
        }
        self.end_message(if stopped { "cancelled" } else { "stop" });
        let (kind, payload) = match flow {
            Ok(()) => ("turn.completed", self.completed("success").await),
            Err(Exit::Ended(result)) => ("turn.completed", self.completed(&result).await),
            Err(Exit::Stopped) => ("turn.completed", self.completed("cancelled").await),
            Err(Exit::Failed(error)) => {
                self.session.state().record.usage.errors += 1;
                let mut payload = json!({ "error": *error, "turnPhase": "model_streaming" });
                if let Some(input) = &self.input {
                    payload["inputId"] = json!(input);
                }
                ("turn.failed", payload)
            }
        };
        self.host.store.save(&self.session).await;
        // Idle before the terminal event leaves: a prompt sent on reading it must be taken.
        let evict = {
            let mut state = self.session.state();
            state.turn = None;
            state.open_tools.clear();
            state.record.updated_at = now_ms();
            std::mem::take(&mut state.evict)
        };
        self.emit(kind, payload).await;
        self.session.state_updated("turn_ended", json!({ "status": "idle" })).await;
        if evict {
            self.host.deactivate(self.session.id());
        }
        for job in std::mem::take(&mut self.jobs) {
            self.follow(job);
        }
    }

    /// The payload of `turn.completed`, after the event that carries the model's own figures.
    async fn completed(&mut self, result: &str) -> Value {
        let usage = self.usage.unwrap_or(Usage {
            input: 1200 + self.vars.prompt.len() as u64 / 4,
            output: self.response.len() as u64 / 4 + 1,
            reasoning: 0,
            cache_read: 1000,
            cache_write: 0,
        });
        let total = usage.input + usage.output;
        {
            let mut state = self.session.state();
            let totals = &mut state.record.usage;
            totals.input += usage.input;
            totals.output += usage.output;
            totals.reasoning += usage.reasoning;
            totals.cache_read += usage.cache_read;
            totals.cache_write += usage.cache_write;
            totals.requests += 1;
            totals.context = total;
        }
        self.emit("session.updated", json!({
            "content": self.response, "contextWindow": 200_000, "querySource": "main_turn", "stopReason": "stop",
            "usage": {
                "inputTokens": usage.input, "outputTokens": usage.output, "totalTokens": total,
                "cacheReadTokens": usage.cache_read, "cacheWriteTokens": usage.cache_write,
            },
            "cacheHit": usage.cache_read > 0, "toolCallCount": self.tool_calls,
        }))
        .await;
        let mut payload = json!({
            "response": self.response, "tokenCount": total, "toolCallCount": self.tool_calls,
            "duration": self.started.elapsed().as_millis() as u64, "historyRoundCount": 1, "resultType": result,
            "usage": {
                "source": "provider", "modelRequestCount": 1, "inputTokens": usage.input,
                "outputTokens": usage.output, "totalTokens": total, "cacheReadTokens": usage.cache_read,
                "cacheWriteTokens": usage.cache_write, "reasoningTokens": usage.reasoning,
                "webFetchRequests": 0, "webSearchRequests": 0,
            },
        });
        if let Some(input) = &self.input {
            payload["inputId"] = json!(input);
        }
        payload
    }

    /// Lets a background task end, and starts the turn the host makes of it as soon as the session is idle.
    fn follow(&self, job: Job) {
        let host = Arc::clone(&self.host);
        let session = Arc::clone(&self.session);
        let (scenario, vars) = (Arc::clone(&self.scenario), self.vars.clone());
        self.host.spawn(async move {
            tokio::time::sleep(Duration::from_millis(job.plan.after_ms)).await;
            session.state().jobs.retain(|one| one["taskId"] != job.task.as_str());
            session.event(None, "session.updated", &background_task(&job, "completed")).await;
            let running = RunningTurn::new();
            loop {
                let busy = {
                    let mut state = session.state();
                    if state.turn.is_none() {
                        state.turn = Some(running.clone());
                        state.record.turn_count += 1;
                    }
                    state.turn.clone().filter(|turn| turn.id != running.id)
                };
                match busy {
                    Some(turn) => turn.done.cancelled().await,
                    None => break,
                }
            }
            if host.session(session.id()).is_none() {
                session.state().turn = None;
                return;
            }
            let cause = Cause::Background { plan: job.plan, scenario, vars: Box::new(vars) };
            start(&host, session, running, cause);
        });
    }
}

fn background_task(job: &Job, status: &str) -> Value {
    json!({
        "taskId": job.task, "toolCallId": job.call, "toolName": "Bash", "status": status, "pid": 0,
        "outputPath": "", "outputTail": "(simulated: the command was not run)", "description": job.plan.description,
        "startedAt": now_ms(),
    })
}
