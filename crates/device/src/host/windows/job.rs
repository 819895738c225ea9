//! Programs that run with all that they start, as one job of the system.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::{INVALID_HANDLE_VALUE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JobObjectBasicAccountingInformation, QueryInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, INFINITE, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
    WaitForSingleObject,
};

/// The exit code of what [`Job::end`] ends: that of a shell whose program was killed.
const ENDED: u32 = 137;

/// A program with all that it starts. Dropping it leaves them alone.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// Starts a program in a job of its own. It begins to run when it is in the job, so that nothing it starts is outside.
    /// Ctrl-C of the console does not reach it. Returns it with the time at which it began to run.
    ///
    /// # Errors
    /// The errors of starting the program, and the error codes of Windows.
    pub fn start(command: &mut Command) -> io::Result<(Job, Child, Instant)> {
        // SAFETY: both arguments may be null.
        let job = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is open, and nobody else owns it.
        let job = unsafe { OwnedHandle::from_raw_handle(job) };
        let mut child = command.creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP).spawn()?;
        // SAFETY: both handles are open.
        let is_in = unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) } != 0;
        let begun = match is_in {
            true => resume(child.id()),
            false => Err(io::Error::last_os_error()),
        };
        match begun {
            Ok(began) => Ok((Job(job), child, began)),
            Err(error) => {
                // Nobody would wake it.
                let _ = child.kill();
                Err(error)
            }
        }
    }

    /// Ends all of them at once: Windows has no way to ask programs of the console alone.
    pub fn end(&self) {
        // What has ended by itself meanwhile is as good.
        // SAFETY: the handle is open.
        unsafe { TerminateJobObject(self.0.as_raw_handle(), ENDED) };
    }

    /// The CPU time of all of them so far: in user mode, and in the kernel on their behalf.
    ///
    /// # Errors
    /// The error code of Windows.
    pub fn cpu_times(&self) -> io::Result<(Duration, Duration)> {
        let mut told = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the handle is open, and the system fills one structure, which is live and of the length that is named.
        let done = unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut told).cast(),
                size_of_val(&told) as u32,
                std::ptr::null_mut(),
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        // Units of 100 ns.
        let duration = |units: i64| Duration::from_nanos((units.max(0) as u64).saturating_mul(100));
        Ok((duration(told.TotalUserTime), duration(told.TotalKernelTime)))
    }
}

/// Lets a process run that was started suspended, which has one thread; returns when it was.
fn resume(process: u32) -> io::Result<Instant> {
    // SAFETY: the call takes numbers.
    let all = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if all == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is open, and nobody else owns it.
    let all = unsafe { OwnedHandle::from_raw_handle(all) };
    let mut thread = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..THREADENTRY32::default() };
    // SAFETY: the handle is open, and the system fills one structure, which is live and names its own length.
    let mut is_one = unsafe { Thread32First(all.as_raw_handle(), &raw mut thread) };
    while is_one != 0 {
        if thread.th32OwnerProcessID == process {
            return wake(thread.th32ThreadID);
        }
        // SAFETY: as above.
        is_one = unsafe { Thread32Next(all.as_raw_handle(), &raw mut thread) };
    }
    Err(io::Error::other("the system does not name the thread of the program that was started"))
}

fn wake(thread: u32) -> io::Result<Instant> {
    // SAFETY: the call takes numbers.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is open, and nobody else owns it.
    let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
    let began = Instant::now();
    // SAFETY: the handle is open.
    match unsafe { ResumeThread(thread.as_raw_handle()) } {
        u32::MAX => Err(io::Error::last_os_error()),
        _ => Ok(began),
    }
}

/// Waits until a program has ended.
///
/// # Errors
/// The error code of Windows.
pub fn wait_for_end(child: &Child) -> io::Result<()> {
    // SAFETY: the handle is open.
    match unsafe { WaitForSingleObject(child.as_raw_handle(), INFINITE) } {
        WAIT_OBJECT_0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cmd(line: &str) -> Command {
        let mut command = Command::new("cmd");
        command.args(["/d", "/c"]).raw_arg(line);
        command
    }

    #[test]
    fn a_program_ends_with_its_code_and_its_time() {
        let (job, mut child, began) = Job::start(&mut cmd("exit 3")).unwrap();
        wait_for_end(&child).unwrap();
        let took = began.elapsed();
        assert_eq!(child.wait().unwrap().code(), Some(3));
        let (user, kernel) = job.cpu_times().unwrap();
        assert!(user + kernel < took * 64 + Duration::from_secs(1), "{user:?} {kernel:?} in {took:?}");
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        // The second one waits for ever: for input that does not come.
        let mut command = cmd("cmd /d /c pause");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let (job, mut child, began) = Job::start(&mut command).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none());
        job.end();
        assert_eq!(child.wait().unwrap().code(), Some(ENDED as i32));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_program_that_is_not_there_is_named_by_an_error() {
        assert!(Job::start(&mut Command::new("no-such-program-anywhere")).is_err());
    }
}
