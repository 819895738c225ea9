//! Threads that use what their starter has on its stack, and end before it goes on.

#[cfg(feature = "simulate")]
use std::cell::RefCell;
use std::thread::Builder;

/// Starts threads that end before [`scope`] returns.
pub struct Scope<'scope, 'env: 'scope> {
    real: &'scope std::thread::Scope<'scope, 'env>,
    #[cfg(feature = "simulate")]
    simulated: RefCell<Started>,
}

/// Calls `work`, which may start threads with the [`Scope`], and returns when all of them have ended:
/// `std::thread::scope`, whose threads are callers of the simulation in one. A panic of a thread is passed on.
pub fn scope<'env, R>(work: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> R) -> R {
    std::thread::scope(|real| {
        let scope = Scope {
            real,
            #[cfg(feature = "simulate")]
            simulated: RefCell::default(),
        };
        work(&scope)
    })
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    ///
    /// # Errors
    /// The error of the system if it cannot start another thread.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'scope) -> std::io::Result<()> {
        #[cfg(feature = "simulate")]
        if let Some(schedule) = super::simulate::schedule() {
            let work: Box<dyn FnOnce() + Send + 'scope> = Box::new(work);
            // SAFETY: the caller of the simulation that runs `work` has ended before `Started` is gone, which is before
            // the scope ends; or a panic unwinds the scope, and then no caller of this simulation ever goes on.
            let work: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(work) };
            self.simulated.borrow_mut().0.push(schedule.spawn(work));
            return Ok(());
        }
        Builder::new().name(name.into()).spawn_scoped(self.real, work).map(drop)
    }
}

/// The functions that wait for the callers of a simulation which a scope has started.
#[cfg(feature = "simulate")]
#[derive(Default)]
struct Started(Vec<Box<dyn FnOnce() + Send>>);

#[cfg(feature = "simulate")]
impl Drop for Started {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        if std::thread::panicking() {
            return super::simulate::leave();
        }
        self.0.drain(..).for_each(|join| join());
    }
}
