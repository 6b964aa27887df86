//! The two directions between protocol types and neutral ones.

pub(crate) mod from_acp;
pub(crate) mod to_acp;
