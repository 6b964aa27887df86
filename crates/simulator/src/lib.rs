//! The simulated ZCode host: an embedded host that plays scenarios, for client developers and for this project's tests.
//!
//! It speaks the bridge wire over any byte stream ([`serve`]), so the same code runs in-process over a duplex and as a child
//! process. It stands for the *official host*, not for the adapter's idea of it: the JSON of its answers and events is
//! written here by hand and shares no type with the adapter's own reading of them, so a misunderstanding shows.
//!
//! Deliberately absent: any effect outside its state directory. Tools are told, never run; files a scenario "reads" are made
//! up; no process is started and nothing is sent over a network. It never writes to stdout or stderr by itself.

mod host;
mod scenario;
mod serve;
mod services;
mod session;
mod snapshot;
mod store;
mod turn;
mod wire;

pub use scenario::{Builtin, LoadError, Scenario, ScenarioError, ScenarioSource, builtin, find};
pub use serve::{SimOptions, StderrSink, serve};
pub use wire::{SimulatedCrash, crash_code};
