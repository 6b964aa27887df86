//! Tasks of this repository: the architecture check, generated documents and the one test command.
//!
//! Nothing here is part of the product. A task prints what it does and ends with a code that a script can use.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to the person who runs it")]

mod arch;
mod errors;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  test [--fast]     everything that must hold before a commit; --fast leaves out clippy, deny and the slow tests
  arch              the allowed edges between crates, the stated absences, file sizes, documents
  errors [--check]  writes docs/errors.md from the catalogue, or says whether it is current";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["arch"] => arch::run(&root()),
        ["errors"] => errors::write(&root()),
        ["errors", "--check"] => errors::check(&root()),
        ["test"] => test::run(&root(), false),
        ["test", "--fast"] => test::run(&root(), true),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace: two levels above this crate.
fn root() -> PathBuf {
    // Asked when it runs: two checkouts may share a target directory and so this executable.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.ancestors().nth(2).map_or_else(|| here.clone(), PathBuf::from)
}
