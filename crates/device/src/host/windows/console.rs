//! Ctrl-C and the closing of the console.

use std::sync::Mutex;
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;
use windows_sys::core::BOOL;

type Told = Box<dyn Fn() + Send>;

static TOLD: Mutex<Option<Told>> = Mutex::new(None);

/// Has `told` be called, on a thread of its own, when somebody presses Ctrl-C or closes the console. The process ends only
/// if `told` ends it. A later call replaces what an earlier one said.
///
/// Source: Microsoft, "SetConsoleCtrlHandler".
pub fn on_interrupt(told: impl Fn() + Send + 'static) {
    *TOLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Box::new(told));
    // SAFETY: the handler is a function of this program, which lives as long as the process.
    unsafe { SetConsoleCtrlHandler(Some(handler), 1) };
}

unsafe extern "system" fn handler(_event: u32) -> BOOL {
    if let Ok(told) = TOLD.lock()
        && let Some(told) = &*told
    {
        told();
    }
    1
}
