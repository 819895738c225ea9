//! Replays every input in the fuzzing corpus, on stable Rust.

#[test]
fn kept_inputs_are_read_and_rendered_without_a_panic() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/lab_input");
    let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    inputs.iter().for_each(|path| platter_lab::fuzzing::input(&std::fs::read(path).unwrap()));
}
