//! The content blocks of a prompt, checked and made into text and attachments.
//!
//! Base64 is checked where it stands and handed on as it is: nothing is decoded, and beside the line it came in there is
//! one copy of it. An error names the block and the rule, never the content.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use diag_model::{Detail, ErrorCode, Failure, one_line};
use serde_json::{Map, Value};
use session_coordinator::Prompt;
use session_coordinator::model::{Attachment, AttachmentKind, AttachmentSource};
use url::Url;

use crate::error_map::invalid_params;

/// A prompt whose blocks are valid; the files it links have not been looked at yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Draft(Vec<Piece>);

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    File { path: PathBuf, name: String, uri: String, mime: Option<String>, fragment: Option<String> },
    Data(Attachment),
}

/// Validates the blocks of a prompt, and takes them out of the params.
pub(crate) fn prompt(params: &mut Map<String, Value>) -> Result<Draft, Failure> {
    let blocks = match params.remove("prompt") {
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(invalid_params("prompt", "must be an array of content blocks")),
        None => return Err(invalid_params("prompt", "is required")),
    };
    if blocks.is_empty() {
        return Err(invalid_content("prompt", "is empty", "send at least one content block"));
    }
    let pieces = blocks
        .into_iter()
        .enumerate()
        .map(|(index, block)| piece(index, block))
        .collect::<Result<Vec<_>, _>>()?;
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
    pub(crate) fn is_at_hand(&self) -> bool {
        !self.0.iter().any(|piece| matches!(piece, Piece::File { .. }))
    }

    /// Looks at the linked files. Blocks on the file system, which may be a network.
    pub(crate) fn resolve(self) -> Prompt {
        let mut texts = Vec::new();
        let mut attachments = Vec::new();
        for piece in self.0 {
            match piece {
                Piece::Text(text) if text.is_empty() => {}
                Piece::Text(text) => texts.push(text),
                Piece::Data(attachment) => attachments.push(attachment),
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

fn piece(index: usize, block: Value) -> Result<Piece, Failure> {
    let at = format!("prompt[{index}]");
    let Value::Object(mut block) = block else {
        return Err(invalid_content(&at, "must be an object", "correct the named block"));
    };
    let Some(Value::String(kind)) = block.remove("type") else {
        return Err(invalid_content(&at, "has no type", "correct the named block"));
    };
    match kind.as_str() {
        "text" => Ok(Piece::Text(take_string(&at, &mut block, "text")?)),
        "image" => media(&at, block, AttachmentKind::Image, "image"),
        "audio" => media(&at, block, AttachmentKind::Audio, "audio"),
        "resource_link" => resource_link(&at, &block),
        "resource" => resource(&at, block),
        _ => Err(invalid_content(
            &at,
            "is of an unknown type",
            "send text, images, audio, resources or resource links",
        )),
    }
}

fn media(at: &str, mut block: Map<String, Value>, kind: AttachmentKind, top: &str) -> Result<Piece, Failure> {
    let mime = block_string(at, &block, "mimeType")?;
    if !is_mime(mime) || mime.split('/').next().is_none_or(|half| !half.eq_ignore_ascii_case(top)) {
        return Err(invalid_content(
            &format!("{at}.mimeType"),
            &format!("must be an {top} type"),
            "correct the named block",
        ));
    }
    let mime = mime.to_owned();
    let (data, size_bytes) = take_base64(at, &mut block, "data")?;
    let extension = mime.split(['/', '+', ';']).nth(1).unwrap_or("bin").to_ascii_lowercase();
    let name = block.get("uri").and_then(Value::as_str).map(one_line).filter(|uri| !uri.is_empty());
    Ok(Piece::Data(Attachment {
        kind,
        filename: name.unwrap_or_else(|| format!("{top}.{extension}")),
        mime_type: mime,
        source: AttachmentSource::Base64(data),
        size_bytes,
    }))
}

fn resource(at: &str, mut block: Map<String, Value>) -> Result<Piece, Failure> {
    let at = format!("{at}.resource");
    let mut resource = match block.remove("resource") {
        Some(Value::Object(resource)) => resource,
        Some(_) => return Err(invalid_content(&at, "must be an object", "correct the named block")),
        None => return Err(invalid_content(&at, "is required", "correct the named block")),
    };
    let uri = one_line(block_string(&at, &resource, "uri")?);
    let mime =
        resource.get("mimeType").and_then(Value::as_str).filter(|mime| is_mime(mime)).map(str::to_owned);
    let (data, size_bytes, other) = if resource.contains_key("text") {
        let text = take_string(&at, &mut resource, "text")?;
        (Arc::from(STANDARD.encode(&text)), text.len() as u64, "text/plain")
    } else if resource.contains_key("blob") {
        let (data, size) = take_base64(&at, &mut resource, "blob")?;
        (data, size, "application/octet-stream")
    } else {
        return Err(invalid_content(&at, "has neither text nor blob", "correct the named block"));
    };
    Ok(Piece::Data(Attachment {
        kind: AttachmentKind::File,
        filename: if uri.is_empty() { "resource".to_owned() } else { uri },
        mime_type: mime.unwrap_or_else(|| other.to_owned()),
        source: AttachmentSource::Base64(data),
        size_bytes,
    }))
}

/// Base64 that says something, and the size of what it says.
fn take_base64(at: &str, block: &mut Map<String, Value>, field: &str) -> Result<(Arc<str>, u64), Failure> {
    let data = take_string(at, block, field)?;
    match decoded_size(&data) {
        Some(size) => Ok((Arc::from(data), size)),
        None => Err(invalid_content(
            &format!("{at}.{field}"),
            "must be base64 and not empty",
            "correct the named block",
        )),
    }
}

/// The number of bytes in a base64 text of the standard alphabet with its padding; none if it is anything else or empty.
fn decoded_size(data: &str) -> Option<u64> {
    let bytes = data.as_bytes();
    let body = bytes.strip_suffix(b"==").or_else(|| bytes.strip_suffix(b"=")).unwrap_or(bytes);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let valid = !body.is_empty() && bytes.len().is_multiple_of(4) && body.iter().all(plain);
    valid.then(|| (body.len() as u64 * 6) / 8)
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

fn take_string(at: &str, block: &mut Map<String, Value>, field: &str) -> Result<String, Failure> {
    match block.remove(field) {
        Some(Value::String(text)) => Ok(text),
        other => {
            let rule = if other.is_some() { "must be a string" } else { "is required" };
            Err(invalid_content(&format!("{at}.{field}"), rule, "correct the named block"))
        }
    }
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        crate::convert::from_acp::object(value).unwrap()
    }

    fn draft(blocks: &Value) -> Result<Draft, Failure> {
        prompt(&mut map(json!({"sessionId": "s", "prompt": blocks})))
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
        assert!(got.is_at_hand());
        assert_eq!(got.resolve(), Prompt { text: "a\n\nb\n".into(), attachments: vec![] });
    }

    #[test]
    fn invalid_prompts_name_the_block() {
        assert_eq!(refused(&json!([])).0, "prompt");
        assert_eq!(refused(&json!([{"type": "text", "text": ""}])).0, "prompt[0]");
        assert_eq!(refused(&json!([{"type": "text", "text": " \n"}])).0, "prompt[0]");
        let text = json!({"type": "text", "text": "CANARY"});
        for (block, field) in [
            (json!({"type": "image", "data": "CANARY!", "mimeType": "image/png"}), ".data"),
            (json!({"type": "image", "data": "", "mimeType": "image/png"}), ".data"),
            (json!({"type": "image", "data": ["CANARY"], "mimeType": "image/png"}), ".data"),
            (json!({"type": "image", "mimeType": "image/png"}), ".data"),
            (json!({"type": "image", "data": "AAAA"}), ".mimeType"),
            (json!({"type": "image", "data": "AAAA", "mimeType": "CANARY"}), ".mimeType"),
            (json!({"type": "image", "data": "AAAA", "mimeType": "text/CANARY"}), ".mimeType"),
            (json!({"type": "audio", "data": "AAA", "mimeType": "audio/wav"}), ".data"),
            (json!({"type": "audio", "data": "AAAA", "mimeType": "image/png"}), ".mimeType"),
            (json!({"type": "resource"}), ".resource"),
            (json!({"type": "resource", "resource": "CANARY"}), ".resource"),
            (json!({"type": "resource", "resource": {"uri": "file:///CANARY"}}), ".resource"),
            (json!({"type": "resource", "resource": {"text": "CANARY"}}), ".resource.uri"),
            (json!({"type": "resource", "resource": {"uri": "u", "text": ["CANARY"]}}), ".resource.text"),
            (json!({"type": "resource", "resource": {"uri": "u", "blob": "CANARY="}}), ".resource.blob"),
        ] {
            assert_eq!(refused(&json!([text, block])).0, format!("prompt[1]{field}"), "{block}");
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
        let failure = prompt(&mut map(json!({"prompt": "CANARY"}))).unwrap_err();
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
        assert!(!got.is_at_hand());
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
    fn images_sounds_and_resources_become_attachments() {
        let got = draft(&json!([
            {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///w/a.png"},
            {"type": "audio", "data": "aGkh", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///w/a.rs", "text": "fn a() {}\n", "mimeType": "text/x-rust"}},
            {"type": "resource", "resource": {"uri": "mem:b", "text": ""}},
            {"type": "resource", "resource": {"uri": "mem:c", "blob": "aA=="}},
            {"type": "text", "text": "look"},
        ]));
        let got = got.unwrap();
        assert!(got.is_at_hand());
        let got = got.resolve();
        assert_eq!(got.text, "look");
        let attachment = |kind, filename: &str, mime: &str, data: &str, size_bytes| Attachment {
            kind,
            filename: filename.into(),
            mime_type: mime.into(),
            source: AttachmentSource::Base64(data.into()),
            size_bytes,
        };
        assert_eq!(
            got.attachments,
            [
                attachment(AttachmentKind::Image, "file:///w/a.png", "image/png", "aGk=", 2),
                attachment(AttachmentKind::Audio, "audio.wav", "audio/wav", "aGkh", 3),
                attachment(AttachmentKind::File, "file:///w/a.rs", "text/x-rust", "Zm4gYSgpIHt9Cg==", 10),
                attachment(AttachmentKind::File, "mem:b", "text/plain", "", 0),
                attachment(AttachmentKind::File, "mem:c", "application/octet-stream", "aA==", 1),
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn the_size_of_base64_is_that_of_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 1..40)) {
            prop_assert_eq!(decoded_size(&STANDARD.encode(&bytes)), Some(bytes.len() as u64));
        }

        #[test]
        fn what_is_no_base64_has_no_size(data in "[A-Za-z0-9+/=_ \n-]{0,12}") {
            let engine = base64::engine::GeneralPurpose::new(
                &base64::alphabet::STANDARD,
                base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
            );
            let decoded = engine.decode(&data).ok().filter(|bytes| !bytes.is_empty());
            prop_assert_eq!(decoded_size(&data), decoded.map(|bytes| bytes.len() as u64));
        }
    }
}
