//! Services and events of protocol id `zcode-task-v1` (ZCode 3.11.2).
