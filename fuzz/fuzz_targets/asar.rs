//! Archive headers: prefix, then the JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime_discovery::asar::{Header, Prefix};

fuzz_target!(|data: &[u8]| {
    if let Some(prefix) = data.first_chunk() {
        let _ = Prefix::parse(prefix);
    }
    if let Ok(header) = Header::parse(data) {
        let _ = header.get("out/host/index.js");
        let _ = header.len();
    }
});
