//! End-to-end suites: the built binary, spawned as its users spawn it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod agent;
mod cases;
mod cli;
#[cfg(target_os = "linux")]
mod endings;
#[cfg(target_os = "linux")]
mod footprint;
#[cfg(unix)]
mod install;
mod secrets;
#[cfg(unix)]
mod sign_in;
mod support;
mod try_command;
