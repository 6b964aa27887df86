//! `try`: a tiny ACP client. Starts this program as an agent, exactly as an editor would, and runs one turn.
//!
//! What the turn does goes to stderr while it happens; the final answer goes to stdout. Permissions are asked on the
//! terminal and denied without one.

mod diff;
mod exit;
mod render;
mod screen;
mod tty;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::{AgentCommand, AgentProcess, ClientError, ClientInfo, Connection, StopReason};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

use self::screen::Screen;
use crate::options::{Parsed, TryArgs};
use crate::signals::{self, Signal};
use crate::{output, refuse, report, wiring};

/// How long the agent may take to end after its stdin was closed; then it is killed.
const GRACE: Duration = Duration::from_secs(4);
/// The longest prompt read from stdin.
const MAX_PROMPT: u64 = 16 * 1024 * 1024;
/// Lines of the agent's stderr that are kept for the case that it dies.
const TAIL: usize = 20;
/// The longest of these lines; the rest counts as the next one.
const MAX_TAIL_LINE: u64 = 16 * 1024;

/// How a run of the client ended.
enum Ending {
    /// The turn ended.
    Stopped(StopReason),
    /// A signal came before it did.
    Interrupted,
}

/// Runs the command; the exit code.
pub(crate) fn run(parsed: &Parsed, args: &TryArgs) -> i32 {
    if let Err(unusable) = wiring::check(&parsed.cli.options) {
        return refuse(&unusable);
    }
    let prompt = match prompt_text(args) {
        Ok(prompt) => prompt,
        Err(reason) => {
            output::stderr(&format!(
                "error: {reason}\n\nExample:\n  zcode-acp try --simulated \"show me around\"\n\n\
                 For more information, try 'zcode-acp try --help'.\n"
            ));
            return exit::USAGE;
        }
    };
    let cwd = match std::path::absolute(&args.cwd) {
        Ok(cwd) => cwd,
        Err(error) => {
            output::stderr(&format!(
                "error: the current folder cannot be used: {error}\nnext: change to an existing one, or give one with --cwd\n"
            ));
            return exit::USAGE;
        }
    };
    let started = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let code = runtime.block_on(turn(parsed, args, &cwd, &prompt));
        // A thread may still read the terminal.
        runtime.shutdown_background();
        code
    };
    started().unwrap_or_else(|error| {
        output::stderr(&format!("error: the agent could not be started: {error}\n"));
        exit::OTHER
    })
}

fn prompt_text(args: &TryArgs) -> Result<String, String> {
    let text = match args.prompt.as_deref() {
        Some("-") => read_stdin()?,
        Some(text) => text.to_owned(),
        None if io::stdin().is_terminal() => return Err("there is no prompt".to_owned()),
        None => read_stdin()?,
    };
    if text.trim().is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    Ok(text)
}

fn read_stdin() -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_PROMPT + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("stdin cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_PROMPT {
        return Err("the prompt on stdin is longer than 16 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "the prompt on stdin is not UTF-8".to_owned())
}

async fn turn(parsed: &Parsed, args: &TryArgs, cwd: &Path, prompt: &str) -> io::Result<i32> {
    let mut signals = signals::listen();
    let command = AgentCommand {
        program: std::env::current_exe()?,
        args: parsed.flags.clone(),
        ..AgentCommand::default()
    };
    let (process, streams, stderr) = AgentProcess::spawn(&command)?;
    let screen = Arc::new(Screen::new(parsed.cli.options.color, args.json));
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let show_log = parsed.log_level_chosen;
    let reading = tokio::spawn(read_stderr(stderr, Arc::clone(&tail), show_log.then(|| Arc::clone(&screen))));
    let tap = args.frames.then(|| screen.frame_tap());
    let mode_notes = mode_notes(parsed);
    let shown = Arc::clone(&screen);
    let outcome =
        client::run(streams, Arc::clone(&screen) as Arc<dyn client::Handler>, tap, async |connection| {
            converse(connection, &shown, &mut signals, &mode_notes, cwd, prompt).await
        })
        .await;
    let ended = process.end(GRACE).await?;
    // Whoever the agent started may hold its stderr open; what is there by now is enough.
    let _ = tokio::time::timeout(Duration::from_millis(200), reading).await;
    if ended.killed {
        screen.note("warning", "the agent did not end by itself and was killed");
    }
    Ok(conclude(&screen, outcome, &tail, ended.status))
}

/// What must be said of the kind of host on every surface.
fn mode_notes(parsed: &Parsed) -> Vec<String> {
    let options = &parsed.cli.options;
    let mut notes = Vec::new();
    if wiring::simulated(options) {
        notes.push("simulated host".to_owned());
    }
    if let Ok((contract, Some(_))) = wiring::contract(options) {
        notes.push(format!("unofficial contract {}", contract.id()));
    }
    notes
}

async fn converse(
    connection: Connection,
    screen: &Screen,
    signals: &mut mpsc::Receiver<Signal>,
    mode_notes: &[String],
    cwd: &Path,
    prompt: &str,
) -> Result<Ending, ClientError> {
    let opening = async {
        let info = ClientInfo { name: "zcode-acp-try".into(), version: env!("CARGO_PKG_VERSION").into() };
        let agent = connection.initialize(info).await?;
        let session = connection.new_session(cwd).await?;
        Ok::<_, ClientError>((agent, session))
    };
    let (agent, session) = tokio::select! {
        opened = opening => opened?,
        _ = signals.recv() => return Ok(Ending::Interrupted),
    };
    let mut facts = vec![format!(
        "{} {}",
        agent.title.or(agent.name).unwrap_or_else(|| "agent".to_owned()),
        agent.version.unwrap_or_default()
    )];
    facts.extend(mode_notes.iter().cloned());
    facts.extend(session.mode.map(|mode| format!("mode {mode}")));
    screen.note("session", &facts.join(", "));

    let mut answer = pin!(connection.prompt(&session.id, prompt));
    let mut cancelled = false;
    loop {
        tokio::select! {
            answer = &mut answer => return answer.map(Ending::Stopped),
            signal = signals.recv() => match signal {
                Some(signal) if signal.interrupt && !cancelled => {
                    cancelled = true;
                    screen.note("cancel", "asked the agent to stop; Ctrl-C again ends the program");
                    connection.cancel(&session.id)?;
                }
                _ => return Ok(Ending::Interrupted),
            },
        }
    }
}

fn conclude(
    screen: &Screen,
    outcome: Result<Ending, ClientError>,
    tail: &Mutex<VecDeque<String>>,
    status: std::process::ExitStatus,
) -> i32 {
    match outcome {
        Ok(Ending::Stopped(reason)) => {
            if screen.finish(reason.as_str()) {
                exit::of_stop(reason)
            } else {
                exit::OTHER
            }
        }
        Ok(Ending::Interrupted) => {
            let _ = screen.finish("interrupted");
            exit::CANCELLED
        }
        Err(ClientError::Request(error)) => {
            screen.fail(
                &report::request_error(&error),
                &json!({"code": error.code, "message": error.message, "data": error.data}),
            );
            exit::of_error(&error)
        }
        Err(error) => {
            let mut text = format!("error: {error} ({status})\n");
            for line in tail.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let _ = writeln!(text, "  stderr: {}", crate::sanitize::visible_line(line));
            }
            screen.fail(&text, &json!({"message": error.to_string()}));
            exit::OTHER
        }
    }
}

/// Keeps the last lines of the agent's stderr and shows them if they were asked for.
async fn read_stderr(
    stderr: tokio::process::ChildStderr,
    tail: Arc<Mutex<VecDeque<String>>>,
    screen: Option<Arc<Screen>>,
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(MAX_TAIL_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if let Some(screen) = &screen {
            screen.log_line(&text);
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(text);
    }
}
