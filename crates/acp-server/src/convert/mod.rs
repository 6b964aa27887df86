//! The two directions between protocol types and neutral ones.

pub(crate) mod content;
pub(crate) mod form;
pub(crate) mod from_acp;
mod mcp;
pub(crate) mod setup;
pub(crate) mod to_acp;
mod tool;
