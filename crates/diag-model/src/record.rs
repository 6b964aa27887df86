//! Diagnostic records: the one format of stderr, file, ring and attach.
//!
//! Everything a record may hold is a typed field here: ids, names, kinds, sizes, durations, counts and codes. There is
//! no field for prompt text, tool input or output, header or environment values, so none can be logged by accident.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{AskId, InputId, SessionId, ToolCallId};

/// Version of the record format. It rises when a field changes its meaning; new optional fields do not raise it.
pub const RECORD_SCHEMA_VERSION: u32 = 1;

/// The step of the way from an install to an answer in which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Looking for the install.
    Discover,
    /// Comparing it with the contract.
    Verify,
    /// Starting the runtime.
    Spawn,
    /// Waiting for the host to be ready.
    Handshake,
    /// Sign-in.
    Auth,
    /// Workspaces and sessions.
    Session,
    /// Models and modes.
    Model,
    /// A turn.
    Prompt,
}

impl Phase {
    /// All phases, in the order of the way.
    pub const ALL: &'static [Phase] = &[
        Phase::Discover,
        Phase::Verify,
        Phase::Spawn,
        Phase::Handshake,
        Phase::Auth,
        Phase::Session,
        Phase::Model,
        Phase::Prompt,
    ];

    /// The name used in errors and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Discover => "discover",
            Phase::Verify => "verify",
            Phase::Spawn => "spawn",
            Phase::Handshake => "handshake",
            Phase::Auth => "auth",
            Phase::Session => "session",
            Phase::Model => "model",
            Phase::Prompt => "prompt",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much a record matters. Ordered: `Error` is the least talkative setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Something failed that somebody asked for.
    Error,
    /// Something is wrong or surprising and work goes on.
    Warn,
    /// A step of normal work.
    #[default]
    Info,
    /// What a developer of this program wants to see.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// All levels, the least talkative first.
    pub const ALL: &'static [Level] = &[Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    /// The name used in records and options.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that is none of the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be one of {expected}")]
pub struct UnknownName {
    /// What was being read.
    pub what: &'static str,
    /// The allowed names.
    pub expected: &'static str,
}

impl FromStr for Level {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Level::ALL
            .iter()
            .copied()
            .find(|level| level.as_str().eq_ignore_ascii_case(name))
            .ok_or(UnknownName { what: "the log level", expected: "error, warn, info, debug, trace" })
    }
}

/// Which way something went, seen from the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client said it.
    FromClient,
    /// Told to the client.
    ToClient,
    /// The host said it.
    FromHost,
    /// Told to the host.
    ToHost,
}

impl Direction {
    const ALL: &'static [Direction] =
        &[Direction::FromClient, Direction::ToClient, Direction::FromHost, Direction::ToHost];

    /// The name used in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::FromClient => "from_client",
            Direction::ToClient => "to_client",
            Direction::FromHost => "from_host",
            Direction::ToHost => "to_host",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A type a fact may have, made from the text or number an event carries.
trait FactValue: Sized {
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! fact_from_string {
    ($($kind:ty),*) => { $( impl FactValue for $kind {
        fn from_text(text: &str) -> Option<Self> {
            Some(Self::from(text))
        }
    } )* };
}
macro_rules! fact_by_parsing {
    ($($kind:ty),*) => { $( impl FactValue for $kind {
        fn from_text(text: &str) -> Option<Self> {
            text.parse().ok()
        }
    } )* };
}
fact_from_string!(String, SessionId, AskId, InputId, ToolCallId);
fact_by_parsing!(u32, u64, i64, bool);

impl FactValue for Phase {
    fn from_text(text: &str) -> Option<Self> {
        Phase::ALL.iter().copied().find(|phase| phase.as_str() == text)
    }
}

impl FactValue for Direction {
    fn from_text(text: &str) -> Option<Self> {
        Direction::ALL.iter().copied().find(|direction| direction.as_str() == text)
    }
}

macro_rules! facts {
    ($( $(#[$doc:meta])* $field:ident / $name:literal as $key:literal : $kind:ty, )*) => {
        /// The facts of one record. The set is closed: what is not here cannot be logged.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Facts {
            $( $(#[$doc])* #[serde(rename = $key, default, skip_serializing_if = "Option::is_none")] pub $field: Option<$kind>, )*
        }

        impl Facts {
            /// The names an event may use for its fields.
            pub const NAMES: &'static [&'static str] = &[ $( $name, )* ];

            /// Sets a fact by the name an event uses. `false` when there is no such fact or the value is not of its
            /// type. The text must be redacted already.
            pub fn set(&mut self, name: &str, text: &str) -> bool {
                match name {
                    $( $name => match <$kind as FactValue>::from_text(text) {
                        Some(value) => { self.$field = Some(value); true }
                        None => false,
                    }, )*
                    _ => false,
                }
            }

            /// Shows the facts that are set, in their order, under the keys of the serialised form.
            pub fn each(&self, mut show: impl FnMut(&'static str, &dyn fmt::Display)) {
                $( if let Some(value) = &self.$field { show($key, value); } )*
            }
        }
    };
}

facts! {
    /// The session.
    session / "session" as "session": SessionId,
    /// The question of the host.
    ask / "ask" as "ask": AskId,
    /// The native turn.
    turn / "turn" as "turn": String,
    /// The submitted prompt.
    input / "input" as "input": InputId,
    /// The tool call.
    call / "call" as "call": ToolCallId,
    /// The workspace, as the client wrote it.
    workspace / "workspace" as "workspace": String,
    /// The step of the way.
    phase / "phase" as "phase": Phase,
    /// An error code.
    code / "code" as "code": String,
    /// Which way it went.
    direction / "direction" as "direction": Direction,
    /// A method name of either protocol.
    method / "method" as "method": String,
    /// A host service.
    service / "service" as "service": String,
    /// A native event type.
    event / "event" as "event": String,
    /// A kind within a type.
    kind / "kind" as "kind": String,
    /// The native sequence number.
    event_seq / "seq" as "eventSeq": u64,
    /// A process.
    pid / "pid" as "pid": u32,
    /// A duration, milliseconds.
    ms / "ms" as "ms": u64,
    /// A size.
    bytes / "bytes" as "bytes": u64,
    /// A count.
    count / "count" as "count": u64,
    /// How a process ended.
    exit_code / "exit_code" as "exitCode": i64,
    /// The signal that ended a process, by name or number.
    signal / "signal" as "signal": String,
    /// A state.
    state / "state" as "state": String,
    /// The state that was left.
    from / "from" as "from": String,
    /// The state that was entered.
    to / "to" as "to": String,
    /// Why, from a closed set of words.
    reason / "reason" as "reason": String,
    /// The client's name.
    client / "client" as "client": String,
    /// The client's version.
    client_version / "client_version" as "clientVersion": String,
    /// A version of this program, of ZCode or of a protocol.
    version / "version" as "version": String,
    /// The contract in force.
    contract / "contract" as "contract": String,
    /// Whether the simulated host is used.
    simulated / "simulated" as "simulated": bool,
    /// A file of the install.
    path / "path" as "path": String,
    /// A line of the host's stderr, redacted.
    stderr / "stderr" as "stderr": String,
    /// A failure as a user sees it.
    error / "error" as "error": String,
}

/// One diagnostic record.
///
/// In its serialised form it is one JSON object on one line; readers ignore fields they do not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// [`RECORD_SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// Rises by one with every record of a process, so that a reader sees what was lost.
    pub seq: u64,
    /// When, milliseconds since 1970 (UTC).
    pub at: u64,
    /// How much it matters.
    pub level: Level,
    /// The dotted name of what happened, for example `session.created`.
    pub name: String,
    /// The module that said it, when the name alone does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The facts, in the same object.
    #[serde(flatten)]
    pub facts: Facts,
    /// How many fields were left out because records have no place for them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// How many records of the same name were left out before this one because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suppressed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A line that cannot be read as a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Written by a newer version whose fields have another meaning.
    #[error("the record has schema {found}, this version reads up to {RECORD_SCHEMA_VERSION}")]
    NewerSchema {
        /// The schema of the line.
        found: u32,
    },
    /// Not a record.
    #[error("the line is not a diagnostic record")]
    Malformed(#[from] serde_json::Error),
}

impl Record {
    /// A record without facts; `seq` and `at` are the writer's.
    pub fn new(level: Level, name: impl Into<String>) -> Self {
        Self {
            schema: RECORD_SCHEMA_VERSION,
            seq: 0,
            at: 0,
            level,
            name: name.into(),
            target: None,
            facts: Facts::default(),
            omitted: 0,
            suppressed: 0,
        }
    }

    /// The serialised form without a line break at its end; there is none inside either.
    pub fn to_line(&self) -> String {
        // Strings, numbers and string keys cannot fail to serialise; an empty object is still one line of JSON.
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }

    /// Reads a serialised record. The schema is looked at first, so that a newer one is named and not misread.
    pub fn from_line(line: &str) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(line)?;
        if head.schema > RECORD_SCHEMA_VERSION {
            return Err(RecordError::NewerSchema { found: head.schema });
        }
        Ok(serde_json::from_str(line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Record {
        let mut record = Record::new(Level::Warn, "host.exited");
        record.seq = 7;
        record.at = 1_800_000_000_123;
        for (name, text) in [
            ("session", "s-1"),
            ("phase", "prompt"),
            ("direction", "from_host"),
            ("seq", "42"),
            ("pid", "17"),
            ("exit_code", "-1"),
            ("client_version", "1.2"),
            ("simulated", "true"),
            ("stderr", "a \"quoted\" line"),
        ] {
            assert!(record.facts.set(name, text), "{name}");
        }
        record
    }

    #[test]
    fn the_serialised_form_is_one_flat_line() {
        insta::assert_snapshot!(full().to_line(), @r#"{"schema":1,"seq":7,"at":1800000000123,"level":"warn","name":"host.exited","session":"s-1","phase":"prompt","direction":"from_host","eventSeq":42,"pid":17,"exitCode":-1,"clientVersion":"1.2","simulated":true,"stderr":"a \"quoted\" line"}"#);
    }

    #[test]
    fn what_is_written_is_read_and_unknown_fields_are_ignored() {
        let record = full();
        let line = record.to_line();
        assert_eq!(Record::from_line(&line).unwrap(), record);
        let newer = line.replacen('{', r#"{"novel":{"a":[1]},"#, 1);
        assert_eq!(Record::from_line(&newer).unwrap(), record);
    }

    #[test]
    fn a_newer_schema_is_named_whatever_else_is_in_the_line() {
        let error = Record::from_line(r#"{"schema":2,"level":"loud"}"#).unwrap_err();
        assert!(matches!(error, RecordError::NewerSchema { found: 2 }), "{error}");
        assert!(matches!(Record::from_line("[]").unwrap_err(), RecordError::Malformed(_)));
    }

    #[test]
    fn facts_outside_the_set_or_of_another_type_are_refused() {
        let mut facts = Facts::default();
        for (name, text) in [
            ("prompt", "x"),
            ("message", "x"),
            ("pid", "x"),
            ("pid", "-1"),
            ("phase", "x"),
            ("simulated", "1"),
        ] {
            assert!(!facts.set(name, text), "{name}={text}");
        }
        assert_eq!(facts, Facts::default());
        for name in Facts::NAMES {
            let taken = ["x", "1", "true", "prompt", "to_host"].iter().any(|text| facts.set(name, text));
            assert!(taken, "{name}");
        }
        let mut shown = Vec::new();
        facts.each(|key, _| shown.push(key));
        assert_eq!(shown.len(), Facts::NAMES.len());
        for head in ["schema", "seq", "at", "level", "name", "target", "omitted", "suppressed"] {
            assert!(!shown.contains(&head), "{head} has two meanings");
        }
    }

    #[test]
    fn levels_are_ordered_and_read_by_name() {
        assert!(Level::Error < Level::Trace);
        for level in Level::ALL {
            assert_eq!(level.as_str().parse::<Level>().unwrap(), *level);
        }
        assert!("loud".parse::<Level>().unwrap_err().to_string().contains("trace"));
    }
}
