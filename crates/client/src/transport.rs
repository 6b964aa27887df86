//! Lines over byte streams, with a limit and a tap.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// The longest line that is accepted from an agent.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// The two ends of a connection.
pub struct Streams {
    /// From the agent.
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    /// To the agent.
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Client to agent.
    ToAgent,
    /// Agent to client.
    FromAgent,
}

/// Sees every line, without its end, before it is written or read.
pub type FrameTap = Arc<dyn Fn(Direction, &str) + Send + Sync>;

/// The SDK's line transport over `streams`.
pub(crate) fn lines(
    streams: Streams,
    tap: Option<FrameTap>,
) -> agent_client_protocol::Lines<
    impl futures::Sink<String, Error = io::Error> + Send + 'static,
    impl futures::Stream<Item = io::Result<String>> + Send + 'static,
> {
    let seen = tap.clone();
    let outgoing = futures::sink::unfold(streams.write, move |mut write, mut line: String| {
        let seen = seen.clone();
        async move {
            if let Some(tap) = seen {
                tap(Direction::ToAgent, line.trim_end_matches('\n'));
            }
            if !line.ends_with('\n') {
                line.push('\n');
            }
            write.write_all(line.as_bytes()).await?;
            write.flush().await?;
            Ok(write)
        }
    });
    let incoming = futures::stream::unfold(Some(BufReader::new(streams.read)), move |reader| {
        let tap = tap.clone();
        async move {
            let mut reader = reader?;
            match read_line(&mut reader).await {
                Ok(Some(line)) => {
                    if let Some(tap) = tap {
                        tap(Direction::FromAgent, &line);
                    }
                    Some((Ok(line), Some(reader)))
                }
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    agent_client_protocol::Lines::new(outgoing, incoming)
}

/// The next line that is not blank, without its end.
async fn read_line<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let read = reader.take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the agent sent a line without an end"));
        }
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            return String::from_utf8(line).map(Some).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "the agent sent a line that is not UTF-8")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blank_lines_are_skipped_and_the_last_line_needs_no_end() {
        let mut reader = BufReader::new(&b"\n  \r\n{\"a\":1}\r\nlast"[..]);
        assert_eq!(read_line(&mut reader).await.unwrap().as_deref(), Some("{\"a\":1}"));
        assert_eq!(read_line(&mut reader).await.unwrap().as_deref(), Some("last"));
        assert_eq!(read_line(&mut reader).await.unwrap(), None);
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_an_error() {
        let mut reader = BufReader::new(&b"\xff\xfe\n"[..]);
        assert_eq!(read_line(&mut reader).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
