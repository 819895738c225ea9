//! Restoring superblocks and checkpoints of which no copy, or not the newest, is whole.
//!
//! Most fields of such a page are known from elsewhere: fields that are the same on every volume, fields that the page
//! holds twice, and fields of another copy. The others are guessed: each has the value in one copy or that in another,
//! and perhaps one bit is wrong. A guess counts only if it has the checksum stored in the damaged page, so that the
//! result is what was written there.

use crate::geometry::Geometry;
use crate::layout::bytes::{Field, FieldAt};
use crate::layout::page::{self, PageHeader};
use crate::layout::{Algorithm, Checkpoint, Checksum, PageReference, ROOTS, Superblock};

/// The most guesses that are tried.
const MOST_GUESSES: usize = 1 << 14;
/// The number of the likeliest guesses in which a wrong bit is looked for too.
const LIKELY: usize = 64;
/// The number of bits of a stored checksum that may be wrong themselves.
const WRONG_BITS: u32 = 1;

/// Restores the superblock and its page from the pages at all three places; `None` in `copies` stands for a place that
/// cannot be read.
pub(crate) fn superblock(
    copies: &[Option<Vec<u8>>; 3],
    places: [u64; 3],
    algorithm: Algorithm,
) -> Option<(Superblock, Vec<u8>)> {
    let voted = match copies {
        [Some(one), Some(two), Some(three)] => Some(majority(one, two, three)),
        _ => None,
    };
    let sizes = [PageReference::compact(algorithm), PageReference::LEGACY];
    for guess in voted.iter().chain(copies.iter().flatten()) {
        for ((copy, place), size) in copies.iter().zip(places).flat_map(|copy| sizes.map(|size| (copy, size)))
        {
            let Some(copy) = copy else { continue };
            let mut bytes = guess.clone();
            page::put_signature(&mut bytes, page::SUPERBLOCK);
            PageHeader::CLUSTER.put(&mut bytes, place);
            Superblock::SEAL.place.put(&mut bytes, Superblock::SELF as u32);
            Superblock::SEAL.length.put(&mut bytes, size as u32);
            let (own, covered) = (Superblock::SELF..Superblock::SELF + size, bytes.len());
            if !matches(&mut bytes, own.clone(), covered, &stored(copy, own.start, algorithm), true) {
                continue;
            }
            page::seal(&mut bytes, own, covered, algorithm, place);
            let Ok(found) = Superblock::from_bytes(&bytes, place, 0) else { continue };
            // The page header holds the signature of the volume's identifier, which is a second proof.
            if PageHeader::VOLUME.of(&bytes) == page::volume_signature(&found.guid) {
                return Some((found, bytes));
            }
        }
    }
    None
}

/// The value of each bit in at least two of three copies.
fn majority(one: &[u8], two: &[u8], three: &[u8]) -> Vec<u8> {
    one.iter().zip(two).zip(three).map(|((a, b), c)| a & b | b & c | a & c).collect()
}

/// The checksum that a page stores in its reference to itself.
fn stored(page: &[u8], own: usize, algorithm: Algorithm) -> Checksum {
    let mut stored = Checksum { algorithm, value: [0; 32] };
    let size = algorithm.size();
    stored.value[..size]
        .copy_from_slice(&page[own + PageReference::CHECKSUM..own + PageReference::CHECKSUM + size]);
    stored
}

/// Whether a page has this checksum, in which one bit may be wrong. With `correct` a wrong bit of the page is looked
/// for too, and corrected.
fn matches(
    bytes: &mut [u8],
    own: std::ops::Range<usize>,
    covered: usize,
    stored: &Checksum,
    correct: bool,
) -> bool {
    bytes[own].fill(0);
    let found = stored.algorithm.of(&bytes[..covered]);
    let wrong: u32 =
        found.value.iter().zip(stored.value).map(|(one, other)| (one ^ other).count_ones()).sum();
    wrong <= WRONG_BITS || correct && stored.correct_one_bit(&mut bytes[..covered])
}

/// Drops repeated values, keeping the first of each.
fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// A field with one of several values, the likeliest first. The page holds it at each of these places.
struct Choice {
    places: Vec<usize>,
    values: Vec<Vec<u8>>,
}

impl Choice {
    fn of<T: Field>(fields: &[FieldAt<T>], values: impl IntoIterator<Item = T>) -> Choice {
        let values = values.into_iter().map(|value| {
            let mut bytes = vec![0; size_of::<T>()];
            value.store(&mut bytes, 0);
            bytes
        });
        Choice { places: fields.iter().map(|field| field.at()).collect(), values: distinct(values) }
    }

    fn put(&self, bytes: &mut [u8], index: usize) {
        let value = &self.values[index];
        self.places.iter().for_each(|&place| bytes[place..place + value.len()].copy_from_slice(value));
    }
}

/// Restores the checkpoint in one of both places, from the page there and the other one.
///
/// After a power cut a checkpoint may be half written, and then the other one is the state that was synced. A checksum
/// of 32 bits is too short for ten thousands of guesses: some would have it by chance, and give a checkpoint that never
/// existed. So with such a checksum nothing is guessed where the other checkpoint is whole.
pub(crate) fn checkpoint_in(
    slot: usize,
    geometry: &Geometry,
    places: [u64; 2],
    pages: &[Option<Vec<u8>>; 2],
    is_other_whole: bool,
) -> Option<(Checkpoint, Vec<u8>)> {
    if is_other_whole && geometry.own_algorithm() == Algorithm::Crc32c {
        return None;
    }
    checkpoint(geometry, places[slot], pages[slot].as_ref()?, pages[1 - slot].as_deref())
}

/// Restores the checkpoint at `place`, from its page and the `other` one, which may be damaged too.
fn checkpoint(
    geometry: &Geometry,
    place: u64,
    bytes: &[u8],
    other: Option<&[u8]>,
) -> Option<(Checkpoint, Vec<u8>)> {
    let covered = geometry.cluster as usize;
    let (own_page, other_page) = (bytes, other.unwrap_or(bytes));
    let standard = |verified| Checkpoint::flags(geometry.version, verified);
    let flags = [own_page, other_page]
        .map(|page| Checkpoint::FLAGS.of(page))
        .into_iter()
        .chain([true, false].map(standard));
    for flags in distinct(flags) {
        let (list, own) = Checkpoint::places(flags);
        let sizes = [PageReference::compact(geometry.algorithm), PageReference::LEGACY];
        let size = sizes.into_iter().find(|&size| {
            [own_page, other_page].iter().any(|page| Checkpoint::SEAL.length.of(page) as usize == size)
        })?;
        if own + size + ROOTS * size > covered || Checkpoint::list_end(list) > own {
            continue;
        }
        let layout = Layout { geometry, place, flags, list, own, size };
        let stored = stored(own_page, own, geometry.own_algorithm());
        for (base, roots) in [
            (false, [own_page, other_page]),
            (true, [own_page, other_page]),
            (false, [other_page; 2]),
            (true, [other_page; 2]),
        ] {
            let base = layout.base(own_page, base);
            let choices = layout.choices([own_page, other_page], roots);
            if let Some(found) = layout.guess(base, &choices, &stored, covered) {
                return Some(found);
            }
        }
    }
    None
}

/// The layout of the checkpoint that is being restored.
struct Layout<'g> {
    geometry: &'g Geometry,
    place: u64,
    flags: u32,
    list: usize,
    own: usize,
    size: usize,
}

impl Layout<'_> {
    fn root(&self, index: usize) -> usize {
        self.own + self.size * (1 + index)
    }

    /// The page with all fields that are the same in every checkpoint of this layout. The other fields are those of
    /// `page`, or zero with `is_known`.
    fn base(&self, page: &[u8], is_known: bool) -> Vec<u8> {
        let mut bytes = page.to_vec();
        if is_known {
            bytes.fill(0);
            Checkpoint::END.put(&mut bytes, self.root(ROOTS) as u32);
            Checkpoint::WORD.put(&mut bytes, 32);
        }
        let clusters = [self.place, 0, 0, 0];
        PageHeader {
            signature: page::CHECKPOINT,
            volume: self.geometry.signature,
            clusters,
            ..PageHeader::from_bytes(&bytes)
        }
        .store(&mut bytes);
        Checkpoint::SEAL.place.put(&mut bytes, self.own as u32);
        Checkpoint::SEAL.length.put(&mut bytes, self.size as u32);
        Checkpoint::FLAGS.put(&mut bytes, self.flags);
        Checkpoint::COUNT.put(&mut bytes, ROOTS as u32);
        if self.flags & Checkpoint::INDIRECT != 0 {
            Checkpoint::LIST.put(&mut bytes, self.list as u32);
        }
        for index in 0..ROOTS {
            Checkpoint::put_place(&mut bytes, self.list, index, self.root(index));
        }
        bytes
    }

    /// The possible values of the fields that are not known, from both pages; those of the roots also from `roots`,
    /// which may be other pages.
    fn choices(&self, pages: [&[u8]; 2], roots: [&[u8]; 2]) -> Vec<Choice> {
        let [page, other] = pages;
        let version = Checkpoint::version_word(self.geometry.version);
        let (clock, header_clock) = (Checkpoint::CLOCK.of(page), PageHeader::CLOCK.of(page));
        let stored = |field: FieldAt<u32>| [field.of(page), field.of(other)];
        let logs = [page, other].map(|page| Checkpoint::LOG.of(page));
        let allocators = [Checkpoint::ALLOCATOR_CLOCK.of(page), clock, header_clock];
        let [own, others] = stored(Checkpoint::ECHO);
        let mut choices = vec![
            Choice::of(&[PageHeader::CLOCK, Checkpoint::CLOCK], [clock, header_clock]),
            Choice::of(&[Checkpoint::ALLOCATOR_CLOCK], allocators),
            Choice::of(&[Checkpoint::LOG], logs),
            Choice::of(&[Checkpoint::VERSION], stored(Checkpoint::VERSION).into_iter().chain([version])),
            Choice::of(&[Checkpoint::ECHO], [own, others, version, 0]),
        ];
        for index in 0..ROOTS {
            let at = self.root(index);
            let values = roots.map(|page| self.reference(&page[at..at + self.size]));
            choices.push(Choice { places: vec![at], values: distinct(values) });
        }
        choices
    }

    /// A reference whose clusters follow each other, beginning where most of the clusters in `bytes` imply.
    fn reference(&self, bytes: &[u8]) -> Vec<u8> {
        let count = self.geometry.page_clusters() as usize;
        let firsts: Vec<u64> =
            (0..count).map(|index| PageReference::cluster(bytes, index).wrapping_sub(index as u64)).collect();
        let votes = |first: &u64| firsts.iter().filter(|other| *other == first).count();
        let first = firsts.iter().copied().max_by_key(votes).unwrap_or(0);
        let mut clusters = [0; 4];
        (0..count).for_each(|index| clusters[index] = first.wrapping_add(index as u64));
        let checksum = stored(bytes, 0, self.geometry.algorithm);
        let mut reference = vec![0; self.size];
        PageReference { clusters, checksum }.store(&mut reference);
        reference
    }

    /// Returns the checkpoint of the first guess that has the stored checksum.
    fn guess(
        &self,
        mut bytes: Vec<u8>,
        choices: &[Choice],
        stored: &Checksum,
        covered: usize,
    ) -> Option<(Checkpoint, Vec<u8>)> {
        let own = self.own..self.own + self.size;
        let count = choices.iter().map(|choice| choice.values.len()).try_fold(1usize, usize::checked_mul)?;
        for correct in [false, true] {
            for number in 0..count.min(if correct { LIKELY } else { MOST_GUESSES }) {
                let mut rest = number;
                for choice in choices {
                    choice.put(&mut bytes, rest % choice.values.len());
                    rest /= choice.values.len();
                }
                let mut guess = bytes.clone();
                if matches(&mut guess, own.clone(), covered, stored, correct) {
                    page::seal(&mut guess, own.clone(), covered, stored.algorithm, self.place);
                    if let Some(found) = self.sound(&guess, covered) {
                        return Some((found, guess));
                    }
                }
            }
        }
        None
    }

    /// Returns the checkpoint, unless a field contradicts what is known of every checkpoint: the bit that was corrected
    /// may have been the wrong one.
    fn sound(&self, page: &[u8], covered: usize) -> Option<Checkpoint> {
        let is_plain = (0..ROOTS).map(|index| self.root(index)).all(|at| {
            let root = &page[at..at + self.size];
            self.reference(root) == root
        });
        let known = self.base(page, false);
        let is_known =
            known[..self.own] == page[..self.own] && PageHeader::CLOCK.of(page) == Checkpoint::CLOCK.of(page);
        let found = Checkpoint::from_bytes(page, self.place, covered, self.geometry.signature, 0).ok()?;
        (is_plain && is_known && found.unknown().is_none()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refs;
    use crate::geometry::of_superblocks;
    use crate::open::{Notes, anchors};
    use platter_device::{Device, MemoryDevice, Sectors};
    use platter_testing::model::Random;
    use platter_vfs::{Format, FormatOptions, OpenOptions, Silent};
    use std::sync::Arc;

    fn volume(cluster: u64) -> Arc<MemoryDevice> {
        let device = Arc::new(MemoryDevice::new(384 << 20, Sectors::SMALL));
        let options = FormatOptions { cluster: Some(cluster), ..FormatOptions::default() };
        Refs::INTEGRITY.make(&*device, &options, &Silent).unwrap();
        Refs::INTEGRITY.open(device.clone(), OpenOptions::default()).unwrap().unmount().unwrap();
        device
    }

    /// Flips some bits, mostly of bytes that are not zero.
    fn flip(bytes: &mut [u8], count: u64, random: &mut Random) {
        for _ in 0..count {
            let mut at = random.below(0x400) as usize;
            for _ in 0..3 {
                at = if bytes[at] == 0 { random.below(0x400) as usize } else { at };
            }
            bytes[at] ^= 1 << random.below(8);
        }
    }

    #[test]
    fn what_several_damaged_copies_have_in_common_is_what_was_written() {
        for cluster in [4096, 65536] {
            let device = volume(cluster);
            let found = anchors(&*device, &mut Notes::default()).unwrap();
            let read = |place: u64, length: usize| {
                let mut bytes = vec![0; length];
                device.read_at(place * cluster, &mut bytes).unwrap();
                bytes
            };
            let places = Superblock::places(found.boot.clusters());
            let superblocks = places.map(|place| read(place, cluster as usize));
            let slots = found.superblock.checkpoints;
            let pages = slots.map(|place| read(place, found.geometry.page()));
            let mut random = Random::new(7);
            let mut restored = 0;
            for _ in 0..100 {
                let copies = superblocks.clone().map(|mut copy| {
                    flip(&mut copy, 2, &mut random);
                    Some(copy)
                });
                let again = superblock(&copies, places, of_superblocks(&found.boot));
                assert_eq!(again.map(|(again, _)| again), Some(found.superblock.clone()));
                let [mut one, mut other] = pages.clone();
                flip(&mut one, 3, &mut random);
                flip(&mut other, 3, &mut random);
                for (slot, page, beside) in [(0, &one, &other), (1, &other, &one)] {
                    if let Some((_, again)) = checkpoint(&found.geometry, slots[slot], page, Some(beside)) {
                        assert!(again == pages[slot]);
                        restored += 1;
                    }
                }
            }
            assert!(restored > 180, "{restored} of 200");
        }
    }

    #[test]
    fn what_says_too_little_is_nothing() {
        let device = volume(4096);
        let found = anchors(&*device, &mut Notes::default()).unwrap();
        let mut random = Random::new(7);
        for _ in 0..10 {
            let page = random.bytes(found.geometry.page());
            assert!(checkpoint(&found.geometry, 0x40, &page, Some(&page)).is_none());
            let copies = [0; 3].map(|_| Some(random.bytes(4096)));
            assert!(superblock(&copies, [1, 2, 3], Algorithm::Crc32c).is_none());
        }
    }
}
