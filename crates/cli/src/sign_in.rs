//! `login` and `logout`: ZCode's own commands on the user's terminal.
//!
//! Deliberately absent: anything that reads or shows a credential.

use std::io::{self, IsTerminal};
use std::time::Duration;

use diag_model::{ErrorCode, Failure};
use tokio::sync::mpsc;
use zcode_runtime::cli_command::{Cli, CliCommand};

use crate::options::Parsed;
use crate::sanitize::visible_line;
use crate::wiring::Unusable;
use crate::{output, refuse, report, signals, wiring};

/// How long the last log records may take.
const LAST_RECORDS: Duration = Duration::from_millis(200);

/// Runs the command; the exit code is the one of ZCode's command.
pub(crate) fn run(parsed: &Parsed, command: CliCommand) -> i32 {
    let options = &parsed.cli.options;
    if wiring::simulated(options) {
        let text = "the simulated host has no sign-in: leave --simulated (or ZCODE_ACP_SIMULATED) out";
        output::stderr(&report::usage(text));
        return 2;
    }
    // The terminal is ZCode's; the log is only there for those who asked for it.
    let log = parsed.log_level_chosen.then(|| {
        diagnostics::init(diagnostics::Options {
            level: options.log_level,
            format: options.log_format,
            ..diagnostics::Options::default()
        })
    });
    let code = match serve(parsed, command) {
        Ok(code) => code,
        Err(unusable) => refuse(&unusable),
    };
    if let Some(log) = log {
        log.flush(LAST_RECORDS);
    }
    code
}

fn serve(parsed: &Parsed, command: CliCommand) -> Result<i32, Unusable> {
    let wired = wiring::wire(&parsed.cli.options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(ErrorCode::Internal).cause(format!("the runtime did not start: {error}"))
    })?;
    let code = runtime.block_on(async {
        let cli = wired.launcher.cli().await?;
        output::stderr(&announcement(&cli, command, wired.unofficial.as_deref()));
        let code = cli.interactive(command, requests_to_end()).await?;
        Ok::<_, Failure>(code)
    })?;
    if code != 0 {
        output::stderr(&failed(command, code));
    }
    Ok(code)
}

fn announcement(cli: &Cli, command: CliCommand, unofficial: Option<&str>) -> String {
    let version = cli.app_version().map(|version| format!(" {}", visible_line(version))).unwrap_or_default();
    let contract = unofficial
        .map(|contract| format!(", unofficial contract {}", visible_line(contract)))
        .unwrap_or_default();
    let root = cli.root().display().to_string();
    let effect = match command {
        CliCommand::Login => "the page to sign in can be opened on any machine",
        CliCommand::Logout => "this signs the ZCode desktop app out too",
    };
    format!("zcode-acp: using ZCode{version} at {}{contract}; {effect}\n", visible_line(&root))
}

/// What it said is on the terminal already; only the way on is missing.
fn failed(command: CliCommand, code: i32) -> String {
    match command {
        CliCommand::Login => format!(
            "zcode-acp: ZCode's login ended with exit code {code}; instead, sign in with the ZCode desktop app as this \
             user (Coding Plan or API key)\n"
        ),
        CliCommand::Logout => format!(
            "zcode-acp: ZCode's logout ended with exit code {code}; instead, sign out in the ZCode desktop app as this user\n"
        ),
    }
}

/// Requests to end that the terminal does not deliver to the command by itself.
fn requests_to_end() -> mpsc::Receiver<()> {
    let (send, receive) = mpsc::channel(2);
    let mut signals = signals::listen();
    let terminal = io::stdin().is_terminal();
    tokio::spawn(async move {
        while let Some(signal) = signals.recv().await {
            if !(signal.interrupt && terminal) {
                let _ = send.try_send(());
            }
        }
    });
    receive
}
