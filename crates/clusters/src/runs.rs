//! Run lists: the clusters of a file or directory, with contiguous ones as one run.

/// A run of `count` contiguous clusters from `cluster` on, of which the first has the index `index` in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The index of the first cluster in the file.
    pub index: u32,
    /// The number of the first cluster on the volume.
    pub cluster: u32,
    /// The number of clusters.
    pub count: u32,
}

/// The run list of a file or directory, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// What holds of every list: each run has clusters and begins where the one before it ends in the file, and no two
    /// that follow each other on the volume are apart in the list.
    #[cfg(any(test, debug_assertions))]
    fn check(&self) {
        let mut index = 0;
        for run in &self.0 {
            assert_eq!(run.index, index, "runs follow each other in the file");
            index += run.count;
        }
        let apart = |two: &[Run]| two[0].cluster + two[0].count != two[1].cluster;
        assert!(self.0.windows(2).all(apart), "adjacent runs are one");
    }

    /// The number of clusters.
    pub fn clusters(&self) -> u32 {
        self.0.last().map_or(0, |run| run.index + run.count)
    }

    /// The number of the first cluster; 0 if there is none, as in a directory entry.
    pub fn first(&self) -> u32 {
        self.0.first().map_or(0, |run| run.cluster)
    }

    /// The number of the last cluster.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|run| run.cluster + run.count - 1)
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.0.iter().copied()
    }

    /// Appends `count` clusters from `cluster` on.
    pub fn push(&mut self, cluster: u32, count: u32) {
        match self.0.last_mut() {
            Some(last) if last.cluster + last.count == cluster => last.count += count,
            _ => self.0.push(Run { index: self.clusters(), cluster, count }),
        }
    }

    /// The number of the cluster with this index, and how many clusters from it on are contiguous.
    pub fn at(&self, index: u32) -> Option<(u32, u32)> {
        let place = match &self.0[..] {
            // Most files that are read or written often have one run.
            [_] => 0,
            runs => runs.partition_point(|run| run.index <= index).checked_sub(1)?,
        };
        let run = self.0.get(place)?;
        let inside = index - run.index;
        (inside < run.count).then(|| (run.cluster + inside, run.count - inside))
    }

    /// Removes everything from this index on and returns it.
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
        debug_assert!(self.clusters() <= index, "what is left ends before the cut");
        debug_assert!(cut.first().is_none_or(|run| run.index == self.clusters()), "nothing between is lost");
        #[cfg(debug_assertions)]
        self.check();
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
