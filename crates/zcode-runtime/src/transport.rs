//! Bytes to and from the host: frames out of a stream that others write to as well, and an ordered way in.
//!
//! The reader never stops draining, not even after the transport has failed: an unread pipe makes the host's memory grow or
//! blocks it. Deliberately absent: what a frame means.

use std::collections::VecDeque;
use std::ops::Range;

use memchr::memchr;
use memchr::memmem::Finder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longest frame that is taken, bytes.
pub(crate) const MAX_FRAME: usize = 64 << 20;
/// How much of the noise is kept, lines and bytes of one.
const NOISE_LINES: usize = 8;
const NOISE_BYTES: usize = 512;
/// Size of a read.
const CHUNK: usize = 64 << 10;
/// A buffer that has grown beyond this for one frame is given back after it.
const KEEP: usize = 1 << 20;
/// How long the last lines towards a host that is being ended may take.
const LAST_LINES: std::time::Duration = std::time::Duration::from_millis(50);
/// Lines towards the host that may wait.
pub(crate) const OUT_QUEUE: usize = 256;

/// Splits a stream into frames. A frame is what follows the nonce up to the end of the line; everything else is noise, also
/// what stands before the nonce on the same line, because others do not end their lines for us.
pub(crate) struct FrameDecoder {
    prefix: Finder<'static>,
    max: usize,
    buffer: Vec<u8>,
    /// Where the current line begins.
    start: usize,
    /// Up to where it has been searched for its end.
    searched: usize,
    /// The beginning of the current line was noise and is thrown away already.
    skipping: bool,
    noise: Noise,
}

/// What else was written to the descriptor. Its text may be anything, so it is redacted before it is shown.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    /// Lines.
    pub(crate) lines: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    tail: VecDeque<Vec<u8>>,
}

/// A frame that is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of more than {limit} bytes")]
pub(crate) struct FrameTooLong {
    /// What is allowed.
    pub(crate) limit: usize,
}

impl FrameDecoder {
    pub(crate) fn new(nonce: &str, max: usize) -> Self {
        let mut prefix = nonce.as_bytes().to_vec();
        prefix.push(b' ');
        Self {
            prefix: Finder::new(&prefix).into_owned(),
            max,
            buffer: Vec::with_capacity(CHUNK),
            start: 0,
            searched: 0,
            skipping: false,
            noise: Noise::default(),
        }
    }

    /// Room for the next read; whatever is appended is data.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.capacity() > KEEP && self.buffer.len() < CHUNK {
            self.buffer.shrink_to(CHUNK);
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// The next whole frame, nonce removed, or `None` when more bytes are needed. Look it up with [`Self::frame`].
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>, FrameTooLong> {
        loop {
            let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                self.give_up_on_long_line()?;
                return Ok(None);
            };
            let line = self.start..self.searched + at;
            self.start = line.end + 1;
            self.searched = self.start;
            let text = &self.buffer[line.clone()];
            let nonce = self.find_nonce(text);
            let noise = &text[..nonce.unwrap_or(text.len())];
            self.noise.add(noise, std::mem::take(&mut self.skipping));
            if let Some(at) = nonce {
                let body = line.start + at + self.prefix.needle().len()..line.end;
                if body.len() > self.max {
                    return Err(FrameTooLong { limit: self.max });
                }
                return Ok(Some(body));
            }
        }
    }

    fn find_nonce(&self, text: &[u8]) -> Option<usize> {
        // Nearly always it is at the very beginning, and a frame is not searched through.
        if text.starts_with(self.prefix.needle()) { Some(0) } else { self.prefix.find(text) }
    }

    /// Keeps an unfinished line from growing for ever.
    fn give_up_on_long_line(&mut self) -> Result<(), FrameTooLong> {
        let line = &self.buffer[self.start..];
        let prefix = self.prefix.needle().len();
        let noise = match self.find_nonce(line) {
            Some(0) if line.len() > self.max.saturating_add(prefix) => {
                return Err(FrameTooLong { limit: self.max });
            }
            Some(at) => at,
            // The nonce may have begun.
            None if line.len() > NOISE_BYTES + prefix => line.len() - (prefix - 1),
            None => 0,
        };
        if noise > 0 {
            let begins = std::mem::replace(&mut self.skipping, true);
            self.noise.add(&line[..noise], begins);
            self.start += noise;
        }
        Ok(())
    }

    pub(crate) fn frame(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    pub(crate) fn noise(&self) -> &Noise {
        &self.noise
    }
}

impl Noise {
    /// A line, or more of the one before.
    fn add(&mut self, text: &[u8], more: bool) {
        self.bytes += text.len() as u64;
        if more || text.is_empty() {
            return;
        }
        self.lines += 1;
        if self.tail.len() == NOISE_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(text[..text.len().min(NOISE_BYTES)].to_vec());
    }

    /// The last line, redacted.
    pub(crate) fn last(&self) -> Option<String> {
        self.tail.back().map(|line| crate::redact::line(&String::from_utf8_lossy(line)))
    }
}

/// Reads frames until the stream ends. `on_frame` must not block; its error ends the transport.
///
/// After an error the rest is drained and thrown away; `failed` is called before that.
pub(crate) async fn read_frames(
    mut stream: impl AsyncRead + Unpin,
    mut decoder: FrameDecoder,
    mut on_frame: impl FnMut(&[u8]) -> Result<(), String>,
    failed: impl FnOnce(&str),
) {
    let mut reported = 0;
    let refused = 'read: loop {
        match stream.read_buf(decoder.space()).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        loop {
            match decoder.next() {
                Ok(Some(range)) => {
                    if let Err(error) = on_frame(decoder.frame(range)) {
                        break 'read error;
                    }
                }
                Ok(None) => break,
                Err(error) => break 'read error.to_string(),
            }
        }
        let noise = decoder.noise();
        // Powers of two: a flood is one record for every doubling.
        if noise.lines > reported && noise.lines.is_power_of_two() {
            reported = noise.lines;
            let (count, bytes) = (noise.lines, noise.bytes);
            tracing::debug!(count, bytes, reason = noise.last().unwrap_or_default(), "host.noise");
        }
    };
    failed(&refused);
    drop(decoder);
    let mut sink = vec![0; CHUNK];
    while matches!(stream.read(&mut sink).await, Ok(count) if count > 0) {}
}

/// Writes lines in order until the queue is closed, the stream breaks or `stop` is cancelled; then closes the stream.
///
/// What is queued when `stop` is cancelled is still written if that takes no time: the last answers to the host's questions.
pub(crate) async fn write_lines(
    mut stream: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    stop: CancellationToken,
) {
    let writing = async {
        loop {
            let line = tokio::select! {
                biased;
                line = lines.recv() => line,
                () = stop.cancelled(), if !lines.is_closed() => {
                    lines.close();
                    continue;
                }
            };
            let Some(line) = line else { return std::io::Result::Ok(()) };
            stream.write_all(&line).await?;
            stream.flush().await?;
        }
    };
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_LINES).await;
    };
    tokio::select! {
        biased;
        result = writing => {
            if result.is_err() {
                tracing::debug!(reason = "broken pipe", "host.stdin.closed");
            }
        }
        () = late => {}
    }
    // Not awaited for long: a host that does not read is ended by other means.
    let _ = tokio::time::timeout(LAST_LINES, stream.shutdown()).await;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(input: &[u8], cuts: &[usize], max: usize) -> Result<(Vec<Vec<u8>>, u64), FrameTooLong> {
        let mut decoder = FrameDecoder::new("n0nce", max);
        let mut frames = Vec::new();
        let mut rest = input;
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let size = (*cuts.next().unwrap_or(&1)).clamp(1, rest.len());
            decoder.space().extend_from_slice(&rest[..size]);
            rest = &rest[size..];
            while let Some(range) = decoder.next()? {
                frames.push(decoder.frame(range).to_vec());
            }
        }
        Ok((frames, decoder.noise().lines))
    }

    #[test]
    fn only_lines_with_the_nonce_are_frames() {
        let (frames, noise) =
            decode(b"hello\nn0nce {}\n\nn0ncex {}\n n0nce {}\nn0nce  1\nn0nce tail", &[4096], 100).unwrap();
        assert_eq!(frames, [b"{}".to_vec(), b"{}".to_vec(), b" 1".to_vec()]);
        assert_eq!(noise, 3, "an empty line is nothing at all");
    }

    #[test]
    fn noise_without_an_end_does_not_swallow_the_frame_behind_it() {
        for cut in [1, 2, 3, 7, 4096] {
            let (frames, noise) = decode(b"warning: n0nce{n0nce {\"a\":1}\nn0nce 2\n", &[cut], 100).unwrap();
            assert_eq!(frames, [br#"{"a":1}"#.to_vec(), b"2".to_vec()], "cut {cut}");
            assert_eq!(noise, 1);
            let mut long = vec![b'x'; 100_000];
            long.extend_from_slice(b"n0nce 3\n");
            assert_eq!(decode(&long, &[cut], 100).unwrap(), (vec![b"3".to_vec()], 1), "cut {cut}");
        }
        let mut decoder = FrameDecoder::new("n0nce", 10);
        decoder.space().extend_from_slice(b"noise n0nce 0123456789");
        assert_eq!(decoder.next(), Ok(None));
        decoder.space().extend_from_slice(b"x");
        assert_eq!(decoder.next(), Err(FrameTooLong { limit: 10 }));
    }

    #[test]
    fn a_long_frame_is_refused_as_soon_as_it_is_seen() {
        let mut decoder = FrameDecoder::new("n0nce", 10);
        decoder.space().extend_from_slice(b"n0nce 0123456789");
        assert_eq!(decoder.next(), Ok(None));
        decoder.space().extend_from_slice(b"x");
        assert_eq!(decoder.next(), Err(FrameTooLong { limit: 10 }));
        assert_eq!(decode(b"n0nce 0123456789\n", &[100], 10).unwrap().0.len(), 1);
        assert_eq!(decode(b"n0nce 0123456789x\n", &[100], 10), Err(FrameTooLong { limit: 10 }));
    }

    #[test]
    fn endless_noise_takes_no_memory_and_ends_with_its_line() {
        let mut decoder = FrameDecoder::new("n0nce", 1 << 20);
        for _ in 0..1000 {
            decoder.space().extend_from_slice(&[b'x'; 8192]);
            assert_eq!(decoder.next(), Ok(None));
            assert!(decoder.buffer.capacity() <= 4 * CHUNK);
        }
        decoder.space().extend_from_slice(b"\nn0nce 1\n");
        let range = decoder.next().unwrap().unwrap();
        assert_eq!(decoder.frame(range), b"1");
        assert_eq!((decoder.noise().lines, decoder.noise().bytes), (1, 8_192_000));
        assert!(decoder.noise().last().unwrap().len() <= NOISE_BYTES);
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let mut decoder = FrameDecoder::new("n0nce", 8 << 20);
        let mut line = b"n0nce ".to_vec();
        line.extend(std::iter::repeat_n(b'a', 4 << 20));
        line.push(b'\n');
        decoder.space().extend_from_slice(&line);
        assert_eq!(decoder.next().unwrap().unwrap().len(), 4 << 20);
        assert_eq!(decoder.next(), Ok(None));
        assert!(decoder.space().capacity() <= KEEP);
    }

    #[tokio::test]
    async fn a_refused_frame_is_reported_and_the_rest_drained() {
        let (mut host, adapter) = tokio::io::duplex(64);
        let (told, mut failed) = mpsc::channel(1);
        let reader = tokio::spawn(read_frames(
            adapter,
            FrameDecoder::new("n0nce", 100),
            |frame| if frame == b"1" { Ok(()) } else { Err("bad".to_owned()) },
            move |reason| told.try_send(reason.to_owned()).unwrap(),
        ));
        host.write_all(b"n0nce 1\nn0nce 2\n").await.unwrap();
        assert_eq!(failed.recv().await.as_deref(), Some("bad"));
        // Far more than the pipe holds: this only ends when somebody reads.
        host.write_all(&vec![b'x'; 100_000]).await.unwrap();
        drop(host);
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn stopping_the_writer_closes_the_stream_even_when_nobody_reads() {
        let (mut host, adapter) = tokio::io::duplex(8);
        let (lines, queue) = mpsc::channel(2);
        let stop = CancellationToken::new();
        let writer = tokio::spawn(write_lines(adapter, queue, stop.clone()));
        lines.send(vec![b'x'; 100]).await.unwrap();
        stop.cancel();
        writer.await.unwrap();
        let mut read = Vec::new();
        host.read_to_end(&mut read).await.unwrap();
        assert!(read.len() < 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn chunking_does_not_matter(
            lines in prop::collection::vec(prop_oneof!["n0nce [a-z{}]{0,40}", "[a-z ]{0,30}", "n0nc", "[x]{500,700}",
                "[a-z]{1,20}n0nce [a-z]{0,9}", "[x]{500,700}n0nce [a-z]{0,9}"], 0..12),
            cuts in prop::collection::vec(1usize..50, 1..8),
            ended in any::<bool>(),
        ) {
            let mut input = lines.join("\n");
            if ended { input.push('\n'); }
            let whole = decode(input.as_bytes(), &[input.len().max(1)], 100).unwrap();
            let cut = decode(input.as_bytes(), &cuts, 100).unwrap();
            prop_assert_eq!(&whole.0, &cut.0);
            let complete = if ended { lines.len() } else { lines.len().saturating_sub(1) };
            let frames = lines[..complete].iter().filter(|line| line.contains("n0nce ")).count();
            prop_assert_eq!(whole.0.len(), frames);
        }

        #[test]
        fn any_bytes_in_any_chunks(input in prop::collection::vec(any::<u8>(), 0..600), cut in 1usize..40) {
            prop_assert_eq!(decode(&input, &[cut], 50).map(|d| d.0), decode(&input, &[600], 50).map(|d| d.0));
        }
    }
}
