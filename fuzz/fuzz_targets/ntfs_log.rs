#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| platter_ntfs::fuzzing::log(bytes));
