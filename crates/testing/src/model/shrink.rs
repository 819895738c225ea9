//! Delta debugging: finds a small failing stream from a large one.

use super::Outcome;
use super::operation::Operation;
use super::runner::Difference;

/// Leaves out ever smaller parts of the stream as long as the rest still fails, in whatever way, with at most `most`
/// runs.
pub(super) fn shrink(
    mut operations: Vec<Operation>,
    mut difference: Difference,
    most: usize,
    run: &dyn Fn(&[Operation]) -> Outcome,
) -> (Vec<Operation>, Difference) {
    let mut attempts = 0;
    let mut size = operations.len().div_ceil(2);
    while size > 0 && attempts < most {
        let before = operations.len();
        let mut start = 0;
        while start < operations.len() && attempts < most {
            let end = (start + size).min(operations.len());
            let mut rest = operations[..start].to_vec();
            rest.extend_from_slice(&operations[end..]);
            attempts += 1;
            match run(&rest) {
                Err((at, now)) => {
                    rest.truncate(at + 1);
                    operations = rest;
                    difference = now;
                }
                Ok(()) => start = end,
            }
        }
        // Single operations are tried again until none of them can be left out.
        if size > 1 {
            size /= 2;
        } else if operations.len() == before {
            size = 0;
        }
    }
    (operations, difference)
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::{MemoryFileSystem, MemoryOptions};
    use platter_device::{MemoryDevice, Sectors};
    use platter_vfs::{DosFlags, Error, FileSystem, Kind, Names, Node, RenameFlags, Result, SyncScope};
    use std::sync::Arc;

    /// A second reference as the subject: it agrees with the first unless its options differ.
    struct Twin {
        clock: Clock,
        options: MemoryOptions,
        system: Option<Arc<dyn FileSystem>>,
    }

    fn device(clock: &Clock) -> Arc<ClockedDevice> {
        Arc::new(ClockedDevice::new(Arc::new(MemoryDevice::new(1 << 16, Sectors::SMALL)), clock.clone()))
    }

    impl Subject for Twin {
        fn reference(&self) -> MemoryOptions {
            MemoryOptions::default()
        }

        fn open(&mut self) -> Result<Arc<dyn FileSystem>> {
            let made = Arc::new(MemoryFileSystem::new(device(&self.clock), self.options.clone()));
            Ok(self.system.insert(made).clone())
        }

        fn check(&mut self) -> std::result::Result<(), String> {
            Ok(())
        }
    }

    fn shape() -> Shape {
        Shape { capabilities: MemoryOptions::default().capabilities, sector: 512, largest: 40_000 }
    }

    /// Remounts are left out because they would empty a file system in memory.
    fn stream(seed: u64, count: usize) -> Vec<Operation> {
        generate(seed, count, &shape())
            .into_iter()
            .filter(|operation| *operation != Operation::Remount)
            .collect()
    }

    fn run(operations: &[Operation], options: &MemoryOptions) -> std::result::Result<Runner, Difference> {
        let clock = Clock::new(Duration::from_secs(1_700_000_000));
        let twin = Twin { clock: clock.clone(), options: options.clone(), system: None };
        let mut runner = Runner::new(Box::new(twin), clock)?;
        for operation in operations {
            runner.step(operation)?;
        }
        Ok(runner)
    }

    #[test]
    fn the_reference_agrees_with_itself() {
        for seed in 0..4 {
            let mut runner =
                run(&stream(seed, 3000), &MemoryOptions::default()).unwrap_or_else(|difference| {
                    panic!("seed {seed}: {difference}");
                });
            runner.compare_all().unwrap();
        }
    }

    /// The test harness is useful only if streams leave something to compare.
    #[test]
    fn streams_fill_a_tree() {
        let options = MemoryOptions::default();
        let runner = run(&stream(7, 20_000), &options).unwrap();
        let reference = runner.reference();
        let mut entries = Vec::new();
        reference.read_directory(Node::ROOT, platter_vfs::Cursor::START, 1000, &mut entries).unwrap();
        assert!(entries.len() > 10, "{} entries", entries.len());
        assert!(reference.node_count() > 50, "{} nodes", reference.node_count());
    }

    #[test]
    fn a_difference_shrinks_to_what_causes_it() {
        let mut options = MemoryOptions::default();
        options.capabilities.largest_file = 30_000;
        let make: Make<'_> =
            &|clock| Box::new(Twin { clock: clock.clone(), options: options.clone(), system: None });
        let operations = stream(11, 4000);
        let (at, difference) = attempt(&operations, make).expect_err("files may differ in size");
        let (smallest, _) = super::shrink(operations[..=at].to_vec(), difference, 1500, &|operations| {
            attempt(operations, make)
        });
        assert!(smallest.len() <= 2, "{smallest:#?}");
        let code = format!("{smallest:?}");
        assert!(code.contains("Create") || code.contains("SymbolicLink"), "{code}");
    }

    /// The printed form is code: this stream was pasted from such output, and compiles because the names are in scope.
    #[test]
    fn a_printed_stream_can_be_pasted() {
        use Kind::*;
        use Operation::*;
        use RenameFlags::*;
        use SyncScope::*;
        let pasted = [
            Create { directory: 0, name: named("a"), kind: File, into: 3 },
            Rename { from: 0, name: named("a"), to: 0, new_name: units(&[97, 55296]), flags: NoReplace },
            Sync { node: 3, scope: All },
        ];
        let printed = format!("{pasted:?}");
        assert_eq!(
            printed,
            "[Create { directory: 0, name: named(\"a\"), kind: File, into: 3 }, \
             Rename { from: 0, name: named(\"a\"), to: 0, new_name: units(&[97, 55296]), flags: NoReplace }, \
             Sync { node: 3, scope: All }]"
        );
        let _ = (DosFlags(1), Error::NotFound);
        run(&pasted, &MemoryOptions::default()).unwrap();
    }
}
