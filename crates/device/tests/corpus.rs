//! Runs every kept input of the fuzzer, on stable Rust.

#[test]
fn kept_devices_are_looked_at_without_a_panic() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/device");
    let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    inputs.iter().for_each(|path| platter_device::fuzzing::device(&std::fs::read(path).unwrap()));
}
