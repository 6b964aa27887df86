//! Supervises the host, embeds the bridge script, correlates calls, and gives ZCode's private services a neutral meaning.
//!
//! * [`model`]: the neutral vocabulary. The session machines speak only this.
//! * [`cli_command`]: the installed CLI's own sign-in and sign-out.
//! * [`host`]: a running host as a handle ([`host::Host`]) with the neutral operations.
//! * `supervisor`, `transport`, `client`, `os`: process, frames, correlation, process trees.
//! * `descriptor`: the seam behind which a protocol id lives; `task_v1` is the one that exists.
//!
//! Deliberately absent: ACP, session state, any decision about a turn.

pub mod cli_command;
mod client;
mod descriptor;
mod gate;
pub mod host;
pub mod model;
mod os;
mod redact;
mod stderr;
mod supervisor;
mod task_v1;
mod transport;

#[cfg(test)]
mod bench_tests;
