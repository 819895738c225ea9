//! Runs: the clusters of a file or directory, those that lie together as one.

/// Clusters that lie together: `count` of them from `cluster`, the first being number `index` of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of its first cluster in the file.
    pub index: u32,
    /// Its first cluster.
    pub cluster: u32,
    /// How many clusters.
    pub count: u32,
}

/// The clusters of a file or directory, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// How many clusters there are.
    pub fn clusters(&self) -> u32 {
        self.0.last().map_or(0, |run| run.index + run.count)
    }

    /// The first cluster; 0 if there is none, as a directory entry has it.
    pub fn first(&self) -> u32 {
        self.0.first().map_or(0, |run| run.cluster)
    }

    /// The last cluster.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|run| run.cluster + run.count - 1)
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.0.iter().copied()
    }

    /// Appends clusters.
    pub fn push(&mut self, cluster: u32, count: u32) {
        match self.0.last_mut() {
            Some(last) if last.cluster + last.count == cluster => last.count += count,
            _ => self.0.push(Run { index: self.clusters(), cluster, count }),
        }
    }

    /// The cluster of this index, and how many from it on lie together.
    pub fn at(&self, index: u32) -> Option<(u32, u32)> {
        let place = match &self.0[..] {
            // Most files that matter are in one piece.
            [_] => 0,
            runs => runs.partition_point(|run| run.index <= index).checked_sub(1)?,
        };
        let run = self.0.get(place)?;
        let inside = index - run.index;
        (inside < run.count).then(|| (run.cluster + inside, run.count - inside))
    }

    /// Cuts off everything from this index on and returns it.
    pub fn split_off(&mut self, index: u32) -> Vec<Run> {
        let keep = self.0.partition_point(|run| run.index < index);
        let mut cut = self.0.split_off(keep);
        if let Some(last) = self.0.last_mut()
            && last.index + last.count > index
        {
            let kept = index - last.index;
            cut.insert(0, Run { index, cluster: last.cluster + kept, count: last.count - kept });
            last.count = kept;
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_find_and_split() {
        let mut runs = Runs::default();
        for (cluster, count) in [(10, 2), (12, 1), (40, 5), (7, 1)] {
            runs.push(cluster, count);
        }
        assert_eq!((runs.clusters(), runs.first(), runs.last()), (9, 10, Some(7)));
        assert_eq!((runs.at(0), runs.at(2), runs.at(4)), (Some((10, 3)), Some((12, 1)), Some((41, 4))));
        assert_eq!((runs.at(8), runs.at(9)), (Some((7, 1)), None));
        let cut = runs.split_off(5);
        assert_eq!(cut, [Run { index: 5, cluster: 42, count: 3 }, Run { index: 8, cluster: 7, count: 1 }]);
        assert_eq!((runs.clusters(), runs.last()), (5, Some(41)));
        runs.push(42, 1);
        assert_eq!(runs.iter().count(), 2);
        assert_eq!(runs.split_off(0).len(), 2);
        assert_eq!((runs.clusters(), runs.first(), runs.at(0)), (0, 0, None));
    }
}
