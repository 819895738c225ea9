//! The other implementations that judge ours: dosfstools and mtools. A missing tool fails the test.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use platter_testing::model::judge::Programs;

pub use platter_testing::model::ImageFile;
pub use platter_testing::model::judge::Verdict;

const PROGRAMS: Programs = Programs {
    from: "dosfstools or mtools",
    environment: &[
        ("MTOOLSRC", "/dev/null"),
        // Its check of the table refuses links to the last cluster, because it compares cluster numbers, which start
        // at 2, with the count of clusters (check_fat in mtools 4.0.32). fsck.fat looks at the table instead.
        ("MTOOLS_SKIP_CHECK", "1"),
    ],
};

/// Runs a tool that must succeed, and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    PROGRAMS.run(program, arguments)
}

/// Has fsck.fat judge an image, changing nothing.
pub fn fsck(image: &ImageFile) -> Verdict {
    let (status, output) = PROGRAMS.ask("fsck.fat", &["-n", image.path()]);
    Verdict { clean: status.code() == Some(0), output }
}
