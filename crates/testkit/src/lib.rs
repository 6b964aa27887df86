//! What the tests share: fixture installs, drivers and redactions. Development only; nothing shipped depends on it.

pub mod install;
