//! The input side: one thread that cuts lines, judges them and hands good ones over through a bounded queue.
//!
//! A line is parsed here once just to judge it, with the parser the SDK uses: the SDK echoes what it cannot parse, so it
//! must never get such a line. It gets [`NOT_JSON`] instead, which it answers with a parse error that shows only that.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

/// Stands in for a line that is not JSON, not UTF-8 or too long. Not JSON itself, so that the answer is -32700.
pub const NOT_JSON: &str = "<not JSON>";
/// Lines read ahead of the dispatcher.
const QUEUE: usize = 8;
const CHUNK: usize = 64 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The protocol version the client asked for, before it was rewritten; for the log.
#[derive(Debug, Clone, Default)]
pub struct AskedVersion(Arc<AtomicU64>);

impl AskedVersion {
    /// The version of the last `initialize`; none before, or when it named no number.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|version| *version != 0)
    }

    fn set(&self, version: u64) {
        self.0.store(version, Ordering::Relaxed);
    }
}

/// Starts the reader. The queue ends with the input, also when that ends with an error.
///
/// The thread is not joined: a read from a client that keeps its end open never returns.
pub fn start(
    input: impl Read + Send + 'static,
    max_frame: usize,
    asked: AskedVersion,
) -> io::Result<mpsc::Receiver<String>> {
    let (lines, queue) = mpsc::channel(QUEUE);
    std::thread::Builder::new()
        .name("acp-stdin".into())
        .spawn(move || read(input, max_frame, &asked, &lines))?;
    Ok(queue)
}

fn read(mut input: impl Read, max_frame: usize, asked: &AskedVersion, lines: &mpsc::Sender<String>) {
    let mut cutter = Cutter::new(max_frame);
    let mut chunk = vec![0; CHUNK];
    let mut deliver = |line: Line<'_>| match judge(line, asked) {
        Some(line) => lines.blocking_send(line.into_owned()).is_ok(),
        None => true,
    };
    loop {
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                if !cutter.push(chunk.get(..count).unwrap_or_default(), &mut deliver) {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A descriptor somebody else has made non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => {
                tracing::warn!(reason = %error.kind(), "input.failed");
                break;
            }
        }
    }
    cutter.finish(&mut deliver);
}

/// A raw line without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Whole(&'a [u8]),
    TooLong,
}

/// Cuts bytes into lines, holding at most one line of the allowed length.
struct Cutter {
    partial: Vec<u8>,
    max: usize,
    /// The rest of a line that is too long is being thrown away.
    draining: bool,
    first: bool,
}

impl Cutter {
    fn new(max: usize) -> Self {
        Self { partial: Vec::new(), max, draining: false, first: true }
    }

    /// Feeds `bytes`; stops and returns false when `deliver` does.
    fn push(&mut self, mut bytes: &[u8], deliver: &mut impl FnMut(Line<'_>) -> bool) -> bool {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            self.take(line);
            if !self.end_line(deliver) {
                return false;
            }
        }
        self.take(bytes);
        true
    }

    /// The input has ended: a last line needs no line feed.
    fn finish(&mut self, deliver: &mut impl FnMut(Line<'_>) -> bool) {
        if self.draining || !self.partial.is_empty() {
            self.end_line(deliver);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.draining {
            return;
        }
        if self.partial.len() + bytes.len() > self.max {
            self.draining = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, deliver: &mut impl FnMut(Line<'_>) -> bool) -> bool {
        let first = std::mem::take(&mut self.first);
        if std::mem::take(&mut self.draining) {
            return deliver(Line::TooLong);
        }
        let mut line = self.partial.as_slice();
        if first {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        let go_on = deliver(Line::Whole(line));
        self.partial.clear();
        if self.partial.capacity() > 4 << 20 {
            self.partial = Vec::new();
        }
        go_on
    }
}

/// What the SDK gets for a line: nothing for a blank one, a stand-in for one it must not see.
fn judge<'a>(line: Line<'a>, asked: &AskedVersion) -> Option<Cow<'a, str>> {
    let Line::Whole(bytes) = line else {
        tracing::warn!(reason = "too long", "input.refused");
        return Some(Cow::Borrowed(NOT_JSON));
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let parsed =
        std::str::from_utf8(bytes).ok().and_then(|text| Some((text, serde_json::from_str(text).ok()?)));
    let Some((text, value)) = parsed else {
        tracing::warn!(bytes = bytes.len(), reason = "not JSON", "input.refused");
        return Some(Cow::Borrowed(NOT_JSON));
    };
    Some(rewrite_initialize(value, asked).map_or(Cow::Borrowed(text), Cow::Owned))
}

/// For an asked version above 1 the SDK reads a newer shape and drops the v1 capabilities. A client that sent those
/// speaks v1 as well, so its request is made one for version 1.
fn rewrite_initialize(mut value: Value, asked: &AskedVersion) -> Option<String> {
    if value.get("method")?.as_str()? != "initialize" {
        return None;
    }
    let params = value.get_mut("params")?.as_object_mut()?;
    let version = params.get("protocolVersion")?.as_u64()?;
    asked.set(version);
    if version <= 1 || !params.get("clientCapabilities").is_some_and(Value::is_object) {
        return None;
    }
    params.insert("protocolVersion".into(), 1.into());
    serde_json::to_string(&value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(input: &[u8], max: usize) -> Vec<String> {
        let asked = AskedVersion::default();
        let queue = start(io::Cursor::new(input.to_vec()), max, asked).unwrap();
        let mut queue = queue;
        std::iter::from_fn(|| queue.blocking_recv()).collect()
    }

    #[test]
    fn blank_lines_bom_crlf_and_a_missing_last_line_feed() {
        let input = b"\xef\xbb\xbf{\"a\":1}\r\n\n   \t\r\n{\"b\":2}\r\n{\"c\":3}";
        assert_eq!(lines(input, 100), ["{\"a\":1}\r", "{\"b\":2}\r", "{\"c\":3}"]);
        // A byte order mark belongs at the start only.
        assert_eq!(lines(b"{}\n\xef\xbb\xbf{}\n", 100), ["{}", NOT_JSON]);
        assert_eq!(lines(b"\xef\xbb\xbf\n{}\n", 100), ["{}"]);
    }

    #[test]
    fn what_the_sdk_cannot_parse_never_reaches_it() {
        for bad in [
            &b"CANARY"[..],
            b"{\"CANARY\":\"\xff\"}",
            b"{\"CANARY\":1",
            b"{\"CANARY\":1e999}",
            b"{\"CANARY\":\"\\ud800\"}",
            b"{\"CANARY\":1} 2",
            &[b"[".repeat(400), b"]".repeat(400)].concat(),
        ] {
            let got = lines(&[bad, b"\n{}\n"].concat(), 10_000);
            assert_eq!(got, [NOT_JSON, "{}"], "{}", String::from_utf8_lossy(bad));
        }
        assert!(serde_json::from_str::<Value>(NOT_JSON).is_err());
    }

    #[test]
    fn a_line_that_is_too_long_is_drained_and_the_next_one_read() {
        let long = format!("{{\"x\":\"{}\"}}", "y".repeat(200_000));
        let input = format!("{{}}\n{long}\n{{\"z\":1}}\n{long}");
        assert_eq!(lines(input.as_bytes(), 1000), ["{}", NOT_JSON, "{\"z\":1}", NOT_JSON]);
        assert_eq!(lines(input.as_bytes(), 1 << 20).len(), 4);
        let exact = b"{\"k\":1}\n";
        assert_eq!(lines(exact, 7), ["{\"k\":1}"]);
        assert_eq!(lines(exact, 6), [NOT_JSON]);
    }

    #[test]
    fn only_a_newer_initialize_with_v1_capabilities_is_rewritten() {
        let asked = AskedVersion::default();
        let one = |line: &str| judge(Line::Whole(line.as_bytes()), &asked).unwrap().into_owned();
        let newer = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":65535,"clientCapabilities":{"plan":{}}}}"#;
        assert_eq!(one(newer), newer.replace("65535", "1"));
        for same in [
            r#"{"method":"initialize","params":{"protocolVersion":2,"capabilities":{}}}"#,
            r#"{"method":"initialize","params":{"protocolVersion":"2","clientCapabilities":{}}}"#,
            r#"{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
            r#"{"method":"other","params":{"protocolVersion":7,"clientCapabilities":{}}}"#,
            r#"[{"method":"initialize"}]"#,
            r#"{"method":"initialize","params":[]}"#,
        ] {
            assert_eq!(one(same), same);
        }
        one(newer);
        assert_eq!(asked.get(), Some(65535));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn lines_do_not_depend_on_how_bytes_arrive(
            input in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xef), Just(0xbb), Just(0xbf), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
            max in 1usize..40,
        ) {
            let cut_by = |cuts: &[usize]| {
                let mut got = Vec::new();
                let mut deliver = |line: Line<'_>| {
                    got.push(match line { Line::Whole(bytes) => Some(bytes.to_vec()), Line::TooLong => None });
                    true
                };
                let mut cutter = Cutter::new(max);
                let mut from = 0;
                for cut in cuts {
                    let to = (*cut).clamp(from, input.len());
                    cutter.push(&input[from..to], &mut deliver);
                    from = to;
                }
                cutter.push(&input[from..], &mut deliver);
                cutter.finish(&mut deliver);
                got
            };
            let mut sorted = cuts.clone();
            sorted.sort_unstable();
            let mut expected: Vec<_> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            let mut expected: Vec<_> = expected.into_iter().map(|line| (line.len() <= max).then_some(line)).collect();
            if let Some(Some(first)) = expected.first_mut() && first.starts_with(BOM) {
                first.drain(..3);
            }
            prop_assert_eq!(&cut_by(&sorted), &expected);
            prop_assert_eq!(cut_by(&[]), expected);
        }
    }
}
