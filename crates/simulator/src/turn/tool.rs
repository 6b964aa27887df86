//! Tool calls. They are told, never run.

use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::ask::Verdict;
use super::{Flow, Job, Turn, background_task};
use crate::scenario::model::{Background, Diff, InputVia, Progress, Todo, Tool};
use crate::session::now_ms;

/// Tools that change files: mode `edit` lets them run unasked.
const EDITING: [&str; 2] = ["Edit", "Write"];

/// A tool call on its way.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
    started_at: u64,
    since: Instant,
}

impl Turn {
    pub(super) async fn tool(&mut self, tool: &Tool) -> Flow {
        let input = if tool.input.is_null() { json!({}) } else { self.vars.expand_json(&tool.input) };
        let call = self.announce(&tool.name, input, tool.input_via).await?;
        if let Some(ask) = &tool.ask
            && (ask.force || self.must_ask(&tool.name))
            && let Verdict::Denied = self.permission(ask, &call).await?
        {
            self.fail_call(&call, "The user denied this tool call; it was not run.").await?;
            self.end_message("tool-calls");
            return self.steps(&tool.denied).await;
        }
        self.begin(&call).await?;
        for progress in &tool.progress {
            self.progress(&call, progress).await?;
        }
        if !tool.inner.is_empty() {
            let before = self.inside.replace((call.id.clone(), format!("agent_{}", self.tool_calls)));
            let flow = self.steps(&tool.inner).await;
            self.inside = before;
            flow?;
        }
        self.pause(tool.run_ms).await?;
        if let Some(error) = &tool.error {
            let error = self.vars.expand(error);
            self.fail_call(&call, &error).await?;
        } else {
            let content = self.vars.expand(&tool.result);
            let display = tool
                .diff
                .as_ref()
                .map(|diff| self.file_diff(diff))
                .or_else(|| tool.display.as_ref().map(|display| self.vars.expand_json(display)))
                .or_else(|| (tool.name == "Bash").then(|| bash_output(tool.exit_code, "completed")));
            let result = outcome(tool.success, &content, display, tool.exit_code, tool.truncated);
            self.end_call(&call, result).await?;
        }
        self.batch(&call, tool.error.is_none() && tool.success).await?;
        if self.inside.is_none() {
            self.end_message("tool-calls");
        }
        self.steps(&tool.allowed).await
    }

    /// Whether the session's mode and the remembered rules want a permission for this tool.
    fn must_ask(&self, tool: &str) -> bool {
        let mode = self.session.state().record.mode.clone();
        let by_mode = match mode.as_str() {
            "yolo" => false,
            "edit" => !EDITING.contains(&tool),
            _ => true,
        };
        by_mode && !self.host.remembered(self.session.workspace(), tool)
    }

    /// The call appears: its input on the model stream, then the call itself.
    pub(super) async fn announce(
        &mut self,
        name: &str,
        input: Value,
        via: InputVia,
    ) -> Result<Call, super::Exit> {
        self.tool_calls += 1;
        let id = match &self.inside {
            Some((_, agent)) => format!("tool_subagent_{agent}_{}", Uuid::new_v4().simple()),
            None => format!("call_{}", Uuid::new_v4().simple()),
        };
        let call = Call { id, name: name.to_owned(), input, started_at: now_ms(), since: Instant::now() };
        self.session.state().open_tools.push((call.id.clone(), call.name.clone(), "pending"));
        let via = if self.inside.is_some() { InputVia::Omitted } else { via };
        let text = call.input.to_string();
        if via == InputVia::Stream {
            let part = |kind: &str| json!({ "kind": kind, "toolCallId": call.id, "toolName": call.name, "assistantMessageId": self.message });
            self.say("model.streaming", part("tool_input_start")).await?;
            let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            for piece in [&text[..middle], &text[middle..]] {
                let mut delta = part("tool_input_delta");
                delta["delta"] = json!(piece);
                self.say("model.streaming", delta).await?;
            }
            self.say("model.streaming", part("tool_input_end")).await?;
            let mut whole = part("tool_call");
            whole["input"] = call.input.clone();
            self.say("model.streaming", whole).await?;
        }
        let mut scheduled = json!({
            "kind": "scheduled", "toolCallId": call.id, "toolName": call.name, "assistantMessageId": self.message,
        });
        match via {
            InputVia::Stream => {
                scheduled["inputOmitted"] = json!(true);
                scheduled["inputRef"] = json!("model_stream");
                scheduled["inputByteLength"] = json!(text.len());
            }
            InputVia::Scheduled => scheduled["input"] = call.input.clone(),
            InputVia::Omitted => {}
        }
        self.tag(&mut scheduled);
        self.say("tool.updated", scheduled).await?;
        Ok(call)
    }

    pub(super) async fn begin(&mut self, call: &Call) -> Flow {
        for open in &mut self.session.state().open_tools {
            if open.0 == call.id {
                open.2 = "running";
            }
        }
        let mut started = json!({ "kind": "started", "toolCallId": call.id, "startedAt": now_ms() });
        self.tag(&mut started);
        self.say("tool.updated", started).await
    }

    async fn progress(&mut self, call: &Call, progress: &Progress) -> Flow {
        self.pause(progress.after_ms).await?;
        let tail = progress.tail.as_ref().map(|text| self.vars.expand(text));
        let stderr = progress.stderr.as_ref().map(|text| self.vars.expand(text));
        let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.len() as u64);
        let out = progress.bytes.unwrap_or_else(|| length(&tail));
        let mut payload = json!({
            "kind": "progress", "toolCallId": call.id, "elapsedMs": call.since.elapsed().as_millis() as u64, "pid": 0,
            "stdoutBytes": out, "stderrBytes": length(&stderr), "outputBytes": out + length(&stderr),
        });
        if let Some(tail) = tail {
            payload["stdoutTail"] = json!(tail);
        }
        if let Some(stderr) = stderr {
            payload["stderrTail"] = json!(stderr);
        }
        self.tag(&mut payload);
        self.say("tool.updated", payload).await
    }

    /// The call ends with a result.
    pub(super) async fn end_call(&mut self, call: &Call, result: Value) -> Flow {
        let state = json!({
            "status": "completed", "input": call.input, "output": result["content"], "title": call.name,
            "metadata": { "display": result.get("display"), "success": result["success"] },
            "startedAt": call.started_at, "completedAt": now_ms(),
        });
        let mut payload = json!({
            "kind": "result", "toolCallId": call.id, "result": result,
            "duration": call.since.elapsed().as_millis() as u64,
        });
        self.tag(&mut payload);
        self.closed(call, &state);
        self.say("tool.updated", payload).await
    }

    /// The call ends without a result.
    pub(super) async fn fail_call(&mut self, call: &Call, error: &str) -> Flow {
        let state = json!({ "status": "error", "input": call.input, "error": error });
        self.closed(call, &state);
        let mut payload = json!({ "kind": "error", "toolCallId": call.id, "error": error });
        self.tag(&mut payload);
        self.say("tool.updated", payload).await
    }

    fn closed(&mut self, call: &Call, state: &Value) {
        self.session.state().open_tools.retain(|open| open.0 != call.id);
        if self.inside.is_none() {
            self.parts.push(json!({ "type": "tool", "callId": call.id, "tool": call.name, "state": state }));
        }
    }

    /// What the real host says after a round of calls. It repeats what is known and must change nothing.
    async fn batch(&mut self, call: &Call, success: bool) -> Flow {
        let (good, bad) = if success { (1, 0) } else { (0, 1) };
        self.say(
            "tool.updated",
            json!({
                "kind": "batch", "toolCallIds": [call.id], "successCount": good, "errorCount": bad,
            }),
        )
        .await
    }

    /// Ends the calls that are still open when the turn ends.
    pub(super) async fn close_tools(&mut self, error: &str) {
        let open = std::mem::take(&mut self.session.state().open_tools);
        for (id, name, _) in open {
            self.parts.push(json!({
                "type": "tool", "callId": id, "tool": name,
                "state": { "status": "error", "input": {}, "error": error },
            }));
            self.emit("tool.updated", json!({ "kind": "error", "toolCallId": id, "error": error })).await;
        }
    }

    pub(super) async fn todos(&mut self, todos: &[Todo]) -> Flow {
        let list: Vec<Value> = todos
            .iter()
            .map(|todo| json!({ "content": self.vars.expand(&todo.content), "status": todo.status, "priority": todo.priority }))
            .collect();
        let call = self.announce("TodoWrite", json!({ "todos": list }), InputVia::Stream).await?;
        self.begin(&call).await?;
        let before = std::mem::replace(&mut self.session.state().record.todos, list.clone());
        let summary = format!("{} todos", list.len());
        let content = json!({ "oldTodos": before, "todos": list, "summary": summary }).to_string();
        self.end_call(&call, outcome(true, &content, None, None, false)).await?;
        self.or_stop(self.session.state_updated("todos_changed", json!({ "todos": list }))).await?;
        self.end_message("tool-calls");
        Ok(())
    }

    /// Starts a command in the background: its call ends at once as "backgrounded", the task later.
    pub(super) async fn background(&mut self, plan: &Background) -> Flow {
        let command = self.vars.expand(&plan.command);
        let input = json!({ "command": command, "description": plan.description, "run_in_background": true });
        let call = self.announce("Bash", input, InputVia::Stream).await?;
        self.begin(&call).await?;
        let job = Job {
            plan: Box::new(plan.clone()),
            task: format!("bash_{}", Uuid::new_v4().simple()),
            call: call.id.clone(),
        };
        let running = background_task(&job, "running");
        self.session
            .state()
            .jobs
            .push(json!({ "taskId": job.task, "toolCallId": job.call, "status": "running" }));
        let content = format!("Command running in background with ID: {}", job.task);
        let result = outcome(true, &content, Some(bash_output(None, "backgrounded")), None, false);
        self.jobs.push(job);
        self.end_call(&call, result).await?;
        self.say("session.updated", running).await?;
        self.end_message("tool-calls");
        Ok(())
    }

    fn file_diff(&self, diff: &Diff) -> Value {
        let starting = |prefix: char| {
            diff.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.starts_with(prefix)).count()
        };
        let hunks: Vec<Value> = diff
            .hunks
            .iter()
            .map(|hunk| {
                let without =
                    |prefix: char| hunk.lines.iter().filter(|line| !line.starts_with([prefix, '\\'])).count();
                let lines: Vec<String> = hunk.lines.iter().map(|line| self.vars.expand(line)).collect();
                json!({
                    "oldStart": hunk.old_start, "oldLines": without('+'), "newStart": hunk.new_start,
                    "newLines": without('-'), "lines": lines,
                })
            })
            .collect();
        let mut display = json!({
            "kind": "file_diff", "filePath": self.vars.expand(&diff.path), "additions": starting('+'),
            "deletions": starting('-'), "structuredPatch": hunks,
        });
        if diff.truncated {
            display["truncated"] = json!(true);
        }
        display
    }
}

fn bash_output(exit_code: Option<i64>, status: &str) -> Value {
    let mut display = json!({ "kind": "bash_output", "status": status });
    if let Some(code) = exit_code {
        display["exitCode"] = json!(code);
    }
    display
}

/// The `result` member of a finished call.
pub(super) fn outcome(
    success: bool,
    content: &str,
    display: Option<Value>,
    exit_code: Option<i64>,
    truncated: bool,
) -> Value {
    let mut result = json!({
        "success": success, "content": content, "truncated": truncated,
        "originalBytes": if truncated { content.len() * 4 } else { content.len() }, "returnedBytes": content.len(),
    });
    if let Some(display) = display {
        result["display"] = display;
    }
    if let Some(code) = exit_code {
        result["perf"] = json!({ "exitCode": code });
    }
    result
}
