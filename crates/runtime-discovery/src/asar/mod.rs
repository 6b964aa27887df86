//! Reads Electron's app archives: finds a file in one and hashes it without extracting anything.
//!
//! Archives are hundreds of megabytes, so only the header is held in memory, within limits. The reader trusts nothing in
//! it: names, sizes and offsets are checked before use, links are not followed, and files beside the archive must lie in
//! their folder. Deliberately absent: writing, extracting, and Electron's integrity member (the contract's digests decide).

mod header;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub use header::{Header, Node, Prefix};

use crate::digest::Sha256Digest;
use crate::layout::below;

/// Largest file that is read out of an archive.
const ENTRY_SIZE_LIMIT: u64 = 1024 * 1024 * 1024;

/// Why an archive or a file in it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AsarError {
    /// The operating system refused.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It does not begin like an archive.
    #[error("it is not an asar archive")]
    NotAnArchive,
    /// The header is wrong.
    #[error("its header is malformed: {0}")]
    Malformed(String),
    /// Larger than this program is willing to read.
    #[error("{0}")]
    Limit(&'static str),
    /// The file is not listed.
    #[error("it has no {0}")]
    Missing(String),
    /// The name is listed and is not a plain file.
    #[error("{path} is {what}, not a plain file")]
    NotAFile {
        /// The path asked for.
        path: String,
        /// What it is instead.
        what: &'static str,
    },
    /// The bytes would lie outside the archive.
    #[error("{0} lies outside the archive")]
    OutOfBounds(String),
}

/// A plain file in or beside an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path inside the archive.
    pub path: String,
    /// Length.
    pub size: u64,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Absolute offset in the archive.
    At(u64),
    /// A file of its own.
    Beside(PathBuf),
}

/// An open archive.
#[derive(Debug)]
pub struct Asar {
    file: File,
    size: u64,
    data_start: u64,
    header: Header,
    unpacked: PathBuf,
}

impl Asar {
    /// Opens an archive and reads its header.
    pub fn open(path: &Path) -> Result<Self, AsarError> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut prefix = [0_u8; header::PREFIX];
        match file.read_exact(&mut prefix) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(AsarError::NotAnArchive);
            }
            other => other?,
        }
        let prefix = Prefix::parse(&prefix)?;
        if prefix.data_start > size {
            return Err(AsarError::Malformed("the header is longer than the file".to_owned()));
        }
        let mut json = Vec::new();
        (&file).take(u64::from(prefix.json_len)).read_to_end(&mut json)?;
        let mut unpacked = path.as_os_str().to_owned();
        unpacked.push(".unpacked");
        Ok(Self {
            header: Header::parse(&json)?,
            file,
            size,
            data_start: prefix.data_start,
            unpacked: PathBuf::from(unpacked),
        })
    }

    /// Length of the archive.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where file data begins.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// What the archive lists.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Finds a plain file.
    pub fn entry(&self, path: &str) -> Result<Entry, AsarError> {
        let not_a_file = |what| AsarError::NotAFile { path: path.to_owned(), what };
        let (size, place) = match self.header.get(path) {
            None => return Err(AsarError::Missing(path.to_owned())),
            Some(Node::Directory) => return Err(not_a_file("a folder")),
            Some(Node::Link) => return Err(not_a_file("a link")),
            Some(Node::Contradictory) => return Err(not_a_file("described in a contradictory way")),
            Some(Node::Packed { offset, size }) => {
                let outside = || AsarError::OutOfBounds(path.to_owned());
                let start = self.data_start.checked_add(*offset).ok_or_else(outside)?;
                let end = start.checked_add(*size).ok_or_else(outside)?;
                if end > self.size {
                    return Err(outside());
                }
                (*size, Place::At(start))
            }
            Some(Node::Unpacked { size }) => (*size, Place::Beside(self.beside(path)?)),
        };
        if size > ENTRY_SIZE_LIMIT {
            return Err(AsarError::Limit("a file in it is too large"));
        }
        Ok(Entry { path: path.to_owned(), size, place })
    }

    /// The file beside the archive, which must really lie in the archive's own folder for such files.
    fn beside(&self, path: &str) -> Result<PathBuf, AsarError> {
        let folder = dunce::canonicalize(&self.unpacked)?;
        let mut expected = dunce::canonicalize(parent(&self.unpacked))?;
        expected.extend(self.unpacked.file_name());
        let file = dunce::canonicalize(below(&folder, path))?;
        if folder != expected || !file.starts_with(&folder) {
            return Err(AsarError::OutOfBounds(path.to_owned()));
        }
        if !fs::metadata(&file)?.is_file() {
            return Err(AsarError::NotAFile { path: path.to_owned(), what: "something else on disk" });
        }
        Ok(file)
    }

    /// Digest of a file's content.
    pub fn sha256(&mut self, entry: &Entry) -> Result<Sha256Digest, AsarError> {
        let (digest, count) = Sha256Digest::of_reader(self.reader(entry)?)?;
        if count == entry.size { Ok(digest) } else { Err(AsarError::OutOfBounds(entry.path.clone())) }
    }

    /// Content of a file that is not larger than `limit`.
    pub fn read_small(&mut self, entry: &Entry, limit: u64) -> Result<Vec<u8>, AsarError> {
        if entry.size > limit {
            return Err(AsarError::Limit("a file in it is larger than expected"));
        }
        let mut bytes = Vec::new();
        self.reader(entry)?.read_to_end(&mut bytes)?;
        if bytes.len() as u64 == entry.size {
            Ok(bytes)
        } else {
            Err(AsarError::OutOfBounds(entry.path.clone()))
        }
    }

    /// One byte more than announced is let through for a file beside the archive, so that a longer one is noticed.
    fn reader(&mut self, entry: &Entry) -> Result<Box<dyn Read + '_>, AsarError> {
        Ok(match &entry.place {
            Place::At(start) => {
                self.file.seek(SeekFrom::Start(*start))?;
                Box::new((&self.file).take(entry.size))
            }
            Place::Beside(path) => Box::new(File::open(path)?.take(entry.size.saturating_add(1))),
        })
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
