//! Requests of the client, decoded by hand.
//!
//! The SDK's decoder answers a malformed request with its whole params, prompts and secrets included. This one names the
//! field and the rule, and nothing else. Unknown fields are tolerated, as everywhere in the protocol. Prompts are in
//! `content`, MCP servers in `mcp`.

use std::path::PathBuf;

use diag_model::{Failure, SessionId};
use serde_json::{Map, Value};
use session_coordinator::client::{ClientProfile, ConfigId};
use session_coordinator::{ListRequest, NewSessionRequest, OpenRequest};

use super::mcp;
use crate::error_map::invalid_params;

/// Params of a request: an object.
pub(crate) fn object(params: Value) -> Result<Map<String, Value>, Failure> {
    match params {
        Value::Object(members) => Ok(members),
        _ => Err(invalid_params("params", "must be an object")),
    }
}

/// A required string.
pub(crate) fn string<'a>(params: &'a Map<String, Value>, field: &str) -> Result<&'a str, Failure> {
    match params.get(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(invalid_params(field, "must be a string")),
        None => Err(invalid_params(field, "is required")),
    }
}

/// A string that may be missing.
fn optional_string<'a>(params: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, Failure> {
    match params.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => string(params, field).map(Some),
    }
}

/// The session a request is about.
pub(crate) fn session(params: &Map<String, Value>) -> Result<SessionId, Failure> {
    string(params, "sessionId").map(SessionId::from)
}

/// What the client said it can do, from the raw params of `initialize`: the SDK's types drop what is not stable. A
/// malformed capability is one that is not there.
pub(crate) fn profile(params: &Value) -> ClientProfile {
    let caps = &params["clientCapabilities"];
    ClientProfile {
        forms: caps["elicitation"]["form"].is_object(),
        plans: caps["plan"].is_object(),
        notices: caps["session"]["notices"].is_object(),
        compaction: caps["session"]["compaction"].is_object(),
        terminal_output: caps["_meta"]["terminal_output"] == Value::Bool(true),
    }
}

/// Params of `session/new`.
pub(crate) fn new_session(params: &mut Map<String, Value>) -> Result<NewSessionRequest, Failure> {
    let cwd = PathBuf::from(string(params, "cwd")?);
    if !params.contains_key("mcpServers") {
        return Err(invalid_params("mcpServers", "is required; an empty array means none"));
    }
    let mcp_servers = mcp::servers(params.remove("mcpServers"))?;
    nothing_else(params)?;
    Ok(NewSessionRequest { cwd, mcp_servers })
}

/// Params of `session/load`.
pub(crate) fn load(params: &mut Map<String, Value>) -> Result<OpenRequest, Failure> {
    if params.contains_key("sessionId") && params.contains_key("cwd") && !params.contains_key("mcpServers") {
        return Err(invalid_params("mcpServers", "is required; an empty array means none"));
    }
    resume(params)
}

/// Params of `session/resume`: MCP servers may be left out.
pub(crate) fn resume(params: &mut Map<String, Value>) -> Result<OpenRequest, Failure> {
    let session = session(params)?;
    let cwd = PathBuf::from(string(params, "cwd")?);
    let mcp_servers = match params.remove("mcpServers") {
        None => Vec::new(),
        servers => mcp::servers(servers)?,
    };
    nothing_else(params)?;
    Ok(OpenRequest { session, cwd, mcp_servers })
}

/// What can be asked of a new or opened session and is not offered: silence would be taken for consent.
fn nothing_else(params: &Map<String, Value>) -> Result<(), Failure> {
    match params.get("additionalDirectories") {
        None | Some(Value::Null) => {}
        Some(Value::Array(directories)) if directories.is_empty() => {}
        Some(_) => return Err(invalid_params("additionalDirectories", "is not offered by this agent")),
    }
    match params.get("systemPrompt") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(invalid_params("systemPrompt", "is not offered by this agent")),
    }
}

/// Params of `session/list`.
pub(crate) fn list(params: &Map<String, Value>) -> Result<ListRequest, Failure> {
    let cwd = optional_string(params, "cwd")?.map(PathBuf::from);
    if cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(invalid_params("cwd", "must be an absolute path"));
    }
    Ok(ListRequest { cwd, cursor: optional_string(params, "cursor")?.map(str::to_owned) })
}

/// Params of `session/set_config_option`.
pub(crate) fn config_option(params: &Map<String, Value>) -> Result<(SessionId, ConfigId, String), Failure> {
    let session = session(params)?;
    let id = string(params, "configId")?;
    let id = [ConfigId::Mode, ConfigId::Model, ConfigId::Thought]
        .into_iter()
        .find(|known| known.as_str() == id)
        .ok_or_else(|| invalid_params("configId", "is not one of the session's options"))?;
    if optional_string(params, "type")? == Some("boolean") {
        return Err(invalid_params("type", "must not be boolean: the option is a choice of values"));
    }
    Ok((session, id, string(params, "value")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use diag_model::{Detail, ErrorCode};
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        object(value).unwrap()
    }

    #[test]
    fn new_session_params() {
        let good =
            json!({"cwd": "/w", "mcpServers": [], "additionalDirectories": [], "_meta": {}, "other": 1});
        assert_eq!(new_session(&mut map(good)).unwrap().cwd, PathBuf::from("/w"));
        let field = |value| {
            let failure = new_session(&mut map(value)).unwrap_err();
            assert!(!format!("{failure:?} {failure}").contains("CANARY"));
            (failure.code, failure.detail(Detail::Field).unwrap().to_owned())
        };
        let invalid = |name: &str| (ErrorCode::InvalidRequest, name.to_owned());
        assert_eq!(field(json!({"mcpServers": []})), invalid("cwd"));
        assert_eq!(field(json!({"cwd": {"CANARY": 1}, "mcpServers": []})), invalid("cwd"));
        assert_eq!(field(json!({"cwd": "/CANARY"})), invalid("mcpServers"));
        assert_eq!(field(json!({"cwd": "/CANARY", "mcpServers": null})), invalid("mcpServers"));
        assert_eq!(
            field(json!({"cwd": "/w", "mcpServers": [], "additionalDirectories": ["/CANARY"]})),
            invalid("additionalDirectories")
        );
        assert_eq!(
            field(json!({"cwd": "/w", "mcpServers": [], "systemPrompt": {"text": "CANARY"}})),
            invalid("systemPrompt")
        );
        assert_eq!(object(json!(["CANARY"])).unwrap_err().detail(Detail::Field), Some("params"));
    }

    #[test]
    fn what_a_client_can_do() {
        assert_eq!(profile(&json!({"protocolVersion": 1})), ClientProfile::default());
        let nothing = json!({"clientCapabilities": {
            "plan": null, "elicitation": {"url": {}}, "session": {"notices": true, "compaction": null},
            "_meta": {"terminal_output": "yes"}, "terminal": true,
        }});
        assert_eq!(profile(&nothing), ClientProfile::default());
        let everything = json!({"clientCapabilities": {
            "plan": {}, "elicitation": {"form": {}}, "session": {"notices": {}, "compaction": {}},
            "_meta": {"terminal_output": true},
        }});
        let all = ClientProfile {
            forms: true,
            plans: true,
            notices: true,
            compaction: true,
            terminal_output: true,
        };
        assert_eq!(profile(&everything), all);
    }

    #[test]
    fn opening_params() {
        let params = || json!({"sessionId": "s", "cwd": "/w"});
        let got = resume(&mut map(params())).unwrap();
        assert_eq!(got, OpenRequest { session: "s".into(), cwd: "/w".into(), mcp_servers: vec![] });
        let failure = load(&mut map(params())).unwrap_err();
        assert_eq!(failure.detail(Detail::Field), Some("mcpServers"));
        let mut with = params();
        with["mcpServers"] = json!([]);
        assert_eq!(load(&mut map(with.clone())).unwrap(), got);
        with["mcpServers"] = json!(null);
        for decode in [load, resume] {
            let failure = decode(&mut map(with.clone())).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some("mcpServers"));
            let failure = decode(&mut map(json!({"cwd": "/CANARY", "mcpServers": []}))).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some("sessionId"));
            let failure =
                decode(&mut map(json!({"sessionId": "CANARY", "cwd": 1, "mcpServers": []}))).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some("cwd"));
        }
    }

    #[test]
    fn listing_params() {
        assert_eq!(list(&Map::new()).unwrap(), ListRequest::default());
        let all = list(&map(json!({"cwd": null, "cursor": null}))).unwrap();
        assert_eq!(all, ListRequest::default());
        let cwd = if cfg!(windows) { "C:\\w" } else { "/w" };
        let got = list(&map(json!({"cwd": cwd, "cursor": "c"}))).unwrap();
        assert_eq!(got, ListRequest { cwd: Some(cwd.into()), cursor: Some("c".into()) });
        for (params, field) in [
            (json!({"cwd": "CANARY"}), "cwd"),
            (json!({"cwd": ["CANARY"]}), "cwd"),
            (json!({"cursor": 7}), "cursor"),
        ] {
            let failure = list(&map(params)).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some(field));
            assert!(!failure.message().contains("CANARY"));
        }
    }

    #[test]
    fn option_params() {
        let good = json!({"sessionId": "s", "configId": "thought_level", "value": "high"});
        assert_eq!(
            config_option(&map(good.clone())).unwrap(),
            ("s".into(), ConfigId::Thought, "high".into())
        );
        for (field, value) in [
            ("configId", json!("CANARY")),
            ("configId", json!({"CANARY": 1})),
            ("value", json!(true)),
            ("value", json!(null)),
            ("type", json!("boolean")),
            ("type", json!(["CANARY"])),
            ("sessionId", json!(1)),
        ] {
            let mut params = good.clone();
            params[field] = value;
            let failure = config_option(&map(params)).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some(field));
            assert!(!failure.message().contains("CANARY"));
        }
    }
}
