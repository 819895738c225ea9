//! The documents as a book of HTML pages, made by mdBook.

use crate::Outcome;
use crate::command::{Scratch, cargo, run, text, write};
use std::path::{Path, PathBuf};

/// The version of mdBook that is installed if there is none.
const MDBOOK: &str = "0.5.4";

/// Makes the book in a directory.
pub(crate) fn make(directory: &str) -> Outcome {
    let program = provide()?;
    let here = Scratch::new("book")?;
    let source = here.folder("src")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let contents = read(&root.join("docs/SUMMARY.md"))?;
    let flat_contents = flat(&contents);
    let is_chapter = |file: &str| links(&flat_contents).any(|chapter| chapter == file);
    for (link, name) in links(&contents).zip(links(&flat_contents)) {
        let page = flat(&read(&root.join("docs").join(link))?);
        write(&source.join(name), &unlinked(&page, is_chapter))?;
    }
    write(&source.join("SUMMARY.md"), &flat_contents)?;
    for picture in pictures(&root.join("docs"))? {
        copy(&picture, &source.join(picture.file_name().unwrap_or_default()))?;
    }
    write(
        &here.folder("")?.join("book.toml"),
        "[book]\ntitle = \"Platter\"\nlanguage = \"en\"\nsrc = \"src\"\n",
    )?;
    let built = std::path::absolute(directory).map_err(|error| format!("{directory}: {error}"))?;
    run(text(&program)?, &["build", text(&here.folder("")?)?, "--dest-dir", text(&built)?], &[])?;
    whole(&built)
}

/// Returns the path of mdBook, which is installed below `target` if it is not there yet.
fn provide() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mdbook");
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        let what = ["install", "mdbook", "--version", MDBOOK, "--locked", "--no-default-features"];
        cargo(&[&what[..], &["--root", text(&folder)?]].concat())?;
    }
    Ok(program)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the paths of the pictures in a directory.
fn pictures(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let is_picture =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == "png" || ending == "svg");
    Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_picture).collect())
}

fn copy(from: &Path, to: &Path) -> Outcome {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

/// Returns the targets of the links of a page.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns a page without the links that lead out of the book, to a file of the project; their text is kept.
fn unlinked(page: &str, is_chapter: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut rest = page;
    while let Some(at) = rest.find("](") {
        let (before, from) = rest.split_at(at);
        let (Some(open), Some(end)) = (before.rfind('['), from.find(')')) else {
            kept += &rest[..at + 2];
            rest = &rest[at + 2..];
            continue;
        };
        let target = &from[2..end];
        let stays = target.contains("://")
            || target.starts_with('#')
            || target.ends_with(".png")
            || target.ends_with(".svg")
            || is_chapter(target.split('#').next().unwrap_or_default());
        kept += &before[..open];
        kept += if stays { &rest[open..at + end + 1] } else { &before[open + 1..] };
        rest = &from[end + 1..];
    }
    kept + rest
}

/// Changes the links of a page for the book, whose pages are all in one directory.
fn flat(page: &str) -> String {
    page.replace("](docs/", "](").replace("](../", "](")
}

/// Checks that each link in the generated pages leads to an existing file.
fn whole(built: &Path) -> Outcome {
    let pages = std::fs::read_dir(built).map_err(|error| format!("{}: {error}", built.display()))?;
    let mut count = 0;
    for page in pages.filter_map(|page| page.ok().map(|page| page.path())) {
        if page.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        for target in read(&page)?.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.contains(':') && !file.is_empty() && !built.join(file).exists() {
                return Err(format!("{}: {target} is not there", page.display()));
            }
        }
        count += 1;
    }
    eprintln!("{count} pages in {}", built.display());
    Ok(())
}
