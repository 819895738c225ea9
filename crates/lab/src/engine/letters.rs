//! Letters of the workers to whoever runs them: a channel that keeps virtual time too.

use platter_device::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// Letters that were sent and not received.
pub(crate) struct Letters<T> {
    box_of: Mutex<VecDeque<T>>,
    sent: Condvar,
}

impl<T> Default for Letters<T> {
    fn default() -> Letters<T> {
        Letters { box_of: Mutex::default(), sent: Condvar::default() }
    }
}

impl<T> Letters<T> {
    pub(super) fn send(&self, letter: T) {
        self.box_of.lock().push_back(letter);
        self.sent.notify_all();
    }

    /// The oldest letter; waits for one, at most for this time.
    pub(super) fn receive(&self, most: Duration) -> Option<T> {
        self.sent.wait_while_at_most(self.box_of.lock(), most, |letters| letters.is_empty()).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_in_their_order_and_nobody_waits_for_ever() {
        let letters = Letters::default();
        assert_eq!(letters.receive(Duration::from_millis(1)), None);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=3).for_each(|letter| letters.send(letter)));
            let received = [(); 3].map(|()| letters.receive(Duration::from_secs(60)));
            assert_eq!(received, [Some(1), Some(2), Some(3)]);
        });
    }
}
