//! What clients of different abilities see of the same turns: every cell is a snapshot of all frames.
//!
//! Ids are numbered in the order in which they come, the workspace is `<w>`, texts that were streamed in pieces are put
//! together: nothing else is changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use support::prompt;
use support::sim::Turn;

const PROFILES: &[&str] =
    &["nothing", "forms", "plan", "terminal output", "notices and compaction", "everything"];

fn capabilities(profile: &str) -> Value {
    let forms = json!({"elicitation": {"form": {}}});
    let plan = json!({"plan": {}});
    let terminal = json!({"_meta": {"terminal_output": true}});
    let notices = json!({"session": {"notices": {}, "compaction": {}}});
    match profile {
        "nothing" => json!({}),
        "forms" => forms,
        "plan" => plan,
        "terminal output" => terminal,
        "notices and compaction" => notices,
        "everything" => {
            let all = [forms, plan, terminal, notices];
            Value::Object(all.into_iter().flat_map(|one| one.as_object().unwrap().clone()).collect())
        }
        other => panic!("no such profile: {other}"),
    }
}

const MULTI: &str = r#"
format = 1
name = "multi"
description = "Asks for several."

[[step]]
[step.question]
prompt = "Which tests should run?"
questions = [
  { question = "Which tests should run?", header = "Tests", multi = true, options = [
    { label = "Unit", description = "The fast ones" },
    { label = "End to end" },
  ] },
]

[[step.question.answered]]
text = "Chosen: ${answer}."

[[step.question.declined]]
text = "Nothing was chosen."
"#;

const TODO: &str = r#"
format = 1
name = "todo"
description = "Makes a list and works it off."

[[step]]
todos = [
  { content = "Read", status = "in_progress", priority = "high" },
  { content = "Write", status = "pending" },
]

[[step]]
text = "Working."

[[step]]
todos = [
  { content = "Read", status = "completed", priority = "high" },
  { content = "Write", status = "completed" },
]

[[step]]
text = "Done."
"#;

/// Plays one turn and returns all frames from the prompt to its answer.
fn play(profile: &str, scenario: Option<&str>, text: &str, allow: bool) -> String {
    let mut turn = Turn::with(scenario, &capabilities(profile));
    turn.client.until_update("available_commands_update");
    let mut frames = Vec::new();
    let params = prompt(&turn.session, text);
    let answer = turn.client.call_with("session/prompt", &params, &mut |client, frame| {
        let result = match frame["method"].as_str() {
            Some("session/request_permission") => Some(choose(&frame, allow)),
            Some("elicitation/create") => Some(fill(&frame)),
            _ => None,
        };
        frames.push(frame.clone());
        if let Some(result) = result {
            let reply = json!({"jsonrpc": "2.0", "id": frame["id"], "result": result});
            client.send(&reply);
            frames.push(json!({"from the client": result}));
        }
    });
    frames.push(json!({"result": answer["result"], "error": answer["error"]}));
    let workspace = turn.workspace.to_str().unwrap();
    Redaction { workspace, ids: BTreeMap::new() }.frames(frames)
}

/// The first option that allows, or the first that does not.
fn choose(frame: &Value, allow: bool) -> Value {
    let options = frame["params"]["options"].as_array().unwrap();
    let kind = if allow { "allow_once" } else { "reject_once" };
    let option =
        options.iter().find(|option| option["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {frame}"));
    json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
}

/// The first value of every field.
fn fill(frame: &Value) -> Value {
    let fields = frame["params"]["requestedSchema"]["properties"].as_object().unwrap();
    let value = |field: &Value| match field["items"]["anyOf"][0].get("const") {
        Some(value) => json!([value]),
        None => field["oneOf"][0].get("const").cloned().unwrap_or_else(|| json!("text")),
    };
    let content: Map<_, _> = fields.iter().map(|(name, field)| (name.clone(), value(field))).collect();
    json!({"action": "accept", "content": content})
}

/// The one place where frames lose what differs from run to run.
struct Redaction<'a> {
    workspace: &'a str,
    ids: BTreeMap<String, usize>,
}

impl Redaction<'_> {
    fn frames(&mut self, frames: Vec<Value>) -> String {
        let mut merged: Vec<Value> = Vec::new();
        for frame in frames {
            if let Some(last) = merged.last_mut()
                && Self::continues(last, &frame)
            {
                let more = frame["params"]["update"]["content"]["text"].as_str().unwrap();
                let text = &mut last["params"]["update"]["content"]["text"];
                *text = format!("{}{more}", text.as_str().unwrap()).into();
                continue;
            }
            merged.push(frame);
        }
        let lines = merged.into_iter().map(|frame| self.value("", frame).to_string());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether a frame carries on the text of the one before.
    fn continues(before: &Value, frame: &Value) -> bool {
        let (before, now) = (&before["params"]["update"], &frame["params"]["update"]);
        let kind = now["sessionUpdate"].as_str().unwrap_or_default();
        kind.ends_with("_chunk")
            && before["sessionUpdate"] == kind
            && before["messageId"] == now["messageId"]
            && before["content"]["type"] == "text"
            && now["content"]["type"] == "text"
    }

    fn value(&mut self, key: &str, value: Value) -> Value {
        const IDS: &[&str] = &[
            "id",
            "sessionId",
            "messageId",
            "toolCallId",
            "terminalId",
            "terminal_id",
            "planId",
            "compactionId",
            "requestId",
        ];
        match value {
            Value::String(text) if IDS.contains(&key) && text != "zcode-todos" => {
                let next = self.ids.len() + 1;
                Value::String(format!("<id {}>", self.ids.entry(text).or_insert(next)))
            }
            Value::String(text) => Value::String(text.replace(self.workspace, "<w>")),
            Value::Array(items) => items.into_iter().map(|item| self.value(key, item)).collect(),
            Value::Object(members) => {
                let mut members: Vec<_> =
                    members.into_iter().filter(|(key, value)| key != "jsonrpc" && !value.is_null()).collect();
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                members.into_iter().map(|(key, value)| (key.clone(), self.value(&key, value))).collect()
            }
            other => other,
        }
    }
}

fn all(what: &str, scenario: Option<&str>, text: &str, allow: bool) {
    // All at once: a turn waits more than it works.
    std::thread::scope(|scope| {
        let start = |profile: &&'static str| {
            let profile = *profile;
            (profile, scope.spawn(move || play(profile, scenario, text, allow)))
        };
        let cells: Vec<_> = PROFILES.iter().map(start).collect();
        for (profile, frames) in cells {
            let name = format!("{what} {profile}").replace(' ', "_");
            insta::assert_snapshot!(name, frames.join().unwrap());
        }
    });
}

#[test]
fn permission() {
    all("permission", None, "perm", false);
}

#[test]
fn plan() {
    all("plan", None, "sim:plan", true);
}

#[test]
fn question_single() {
    all("question single", None, "sim:question", true);
}

#[test]
fn question_multi() {
    all("question multi", Some(MULTI), "go", true);
}

#[test]
fn diff() {
    all("diff", None, "perm", true);
}

#[test]
fn bash() {
    all("bash", None, "term make", true);
}

#[test]
fn todo() {
    all("todo", Some(TODO), "go", true);
}

#[test]
fn compaction() {
    all("compaction", None, "/compact keep the names", true);
}
