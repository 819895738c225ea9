//! What the background thread does: it commits when that is asked for, and has scattered files put together while nobody
//! uses the volume.

use super::Volume;
use super::keeper::Orders;
use platter_device::sync;
use std::sync::Weak;
use std::time::Duration;

/// How often the thread looks whether a volume with scattered files is in use.
const LOOK: Duration = Duration::from_millis(20);
/// How many looks in a row must find the volume unused before files are put together.
const QUIET: u64 = 10;

/// Counts the looks in a row that found the volume unused.
struct Rest {
    looks: u64,
    enough: u64,
    syncs: u64,
}

impl Rest {
    fn new(enough: u64) -> Rest {
        Rest { looks: 0, enough, syncs: 0 }
    }

    /// Counts a look at the volume, and returns whether enough in a row found it unused. `is_quiet` is whether no plan
    /// is under way, `syncs` is how often a commit was asked for so far: a caller that syncs after every write has no
    /// plan under way while each commit lasts, but is at work all the same.
    fn look(&mut self, is_quiet: bool, syncs: u64) -> bool {
        self.looks = if is_quiet && syncs == self.syncs { self.looks + 1 } else { 0 };
        self.syncs = syncs;
        self.looks >= self.enough
    }
}

/// Carries out the orders of a keeper until the last, or until the volume is gone.
pub(super) fn work(orders: &Orders, volume: &Weak<Volume>) {
    let (mut is_scattered, mut rest) = (false, Rest::new(sync::at_least(QUIET, QUIET)));
    loop {
        let wanted = orders.take(is_scattered.then_some(LOOK));
        let Some(volume) = volume.upgrade().filter(|_| !wanted.stop) else { return };
        let mut done = Ok(());
        if wanted.commit {
            // The order may have been given again before the commit that it led to took anything with it.
            done = volume.commit_if_much_waits();
        }
        let syncs = || volume.group.asked();
        if rest.look(volume.is_quiet(), syncs()) && is_scattered {
            let is_disturbed = || orders.lock().is_any() || !volume.is_quiet() || syncs() != rest.syncs;
            done = done.and(volume.clean(&is_disturbed).map(drop));
            rest.looks = 0;
        }
        is_scattered = !volume.scattered().is_empty();
        if done.is_err_and(|error| !error.is_full()) {
            // The volume accepts no more changes, and the next caller that writes gets the reason as its error.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_syncs_again_and_again_is_not_at_rest() {
        let mut rest = Rest::new(QUIET);
        assert!((1..1000).all(|syncs| !rest.look(true, syncs)));
        let looks: Vec<bool> = (0..QUIET).map(|_| rest.look(true, 999)).collect();
        assert_eq!(looks.iter().position(|&rests| rests), Some(QUIET as usize - 1));
        assert!(rest.look(true, 999) && !rest.look(false, 999) && !rest.look(true, 999));
    }
}
