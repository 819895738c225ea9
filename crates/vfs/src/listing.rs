//! Where listings under way go on.
//!
//! A cursor is a digest of the key that its entry has in the directory. So it needs nothing to be kept for it: whoever
//! goes on reads the directory up to that key. For listings that do not rest for long, and for entries that were removed
//! since, the keys behind the latest cursors are kept, for as many as a fixed amount of memory takes. The same entry has
//! the same cursor in every listing, so many listings of one directory need no more memory than one.

use crate::Cursor;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Bytes of keys that are kept.
const MOST: usize = 16 << 20;

/// The cursors of a volume, and the keys behind the latest.
#[derive(Default)]
pub struct Listings {
    /// Nobody who names entries knows it, so nobody can give two the same digest.
    digests: RandomState,
    keys: HashMap<(u64, u64), Box<[u8]>>,
    /// The keys by age.
    ages: VecDeque<(u64, u64)>,
    bytes: usize,
    /// Directories in which listings met damage, and the same by age.
    damaged: HashSet<u64>,
    damaged_ages: VecDeque<u64>,
}

/// The most directories of which is kept that they are damaged: more listings than are ever under way at once.
const MOST_DAMAGED: usize = 4096;

/// Bytes that a key takes: itself, and where it is found.
fn taken(key: &[u8]) -> usize {
    key.len() + 80
}

impl Listings {
    /// The cursor of an entry with this key.
    pub fn cursor(&self, key: &[u8]) -> Cursor {
        // Programs take it for an offset, which has a sign, and small ones have meanings of their own.
        Cursor(self.digests.hash_one(key) >> 2 | 1 << 61)
    }

    /// The cursor of an entry that was listed.
    pub fn listed(&mut self, directory: u64, key: &[u8]) -> Cursor {
        let cursor = self.cursor(key);
        let place = (directory, cursor.0);
        if !self.keys.contains_key(&place) {
            self.bytes += taken(key);
            self.keys.insert(place, key.into());
            self.ages.push_back(place);
        }
        while self.bytes > MOST {
            let Some(oldest) = self.ages.pop_front() else { break };
            self.bytes -= self.keys.remove(&oldest).map_or(0, |key| taken(&key));
        }
        cursor
    }

    /// The key behind a cursor, if it is kept. If not, it is that of the entry of which [`Listings::cursor`] says so; if
    /// there is none, the entry was removed after its key had been let go, and the listing begins anew, since it would
    /// leave something out otherwise.
    pub fn kept(&self, directory: u64, cursor: Cursor) -> Option<Vec<u8>> {
        self.keys.get(&(directory, cursor.0)).map(|key| key.to_vec())
    }

    /// A listing of this directory left something out that could not be read. Whoever comes to its end is to be told, and
    /// looks through the directory once more for that.
    pub fn met_damage(&mut self, directory: u64) {
        if self.damaged.insert(directory) {
            self.damaged_ages.push_back(directory);
        }
        if self.damaged_ages.len() > MOST_DAMAGED
            && let Some(oldest) = self.damaged_ages.pop_front()
        {
            self.damaged.remove(&oldest);
        }
    }

    /// Whether a listing of this directory met damage.
    pub fn has_damage(&self, directory: u64) -> bool {
        self.damaged.contains(&directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_keys_are_kept_in_bounded_memory_and_every_cursor_names_its_key() {
        let mut listings = Listings::default();
        let key = |number: u64| [&number.to_le_bytes()[..], &[7; 500]].concat();
        let cursors: Vec<Cursor> = (0..100_000).map(|number| listings.listed(5, &key(number))).collect();
        assert!(listings.bytes <= MOST && listings.keys.len() == listings.ages.len());
        assert_eq!(listings.kept(5, cursors[99_999]), Some(key(99_999)));
        assert_eq!(listings.kept(6, cursors[99_999]), None, "of another directory");
        assert_eq!(listings.kept(5, cursors[0]), None);
        assert_eq!(listings.cursor(&key(0)), cursors[0]);
        let before = listings.bytes;
        listings.listed(5, &key(99_999));
        assert_eq!(listings.bytes, before, "listed twice, kept once");
    }

    #[test]
    fn damage_is_remembered_for_the_latest_directories() {
        let mut listings = Listings::default();
        (0..10_000).for_each(|directory| listings.met_damage(directory));
        assert!(listings.has_damage(9_999) && !listings.has_damage(0) && !listings.has_damage(10_000));
        assert!(listings.damaged.len() == MOST_DAMAGED && listings.damaged_ages.len() == MOST_DAMAGED);
    }
}
