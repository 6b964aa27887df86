//! Canaries: what is planted in prompts, parameters and the environment is in no error answer and no log.

use serde_json::json;
use testkit::Home;

use crate::support::{END, agent, session};

const CANARY: &str = "CANARY7f3a9b";

fn canary(place: &str) -> String {
    format!("{CANARY}-{place}")
}

#[test]
fn nothing_planted_comes_out() {
    let mut home = Home::new().unwrap();
    for name in ["ANTHROPIC_API_KEY", "ZAI_TOKEN", "HTTPS_PROXY", "MY_PASSWORD", "ZCODE_SECRET"] {
        home = home.env(name, format!("http://user:{}@proxy", canary(name)));
    }
    let mut agent = agent(&home, &["--simulated", "--log-level=trace", "--log-format=json"]);
    agent.initialize();
    let session = agent.new_session(&home.work());

    // Prompts that work, with tools and a permission, and ones that fail.
    for text in ["hello", "use a tool", "sim:network", "sim:rate-limit", "sim:unknown-event"] {
        let id = agent.prompt(&session, &format!("{text} {}", canary("prompt")));
        let answer = agent.wait_for("answer or permission", |message| {
            message.get("id") == Some(&id) && message.get("method").is_none()
                || message["method"] == "session/request_permission"
        });
        if answer.get("method").is_some() {
            agent.answer(&answer, &json!({"outcome": canary("outcome")}));
            agent.answer_to(&id);
        }
    }
    // Requests that are wrong in every way, with canaries where the wrong thing is.
    let mcp = json!({"name": "x", "command": "/bin/x", "args": [canary("arg")],
        "env": [{"name": "TOKEN", "value": canary("mcp-env")}]});
    let http = json!({"type": "http", "name": "h", "url": "https://h",
        "headers": [{"name": "Authorization", "value": canary("header")}]});
    agent.ok("session/new", &json!({"cwd": home.work(), "mcpServers": [mcp, http]}));
    for (key, value) in [("name", ""), ("command", "")] {
        let mut wrong = mcp.clone();
        wrong[key] = value.into();
        agent.err("session/new", &json!({"cwd": home.work(), "mcpServers": [wrong]}));
    }
    let mut wrong = http.clone();
    wrong["url"] = format!("ftp://{}", canary("url")).into();
    agent.err("session/new", &json!({"cwd": home.work(), "mcpServers": [wrong]}));
    agent.err("session/new", &json!({"cwd": 5, "mcpServers": canary("type")}));
    agent.err("session/prompt", &json!({"sessionId": canary("session"), "prompt": 7, "x": canary("extra")}));
    agent.err(
        "session/prompt",
        &json!({"sessionId": session, "prompt": [{"type": canary("kind"), "text": canary("block")}]}),
    );
    agent.err(&format!("_{}", canary("method")), &json!({"x": canary("ext")}));
    agent.try_send_line(format!("{{not json {}", canary("line")));
    agent.wait_for("the parse error", |message| message["error"]["code"] == -32700);
    agent.try_send_line(format!("[\"{}\"]", canary("batch")));
    agent.wait_for("the batch error", |message| message["error"]["code"] == -32600);
    agent.try_send_line([b"\xff\xfe ".as_slice(), canary("bytes").as_bytes()].concat());
    agent.wait_for("the encoding error", |message| message["error"]["code"] == -32700);

    agent.close_stdin();
    let finished = agent.finish(END);
    assert!(finished.stderr.lines().count() > 5, "nothing was logged at trace: {}", finished.stderr);
    for line in finished.stderr.lines() {
        assert!(!line.contains(CANARY), "in the log: {line}");
    }
    let errors = finished.messages.iter().filter(|message| message.get("error").is_some());
    let mut seen = 0;
    for error in errors {
        seen += 1;
        assert!(!error.to_string().contains(CANARY), "in an answer: {error}");
        let text = error["error"]["message"].as_str().unwrap();
        assert!(!text.is_empty() && !text.contains('\n') && text.chars().count() <= 200, "{text}");
    }
    assert!(seen >= 9, "{seen} errors");
}

#[test]
fn a_panic_says_where_on_stderr_and_nothing_on_stdout() {
    let home = Home::new().unwrap().env("ZCODE_ACP_PANIC_FOR_TESTS", "canary-of-a-panic");
    let (mut agent, session) = session(&home, &["--simulated"]);
    // The driver checks every byte of stdout; the connection goes on.
    let prompt = agent.prompt(&session, "hello");
    assert_eq!(agent.answer_to(&prompt)["result"]["stopReason"], "end_turn");
    agent.close_stdin();
    let finished = agent.finish(END);
    assert!(finished.stderr.contains("agent.rs"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("canary"), "{}", finished.stderr);
    assert_eq!(finished.status.code(), Some(0));
}
