//! The header of an asar archive as a pure function of bytes: it never reads a file and never panics.
//!
//! Layout: `u32 4 | u32 pickle size | u32 payload size | u32 JSON length | JSON | padding`, little-endian; file data starts
//! at `8 + pickle size`. Electron's reader finds the JSON through the payload size, so sizes that do not agree exactly are
//! refused: otherwise it and this reader could see two different headers in one file.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Deserializer;

use super::AsarError;

/// Bytes before the JSON.
pub(super) const PREFIX: usize = 16;

/// Largest header that is read.
pub(super) const HEADER_LIMIT: u64 = 64 * 1024 * 1024;

/// Most files and folders a header may list.
const ENTRY_LIMIT: usize = 500_000;

/// Deepest nesting of folders. The JSON parser's own limit is 128 levels, two for each folder.
const DEPTH_LIMIT: usize = 60;

/// Longest name of one file or folder, in bytes.
const NAME_LIMIT: usize = 1024;

/// Sizes at the start of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Length of the JSON.
    pub json_len: u32,
    /// Where file data begins.
    pub data_start: u64,
}

impl Prefix {
    /// Reads the first 16 bytes.
    pub fn parse(bytes: &[u8; PREFIX]) -> Result<Self, AsarError> {
        let mut words = bytes.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
        let mut next = || words.next().unwrap_or_default();
        let (size_of_size, pickle, payload, json_len) = (next(), next(), next(), next());
        if size_of_size != 4 {
            return Err(AsarError::NotAnArchive);
        }
        if u64::from(pickle) > HEADER_LIMIT {
            return Err(AsarError::Limit("the header is too large"));
        }
        let padded = u64::from(json_len).next_multiple_of(4);
        if u64::from(pickle) != u64::from(payload) + 4 || u64::from(payload) != padded + 4 {
            return Err(AsarError::Malformed("the header's sizes do not agree".to_owned()));
        }
        Ok(Self { json_len, data_start: 8 + u64::from(pickle) })
    }
}

/// What an archive says about one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A folder.
    Directory,
    /// A file whose bytes are in the archive.
    Packed {
        /// Offset from the start of file data.
        offset: u64,
        /// Length.
        size: u64,
    },
    /// A file beside the archive.
    Unpacked {
        /// Length.
        size: u64,
    },
    /// A symbolic link.
    Link,
    /// Members that do not go together.
    Contradictory,
}

/// The parsed header: every name with its full path, `/` as separator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    nodes: BTreeMap<String, Node>,
}

impl Header {
    /// Parses the JSON part.
    pub fn parse(json: &[u8]) -> Result<Self, AsarError> {
        let mut header = Header::default();
        let mut deserializer = Deserializer::from_slice(json);
        let root = NodeSeed { nodes: &mut header.nodes, path: String::new(), depth: 0 };
        let kind =
            root.deserialize(&mut deserializer).map_err(|error| AsarError::Malformed(error.to_string()))?;
        deserializer.end().map_err(|error| AsarError::Malformed(error.to_string()))?;
        if kind != Node::Directory {
            return Err(AsarError::Malformed("the header has no list of files".to_owned()));
        }
        Ok(header)
    }

    /// What the archive says about a path.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Number of files and folders.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Reads one node and puts everything below it into the map; the node itself is returned.
struct NodeSeed<'a> {
    nodes: &'a mut BTreeMap<String, Node>,
    path: String,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file or folder entry")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Node, A::Error> {
        let (mut files, mut size, mut offset, mut unpacked, mut link) = (None, None, None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let twice = match key.as_str() {
                "files" => {
                    let seed = FilesSeed { nodes: &mut *self.nodes, path: &self.path, depth: self.depth };
                    files.replace(map.next_value_seed(seed)?).is_some()
                }
                "size" => size.replace(map.next_value::<u64>()?).is_some(),
                "offset" => offset.replace(decimal(&map.next_value::<String>()?)?).is_some(),
                "unpacked" => unpacked.replace(map.next_value::<bool>()?).is_some(),
                "link" => link.replace(map.next_value::<IgnoredAny>()?).is_some(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if twice {
                return Err(de::Error::custom(format_args!("`{key}` twice in one entry")));
            }
        }
        self.path.clear();
        let unpacked = unpacked.unwrap_or(false);
        Ok(match (files, link, size, offset) {
            // An unpacked folder carries the mark too.
            (Some(()), None, None, None) => Node::Directory,
            (None, Some(_), None, None) => Node::Link,
            (None, None, Some(size), Some(offset)) if !unpacked => Node::Packed { offset, size },
            (None, None, Some(size), None) if unpacked => Node::Unpacked { size },
            _ => Node::Contradictory,
        })
    }
}

struct FilesSeed<'a> {
    nodes: &'a mut BTreeMap<String, Node>,
    path: &'a str,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for FilesSeed<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FilesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of files by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.depth + 1;
        if depth > DEPTH_LIMIT {
            return Err(de::Error::custom("folders are nested too deeply"));
        }
        while let Some(name) = map.next_key::<String>()? {
            if name.is_empty()
                || name == "."
                || name == ".."
                || name.contains(['/', '\0'])
                || name.len() > NAME_LIMIT
            {
                return Err(de::Error::custom(format_args!("`{}` cannot be a name", name.escape_debug())));
            }
            let path = if self.path.is_empty() { name } else { format!("{}/{name}", self.path) };
            if self.nodes.len() >= ENTRY_LIMIT {
                return Err(de::Error::custom("too many entries"));
            }
            // Claimed before its content is read, so that a second entry of the name is seen whatever is in it.
            if self.nodes.insert(path.clone(), Node::Contradictory).is_some() {
                return Err(de::Error::custom(format_args!("`{}` is there twice", path.escape_debug())));
            }
            let seed = NodeSeed { nodes: &mut *self.nodes, path: path.clone(), depth };
            let node = map.next_value_seed(seed)?;
            self.nodes.insert(path, node);
        }
        Ok(())
    }
}

/// Digits only: signs and blanks, which number parsers accept differently, are refused.
fn decimal<E: de::Error>(text: &str) -> Result<u64, E> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => Err(E::custom("an offset must be decimal digits")),
    }
}
