//! The wire of whole turns, as snapshots: what the adapter's reading is written against.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use support::{Answers, Wire, options};

/// Replaces ids by their order of appearance and times by a word; sorts members, since their order is no fact.
#[derive(Default)]
struct Redaction(BTreeMap<String, usize>);

impl Redaction {
    fn value(&mut self, key: &str, value: &Value) -> String {
        match value {
            Value::Number(_) if key == "timestamp" || key.ends_with("At") || key == "created" => {
                "\"[time]\"".into()
            }
            Value::Number(_) if key == "duration" || key == "elapsedMs" => "\"[ms]\"".into(),
            Value::String(text) => Value::String(self.text(text)).to_string(),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.value("", item)).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(members) => {
                let streamed_input = members.get("kind").is_some_and(|kind| kind == "tool_input_delta");
                let sorted: BTreeMap<&String, &Value> = members.iter().collect();
                let members: Vec<String> = sorted
                    .into_iter()
                    .map(|(key, item)| match key.as_str() {
                        "delta" if streamed_input => "\"delta\":\"[part of the input]\"".to_owned(),
                        _ => format!("\"{key}\":{}", self.value(key, item)),
                    })
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            other => other.to_string(),
        }
    }

    /// Ids are runs of 32 hexadecimal digits, with or without dashes, and event ids hold the first eight of one.
    fn text(&mut self, text: &str) -> String {
        if let Some(rest) = text.strip_prefix("evt_") {
            return format!("evt_[session]_{}", rest.split_once('_').map_or("", |(_, seq)| seq));
        }
        let is_id = |part: &str| {
            part.bytes().filter(u8::is_ascii_hexdigit).count() == 32
                && part.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        };
        let (head, tail) = text.rsplit_once('_').map_or(("", text), |(head, tail)| (head, tail));
        if !is_id(tail) {
            return text.to_owned();
        }
        let next = self.0.len() + 1;
        let number = *self.0.entry(tail.to_owned()).or_insert(next);
        if head.is_empty() { format!("[id-{number}]") } else { format!("{head}_[id-{number}]") }
    }
}

async fn recorded(scenario: &str, prompt: &str, answers: &Answers) -> String {
    let state = tempfile::tempdir().unwrap();
    let mut wire = Wire::start(options(Some(scenario), state.path())).await;
    let session = wire.session().await;
    wire.prompt(&session, prompt).await;
    let events = wire.turn(&session, answers).await;
    let mut redaction = Redaction::default();
    let mut out = String::new();
    for event in events {
        writeln!(out, "{}", redaction.value("", &event)).unwrap();
    }
    out
}

#[tokio::test(start_paused = true)]
async fn greeting() {
    insta::assert_snapshot!(recorded("greeting", "hello", &Answers::yes()).await);
}

#[tokio::test(start_paused = true)]
async fn edit_allowed() {
    insta::assert_snapshot!(recorded("edit", "perm", &Answers::yes()).await);
}

#[tokio::test(start_paused = true)]
async fn edit_denied() {
    insta::assert_snapshot!(recorded("edit", "perm", &Answers::no()).await);
}

#[tokio::test(start_paused = true)]
async fn bash() {
    insta::assert_snapshot!(recorded("bash", "term cargo test", &Answers::yes()).await);
}

#[tokio::test(start_paused = true)]
async fn question() {
    insta::assert_snapshot!(recorded("question", "ask me", &Answers::yes()).await);
}
