#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::patch(bytes, "application/merge-patch+json"));
