//! Serde types of the bridge wire and of ZCode's host services. No I/O, no ACP, no policy.
//!
//! * [`bridge`] is the line protocol between the adapter and `host-bridge.cjs`; the simulated host speaks it too.
//! * [`task_v1`] holds the services and events of protocol id `zcode-task-v1` (ZCode 3.11.2).
//!
//! Types are strict about types, kinds and required fields and tolerant about unknown fields. Whatever is on the hot
//! path borrows from the line it was read from. Deliberately absent: reading or writing of bytes, timeouts, and the
//! neutral meaning of all this, which `zcode-runtime` gives it.

pub mod bridge;
pub mod task_v1;
