//! Knows where ZCode is installed and whether it is the one this adapter was verified with.
//!
//! This is the only crate that knows install roots, bundle paths and file names. The facts themselves are data
//! ([`contract`]); the code here finds an install ([`gate::resolve`]), reads it without executing anything of it, judges
//! it against the contract ([`gate::verify`]) and says how its runtime is to be started ([`launch`]).
//!
//! Deliberately absent: spawning, the host's protocol, and any way round the gate. The environment is never read on the
//! quiet; whoever calls hands it in as [`Environment`].

pub mod asar;
pub mod contract;
mod digest;
mod exports;
pub mod gate;
pub mod launch;
mod layout;
mod manifest;
#[cfg(test)]
mod testing;

pub use contract::Contract;
pub use digest::Sha256Digest;
pub use exports::exported_names;
pub use layout::{Environment, Platform};
