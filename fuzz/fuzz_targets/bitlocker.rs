#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| platter_bitlocker::fuzzing::volume(bytes));
