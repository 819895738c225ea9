//! What the programs that this process starts get of its open files.

/// Has programs that this process starts from now on inherit no open files but standard input, output and error. A
/// process that serves a mount for days would otherwise hold open what its caller happened to have open, such as a lock
/// or a pipe. Linux before 5.11 cannot do this; then nothing changes.
pub fn inherit_standard_files_only() {
    // SAFETY: the call closes nothing in this process: it only sets a flag of each descriptor, which execve(2) reads.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    #[test]
    fn an_inheritable_descriptor_is_no_longer_inherited() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let copy = rustix::io::fcntl_dupfd_cloexec(&file, 100).unwrap();
        rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
        let place = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let has = || Command::new("test").args(["-e", &place]).status().unwrap().success();
        assert!(has());
        inherit_standard_files_only();
        assert!(!has());
    }
}
