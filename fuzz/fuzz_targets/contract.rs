//! Contract files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime_discovery::Contract;

fuzz_target!(|text: &str| {
    if let Ok(contract) = Contract::parse(text) {
        let again = serde_json::to_string(&contract).expect("a contract can be written");
        Contract::parse(&again).expect("what was read can be read again");
    }
});
