//! `platter windows-kit`

use crate::command::failure::{About, Failure, Outcome, USAGE, shown};
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::windows_kit::images::{IMAGES, Image};
use crate::command::windows_kit::manifest::{KitManifest, VERSION};
use crate::command::windows_kit::{pack, script};
use clap::Args;
use platter_device::show_size;
use platter_vfs::Progress;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Make images for Windows to judge, and the script that asks it
///
/// DIR, which must be empty or not exist, gets an image of each kind that Platter makes (format, version, cluster
/// size, checksums, after a crash, after a repair) as a fixed VHD with one partition, NAME.json with the SHA-256 of
/// each file in it, manifest.json for all of them, and kit.ps1. On a Windows with administrator's rights,
/// `powershell -ExecutionPolicy Bypass -File kit.ps1` attaches each image, reads and compares all of it, runs the
/// checkers of Windows, writes to a copy, and leaves verdict.json; `platter windows-verdict` judges that. The images
/// are sparse here; on Windows they take their full size.
///
/// kit.ps1 -Fresh makes volumes with Windows and packs their metadata into files of some MiB; --unpack makes an image of
/// such a file again.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to make the kit; with --unpack, the image to make
    #[arg(value_name = "DIR", required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// Make this image only; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the images
    #[arg(long, conflicts_with_all = ["directory", "unpack"])]
    list: bool,
    /// What the contents of all files follow from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Make the image of a pack instead
    #[arg(long, value_name = "PACK", conflicts_with = "only")]
    unpack: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        if let Some(unknown) = self.only.iter().find(|only| IMAGES.iter().all(|image| image.name != **only)) {
            let why = "the kit has no image of this name; --list lists them";
            return Err(Failure::new(unknown, why).with_code(USAGE));
        }
        let is_chosen =
            |image: &&Image| self.only.is_empty() || self.only.iter().any(|only| only == image.name);
        let chosen: Vec<&Image> = IMAGES.iter().filter(is_chosen).collect();
        match (&self.directory, &self.unpack) {
            (Some(image), Some(pack)) => unpack(pack, image),
            (Some(directory), None) => make(directory, &chosen, self.seed),
            (None, _) => list(&chosen),
        }
    }
}

fn list(images: &[&Image]) -> Outcome {
    let mut output = Output::new();
    let width = images.iter().map(|image| image.name.len()).max().unwrap_or(0);
    for image in images {
        let size = show_size(image.disk());
        output.line(format_args!("{:<width$}  {size:>8}  {}", image.name, image.about))?;
    }
    output.finish()?;
    Ok(0)
}

fn unpack(pack: &Path, image: &Path) -> Outcome {
    let mut from = BufReader::new(File::open(pack).about(shown(pack))?);
    let mut to = File::options().write(true).create_new(true).open(image).about(shown(image))?;
    if let Err(error) = pack::unpack(&mut from, &mut to) {
        let _ = fs::remove_file(image);
        return Err(Failure::from_io(shown(pack), &error));
    }
    Ok(0)
}

fn make(directory: &Path, images: &[&Image], seed: u64) -> Outcome {
    match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => {
            return Err(Failure::new(
                shown(directory),
                "is not empty; a kit is made in a directory of its own",
            ));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(directory).about(shown(directory))?;
        }
        Err(error) => return Err(Failure::from_io(shown(directory), &error)),
    }
    let bar = Bar::new(Unit::Steps);
    let mut kit = KitManifest {
        schema: "platter-windows-kit".into(),
        version: VERSION,
        platter: env!("CARGO_PKG_VERSION").into(),
        seed,
        images: Vec::new(),
    };
    for (number, image) in images.iter().enumerate() {
        bar.progress(image.name, number as u64, images.len() as u64);
        let made = image.make(&directory.join(format!("{}.vhd", image.name)), seed)?;
        write_json(&directory.join(format!("{}.json", image.name)), &made)?;
        kit.images.push(made);
    }
    drop(bar);
    write_json(&directory.join("manifest.json"), &kit)?;
    let path = directory.join(script::NAME);
    fs::write(&path, script::text()).about(shown(&path))?;
    let mut output = Output::new();
    let count = images.len();
    output.line(format_args!(
        "{}: {count} images; on Windows, as administrator: powershell -ExecutionPolicy Bypass -File {}",
        shown(directory),
        script::NAME
    ))?;
    output.finish()?;
    Ok(0)
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("plain data has a JSON form");
    fs::write(path, text + "\n").about(shown(path))
}
