//! Other implementations that check Platter's volumes: dosfstools and mtools. A test fails if one is missing.

use platter_testing::model::judge::Programs;

pub(crate) use platter_testing::model::ImageFile;
pub(crate) use platter_testing::model::judge::Verdict;

const PROGRAMS: Programs = Programs {
    from: "dosfstools or mtools",
    environment: &[
        ("MTOOLSRC", "/dev/null"),
        // mtools' own check of the FAT refuses links to the last cluster, because it compares cluster numbers, which
        // start at 2, with the number of clusters (check_fat in mtools 4.0.32). fsck.fat checks the FAT instead.
        ("MTOOLS_SKIP_CHECK", "1"),
    ],
};

/// Runs a tool that must succeed, and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    PROGRAMS.run(program, arguments)
}

/// Runs fsck.fat on an image without changing it.
pub(crate) fn fsck(image: &ImageFile) -> Verdict {
    let (status, output) = PROGRAMS.ask("fsck.fat", &["-n", image.path()]);
    Verdict { clean: status.code() == Some(0), output }
}
