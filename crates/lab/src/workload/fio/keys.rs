//! The keys of fio that have no influence on a load, and the keys whose jobs cannot be run.
//!
//! Facts: fio's `HOWTO`, which describes each key.

/// Keys for fio's output, for the place of its files, or for details of its implementation that the lab's engine
/// handles in its own way for every target. They influence neither the load nor its measurements.
const WITHOUT_MEANING: &[&str] = &[
    // Output.
    "description",
    "group_reporting",
    "new_group",
    "stats",
    "gtod_reduce",
    "gtod_cpu",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "disable_bw",
    "clocksource",
    "lat_percentiles",
    "clat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "block_error_percentiles",
    "significant_figures",
    "disk_util",
    "unified_rw_reporting",
    "unit_base",
    "per_job_logs",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "bwavgtime",
    "iopsavgtime",
    "log_entries",
    "log_avg_msec",
    "log_window_value",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_compression",
    "log_compression_cpus",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "log_alternate_epoch_clock_id",
    "error_dump",
    "latency_run",
    // The place of the file and its creation: the lab writes the file once before the first case.
    "filename_format",
    "unique_filename",
    "create_serialize",
    "create_fsync",
    "create_on_open",
    "allow_file_create",
    "allow_mounted_write",
    "fallocate",
    "overwrite",
    "unlink",
    "unlink_each_loop",
    "openfiles",
    "lockfile",
    // The implementation of fio.
    "thread",
    "threads",
    "mem",
    "iomem",
    "iomem_align",
    "mem_align",
    "hugepage-size",
    "lockmem",
    "fixedbufs",
    "registerfiles",
    "nonvectored",
    "userspace_reap",
    "fadvise_hint",
    "profile",
    // Random offsets: the lab always uses a fixed seed, and may draw an offset again in either case.
    "randrepeat",
    "allrandrepeat",
    "norandommap",
    "softrandommap",
    // Without `verify`, which is refused, it verifies nothing.
    "do_verify",
    // Data: the lab always writes random data in which no two sectors are alike.
    "refill_buffers",
    "scramble_buffers",
];

/// Keys for when fio ends a job or which thread issues its I/Os, with a remark for the report of a job that has them.
const REMARKED: &[(&[&str], &str)] = &[
    (
        &["rate_min", "ratemin", "rate_iops_min", "rate_cycle"],
        "nothing ends a job that is slower than its least rate; what it reached is reported",
    ),
    (
        &[
            "steadystate",
            "ss",
            "steadystate_duration",
            "ss_dur",
            "steadystate_ramp_time",
            "ss_ramp",
            "steadystate_check_interval",
        ],
        "a job runs for its whole time, also when it has become steady before",
    ),
    (&["exitall_on_error"], "an I/O error ends the target's turn, and no other target's"),
    (&["zonesize"], "zonesize without a zonemode has no zones: the span is one piece"),
    (
        &["io_submit_mode"],
        "the job issues its I/Os itself, as many as iodepth at a time, and has no other threads for that",
    ),
];

/// Keys without which a job would be a different load, with the reason why they cannot be honoured.
const REFUSED: &[(&[&str], &str)] = &[
    (&["rate_ignore_thinktime"], "a job that paused may catch up with its rate"),
    (&["thinktime_iotime"], "a pause comes after a number of I/Os: thinktime_blocks"),
    (&["flow", "flow_id", "flow_sleep", "flow_watermark"], "jobs that hold each other back are not run"),
    (
        &["latency_target", "latency_window", "latency_percentile"],
        "the queue depth is what the job says and does not follow the latency",
    ),
    (
        &[
            "iodepth_batch",
            "iodepth_batch_submit",
            "iodepth_batch_complete",
            "iodepth_batch_complete_min",
            "iodepth_batch_complete_max",
            "iodepth_low",
        ],
        "each I/O is given to the system by itself, and each completion answered before the next",
    ),
    (
        &[
            "hipri",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "uncached",
            "nowait",
            "force_async",
            "serialize_overlap",
        ],
        "this way of doing I/O is not there",
    ),
    (
        &["bs_unaligned", "blocksize_unaligned", "bs_is_seq_rand"],
        "blocks are of the sizes that bs, bsrange and bssplit say, by direction",
    ),
    (
        &["rw_sequencer"],
        "I/Os in a row go from place to place (sequential), and not to one place again and again",
    ),
    (
        &[
            "zonemode",
            "zonerange",
            "zonecapacity",
            "zoneskip",
            "read_beyond_wp",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
        ],
        "the span is one piece, without zones",
    ),
    (&["offset_align"], "offset itself says where the I/Os begin"),
    (&["opendir"], "the files of a job are those that it makes itself: nrfiles, filename"),
    (
        &["file_append", "fill_device", "fill_fs", "create_only"],
        "a case goes over a file that is written before it",
    ),
    (
        &[
            "verify",
            "verify_only",
            "verify_interval",
            "verify_offset",
            "verify_pattern",
            "verify_pattern_interval",
            "verify_fatal",
            "verify_dump",
            "verify_async",
            "verify_async_cpus",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_header_seed",
            "verify_state_load",
            "verify_state_save",
            "verify_write_sequence",
            "experimental_verify",
        ],
        "data is checked with platter's own --verify",
    ),
    (
        &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"],
        "trims are not measured",
    ),
    (
        &[
            "zero_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "dedupe_mode",
            "dedupe_working_set_percentage",
            "dedupe_global",
        ],
        "the data is random, and no sector is like another",
    ),
    (
        &["end_fsync", "fsync_on_close", "sync_file_range", "write_barrier"],
        "what counts is the load, with a sync after every N writes (fsync=N, fdatasync=N) or each (sync=dsync)",
    ),
    (&["pre_read"], "what is in the page cache is left to the system"),
    (
        &["atomic", "writefua", "readfua", "write_hint", "fdp", "fdp_pli", "plids"],
        "this way of writing is not there",
    ),
    (
        &["cpus_allowed", "cpumask", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy"],
        "start platter itself with taskset or numactl",
    ),
    (&["nice", "prio", "prioclass"], "start platter itself with nice or ionice"),
    (
        &["cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_bssplit", "cmdprio_hint"],
        "all I/Os of a job have one priority",
    ),
    (
        &["cgroup", "cgroup_weight", "cgroup_nodelete", "uid", "gid"],
        "start platter itself in the group or as the user",
    ),
    (
        &[
            "write_iolog",
            "read_iolog",
            "read_iolog_chunked",
            "replay_no_stall",
            "replay_redirect",
            "replay_scale",
            "replay_align",
            "replay_time_scale",
            "replay_skip",
            "merge_blktrace_file",
            "merge_blktrace_scalars",
            "merge_blktrace_iters",
        ],
        "a recorded load is a workload of its own (replay:LOG, or replay-fast:LOG for replay_no_stall), and no log is written",
    ),
    (&["exec_prerun", "exec_postrun", "ioscheduler"], "a job file changes nothing else on this machine"),
    (&["exitall", "exit_what"], "each section ends by its own rule, and none ends another"),
    (&["continue_on_error", "ignore_error"], "an I/O error ends the target's turn"),
    (
        &["sprandom", "spr_op", "spr_num_regions", "spr_cs"],
        "a device is not brought into a steady state before; give the load itself",
    ),
    (
        &["md_per_io_size", "pi_act", "pi_chk", "apptag", "apptag_mask", "num_range", "cmd_type"],
        "metadata beside the blocks is not written",
    ),
    (
        &["max_latency"],
        "no single slow I/O ends a job: the report has the longest response time, and counts stalls",
    ),
];

/// The meaning of a key that is not part of a load.
pub(super) enum Meaning {
    /// The key has no influence and is ignored.
    None,
    /// The key is ignored, but the report has this remark about it.
    Remark(&'static str),
    /// The job is refused for this reason, because without the key it would be a different load.
    Refused(&'static str),
    /// The key is in no list here, so it is unknown.
    Unknown,
}

/// Returns the meaning of a key that [`super::settings`] does not handle.
pub(super) fn meaning(key: &str) -> Meaning {
    if WITHOUT_MEANING.contains(&key) {
        return Meaning::None;
    }
    if let Some((_, remark)) = REMARKED.iter().find(|(keys, _)| keys.contains(&key)) {
        return Meaning::Remark(remark);
    }
    match REFUSED.iter().find(|(keys, _)| keys.contains(&key)) {
        Some((_, reason)) => Meaning::Refused(reason),
        None => Meaning::Unknown,
    }
}

/// Whether a value switches its key off, so that the load is the same as without the key.
pub(super) fn is_off(key: &str, value: Option<&str>) -> bool {
    match (key, value) {
        ("rw_sequencer", value) => value == Some("sequential"),
        ("iodepth_batch" | "iodepth_batch_submit", value) => value == Some("1"),
        ("iodepth_batch_complete" | "iodepth_batch_complete_min", value) => value == Some("1"),
        ("io_submit_mode", value) => value == Some("inline"),
        // The values of these keys are numbers that start at 0, so 0 does not mean "off".
        ("cpus_allowed" | "numa_cpu_nodes" | "uid" | "gid", _) => false,
        (_, value) => matches!(value, Some("0" | "none" | "0%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_in_two_lists() {
        let refused = REFUSED.iter().flat_map(|(keys, _)| keys.iter());
        let remarked = REMARKED.iter().flat_map(|(keys, _)| keys.iter());
        let mut all: Vec<&str> = WITHOUT_MEANING.iter().chain(refused).chain(remarked).copied().collect();
        all.sort_unstable();
        let twice: Vec<_> = all.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
