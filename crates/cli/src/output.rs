//! The program's one way to stdout and stderr outside the protocol and the log.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::time::Duration;

/// How long a last word on stderr may take. Who started us may have stopped reading.
const LAST_WORD: Duration = Duration::from_millis(300);

/// Writes to stdout and flushes. Only commands that are not the agent use it.
pub(crate) fn stdout(text: &str) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the commands' one way to stdout; the agent never comes here"
    )]
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Whether stdout is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    #[expect(clippy::disallowed_methods, reason = "asks what it is, writes nothing")]
    io::stdout().is_terminal()
}

/// Writes to stderr. A reader that is gone is nobody to tell.
pub(crate) fn stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// Writes to stderr without waiting for long: a reader that is stuck must not keep the process alive.
pub(crate) fn last_word(text: String) {
    let (done, wait) = mpsc::channel();
    let writer = std::thread::Builder::new().name("last-word".to_owned()).spawn(move || {
        let mut stderr = io::stderr();
        let _ = stderr.write_all(text.as_bytes());
        let _ = done.send(());
    });
    if writer.is_ok() {
        let _ = wait.recv_timeout(LAST_WORD);
    }
}

/// A panic says where it happened and nothing else: its text may hold what a user typed.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        last_word(format!("zcode-acp: internal error at {place} (thread {thread}); please report it\n"));
    }));
}
