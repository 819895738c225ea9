//! The free clusters that the rows of each allocator have together, kept in step as the rows of single containers are
//! stored. A volume of 16 TiB has a quarter of a million containers, which no commit has to go through.

use crate::container::Tier;

/// The free clusters by tier, and by container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeCounts {
    containers: Vec<(Tier, u32)>,
    tiers: [u64; 3],
}

impl FreeCounts {
    /// The counts of containers in the order of their indices: the tier of each, and its free clusters.
    pub(crate) fn of(containers: impl IntoIterator<Item = (Tier, u32)>) -> FreeCounts {
        let containers: Vec<(Tier, u32)> = containers.into_iter().collect();
        let mut tiers = [0; 3];
        containers.iter().for_each(|&(tier, free)| tiers[tier as usize] += u64::from(free));
        FreeCounts { containers, tiers }
    }

    /// Notes the row of a container that is stored.
    pub(crate) fn set(&mut self, index: usize, tier: Tier, free: u32) {
        let (before, was_free) = std::mem::replace(&mut self.containers[index], (tier, free));
        assert!(self.tiers[before as usize] >= u64::from(was_free), "a row that changes was counted");
        self.tiers[before as usize] -= u64::from(was_free);
        self.tiers[tier as usize] += u64::from(free);
    }

    /// The number of free clusters in the containers of a tier.
    pub(crate) fn free(&self, tier: Tier) -> u64 {
        self.tiers[tier as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    #[test]
    fn changes_one_by_one_count_as_all_at_once() {
        let mut random = Random::new(8664);
        let tiers = [Tier::Medium, Tier::Container, Tier::Small];
        let mut all: Vec<(Tier, u32)> =
            (0..50).map(|_| (*random.pick(&tiers), random.below(16385) as u32)).collect();
        let mut counts = FreeCounts::of(all.clone());
        for _ in 0..2000 {
            let index = random.below(50) as usize;
            all[index] = (*random.pick(&tiers), random.below(16385) as u32);
            counts.set(index, all[index].0, all[index].1);
            assert_eq!(counts, FreeCounts::of(all.clone()));
        }
    }
}
