//! Names of targets that tell them apart, in every view.

use super::{Document, Target};
use std::collections::HashMap;

impl Document {
    /// Gives targets whose headings are alike the shortest headings that differ: the last parts of their paths, as many
    /// as it takes, or else their names.
    pub(crate) fn tell_targets_apart(&mut self) {
        let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, target) in self.targets.iter().enumerate() {
            alike.entry(target.short.clone()).or_default().push(index);
        }
        let mut groups: Vec<Vec<usize>> = alike.into_values().filter(|group| group.len() > 1).collect();
        groups.sort();
        for group in groups {
            let targets: Vec<&Target> = group.iter().map(|&index| &self.targets[index]).collect();
            let shorts = (1..=MOST_PARTS)
                .map(|parts| {
                    targets.iter().map(|target| ending(&target.name, parts)).collect::<Vec<String>>()
                })
                .find(|shorts| self.are_new(shorts, &group))
                .unwrap_or_else(|| targets.iter().map(|target| target.name.clone()).collect());
            for (index, short) in group.into_iter().zip(shorts) {
                self.targets[index].short = short;
            }
        }
    }

    /// Whether headings differ from each other and from those of the targets that are not in the group.
    fn are_new(&self, shorts: &[String], group: &[usize]) -> bool {
        let others = self.targets.iter().enumerate().filter(|(index, _)| !group.contains(index));
        let mut all: Vec<&str> = others.map(|(_, target)| target.short.as_str()).collect();
        all.extend(shorts.iter().map(String::as_str));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() == count
    }
}

/// The most parts of a path in a heading; a longer path is shown whole.
const MOST_PARTS: usize = 4;

/// The end of a directory's name, with this many parts of its path: `dir:a/data` of `dir:/mnt/a/data`. The names of
/// other targets are returned whole.
fn ending(name: &str, parts: usize) -> String {
    let Some(path) = name.strip_prefix("dir:") else { return name.to_owned() };
    let kept: Vec<&str> = path.split(std::path::is_separator).filter(|part| !part.is_empty()).collect();
    let kept = &kept[kept.len().saturating_sub(parts)..];
    if kept.is_empty() { name.to_owned() } else { format!("dir:{}", kept.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Settings};
    use super::*;

    fn shorts(targets: &[(&str, &str)]) -> Vec<String> {
        let target = |&(name, short): &(&str, &str)| Target {
            name: name.into(),
            short: short.into(),
            ..Target::default()
        };
        let targets = targets.iter().map(target).collect();
        let time = std::time::SystemTime::UNIX_EPOCH;
        let mut document = Document::new(time, "", Environment::default(), Settings::default(), targets);
        document.tell_targets_apart();
        let once = document.clone();
        document.tell_targets_apart();
        assert_eq!(document, once);
        document.targets.into_iter().map(|target| target.short).collect()
    }

    #[test]
    fn headings_are_as_short_as_they_can_be_and_differ() {
        assert_eq!(shorts(&[("raw", "raw"), ("dir:/x", "dir:ext4")]), ["raw", "dir:ext4"]);
        assert_eq!(shorts(&[("dir:ssd", "dir:ext4"), ("dir:hdd", "dir:ext4")]), ["dir:ssd", "dir:hdd"]);
        assert_eq!(
            shorts(&[
                ("dir:/mnt/a/data", "dir:ext4"),
                ("dir:/mnt/b/data", "dir:ext4"),
                ("dir:/c", "dir:xfs")
            ]),
            ["dir:a/data", "dir:b/data", "dir:xfs"]
        );
        assert_eq!(
            shorts(&[("dir:/tmp", "dir:ext4"), ("dir:/tmp #2", "dir:ext4")]),
            ["dir:tmp", "dir:tmp #2"]
        );
        assert_eq!(
            shorts(&[("dir:/", "dir:ext4"), ("dir:/tmp", "dir:ext4"), ("dir:tmp", "dir:ext4")]),
            ["dir:/", "dir:/tmp", "dir:tmp"]
        );
        // Two policies on one directory differ at the end of their names.
        assert_eq!(
            shorts(&[("dir:/a quick-removal", "dir:ext4"), ("dir:/a better-performance", "dir:ext4")]),
            ["dir:a quick-removal", "dir:a better-performance"]
        );
    }
}
