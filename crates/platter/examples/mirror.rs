//! Two copies of a volume, of which one is damaged and repaired from the other: `cargo run --example mirror DIRECTORY`.

use platter::{FormatOptions, MakeOptions, ScrubOptions, Silent};
use std::os::unix::fs::FileExt;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("mirror DIRECTORY")?;
    let source = format!("mirror:{directory}/a.img,{directory}/b.img");
    let format = FormatOptions { integrity: Some(true), ..FormatOptions::default() };
    let options = MakeOptions { size: Some(512 << 20), format, ..MakeOptions::default() };
    platter::mkfs(&source, "refs", &options, &Silent)?;
    let content = vec![7; 1 << 20];
    let volume = platter::open_rw(&source)?;
    volume.write("file", &content)?;
    let extents = volume.extents("file")?;
    volume.close()?;

    // What no disk should do: other bytes in the middle of the file, without an error.
    let platter::vfs::Place::Device(at) = extents[0].place else {
        return Err("the file is on the device".into());
    };
    let copy = std::fs::File::options().write(true).open(format!("{directory}/a.img"))?;
    copy.write_all_at(&[1; 4096], at)?;
    drop(copy);

    // Every read verifies checksums, and takes the other copy where one is wrong.
    assert_eq!(platter::open(&source)?.read("file")?, content);
    let report = platter::scrub(&source, &ScrubOptions::default(), &Silent)?.report;
    println!("{} damaged ranges, {} repaired", report.found, report.repaired);
    Ok(())
}
