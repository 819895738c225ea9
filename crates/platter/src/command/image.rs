//! Printing what happens to the images that arguments name.

use crate::command::failure::tell;
use platter::{Event, Listener};
use platter_device::MirrorEvent;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Returns a listener that prints events of images and of mirror copies. The events do not make the command fail.
pub(super) fn listener() -> Listener {
    let told = Told::default();
    Listener::new(move |event| told.tell(event))
}

/// Whether a copy of a mirror went out of service since the program began. A command that otherwise did all it was
/// asked then failed to write its changes to all copies.
pub(super) fn has_lost_a_copy() -> bool {
    LOST_A_COPY.load(Ordering::Relaxed)
}

static LOST_A_COPY: AtomicBool = AtomicBool::new(false);

/// Prints events on standard error. A failing disk may cause very many, so only the first [`MOST`](Told::MOST) are
/// printed.
#[derive(Default)]
struct Told(AtomicU64);

impl Told {
    const MOST: u64 = 10;

    fn tell(&self, event: &Event<'_>) {
        let is_rare = match event {
            Event::Mirror(MirrorEvent::OutOfService { .. }) => {
                LOST_A_COPY.store(true, Ordering::Relaxed);
                true
            }
            Event::Mirror(_) => false,
            _ => true,
        };
        let insist = match event {
            Event::Unlike(_) => crate::command::failure::FORCE,
            _ => "",
        };
        if is_rare || self.0.fetch_add(1, Ordering::Relaxed) < Told::MOST {
            tell(format_args!("platter: {event}{insist}"));
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let more = self.0.load(Ordering::Relaxed).saturating_sub(Told::MOST);
        if more > 0 {
            tell(format_args!("platter: and {more} more reads that one copy failed and another answered"));
        }
    }
}
