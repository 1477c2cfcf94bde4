#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::patch(bytes, "application/json-patch+json"));
