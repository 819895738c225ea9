//! Repairs a volume, and takes the repair back: `cargo run --example undo disk.img`. The image is as before in the end.

use platter::{CheckOptions, Silent, UndoOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = std::env::args().nth(1).ok_or("undo IMAGE")?;
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let checked = platter::check(&image, &options, &Silent)?;
    for finding in &checked.report.findings {
        println!("{finding}");
    }
    // Before the first byte was overwritten, the old content was in this file.
    let Some((file, bytes)) = checked.undo else {
        println!("{}: nothing to repair", checked.format);
        return Ok(());
    };
    println!("{} repaired; {bytes} bytes of old content in {}", checked.report.repaired, file.display());
    let undone = platter::undo(&file, &image, &UndoOptions::default(), &Silent)?;
    println!("{} blocks as they were", undone.blocks);
    Ok(())
}
