//! The positions from which directory listings continue.
//!
//! A cursor is a digest of the entry's key in the directory, so no state has to be kept for it: a listing continues by
//! reading the directory until it finds the key with that digest. To spare that search, and for entries that were
//! removed meanwhile, the keys of the latest cursors are kept in a fixed amount of memory. An entry has the same cursor
//! in every listing, so many listings of one directory need no more memory than one.

use crate::Cursor;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// The most bytes of keys that are kept.
const MOST: usize = 16 << 20;

/// The cursors of a volume's listings, with the keys of the latest of them.
#[derive(Default)]
pub struct Listings {
    /// Seeded at random, so that nobody can choose two names with the same digest.
    digests: RandomState,
    keys: HashMap<(u64, u64), Box<[u8]>>,
    /// The keys (directory and cursor) from the oldest to the latest.
    ages: VecDeque<(u64, u64)>,
    bytes: usize,
    /// Directories in which listings found damage, as a set and from the oldest to the latest.
    damaged: HashSet<u64>,
    damaged_ages: VecDeque<u64>,
}

/// The most directories that are remembered as damaged: more than are ever listed at once.
const MOST_DAMAGED: usize = 4096;

// What is kept of damage is a small part of what a listing may keep.
const _: () = assert!(MOST_DAMAGED < MOST);

/// The bytes of memory that a kept key takes, with its places in the map and the queue.
fn taken(key: &[u8]) -> usize {
    key.len() + 80
}

impl Listings {
    /// Returns the cursor of an entry with this key, without keeping the key.
    pub fn cursor(&self, key: &[u8]) -> Cursor {
        // Programs treat a cursor as a file offset, which is signed, and small values have special meanings.
        Cursor(self.digests.hash_one(key) >> 2 | 1 << 61)
    }

    /// Returns the cursor of an entry that was listed, and keeps its key.
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

    /// Returns the key of a cursor, if it is still kept. If it is not, the listing continues behind the entry whose key
    /// has this cursor ([`Listings::cursor`]). If no entry has, it was removed after its key had been dropped; then the
    /// listing begins anew, because it could leave entries out otherwise.
    pub fn kept(&self, directory: u64, cursor: Cursor) -> Option<Vec<u8>> {
        self.keys.get(&(directory, cursor.0)).map(|key| key.to_vec())
    }

    /// Notes that a listing of this directory left out entries that could not be read. When a listing reaches the end
    /// of the directory, it reads the directory once more to report the damage.
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

    /// Whether a listing of this directory found damage.
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
