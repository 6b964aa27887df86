//! Export lists of modules.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = runtime_discovery::exported_names(data);
});
