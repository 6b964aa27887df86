//! The terminal a permission is asked on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

#[cfg(unix)]
const TERMINAL: (&str, &str) = ("/dev/tty", "/dev/tty");
#[cfg(windows)]
const TERMINAL: (&str, &str) = ("CONIN$", "CONOUT$");

/// A terminal with a person before it.
pub(crate) struct Tty {
    input: File,
    output: Mutex<File>,
    lines: Arc<tokio::sync::Mutex<mpsc::Receiver<String>>>,
}

impl Tty {
    /// The terminal, if there is one. With both stdin and stderr redirected nobody would see the question, so none is
    /// asked although a controlling terminal may exist.
    pub(crate) fn open() -> Option<Self> {
        if !io::stdin().is_terminal() && !io::stderr().is_terminal() {
            return None;
        }
        let input = File::options().read(true).open(TERMINAL.0).ok()?;
        let output = File::options().write(true).open(TERMINAL.1).ok()?;
        let (send, receive) = mpsc::channel(1);
        let reading = input.try_clone().ok()?;
        // One reader for the whole run: a read that nobody waits for any more cannot be taken back.
        std::thread::Builder::new()
            .name("tty".to_owned())
            .spawn(move || {
                for line in BufReader::new(reading).lines().map_while(Result::ok) {
                    if send.blocking_send(line).is_err() {
                        break;
                    }
                }
            })
            .ok()?;
        Some(Self { input, output: Mutex::new(output), lines: Arc::new(tokio::sync::Mutex::new(receive)) })
    }

    /// Asks and waits for a line; none when the terminal is gone. What was typed before the question does not count as an
    /// answer to it.
    pub(crate) async fn ask(&self, question: &str) -> Option<String> {
        let mut lines = self.lines.lock().await;
        self.forget_typeahead();
        while lines.try_recv().is_ok() {}
        {
            let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
            output.write_all(question.as_bytes()).ok()?;
            output.flush().ok()?;
        }
        lines.recv().await
    }

    fn forget_typeahead(&self) {
        #[cfg(unix)]
        rustix::termios::tcflush(&self.input, rustix::termios::QueueSelector::IFlush).ok();
        #[cfg(windows)]
        let _ = &self.input;
    }
}
