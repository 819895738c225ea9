//! Writes sample reports in every format, to look at while changing how they are shown:
//! `cargo run -p platterfs-lab --example sample_report -- DIRECTORY`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use platter_lab::report::terminal::{self, View};
use platter_lab::report::{Diff, csv, html, markdown};
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("usage: sample_report DIRECTORY"));
    std::fs::create_dir_all(&directory)?;
    for (name, document) in
        [("full", sample::full()), ("quick", sample::quick()), ("volumes", sample::two_volumes())]
    {
        let write = |extension: &str, text: String| {
            std::fs::write(directory.join(format!("{name}.{extension}")), text)
        };
        write("json", document.to_json())?;
        write("html", html::render(&document, name == "full"))?;
        write("md", markdown::render(&document, name == "full"))?;
        write("csv", csv::render(&document))?;
        write("txt", terminal::render(&document, View { published: name == "full", ..View::default() }))?;
    }
    let diff = Diff::new(&sample::quick(), &sample::full());
    std::fs::write(directory.join("diff.txt"), diff.terminal(false))?;
    std::fs::write(directory.join("diff.md"), diff.markdown())
}
