//! What the tests share: fixture installs, drivers and redactions. Development only; nothing shipped depends on it.
//!
//! * [`driver`]: a spawned agent on raw lines, with every byte of stdout checked.
//! * [`home`]: a sealed place to run it in.
//! * [`install`]: fake ZCode installs.
//! * [`process`]: who still runs.
//! * [`redact`]: names for what changes from run to run.
//! * [`wait`]: waiting for a condition.
//!
//! Its functions panic where a test would: a driver that cannot drive is a failed test.
#![allow(clippy::expect_used, clippy::panic, clippy::must_use_candidate, clippy::return_self_not_must_use)]

pub mod driver;
pub mod home;
pub mod install;
pub mod process;
pub mod redact;
pub mod wait;

pub use driver::{Agent, Finished, Reads};
pub use home::Home;
