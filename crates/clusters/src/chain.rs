//! How a check follows cluster chains and claims the clusters in them.

use crate::Link;
use platter_vfs::Result;

/// The allocation table and the claims of a check: which clusters it has found to belong to a file or directory.
pub trait Claims {
    /// Returns the table's entry of a cluster.
    ///
    /// # Errors
    /// The errors of reading the table.
    fn link(&mut self, cluster: u32) -> Result<Link>;

    /// Whether a cluster is claimed.
    fn is_claimed(&self, cluster: u32) -> bool;

    /// Claims a cluster.
    fn claim(&mut self, cluster: u32);
}

/// Why a chain was followed no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The chain ends.
    End,
    /// The chain has as many clusters as were wanted, and goes on at this cluster.
    More(u32),
    /// The entry of the last cluster is 0.
    Free,
    /// The last cluster is marked bad.
    Bad,
    /// The entry of the last cluster has this value, which is no cluster of the volume.
    Invalid(u32),
    /// The chain leads back to this cluster of its own.
    Loop(u32),
    /// The chain leads to this cluster, which another file or directory has claimed.
    Claimed(u32),
}

impl Stop {
    /// The code of the finding that a check makes of a chain that stops for this reason.
    pub fn code(self) -> &'static str {
        match self {
            Stop::Loop(_) => "chain-loop",
            Stop::Claimed(_) => "cross-link",
            _ => "chain-broken",
        }
    }

    /// Describes the last cluster of the chain for a message. `free` is the text for an entry of 0, whose meaning
    /// depends on the format.
    pub fn told(self, free: &str) -> String {
        match self {
            Stop::End => "is the last there is".into(),
            Stop::More(next) => format!("leads on to {next}"),
            Stop::Free => free.into(),
            Stop::Bad => "is marked bad".into(),
            Stop::Invalid(value) => format!("has the impossible FAT entry {value:X}"),
            Stop::Loop(next) => format!("leads back to {next} of the same chain"),
            Stop::Claimed(next) => format!("leads to {next}, which belongs to another"),
        }
    }
}

/// Follows and claims a chain from `first`, which is claimed already, up to `most` clusters (at least 1). Returns the
/// number of clusters, the last one, and why the chain was followed no further.
///
/// # Errors
/// The errors of reading the table.
pub fn claim_chain(clusters: &mut impl Claims, first: u32, most: u64) -> Result<(u32, u32, Stop)> {
    let (mut count, mut last) = (1, first);
    loop {
        let stop = match clusters.link(last)? {
            Link::End => Stop::End,
            Link::Free => Stop::Free,
            Link::Bad => Stop::Bad,
            Link::Invalid(value) => Stop::Invalid(value),
            Link::Next(next) if u64::from(count) >= most => Stop::More(next),
            Link::Next(next) if clusters.is_claimed(next) => match is_in(clusters, next, first, count)? {
                true => Stop::Loop(next),
                false => Stop::Claimed(next),
            },
            Link::Next(next) => {
                clusters.claim(next);
                (count, last) = (count + 1, next);
                continue;
            }
        };
        return Ok((count, last, stop));
    }
}

/// Whether a cluster is among the first `count` of a chain.
fn is_in(clusters: &mut impl Claims, wanted: u32, first: u32, count: u32) -> Result<bool> {
    let mut cluster = first;
    for _ in 1..count {
        if cluster == wanted {
            return Ok(true);
        }
        let Link::Next(next) = clusters.link(cluster)? else { return Ok(false) };
        cluster = next;
    }
    Ok(cluster == wanted)
}
