//! `fake-install DIRECTORY BINARY`: builds a fake ZCode install and prints how to start the agent against it.
//!
//! The command is printed one word a line, so that a script can read it into a list without quoting rules.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its result")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use testkit::install::FakeInstall;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [directory, binary] = args.as_slice() else {
        eprintln!("usage: fake-install DIRECTORY BINARY");
        return ExitCode::from(2);
    };
    match words(directory, binary) {
        Ok(words) => {
            println!("{}", words.join("\n"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("fake-install: {why}");
            ExitCode::FAILURE
        }
    }
}

fn words(directory: &Path, binary: &Path) -> std::io::Result<Vec<String>> {
    std::fs::create_dir_all(directory)?;
    let binary = binary.canonicalize()?;
    let install = FakeInstall::build(&directory.canonicalize()?)?;
    let shown = |path: &Path| path.display().to_string();
    Ok(vec![
        "env".to_owned(),
        format!("ZCODE_ACP_SIM_BINARY={}", shown(&binary)),
        shown(&binary),
        "--zcode-install".to_owned(),
        shown(&install.root),
        "--contract".to_owned(),
        shown(&install.contract),
    ])
}
