//! Supervises the host, embeds the bridge script, correlates calls, and gives ZCode's private services a neutral meaning.
//!
//! * [`model`]: the neutral vocabulary. The session machines speak only this.
//! * [`host`]: a running host as a handle ([`host::Host`]) with the neutral operations.
//! * `supervisor`, `transport`, `client`, `os`: process, frames, correlation, process trees.
//! * `descriptor`: the seam behind which a protocol id lives; `task_v1` is the one that exists.
//!
//! Deliberately absent: ACP, session state, any decision about a turn.

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
