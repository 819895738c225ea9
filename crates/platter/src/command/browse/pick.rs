//! The bar in a list, and which part of the list is on the screen.

use super::key::Motion;

/// The place of the bar, and the first line that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) at: usize,
    top: usize,
}

impl Pick {
    /// The bar at this line.
    pub(super) fn at(at: usize) -> Pick {
        Pick { at, top: 0 }
    }

    /// Moves the bar in a list of `count` lines, of which `rows` are on the screen.
    pub(super) fn go(&mut self, motion: Motion, count: usize, rows: usize) {
        let last = count.saturating_sub(1);
        let page = rows.saturating_sub(1).max(1);
        self.at = match motion {
            Motion::Up => self.at.saturating_sub(1),
            Motion::Down => self.at.saturating_add(1),
            Motion::PageUp => self.at.saturating_sub(page),
            Motion::PageDown => self.at.saturating_add(page),
            Motion::Home => 0,
            Motion::End => last,
        }
        .min(last);
        self.top = self.first(count, rows);
    }

    /// The first line to show on `rows` lines, so that the bar is among them, and no line is empty without need.
    pub(super) fn first(&self, count: usize, rows: usize) -> usize {
        let rows = rows.max(1);
        self.top.min(count.saturating_sub(rows)).clamp((self.at + 1).saturating_sub(rows), self.at)
    }
}

/// Moves a text that is shown from line `top` on.
pub(super) fn scroll(top: &mut usize, motion: Motion, count: usize, rows: usize) {
    let last = count.saturating_sub(rows.max(1));
    let page = rows.saturating_sub(1).max(1);
    *top = match motion {
        Motion::Up => top.saturating_sub(1),
        Motion::Down => top.saturating_add(1),
        Motion::PageUp => top.saturating_sub(page),
        Motion::PageDown => top.saturating_add(page),
        Motion::Home => 0,
        Motion::End => last,
    }
    .min(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_stays_in_the_list_and_on_the_screen() {
        let all = [
            Motion::End,
            Motion::Down,
            Motion::PageUp,
            Motion::Up,
            Motion::PageDown,
            Motion::Home,
            Motion::Up,
            Motion::PageDown,
        ];
        for count in [0, 1, 2, 7, 100] {
            for rows in [0, 1, 5, 200] {
                let (mut pick, mut top) = (Pick::default(), 0);
                for motion in all.into_iter().cycle().take(40) {
                    pick.go(motion, count, rows);
                    assert!(pick.at < count.max(1));
                    let first = pick.first(count, rows);
                    assert!(
                        first <= pick.at && pick.at < first + rows.max(1),
                        "{pick:?} of {count} on {rows}"
                    );
                    scroll(&mut top, motion, count, rows);
                    assert!(top < count.max(1));
                }
            }
        }
        // A smaller screen than at the last motion.
        let mut pick = Pick::default();
        pick.go(Motion::End, 100, 50);
        assert_eq!((pick.first(100, 50), pick.first(100, 3), pick.first(100, 200)), (50, 97, 0));
    }
}
