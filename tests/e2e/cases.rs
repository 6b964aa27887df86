//! Inputs that odd but real clients send, followed to what arrives on the native side.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Agent, Home};

use crate::support::session;

fn state(home: &Home) -> std::path::PathBuf {
    home.root().join("sim/sessions")
}

/// What the simulated host has stored of a session.
fn stored(state: &Path, session: &str) -> Value {
    let file = testkit::wait::eventually(std::time::Duration::from_secs(10), || {
        let found = std::fs::read_dir(state).ok()?.filter_map(Result::ok).map(|entry| entry.path());
        found.into_iter().find(|path| path.to_string_lossy().contains(session))
    });
    let file = file.unwrap_or_else(|| panic!("nothing is stored in {}", state.display()));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn prompt_blocks(agent: &mut Agent, session: &str, blocks: &Value) -> Value {
    agent.request("session/prompt", &json!({"sessionId": session, "prompt": blocks}))
}

#[test]
fn spellings_of_one_directory_are_one_workspace() {
    let home = Home::new().unwrap();
    let state = state(&home);
    let real = home.work().join("with space and ü");
    std::fs::create_dir(&real).unwrap();
    let (mut agent, _) = session(&home, &["--simulated"]);
    let mut spellings = vec![real.clone(), real.join("")];
    #[cfg(unix)]
    {
        let link = home.work().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        spellings.push(link);
    }
    for spelling in spellings {
        let session = agent.new_session(&spelling);
        let text = stored(&state, &session).to_string();
        let key = json!(dunce(&real)).to_string();
        assert!(text.contains(&key), "{} is not kept as {key}: {text}", spelling.display());
    }
    for (cwd, rule) in [
        (".", "absolute"),
        ("", "absolute"),
        ("/does/not/exist", "exist"),
        (env!("CARGO_MANIFEST_PATH"), "directory"),
    ] {
        let error = agent.err("session/new", &json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains(rule), "{cwd:?}: {error}");
    }
}

fn dunce(path: &Path) -> String {
    std::fs::canonicalize(path).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_refused_prompt_never_reaches_the_host() {
    let home = Home::new().unwrap();
    let state = state(&home);
    let (mut agent, session) = session(&home, &["--simulated"]);
    let text = json!({"type": "text", "text": "canary-of-a-refused-prompt"});
    for blocks in [
        json!([]),
        json!([{"type": "text", "text": ""}]),
        json!([text, {"type": "image", "mimeType": "image/png", "data": "***"}]),
        json!([text, {"type": "no-such-kind"}]),
    ] {
        let id = prompt_blocks(&mut agent, &session, &blocks);
        let answer = agent.answer_to(&id);
        assert_eq!(answer["error"]["code"], -32602, "{blocks}: {answer}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    let id = prompt_blocks(&mut agent, &session, &json!([{"type": "text", "text": "hello"}]));
    assert_eq!(agent.answer_to(&id)["result"]["stopReason"], "end_turn");
    let kept = stored(&state, &session).to_string();
    assert!(kept.contains("hello") && !kept.contains("canary"), "{kept}");
}

#[test]
fn a_link_to_a_file_becomes_an_attachment_and_keeps_its_fragment_as_text() {
    let home = Home::new().unwrap();
    let state = state(&home);
    let file = home.work().join("a b.txt");
    std::fs::write(&file, "twelve bytes").unwrap();
    let (mut agent, session) = session(&home, &["--simulated"]);
    let uri = format!("file://{}#L10:20", dunce(&file).replace(' ', "%20"));
    let blocks = json!([
        {"type": "text", "text": "hello"},
        {"type": "resource_link", "name": "a b.txt", "uri": uri},
    ]);
    let id = prompt_blocks(&mut agent, &session, &blocks);
    assert_eq!(agent.answer_to(&id)["result"]["stopReason"], "end_turn");
    let kept = stored(&state, &session).to_string();
    assert!(kept.contains("a b.txt#L10:20"), "the fragment is lost: {kept}");
    assert!(kept.contains("\"type\":\"file\""), "there is no attachment: {kept}");
}
