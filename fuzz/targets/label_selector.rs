#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::label_selector(bytes));
