//! Ageing: fills a volume with files and deletes half of them, so that new files have to use the gaps.

use super::files::{Files, Open};
use super::loads::sizes;
use crate::{Error, Result};
use fastrand::Rng;

/// The result of ageing: the number of pieces of a file made in one go, before and after; `None` where pieces cannot be
/// counted.
pub(super) struct Aged {
    pub files: u64,
    pub pieces_before: Option<usize>,
    pub pieces_after: Option<usize>,
}

impl Aged {
    /// Describes the result in a sentence.
    pub(super) fn sentence(&self, name: &str) -> String {
        let pieces = match (self.pieces_before, self.pieces_after) {
            (Some(before), Some(after)) => {
                let noun = crate::statistics::plural(after as u64, "piece");
                format!("a file of {} MiB lies in {after} {noun} then, and in {before} before", PROBE >> 20)
            }
            _ => "in how many pieces files lie is not told here".into(),
        };
        format!("{name}: {} files came, and of each round half of them went by chance; {pieces}", self.files)
    }
}

/// The size in bytes of the file whose pieces are counted, and of each write that makes it.
const PROBE: u64 = 16 << 20;
const PIECE: usize = 64 << 10;
/// How often the volume is filled and half of the files deleted.
const ROUNDS: u32 = 2;
const IN_A_FOLDER: usize = 500;
/// The part of the free space that is filled, in sixteenths.
const FILLED: u64 = 15;

/// Fills the free space with files, deletes a random half of them, and does both once more. Afterwards at least `keep`
/// bytes are free, if there were so many.
///
/// # Errors
/// [`Error::Interrupted`] when `stop` says so.
pub(super) fn age(files: &mut Files, keep: u64, seed: u64, stop: &dyn Fn() -> bool) -> Result<Aged> {
    let mut rng = Rng::with_seed(seed);
    let mut content = vec![0; 1 << 20];
    rng.fill(&mut content);
    let root = files.root();
    let top = files.folder(&root, "aged")?;
    let pieces_before = probe(files, &content)?;
    let mut aged = Aged { files: 0, pieces_before, pieces_after: None };
    for round in 0..ROUNDS {
        let (free, cluster) = files.free()?;
        // Half of the bytes that are written become free again, in addition to those that are not written.
        let mut left = (free / 16 * FILLED).min(free.saturating_sub(keep).saturating_mul(2));
        let mut folder = top.clone();
        let mut there = Vec::new();
        while left > 0 {
            if stop() {
                return Err(Error::Interrupted);
            }
            let size = sizes(1, 32_000.0, 1e6, None, &mut rng)[0];
            let takes = size.next_multiple_of(cluster.max(1));
            if takes > left {
                break;
            }
            left -= takes;
            if there.len() % IN_A_FOLDER == 0 {
                folder = files.folder(&top, &format!("round {round} from {}", there.len()))?;
            }
            let name = format!("file {}", there.len());
            let mut open = files.create(&folder, &name)?;
            files.write(&mut open, 0, &content[..size as usize])?;
            files.close(open)?;
            there.push((folder.clone(), name));
        }
        files.sync()?;
        aged.files += there.len() as u64;
        for (folder, name) in there.iter().filter(|_| rng.bool()) {
            files.remove(folder, name)?;
        }
        files.sync()?;
    }
    aged.pieces_after = probe(files, &content)?;
    Ok(aged)
}

/// Makes a file in one go, counts its pieces, and removes it.
fn probe(files: &mut Files, content: &[u8]) -> Result<Option<usize>> {
    let root = files.root();
    let mut open: Open = files.create(&root, "probe")?;
    for offset in (0..PROBE).step_by(PIECE) {
        files.write(&mut open, offset, &content[..PIECE])?;
    }
    files.sync()?;
    let pieces = files.pieces(&open)?;
    files.close(open)?;
    files.remove(&root, "probe")?;
    Ok(pieces)
}
