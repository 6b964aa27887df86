//! SHA-256 digests as values: parsed once, compared as bytes, shown as lower-case hex.

use std::fmt::{self, Write as _};
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Read size while hashing; large enough that system calls do not show next to the hashing itself.
const BUFFER: usize = 512 * 1024;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// Digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest of everything a reader still has, with the number of bytes read.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0_u8; BUFFER];
        let mut total = 0_u64;
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), total)),
                Ok(count) => {
                    hasher.update(buffer.get(..count).unwrap_or_default());
                    total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 is 64 lower-case hexadecimal digits")]
pub struct InvalidDigest;

impl FromStr for Sha256Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(InvalidDigest);
        }
        let mut bytes = [0_u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return Err(InvalidDigest) };
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, InvalidDigest> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(InvalidDigest),
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().take(6).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_char('…')
    }
}

impl Serialize for Sha256Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn text_and_bytes_agree() {
        assert_eq!(Sha256Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse::<Sha256Digest>().unwrap(), Sha256Digest::of(b""));
    }

    #[test]
    fn only_lower_case_hex_of_the_right_length_is_a_digest() {
        for wrong in ["", &EMPTY[1..], &EMPTY.to_uppercase(), &EMPTY.replace('e', "g"), &format!("{EMPTY}0")]
        {
            assert_eq!(wrong.parse::<Sha256Digest>(), Err(InvalidDigest), "{wrong}");
        }
    }

    #[test]
    fn a_reader_is_hashed_whole_however_it_chunks() {
        struct Dribble<'a>(&'a [u8]);
        impl Read for Dribble<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(7).min(buffer.len());
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let bytes: Vec<u8> = (0..1000_u32).map(|n| n as u8).collect();
        assert_eq!(Sha256Digest::of_reader(Dribble(&bytes)).unwrap(), (Sha256Digest::of(&bytes), 1000));
    }
}
