//! MCP servers of the client, checked and brought into the host's strict shape.
//!
//! The host refuses fields it does not know, so only the known ones go through. An error names the entry and the rule;
//! values are never repeated: they hold credentials.

use std::collections::HashSet;

use diag_model::{Detail, ErrorCode, Failure};
use serde_json::{Map, Value, json};
use url::Url;

use crate::error_map::invalid_params;

/// Servers a session may bring.
const LIMIT: usize = 64;

/// The servers of `mcpServers`, in the host's shape.
pub(crate) fn servers(value: Option<Value>) -> Result<Vec<Value>, Failure> {
    let Some(Value::Array(entries)) = value else {
        return Err(invalid_params("mcpServers", "must be an array"));
    };
    if entries.len() > LIMIT {
        return Err(invalid_params("mcpServers", "must have at most 64 entries"));
    }
    let mut names = HashSet::new();
    let mut servers = Vec::with_capacity(entries.len());
    for (index, entry) in entries.into_iter().enumerate() {
        let at = format!("mcpServers[{index}]");
        let Value::Object(mut entry) = entry else {
            return Err(invalid_params(&at, "must be an object"));
        };
        let name = text(&at, &mut entry, "name")?;
        if !names.insert(name.clone()) {
            return Err(invalid_params(&format!("{at}.name"), "is the name of an earlier entry"));
        }
        servers.push(server(&at, &name, entry)?);
    }
    Ok(servers)
}

fn server(at: &str, name: &str, mut entry: Map<String, Value>) -> Result<Value, Failure> {
    let kind = match entry.remove("type") {
        None | Some(Value::Null) => "stdio",
        Some(Value::String(kind)) => match kind.as_str() {
            "stdio" => "stdio",
            "http" => "http",
            "sse" => "sse",
            "acp" => {
                let field = format!("{at}.type");
                return Err(Failure::new(ErrorCode::McpUnsupported)
                    .cause(format!("{field} is acp, which this agent does not take"))
                    .next_step("use a stdio, http or sse server")
                    .with(Detail::Field, field));
            }
            _ => return Err(invalid_params(&format!("{at}.type"), "must be stdio, http or sse")),
        },
        Some(_) => return Err(invalid_params(&format!("{at}.type"), "must be a string")),
    };
    if kind == "stdio" {
        let command = text(at, &mut entry, "command")?;
        let args = args(at, entry.remove("args"))?;
        let env = pairs(at, "env", entry.remove("env"))?;
        return Ok(json!({"name": name, "command": command, "args": args, "env": env}));
    }
    let url = text(at, &mut entry, "url")?;
    let parsed =
        Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if parsed.is_none() {
        return Err(invalid_params(&format!("{at}.url"), "must be an http or https URL"));
    }
    let headers = pairs(at, "headers", entry.remove("headers"))?;
    Ok(json!({"name": name, "type": kind, "url": url, "headers": headers}))
}

/// A required string that says something.
fn text(at: &str, entry: &mut Map<String, Value>, field: &str) -> Result<String, Failure> {
    let rule = match entry.remove(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => return Ok(text),
        Some(Value::String(_)) => "must not be empty",
        Some(_) => "must be a string",
        None => "is required",
    };
    Err(invalid_params(&format!("{at}.{field}"), rule))
}

fn args(at: &str, value: Option<Value>) -> Result<Vec<Value>, Failure> {
    let invalid = || invalid_params(&format!("{at}.args"), "must be an array of strings");
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(args)) if args.iter().all(Value::is_string) => Ok(args),
        Some(_) => Err(invalid()),
    }
}

/// Environment variables or headers.
fn pairs(at: &str, field: &str, value: Option<Value>) -> Result<Vec<Value>, Failure> {
    let invalid = || {
        let rule = "must be an array of objects with name and value as strings, with names and values that are possible there";
        invalid_params(&format!("{at}.{field}"), rule)
    };
    // A line break in a header would begin another one; an equals sign would move the border of a variable's name.
    let breaks = ['\r', '\n', '\0'];
    let fits = |name: &str, value: &str| match field {
        "headers" => !name.contains(':') && !name.contains(breaks) && !value.contains(breaks),
        _ => !name.contains('=') && !name.contains('\0') && !value.contains('\0'),
    };
    let pair = |value: Value| {
        let Value::Object(mut pair) = value else { return Err(invalid()) };
        match (pair.remove("name"), pair.remove("value")) {
            (Some(Value::String(name)), Some(Value::String(value)))
                if !name.is_empty() && fits(&name, &value) =>
            {
                Ok(json!({"name": name, "value": value}))
            }
            _ => Err(invalid()),
        }
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(pairs)) => pairs.into_iter().map(pair).collect(),
        Some(_) => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_forwarded_strict_and_stripped() {
        let meta = json!({"x": 1});
        let got = servers(Some(json!([
            {"type": "stdio", "name": "a", "command": "/bin/a", "args": ["-v"], "env": [{"name": "K", "value": "V", "_meta": meta}], "_meta": meta},
            {"name": "b", "command": "b", "args": [], "env": [], "extra": 1},
            {"type": "http", "name": "c", "url": "https://example.org/mcp", "headers": [{"name": "Authorization", "value": "t"}], "_meta": meta},
            {"type": "sse", "name": "d", "url": "http://localhost:1/sse"},
        ])))
        .unwrap();
        assert_eq!(
            Value::from(got),
            json!([
                {"name": "a", "command": "/bin/a", "args": ["-v"], "env": [{"name": "K", "value": "V"}]},
                {"name": "b", "command": "b", "args": [], "env": []},
                {"name": "c", "type": "http", "url": "https://example.org/mcp", "headers": [{"name": "Authorization", "value": "t"}]},
                {"name": "d", "type": "sse", "url": "http://localhost:1/sse", "headers": []},
            ])
        );
    }

    #[test]
    fn an_invalid_server_is_named_by_its_index_and_nothing_is_repeated() {
        let good = json!({"name": "CANARY", "command": "/CANARY", "args": ["CANARY"], "env": [{"name": "K", "value": "CANARY"}]});
        let remote = json!({"type": "http", "name": "r", "url": "https://CANARY@example.org"});
        let change = |base: &Value, field: &str, value: Value| {
            let mut entry = base.clone();
            entry["name"] = "second".into();
            entry[field] = value;
            entry
        };
        for (entry, field) in [
            (json!("CANARY"), ""),
            (change(&good, "name", json!(" ")), ".name"),
            (change(&good, "name", json!(["CANARY"])), ".name"),
            (change(&good, "name", json!("CANARY")), ".name"),
            (change(&good, "type", json!("CANARY")), ".type"),
            (change(&good, "type", json!("acp")), ".type"),
            (change(&good, "type", json!({"CANARY": 1})), ".type"),
            (change(&good, "command", json!("")), ".command"),
            (change(&good, "command", json!(["CANARY"])), ".command"),
            (change(&good, "args", json!("CANARY")), ".args"),
            (change(&good, "args", json!(["CANARY", 1])), ".args"),
            (change(&good, "env", json!({"K": "CANARY"})), ".env"),
            (change(&good, "env", json!([{"name": "K", "value": 1}])), ".env"),
            (change(&good, "env", json!([{"name": "", "value": "CANARY"}])), ".env"),
            (change(&good, "env", json!([{"name": "A=B", "value": "CANARY"}])), ".env"),
            (change(&remote, "headers", json!([{"name": "A\r\nB", "value": "CANARY"}])), ".headers"),
            (change(&remote, "headers", json!([{"name": "A", "value": "CANARY\nB: c"}])), ".headers"),
            (change(&remote, "url", json!("ftp://CANARY")), ".url"),
            (change(&remote, "url", json!("CANARY")), ".url"),
            (change(&remote, "headers", json!({"K": "CANARY"})), ".headers"),
            (json!({"type": "sse", "name": "second"}), ".url"),
            (json!({"name": "second"}), ".command"),
        ] {
            let failure = servers(Some(json!([good, entry]))).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some(&*format!("mcpServers[1]{field}")), "{entry}");
            assert!(!format!("{failure:?} {failure}").contains("CANARY"), "{failure}");
            assert_eq!(crate::error_map::to_error(&failure).code.value(), -32602);
        }
        for value in [None, Some(json!(null)), Some(json!({"CANARY": 1})), Some(json!(vec![good; 65]))] {
            let failure = servers(value).unwrap_err();
            assert_eq!(failure.detail(Detail::Field), Some("mcpServers"));
        }
    }
}
