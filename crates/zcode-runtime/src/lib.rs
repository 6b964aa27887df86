//! Supervises the host, embeds the bridge script, correlates calls, and gives ZCode's private services a neutral meaning.
//!
//! * [`model`]: the neutral vocabulary. The session machines speak only this.
//! * [`host`]: a running host as a handle ([`host::Host`]) with the neutral operations.
//! * `supervisor`, `transport`, `client`, `os`: process, frames, correlation, process trees.
//! * `task_v1`: the one module that knows the services of protocol id `zcode-task-v1`.
//!
//! Deliberately absent: ACP, session state, any decision about a turn.

pub mod host;
pub mod model;
