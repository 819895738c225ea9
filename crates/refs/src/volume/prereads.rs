//! Prereads: what a plan needs from the device before it can be made. A page of a stream's table of runs is put among the
//! volume's pages when it has arrived; clusters with checksums, of which a request needs a part, stay with the plan. No
//! lock is held while the device reads, so what has arrived counts only if the stream's runs still name it.

use super::Volume;
use super::ahead::{Ahead, Around, Asked, Rows};
use crate::container::Tier;
use crate::extents::Extents;
use crate::layout::{PageReference, crc32c};
use crate::pages::{ANY_TABLE, Page};
use crate::stream::{Stream, StreamContent};
use platter_device::{Segment, Segments};
use platter_vfs::{Plan, Preread, Result};
use smallvec::SmallVec;
use std::ops::Range;

/// The most pages of a table of runs that one preread reads. A request of 1 MiB lies in two or three.
const MOST_PAGES: usize = 8;

impl Volume {
    /// Takes what the driver has read for a plan that is made once more, or begins a new request.
    pub(super) fn take_preread(&self, stream: &Stream, ahead: &mut Ahead, plan: &mut Plan) {
        ahead.around = None;
        let Some(preread) = plan.preread.take() else {
            ahead.begin();
            return;
        };
        let asked = std::mem::take(&mut ahead.asked);
        let is_good = preread.is_read
            && match &asked {
                Asked::Nothing => false,
                Asked::Pages(references) => self.offer_pages(stream, references, &preread),
                Asked::Clusters(rows) => self.is_sound(rows, &preread),
            };
        ahead.note(is_good);
        match asked {
            Asked::Clusters(rows) if is_good => ahead.around = Some(Around { rows, content: preread.buffer }),
            _ => ahead.keep(Some(preread.buffer)),
        }
    }

    /// Brings the rows of a part of a stream into memory, or has the plan ask for their pages; then returns `true`.
    pub(super) fn bring_rows(
        &self,
        stream: &Stream,
        (from, to): (u32, u32),
        ahead: &mut Ahead,
        plan: &mut Plan,
    ) -> Result<bool> {
        if !ahead.is_open(plan) {
            return self.load(stream, from, to).map(|()| false);
        }
        let mut core = self.core();
        let mut state = stream.write();
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(false) };
        let is_far =
            |(_, reference): &(u32, PageReference)| core.pages.at_hand(reference, Tier::Medium).is_none();
        let far: SmallVec<[(u32, PageReference); 2]> =
            extents.absent(from, to).filter(is_far).take(MOST_PAGES).collect();
        if far.is_empty() {
            return extents.load_range(&mut core.pages, from, to).map(|()| false);
        }
        let size = self.geometry.page();
        let mut segments = Segments::new();
        for ((_, reference), index) in far.iter().zip(0..) {
            let offset = core.pages.place_of(reference, false)?;
            segments.push(Segment { offset, at: index * size as u32, length: size as u32 });
        }
        let buffer = ahead.buffer(far.len() * size);
        plan.preread = Some(Preread { segments, buffer, is_read: false });
        ahead.asked = Asked::Pages(far);
        Ok(true)
    }

    /// Puts pages that were read among those of the volume, where the stream still needs them. Returns whether all are
    /// what their references say.
    fn offer_pages(&self, stream: &Stream, asked: &[(u32, PageReference)], preread: &Preread) -> bool {
        let content = preread.buffer.chunks_exact(self.geometry.page()).zip(&preread.segments);
        let pages = asked.iter().zip(content).map(|((_, reference), (bytes, segment))| {
            Page::from_bytes(bytes.to_vec(), &self.geometry, reference, ANY_TABLE, segment.offset)
        });
        let Ok(pages) = pages.collect::<Result<SmallVec<[Page; 2]>>>() else { return false };
        let mut core = self.core();
        let state = stream.read();
        let StreamContent::Extents(extents) = &state.content else { return true };
        for (&(at, reference), page) in asked.iter().zip(pages) {
            if extents.absent(at, at + 1).any(|(_, absent)| absent == reference) {
                core.pages.offer(&reference, page);
            }
        }
        true
    }

    /// Has a plan ask for the clusters in parts of a stream, whose rows are loaded. `range` is that of all clusters of
    /// the request. Returns `false` if the parts have only holes: then their zeroes are there at once.
    pub(super) fn ask_clusters(
        &self,
        extents: &Extents,
        range: Range<u32>,
        parts: SmallVec<[Range<u32>; 2]>,
        ahead: &mut Ahead,
        plan: &mut Plan,
    ) -> Result<bool> {
        let cluster = self.geometry.cluster;
        let rows = Rows::of(extents, range.start, parts)?;
        let mut content = ahead.buffer((range.end - range.start) as usize * cluster as usize);
        if rows.is_empty() {
            content.fill(0);
            ahead.around = Some(Around { rows, content });
            return Ok(false);
        }
        let mut reads = Plan::default();
        for (row, place) in rows.places(cluster) {
            reads.push(self.device_offset(row.cluster)?, place.start as u32, place.len() as u32);
        }
        // What lies in holes between is zeroes; the buffer may have been used before.
        let length = content.len() as u32;
        let ends = reads.segments.iter().map(|read| read.at + read.length);
        let starts = reads.segments.iter().map(|read| read.at).chain([length]);
        for (end, start) in [0].into_iter().chain(ends).zip(starts) {
            content[end as usize..start as usize].fill(0);
        }
        plan.preread = Some(Preread { segments: reads.segments, buffer: content, is_read: false });
        ahead.asked = Asked::Clusters(rows);
        Ok(true)
    }

    /// Whether clusters that were read are what their checksums say.
    fn is_sound(&self, rows: &Rows, preread: &Preread) -> bool {
        rows.places(self.geometry.cluster)
            .all(|(row, place)| row.checksum().is_none_or(|sum| crc32c(&preread.buffer[place]) == sum))
    }
}
