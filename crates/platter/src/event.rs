//! Events that are no failures, but that a caller may want to report.

use platter_device::{MirrorEvent, Standing};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An event during a call that did what it was asked. As text it is one line for people.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A copy of a mirror could not be read or written.
    Mirror(&'e MirrorEvent<'e>),
    /// A copy of a mirror is left out, or is damaged.
    Copy {
        /// The copy's name.
        name: &'e str,
        /// The reason why the copy is left out.
        standing: &'e Standing,
    },
    /// A mirror was not closed when it was last written to.
    Unclosed {
        /// Whether the mirror is opened for writing, in which case the copies are compared.
        writes: bool,
    },
    /// A copy of a mirror is about to be written to by itself.
    WrittenAlone(&'e Path),
    /// A copy of a mirror whose rebuild was not completed is opened by itself.
    Unfinished(&'e Path),
    /// The copies of a mirror begin with different content; one of them is read.
    Unlike(&'e platter_device::Error),
    /// The device ends before the volume on it does, and is only read; the text is the reason.
    CutOff(&'e str),
    /// The first sector of the device or partition cannot be read, and is taken for zeroes.
    BlankFirstSector(&'e platter_device::Error),
    /// A repair failed, and this file holds the bytes that it had overwritten until then.
    UndoKept(&'e Path),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Mirror(event) => event.fmt(f),
            Event::Copy { name, standing } => write!(f, "{name}: this copy of the mirror is {standing}"),
            Event::Unclosed { writes } => {
                let what =
                    if *writes { "the copies are compared where it wrote" } else { "one copy is read" };
                write!(f, "the mirror was not closed when it was last written to; {what}")
            }
            Event::WrittenAlone(path) => write!(
                f,
                "{} is a copy of a mirror; written to by itself, it will differ from the others",
                path.display()
            ),
            Event::Unfinished(path) => write!(
                f,
                "{} is a copy of a mirror whose rebuild was not completed; it holds parts of two contents",
                path.display()
            ),
            Event::Unlike(error) => error.fmt(f),
            Event::CutOff(why) => write!(f, "{why}; what lies there cannot be read"),
            Event::BlankFirstSector(error) => {
                write!(
                    f,
                    "{error}; the first sector is taken for zeroes, and what is there is found by copies"
                )
            }
            Event::UndoKept(path) => {
                write!(f, "what was overwritten until then is in {}", path.display())
            }
        }
    }
}

/// A callback that is told of [`Event`]s; the default ignores them.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<Hears>>);

type Hears = dyn Fn(&Event<'_>) + Send + Sync;

impl Listener {
    /// Calls `hear` at each event, on the thread on which the event occurs.
    pub fn new(hear: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Listener {
        Listener(Some(Arc::new(hear)))
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(hear) = &self.0 {
            hear(event);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener(..)" } else { "Listener" })
    }
}
