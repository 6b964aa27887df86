//! The command line: one table of options with flag, environment variable and default.
//!
//! `--help`, the README's table and the parser all come from the definitions here, so none of them can be out of date.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use diag_model::Level;
use diagnostics::Format;

/// The command line, parsed.
#[derive(Debug, Parser)]
#[command(
    name = "zcode-acp",
    version,
    about = "Use the ZCode coding agent from any Agent Client Protocol (ACP) client",
    long_about = "Use the ZCode coding agent from any Agent Client Protocol (ACP) client.\n\n\
        Without a command it is an ACP agent on stdin and stdout, to be started by an editor or another client. \
        It needs the ZCode desktop app to be installed, and starts it only when a session is opened.",
    after_help = "Examples:\n  \
        zcode-acp                                    an ACP agent on stdin and stdout\n  \
        zcode-acp try --simulated \"show me around\"   see a turn without ZCode\n  \
        zcode-acp try \"what does this project do?\"   one real turn in the current folder\n  \
        zcode-acp version                            what is installed, and whether it fits\n\n\
        In a client's configuration, name the absolute path of this program and no arguments.",
    max_term_width = 100,
    disable_help_subcommand = false,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options that every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct Options {
    /// Folder of the ZCode install, absolute. It is used or refused, never replaced by another
    #[arg(long, global = true, value_name = "PATH", env = "ZCODE_ACP_ZCODE_INSTALL", hide_env_values = true)]
    pub(crate) zcode_install: Option<PathBuf>,

    /// Use the built-in simulated host instead of ZCode. With a scenario's name it always plays that one; otherwise
    /// the prompt chooses. The equals sign is required
    #[arg(
        long,
        global = true,
        value_name = "SCENARIO",
        env = "ZCODE_ACP_SIMULATED",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_simulated
    )]
    pub(crate) simulated: Option<Simulated>,

    /// Compatibility contract to use instead of the built-in one. Everything then says "unofficial contract"
    #[arg(long, global = true, value_name = "FILE", env = "ZCODE_ACP_CONTRACT", hide_env_values = true)]
    pub(crate) contract: Option<PathBuf>,

    /// How long a permission may stay unanswered before it is denied: 90s, 10m, 1h, or none
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        env = "ZCODE_ACP_PERMISSION_TIMEOUT",
        hide_env_values = true,
        default_value = "none",
        value_parser = parse_timeout
    )]
    pub(crate) permission_timeout: Timeout,

    /// What is logged to stderr: error, warn, info, debug or trace
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        env = "ZCODE_ACP_LOG_LEVEL",
        hide_env_values = true,
        default_value = "info",
        value_parser = parse_level
    )]
    pub(crate) log_level: Level,

    /// Form of the log: auto, json or pretty. auto is pretty on a terminal and json elsewhere
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        env = "ZCODE_ACP_LOG_FORMAT",
        hide_env_values = true,
        default_value = "auto",
        value_parser = parse_format
    )]
    pub(crate) log_format: Format,

    /// The longest line that is read from a client: bytes, or with KiB or MiB
    #[arg(
        long,
        global = true,
        value_name = "SIZE",
        env = "ZCODE_ACP_MAX_FRAME",
        hide_env_values = true,
        default_value = "64MiB",
        value_parser = parse_size
    )]
    pub(crate) max_frame: usize,

    /// Colour: auto, always or never. auto is colour on a terminal unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        env = "ZCODE_ACP_COLOR",
        hide_env_values = true,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve ACP v1 on stdin and stdout; the same as no command
    #[command(after_help = "Example:\n  zcode-acp acp --log-level debug 2>agent.log\n\n\
        Ends with exit code 0 when stdin ends and on SIGTERM, SIGINT and SIGHUP; a second signal ends it at once.")]
    Acp,
    /// Say what is installed and whether it fits; starts nothing
    #[command(after_help = "Example:\n  zcode-acp version --json")]
    Version {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Send one prompt and watch the turn in the terminal
    #[command(after_help = "Examples:\n  \
        zcode-acp try --simulated \"show me around\"\n  \
        git diff | zcode-acp try - >review.md\n\n\
        The turn is shown on stderr and the final answer goes to stdout. Permissions are asked on the terminal; \
        without one they are denied. Ctrl-C cancels the turn, a second one ends the program.\n\n\
        Exit codes: 0 done, 1 other, 2 usage, 3 cancelled, 4 refused, 5 a limit, 6 sign-in, 7 ZCode or its host.")]
    Try(TryArgs),
    /// Sign in to ZCode in this terminal, with ZCode's own command
    #[command(after_help = "Example:\n  zcode-acp login\n\n\
        The install is verified first. The page to sign in can be opened on any machine. \
        Ends with the exit code of ZCode's command.")]
    Login,
    /// Sign out of ZCode, the desktop app included, with ZCode's own command
    #[command(after_help = "Example:\n  zcode-acp logout\n\n\
        The install is verified first. The desktop app shares the sign-in, so it is signed out too. \
        Ends with the exit code of ZCode's command.")]
    Logout,
    /// Speak the bridge protocol on stdin and stdout as a host would; for tests
    #[command(hide = true)]
    SimulatedHost {
        /// Scenario to play; otherwise the prompt chooses
        #[arg(long, value_name = "SCENARIO", env = "ZCODE_ACP_SIM_SCENARIO", hide_env_values = true)]
        scenario: Option<String>,
    },
}

/// Arguments of `try`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TryArgs {
    /// The prompt; `-` reads it from stdin, and so does leaving it out when stdin is not a terminal
    pub(crate) prompt: Option<String>,
    /// Folder the session works in
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub(crate) cwd: PathBuf,
    /// Show every ACP frame on stderr
    #[arg(long)]
    pub(crate) frames: bool,
    /// Print the updates to stdout, one JSON object a line, and a last line with the stop reason
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whether and how the simulated host is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Simulated {
    /// It is not.
    Off,
    /// The prompt chooses the scenario.
    ByPrompt,
    /// This scenario.
    Scenario(String),
}

/// A time limit that may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether to use colour on a stream.
    pub(crate) fn on(self, terminal: bool) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
            }
        }
    }
}

/// The command line with what a child needs of it.
pub(crate) struct Parsed {
    pub(crate) cli: Cli,
    /// The options given as flags, again as flags. Variables reach a child by themselves.
    pub(crate) flags: Vec<OsString>,
    /// The log level was chosen, by flag or variable.
    pub(crate) log_level_chosen: bool,
}

/// Parses the arguments. Help and version are errors too; they know that they go to stdout with exit code 0.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    // A variable that is set and empty is a variable that is not set.
    let command = Cli::command().mut_args(without_empty_variable);
    let matches = command.try_get_matches_from(args)?;
    let cli = Cli::from_arg_matches(&matches)?;
    let flags = flags_of(&matches);
    let innermost = matches.subcommand().map_or(&matches, |(_, inner)| inner);
    let log_level_chosen =
        innermost.value_source("log_level").is_some_and(|from| from != ValueSource::DefaultValue);
    Ok(Parsed { cli, flags, log_level_chosen })
}

fn without_empty_variable(arg: clap::Arg) -> clap::Arg {
    let empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    if empty { arg.env(Resettable::Reset) } else { arg }
}

fn flags_of(matches: &ArgMatches) -> Vec<OsString> {
    let innermost = matches.subcommand().map_or(matches, |(_, inner)| inner);
    let mut flags = Vec::new();
    for arg in Cli::command().get_arguments().filter(|arg| arg.is_global_set()) {
        let (Some(long), id) = (arg.get_long(), arg.get_id().as_str()) else { continue };
        if innermost.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let mut flag = OsString::from(format!("--{long}"));
        if let Some(value) = innermost.get_raw(id).and_then(|mut values| values.next())
            && !value.is_empty()
        {
            flag.push("=");
            flag.push::<&OsStr>(value);
        }
        flags.push(flag);
    }
    flags
}

#[expect(clippy::unnecessary_wraps, reason = "the shape the parser wants")]
fn parse_simulated(value: &str) -> Result<Simulated, String> {
    Ok(match value {
        "" | "1" | "true" | "yes" | "on" => Simulated::ByPrompt,
        "0" | "false" | "no" | "off" => Simulated::Off,
        name => Simulated::Scenario(name.to_owned()),
    })
}

fn parse_timeout(value: &str) -> Result<Timeout, String> {
    const RULE: &str = "give a time such as 90s, 10m or 1h, or none";
    if matches!(value, "none" | "off" | "0") {
        return Ok(Timeout(None));
    }
    let digits = value.trim_end_matches(|ch: char| ch.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| RULE)?;
    let seconds = match &value[digits.len()..] {
        "" | "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => None,
    };
    // Longer than a year is a slip, and would overflow timers.
    match seconds {
        Some(seconds @ 1..=31_536_000) => Ok(Timeout(Some(Duration::from_secs(seconds)))),
        _ => Err(RULE.to_owned()),
    }
}

fn parse_size(value: &str) -> Result<usize, String> {
    const RULE: &str = "give a number of bytes between 64KiB and 1024MiB, such as 64MiB";
    let digits = value.trim_end_matches(|ch: char| ch.is_ascii_alphabetic());
    let number: usize = digits.parse().map_err(|_| RULE)?;
    let bytes = match &value[digits.len()..] {
        "" | "B" => Some(number),
        "KiB" | "K" | "k" => number.checked_mul(1024),
        "MiB" | "M" | "m" => number.checked_mul(1024 * 1024),
        _ => None,
    };
    match bytes {
        Some(bytes @ 65_536..=1_073_741_824) => Ok(bytes),
        _ => Err(RULE.to_owned()),
    }
}

fn parse_level(value: &str) -> Result<Level, String> {
    value.parse().map_err(|error: diag_model::UnknownName| error.to_string())
}

fn parse_format(value: &str) -> Result<Format, String> {
    value.parse().map_err(|error: diag_model::UnknownName| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn parsed(args: &[&str]) -> Parsed {
        parse(std::iter::once("zcode-acp").chain(args.iter().copied()).map(OsString::from)).unwrap()
    }

    fn refused(args: &[&str]) -> clap::Error {
        parse(std::iter::once("zcode-acp").chain(args.iter().copied()).map(OsString::from)).err().unwrap()
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn simulated_leaves_the_prompt_alone() {
        let Parsed { cli, .. } = parsed(&["try", "--simulated", "hello there"]);
        assert_eq!(cli.options.simulated, Some(Simulated::ByPrompt));
        let Some(Command::Try(args)) = cli.command else { panic!("not try") };
        assert_eq!(args.prompt.as_deref(), Some("hello there"));
    }

    #[test]
    fn options_are_taken_before_and_after_the_command() {
        for args in [
            &["--simulated=perm", "--color=never", "try", "x"],
            &["try", "x", "--simulated=perm", "--color=never"],
        ] {
            let parsed = parsed(args);
            assert_eq!(parsed.cli.options.simulated, Some(Simulated::Scenario("perm".into())));
            assert_eq!(parsed.cli.options.color, Color::Never);
            assert_eq!(parsed.flags, ["--simulated=perm", "--color=never"]);
            assert!(!parsed.log_level_chosen);
        }
    }

    #[test]
    fn a_child_gets_the_flags_again() {
        let parsed = parsed(&["try", "x", "--simulated", "--zcode-install", "/a b", "--log-level", "trace"]);
        assert_eq!(parsed.flags, ["--zcode-install=/a b", "--simulated", "--log-level=trace"]);
        assert!(parsed.log_level_chosen);
    }

    #[test]
    fn wrong_values_are_usage_errors() {
        for args in [
            &["--log-level", "loud"][..],
            &["--permission-timeout", "soon"],
            &["--permission-timeout", "99999999999999999999h"],
            &["--max-frame", "1"],
            &["--max-frame", "4GiB"],
            &["--no-such-flag"],
            &["no-such-command"],
            &["try", "a", "b"],
        ] {
            assert_eq!(refused(args).exit_code(), 2, "{args:?}");
        }
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(parse_timeout("90s"), Ok(Timeout(Some(Duration::from_secs(90)))));
        assert_eq!(parse_timeout("10m"), Ok(Timeout(Some(Duration::from_mins(10)))));
        assert_eq!(parse_timeout("none"), Ok(Timeout(None)));
        assert_eq!(parse_size("8MiB"), Ok(8 << 20));
        assert_eq!(parse_size("65536"), Ok(65536));
        assert!(parse_size("ü").is_err() && parse_timeout("5ü").is_err());
    }

    /// The README's table, as the definitions say it.
    fn table() -> String {
        let mut table = String::from("| option | variable | default | |\n| --- | --- | --- | --- |\n");
        for arg in Cli::command().get_arguments().filter(|arg| arg.is_global_set()) {
            let value = arg.get_value_names().map_or(String::new(), |names| names.join(" "));
            let value = if arg.is_require_equals_set() { format!("[={value}]") } else { format!(" {value}") };
            let default = arg.get_default_values().first().map_or("", |value| value.to_str().unwrap());
            writeln!(
                table,
                "| `--{}{value}` | `{}` | {default} | {} |",
                arg.get_long().unwrap(),
                arg.get_env().unwrap().to_str().unwrap(),
                arg.get_help().unwrap(),
            )
            .unwrap();
        }
        table
    }

    #[test]
    fn the_readme_has_this_table() {
        let readme =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
        assert!(readme.contains(&table()), "README.md must contain:\n{}", table());
    }
}
