//! The ioengines of fio whose jobs cannot be run, with the reasons.
//!
//! Facts: fio's `HOWTO`, "I/O engine".

/// Engines by the reason why their jobs cannot be run in a lab that reads and writes files and devices.
const NOT_RUN: &[(&[&str], &str)] = &[
    (&["net", "netsplice", "rdma"], "moves data between programs or machines; there is no storage in it"),
    (
        &[
            "http",
            "nfs",
            "nbd",
            "rbd",
            "rados",
            "gfapi",
            "gfapi_async",
            "libhdfs",
            "libiscsi",
            "dfs",
            "ime_psync",
            "ime_psyncv",
            "ime_aio",
        ],
        "speaks with a server of its own; mount it, or attach it as a block device, and give that as the target",
    ),
    (&["null", "cpp_null", "external"], "does no I/O at all"),
    (&["cpuio", "exec", "page_fault"], "keeps processors or memory busy; there is no I/O in it"),
    (
        &["filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"],
        "makes, looks at or removes files; the workload small-files does that",
    ),
    (
        &["e4defrag", "falloc", "ftruncate", "splice"],
        "moves or sizes files by a call of the kernel, and neither reads nor writes them",
    ),
    (
        &["io_uring_cmd", "sg", "xnvme", "libzbc", "mtd"],
        "gives a device commands past the kernel's block layer; of it, io_uring with direct=1 is the nearest",
    ),
    (
        &["libblkio", "libcufile", "libhipfile", "libpmem", "dev-dax", "pmemblk"],
        "reaches the device through a library of its own, past the kernel",
    ),
    (&["posixaio_thread", "guasi", "syslet-rw"], "is a way of doing I/O that no kernel has any more"),
];

/// Returns a sentence why a job with this engine is not run.
pub(super) fn why_not(engine: &str) -> String {
    let name = engine.split(':').next().unwrap_or(engine);
    let why = NOT_RUN.iter().find(|(engines, _)| engines.contains(&name)).map(|(_, why)| *why);
    let why = why.unwrap_or("is not known here");
    format!(
        "this ioengine {why}; run are sync, psync, vsync, pvsync, pvsync2, mmap, libaio, io_uring, posixaio"
    )
}
