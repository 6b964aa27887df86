//! Requests of the client, decoded by hand.
//!
//! The SDK's decoder answers a malformed request with its whole params, prompts and secrets included. This one names the
//! field and the rule, and nothing else. Unknown fields are tolerated, as everywhere in the protocol.

use std::path::{Path, PathBuf};

use diag_model::{Detail, ErrorCode, Failure, SessionId, one_line};
use serde_json::{Map, Value};
use session_coordinator::model::{Attachment, AttachmentKind, AttachmentSource};
use session_coordinator::{NewSessionRequest, Prompt};
use url::Url;

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

/// The session a request is about.
pub(crate) fn session(params: &Map<String, Value>) -> Result<SessionId, Failure> {
    string(params, "sessionId").map(SessionId::from)
}

/// Params of `session/new`.
pub(crate) fn new_session(params: &Map<String, Value>) -> Result<NewSessionRequest, Failure> {
    let cwd = PathBuf::from(string(params, "cwd")?);
    match params.get("mcpServers") {
        Some(Value::Array(servers)) if servers.is_empty() => {}
        Some(Value::Array(_)) => {
            return Err(Failure::new(ErrorCode::McpUnsupported).with(Detail::Field, "mcpServers"));
        }
        Some(_) => return Err(invalid_params("mcpServers", "must be an array")),
        None => return Err(invalid_params("mcpServers", "is required; an empty array means none")),
    }
    match params.get("additionalDirectories") {
        None | Some(Value::Null) => {}
        Some(Value::Array(directories)) if directories.is_empty() => {}
        Some(_) => return Err(invalid_params("additionalDirectories", "is not offered by this agent")),
    }
    match params.get("systemPrompt") {
        None | Some(Value::Null) => {}
        Some(_) => return Err(invalid_params("systemPrompt", "is not offered by this agent")),
    }
    Ok(NewSessionRequest { cwd })
}

/// A prompt whose blocks are valid; the files it links have not been looked at yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Draft(Vec<Piece>);

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    File { path: PathBuf, name: String, uri: String, mime: Option<String>, fragment: Option<String> },
}

/// Validates the blocks of a prompt.
pub(crate) fn prompt(params: &Map<String, Value>) -> Result<Draft, Failure> {
    let blocks = match params.get("prompt") {
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(invalid_params("prompt", "must be an array of content blocks")),
        None => return Err(invalid_params("prompt", "is required")),
    };
    if blocks.is_empty() {
        return Err(invalid_content("prompt", "is empty", "send at least one content block"));
    }
    let pieces =
        blocks.iter().enumerate().map(|(index, block)| piece(index, block)).collect::<Result<Vec<_>, _>>()?;
    if pieces.iter().all(|piece| matches!(piece, Piece::Text(text) if text.trim().is_empty())) {
        return Err(invalid_content(
            "prompt[0]",
            "is an empty text block and nothing follows",
            "write a prompt",
        ));
    }
    Ok(Draft(pieces))
}

impl Draft {
    /// No file has to be looked at: [`Draft::resolve`] is then quick.
    pub(crate) fn is_text(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Looks at the linked files. Blocks on the file system, which may be a network.
    pub(crate) fn resolve(self) -> Prompt {
        let mut texts = Vec::new();
        let mut attachments = Vec::new();
        for piece in self.0 {
            match piece {
                Piece::Text(text) if text.is_empty() => {}
                Piece::Text(text) => texts.push(text),
                Piece::File { path, name, uri, mime, fragment } => match readable_size(&path) {
                    None => texts.push(format!("{name}: {uri} (not a readable file)")),
                    Some(size_bytes) => {
                        if let Some(fragment) = fragment {
                            texts.push(format!(
                                "{}#{fragment}",
                                file_name(&path).unwrap_or_else(|| name.clone())
                            ));
                        }
                        attachments.push(Attachment {
                            kind: AttachmentKind::File,
                            mime_type: mime.unwrap_or_else(|| mime_by_extension(&path).to_owned()),
                            filename: name,
                            source: AttachmentSource::Path(path),
                            size_bytes,
                        });
                    }
                },
            }
        }
        Prompt { text: texts.join("\n\n"), attachments }
    }
}

fn piece(index: usize, block: &Value) -> Result<Piece, Failure> {
    let at = format!("prompt[{index}]");
    let Value::Object(block) = block else {
        return Err(invalid_content(&at, "must be an object", "correct the named block"));
    };
    let kind = match block.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        _ => return Err(invalid_content(&at, "has no type", "correct the named block")),
    };
    match kind {
        "text" => Ok(Piece::Text(block_string(&at, block, "text")?.to_owned())),
        "resource_link" => resource_link(&at, block),
        // Only names the protocol knows are repeated.
        "image" | "audio" | "resource" => Err(invalid_content(
            &at,
            &format!("is of type {kind}, which this agent does not take"),
            "send text or resource links",
        )),
        _ => Err(invalid_content(&at, "is of an unknown type", "send text or resource links")),
    }
}

fn resource_link(at: &str, block: &Map<String, Value>) -> Result<Piece, Failure> {
    let uri = block_string(at, block, "uri")?;
    let name = one_line(block_string(at, block, "name")?);
    let scheme = uri.split(':').next().unwrap_or_default();
    if scheme.len() == uri.len() || !scheme.eq_ignore_ascii_case("file") {
        return Ok(Piece::Text(format!("{name}: {}", one_line(uri))));
    }
    let invalid = || {
        invalid_content(
            &format!("{at}.uri"),
            "must be an absolute file: URI of this machine",
            "correct the named block",
        )
    };
    // The parser would make `file:a/b` absolute.
    if !uri.get(scheme.len() + 1..).is_some_and(|rest| rest.starts_with('/')) {
        return Err(invalid());
    }
    let url = Url::parse(uri).map_err(|_| invalid())?;
    let path = url.to_file_path().map_err(|()| invalid())?;
    let name = if name.is_empty() { file_name(&path).unwrap_or_else(|| "file".to_owned()) } else { name };
    let mime = block.get("mimeType").and_then(Value::as_str).filter(|mime| is_mime(mime)).map(str::to_owned);
    let fragment = url.fragment().filter(|fragment| !fragment.is_empty()).map(one_line);
    Ok(Piece::File { path, name, uri: one_line(uri), mime, fragment })
}

fn block_string<'a>(at: &str, block: &'a Map<String, Value>, field: &str) -> Result<&'a str, Failure> {
    match block.get(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => {
            Err(invalid_content(&format!("{at}.{field}"), "must be a string", "correct the named block"))
        }
        None => Err(invalid_content(&format!("{at}.{field}"), "is required", "correct the named block")),
    }
}

fn invalid_content(field: &str, rule: &str, next: &str) -> Failure {
    Failure::new(ErrorCode::InvalidContent)
        .cause(format!("{field} {rule}"))
        .next_step(next)
        .with(Detail::Field, field)
}

/// The size of a file that can be opened; none for a directory, a device or what is missing. Only ordinary files are
/// opened: opening a pipe would wait for its other end.
fn readable_size(path: &Path) -> Option<u64> {
    // The host takes paths as text.
    path.to_str()?;
    let facts = std::fs::metadata(path).ok()?;
    if !facts.is_file() {
        return None;
    }
    std::fs::File::open(path).ok()?;
    Some(facts.len())
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| one_line(&name.to_string_lossy()))
}

fn is_mime(mime: &str) -> bool {
    let mut halves = mime.splitn(2, '/');
    let plain = |half: Option<&str>| {
        half.is_some_and(|half| !half.is_empty() && half.chars().all(|ch| ch.is_ascii_graphic()))
    };
    plain(halves.next()) && plain(halves.next())
}

/// The kinds a coding agent meets most; the host decides by content anyway.
fn mime_by_extension(path: &Path) -> &'static str {
    let extension =
        path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "txt" | "log" | "rs" | "py" | "go" | "c" | "h" | "cpp" | "hpp" | "java" | "kt" | "swift" | "rb"
        | "sh" | "sql" | "ts" | "tsx" | "jsx" | "vue" | "ini" | "cfg" | "conf" | "lock" | "diff"
        | "patch" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" | "cjs" => "text/javascript",
        "json" => "application/json",
        "toml" => "application/toml",
        "yaml" | "yml" => "application/yaml",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        object(value).unwrap()
    }

    fn draft(blocks: &Value) -> Result<Draft, Failure> {
        prompt(&map(json!({"sessionId": "s", "prompt": blocks})))
    }

    fn refused(blocks: &Value) -> (String, String) {
        let failure = draft(blocks).unwrap_err();
        assert!(!failure.message().contains("CANARY") && !format!("{failure:?}").contains("CANARY"));
        (failure.detail(Detail::Field).unwrap().to_owned(), failure.cause_text().to_owned())
    }

    #[test]
    fn texts_are_joined_with_a_blank_line() {
        let got = draft(
            &json!([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b\n"}]),
        );
        let got = got.unwrap();
        assert!(got.is_text());
        assert_eq!(got.resolve(), Prompt { text: "a\n\nb\n".into(), attachments: vec![] });
    }

    #[test]
    fn invalid_prompts_name_the_block() {
        assert_eq!(refused(&json!([])).0, "prompt");
        assert_eq!(refused(&json!([{"type": "text", "text": ""}])).0, "prompt[0]");
        assert_eq!(refused(&json!([{"type": "text", "text": " \n"}])).0, "prompt[0]");
        let text = json!({"type": "text", "text": "CANARY"});
        for kind in ["image", "audio", "resource"] {
            let (field, cause) =
                refused(&json!([text, {"type": kind, "data": "CANARY!", "mimeType": "image/png"}]));
            assert_eq!(field, "prompt[1]");
            assert!(cause.contains(kind), "{cause}");
        }
        assert_eq!(refused(&json!([text, {"type": "CANARY"}])).0, "prompt[1]");
        assert_eq!(refused(&json!([text, "CANARY"])).0, "prompt[1]");
        assert_eq!(refused(&json!([text, {"text": "CANARY"}])).0, "prompt[1]");
        assert_eq!(refused(&json!([{"type": "text", "text": {"CANARY": 1}}])).0, "prompt[0].text");
        assert_eq!(refused(&json!([{"type": "resource_link", "name": "CANARY"}])).0, "prompt[0].uri");
        assert_eq!(refused(&json!([{"type": "resource_link", "uri": "file:///CANARY"}])).0, "prompt[0].name");
        assert_eq!(
            refused(&json!([text, {"type": "resource_link", "name": "n", "uri": "file:CANARY/a"}])).0,
            "prompt[1].uri"
        );
        assert_eq!(
            refused(&json!([text, {"type": "resource_link", "name": "n", "uri": "FILE:CANARY"}])).0,
            "prompt[1].uri"
        );
        if cfg!(unix) {
            let foreign =
                json!([text, {"type": "resource_link", "name": "n", "uri": "file://CANARY.example/a"}]);
            assert_eq!(refused(&foreign).0, "prompt[1].uri");
        }
        let failure = prompt(&map(json!({"prompt": "CANARY"}))).unwrap_err();
        assert_eq!(failure.detail(Detail::Field), Some("prompt"));
    }

    #[test]
    fn a_linked_file_becomes_an_attachment_and_its_fragment_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b.txt");
        std::fs::write(&path, "hello").unwrap();
        let uri = Url::from_file_path(&path).unwrap();
        assert!(uri.as_str().contains("a%20b.txt"));
        let got = draft(&json!([
            {"type": "text", "text": "look at"},
            {"type": "resource_link", "name": "notes", "uri": format!("{uri}#L10:20")},
            {"type": "text", "text": "and say"},
            {"type": "resource_link", "name": "", "uri": uri.as_str(), "mimeType": "text/x-special"},
        ]));
        let got = got.unwrap();
        assert!(!got.is_text());
        let got = got.resolve();
        assert_eq!(got.text, "look at\n\na b.txt#L10:20\n\nand say");
        let attachment = |filename: &str, mime: &str| Attachment {
            kind: AttachmentKind::File,
            filename: filename.into(),
            mime_type: mime.into(),
            source: AttachmentSource::Path(path.clone()),
            size_bytes: 5,
        };
        assert_eq!(
            got.attachments,
            [attachment("notes", "text/plain"), attachment("a b.txt", "text/x-special")]
        );
    }

    #[test]
    fn what_cannot_be_attached_becomes_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Url::from_directory_path(dir.path()).unwrap();
        let missing = Url::from_file_path(dir.path().join("none.txt")).unwrap();
        let got = draft(&json!([
            {"type": "resource_link", "name": "dir", "uri": directory.as_str()},
            {"type": "resource_link", "name": "gone\nfile", "uri": format!("{missing}#L1")},
            {"type": "resource_link", "name": "page", "uri": "https://example.org/x?y#z"},
            {"type": "resource_link", "name": "odd", "uri": "no-scheme"},
        ]));
        let got = got.unwrap().resolve();
        assert_eq!(got.attachments, []);
        assert_eq!(
            got.text,
            format!(
                "dir: {directory} (not a readable file)\n\ngone file: {missing}#L1 (not a readable file)\n\n\
                 page: https://example.org/x?y#z\n\nodd: no-scheme"
            )
        );
    }

    #[test]
    fn new_session_params() {
        let good =
            json!({"cwd": "/w", "mcpServers": [], "additionalDirectories": [], "_meta": {}, "other": 1});
        assert_eq!(new_session(&map(good)).unwrap().cwd, PathBuf::from("/w"));
        let field = |value| {
            let failure = new_session(&map(value)).unwrap_err();
            assert!(!format!("{failure:?} {failure}").contains("CANARY"));
            (failure.code, failure.detail(Detail::Field).unwrap().to_owned())
        };
        let invalid = |name: &str| (ErrorCode::InvalidRequest, name.to_owned());
        assert_eq!(field(json!({"mcpServers": []})), invalid("cwd"));
        assert_eq!(field(json!({"cwd": {"CANARY": 1}, "mcpServers": []})), invalid("cwd"));
        assert_eq!(field(json!({"cwd": "/CANARY"})), invalid("mcpServers"));
        assert_eq!(field(json!({"cwd": "/CANARY", "mcpServers": null})), invalid("mcpServers"));
        let server = json!({"name": "CANARY", "command": "/CANARY", "args": [], "env": [{"name": "K", "value": "CANARY"}]});
        assert_eq!(
            field(json!({"cwd": "/w", "mcpServers": [server]})),
            (ErrorCode::McpUnsupported, "mcpServers".to_owned())
        );
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
}
