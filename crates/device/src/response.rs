//! How long a device takes to answer, and whether it takes longer the more it has to do.

use std::time::Duration;

/// A device that answers faster than this costs the processor about as much as it costs time: there requests are gathered
/// whatever else holds.
const SLOW: Duration = Duration::from_micros(200);
/// The answers after which the device is judged.
const ENOUGH: u32 = 16;

/// The response times of one queue's small writes.
#[derive(Default)]
pub(crate) struct Response {
    /// The shortest time of all, most likely one when the device had little else to do.
    least: Duration,
    /// The mean of the last few times: each answer counts an eighth.
    mean: Duration,
    answers: u32,
}

impl Response {
    /// Notes how long an answer took.
    pub(crate) fn note(&mut self, took: Duration) {
        if self.answers == 0 {
            (self.least, self.mean) = (took, took);
        }
        self.answers = self.answers.saturating_add(1);
        self.least = took.min(self.least);
        self.mean = (self.mean * 7 + took) / 8;
    }

    /// Whether the device is slow and could do more at the same time: it answers no later than when it had little to do.
    /// Then a request that is held back only waits longer. A device that is busy answers later the more it is asked, and
    /// gets further with fewer, larger requests.
    pub(crate) fn has_room(&self) -> bool {
        self.answers >= ENOUGH && self.least >= SLOW && self.mean * 4 < self.least * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: impl Iterator<Item = u64>) -> bool {
        let mut response = Response::default();
        times.for_each(|micros| response.note(Duration::from_micros(micros)));
        response.has_room()
    }

    #[test]
    fn a_slow_device_has_room_until_it_answers_later() {
        assert!(after((0..100).map(|at| 400 + at % 50)), "an array");
        assert!(!after((0..10).map(|_| 400)), "too few to tell");
        assert!(!after((0..100).map(|at| 20 + at % 50)), "a fast device");
        assert!(
            !after((0..100).map(|at| if at < 20 { 1000 } else { 3000 })),
            "a limit of transfers a second"
        );
        assert!(!after((0..100).map(|at| if at < 20 { 20 } else { 500 })), "memory with a queue before it");
        assert!(
            !after((0..1000).map(|at| if at < 1 { 470 } else { 1900 })),
            "one request at a time, four asked for"
        );
        let back = (0..200).map(|at| if (50..80).contains(&at) { 3000 } else { 1000 });
        assert!(after(back), "it was busy for a while");
    }
}
