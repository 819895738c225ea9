//! `platter browse`

use crate::command::browse;
use crate::command::failure::{Outcome, shown};
use crate::command::view::View;
use crate::command::volume::{ReadOptions, VolumePath};
use clap::Args;
use platter_vfs::Kind;
use std::ffi::OsString;

/// Look around in a volume, in the terminal
///
/// The directory is on the left, with its content, attributes, streams, snapshots and integrity on the right. Nothing is
/// written to the image. The keys are those of mc and of ranger: arrows or h, j, k, l move, Enter opens, Backspace goes up,
/// F3 views, F5 or y copies out, / searches, F10 or q quits, and ? shows all of them.
///
/// t shows the streams and snapshots of a file, which are viewed and copied like files; i shows the volume, c checks it,
/// d looks for deleted and damaged files, and r copies out all that is found, as `platter check` and
/// `platter recover` do. Esc ends what takes long.
///
/// What is copied keeps all that the host can hold, and overwrites nothing there.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE; with @N partition N; with a path, begin there
    #[arg(value_name = "IMAGE[:/PATH]")]
    path: OsString,
    /// Show shadow copy N of the volume, 1 is the oldest (NTFS)
    #[arg(long, value_name = "N")]
    shadow: Option<u32>,
    #[command(flatten)]
    volume: ReadOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let path = VolumePath::parse_or_root(&self.path)?;
        let view = View::open(&path.image, &self.volume, self.shadow)?;
        let mut place = path.names.clone();
        if view.details(&place)?.attributes.kind != Kind::Directory {
            // Who names a file means the directory that it is in.
            place.pop();
        }
        let image = match self.shadow {
            Some(number) => format!("{} (shadow copy {number})", shown(&path.image)),
            None => shown(&path.image).to_string(),
        };
        browse::run(view, image, place)
    }
}
