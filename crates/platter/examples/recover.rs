//! Copies out what is left of a volume: `cargo run --example recover broken.img rescued`.

use platter::{RecoverOptions, Silent, Source};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(source), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("recover IMAGE DIRECTORY".into());
    };
    let source = Source::parse(source)?;
    let to = platter::recover_to(&source, Path::new(&directory), &RecoverOptions::default(), &Silent)?;
    println!("{} files with {} bytes", to.saved, to.bytes);
    to.troubles.iter().for_each(|trouble| println!("{trouble}"));
    Ok(())
}
