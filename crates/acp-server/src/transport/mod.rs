//! Lines in and out.
//!
//! The SDK's own stdio transport hops to a thread for every line and flushes each one alone, ends the connection on
//! invalid UTF-8, has no length limit and echoes what it cannot parse. This one reads and writes on two threads of its
//! own, coalesces output, and hands the SDK nothing that could be echoed. The stock transport stays behind a switch
//! ([`stock`]), so that a defect of this one can be told from a defect of the rest.

pub mod ledger;
pub mod reader;
pub mod stock;
pub mod writer;
