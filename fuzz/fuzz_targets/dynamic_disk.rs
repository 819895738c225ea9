#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| platter_images::fuzzing::disk_group(bytes));
