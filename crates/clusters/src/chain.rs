//! Whose clusters are: how a check follows chains, and claims what it meets.

use crate::Link;
use platter_vfs::Result;

/// What a check knows of clusters.
pub trait Claims {
    /// What the table says of a cluster.
    ///
    /// # Errors
    /// What reading gives.
    fn link(&mut self, cluster: u32) -> Result<Link>;

    /// Whether a cluster belongs to something.
    fn is_claimed(&self, cluster: u32) -> bool;

    /// Notes that a cluster belongs to something.
    fn claim(&mut self, cluster: u32);
}

/// Why a chain goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ends.
    End,
    /// It goes on at this cluster after as many as were wanted.
    More(u32),
    /// The table has 0 there.
    Free,
    /// The cluster is marked bad.
    Bad,
    /// The table has this value, which leads to no cluster of the volume.
    Invalid(u32),
    /// It leads back into itself.
    Loop(u32),
    /// It leads to a cluster that something else has claimed.
    Claimed(u32),
}

impl Stop {
    /// The code of the finding.
    pub fn code(self) -> &'static str {
        match self {
            Stop::Loop(_) => "chain-loop",
            Stop::Claimed(_) => "cross-link",
            _ => "chain-broken",
        }
    }

    /// What is to be said of the last cluster. What 0 in the table means is the format's: `free` says it.
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

/// Claims a chain from `first`, which is claimed already, up to `most` clusters, at least one: how many, the last, and
/// why no more.
///
/// # Errors
/// What reading gives.
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
