#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| platter_refs::fuzzing::check(bytes));
