//! Lines of the bridge with the event in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zcode_protocol::bridge::Line;
use zcode_protocol::task_v1::DynamicEvent;

fuzz_target!(|data: &[u8]| {
    if let Ok(line) = serde_json::from_slice::<Line<'_, DynamicEvent<'_>>>(data) {
        let _ = line.classify();
    }
    if let Ok(line) = serde_json::from_slice::<Line<'_>>(data) {
        let _ = line.classify();
    }
});
