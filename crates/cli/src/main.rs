//! `zcode-acp`: the command line around the adapter.
//!
//! Parses the arguments, puts the crates together, renders errors and chooses exit codes. stdout belongs to the ACP
//! connection when the program is an agent; the commands write to it through [`output`] only.

mod agent;
mod end;
mod options;
mod output;
mod report;
mod sanitize;
mod sign_in;
mod signals;
mod simulated_host;
mod try_command;
mod version;
mod wiring;

use options::Command;
use wiring::Unusable;
use zcode_runtime::cli_command::CliCommand;

fn main() {
    output::install_panic_hook();
    let parsed = match options::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are errors too: they go to stdout and are no failure.
            let _ = error.print();
            end::now(error.exit_code())
        }
    };
    let options = &parsed.cli.options;
    match &parsed.cli.command {
        None | Some(Command::Acp) => agent::run(options),
        Some(Command::Version { json }) => end::now(version(options, *json)),
        Some(Command::Try(args)) => end::now(try_command::run(&parsed, args)),
        Some(Command::Login) => end::now(sign_in::run(&parsed, CliCommand::Login)),
        Some(Command::Logout) => end::now(sign_in::run(&parsed, CliCommand::Logout)),
        Some(Command::SimulatedHost { scenario }) => simulated_host::run(scenario.as_deref()),
    }
}

fn version(options: &options::Options, json: bool) -> i32 {
    match wiring::check(options).and_then(|()| Ok(version::run(options, json)?)) {
        Ok(text) => match output::stdout(&text) {
            Ok(()) => 0,
            Err(error) => {
                output::stderr(&format!("error: stdout cannot be written: {error}\n"));
                1
            }
        },
        Err(unusable) => refuse(&unusable),
    }
}

/// Says why the options cannot be used; the exit code for it.
fn refuse(unusable: &Unusable) -> i32 {
    match unusable {
        Unusable::Usage(text) => {
            output::stderr(&report::usage(text));
            2
        }
        Unusable::Failure(failure) => {
            output::stderr(&report::failure(failure));
            1
        }
    }
}
