//! Writes an asar archive as Electron's packer does: pickled JSON header with integrity blocks, then the files.
//!
//! Written from the format and not with the reader of the product, so that the two check each other.

use std::io;

use serde_json::{Map, Value, json};

use super::sha256;

/// A file the archive only mentions; it lies beside it, as native modules do.
pub(super) const UNPACKED: &str = "node_modules/native/native.node";
/// Its content.
pub(super) const UNPACKED_BYTES: &[u8] = b"not a real module";

const BLOCK: usize = 4 * 1024 * 1024;

/// Archive of `files` (path with `/`, content) in the given order.
pub(super) fn write(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let mut root = Map::new();
    let mut body = Vec::new();
    for (path, content) in files {
        let blocks: Vec<String> = content.chunks(BLOCK).map(sha256).collect();
        let entry = json!({
            "size": content.len(),
            "offset": body.len().to_string(),
            "integrity": { "algorithm": "SHA256", "hash": sha256(content), "blockSize": BLOCK, "blocks": blocks },
        });
        insert(&mut root, path, entry);
        body.extend_from_slice(content);
    }
    insert(&mut root, UNPACKED, json!({ "size": UNPACKED_BYTES.len(), "unpacked": true }));

    let header = serde_json::to_vec(&json!({ "files": root }))?;
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    let padded = length.next_multiple_of(4);
    let mut archive = Vec::with_capacity(16 + padded as usize + body.len());
    // A pickle holding the size of the header pickle, then the header pickle: payload size, string length, string.
    for word in [4, padded + 8, padded + 4, length] {
        archive.extend_from_slice(&word.to_le_bytes());
    }
    archive.extend_from_slice(&header);
    archive.resize(16 + padded as usize, 0);
    archive.extend_from_slice(&body);
    Ok(archive)
}

fn insert(directory: &mut Map<String, Value>, path: &str, entry: Value) {
    match path.split_once('/') {
        None => {
            directory.insert(path.to_owned(), entry);
        }
        Some((first, rest)) => {
            let child = directory.entry(first).or_insert_with(|| json!({ "files": {} }));
            if let Some(files) = child.get_mut("files").and_then(Value::as_object_mut) {
                insert(files, rest, entry);
            }
        }
    }
}
