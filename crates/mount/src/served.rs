//! A volume that is being served.

use crate::access::Accesses;
use crate::errors::{Answer, Errno};
use crate::known::KnownNodes;
use crate::options::Options;
use crate::owners::Owners;
use platter_device::Operation;
use platter_vfs::{Error, FileSystem, Node, Result, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Told, in a sentence each, what whoever keeps the machine should know.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Told of a file whose owner or permissions became others than whoever asked expects.
pub type Notice = Box<dyn Fn(Node) + Send + Sync>;

/// Told of nodes that the kernel may forget unless a program uses them.
pub type Prune = Box<dyn Fn(Vec<u64>) + Send + Sync>;

/// A volume that is being served: each operation as the kernel asks for it, in plain types.
pub struct Served {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) options: Options,
    pub(crate) owners: Owners,
    pub(crate) accesses: Accesses,
    pub(crate) known: KnownNodes,
    log: Log,
    notice: OnceLock<Notice>,
    prune: OnceLock<Prune>,
    /// Why nothing is written any more.
    failed: OnceLock<String>,
    /// Whether something was changed that may not be durable.
    changed: AtomicBool,
}

impl Served {
    /// Serves a volume.
    pub fn new(system: Arc<dyn FileSystem>, options: Options, log: Log) -> Served {
        let owners = Owners::new(&*system, &options);
        let accesses = Accesses::new(&*system, &options);
        Served {
            system,
            options,
            owners,
            accesses,
            known: KnownNodes::default(),
            log,
            notice: OnceLock::new(),
            prune: OnceLock::new(),
            failed: OnceLock::new(),
            changed: AtomicBool::new(false),
        }
    }

    /// The volume.
    pub fn system(&self) -> &Arc<dyn FileSystem> {
        &self.system
    }

    /// Tells whoever keeps the machine.
    pub(crate) fn tell(&self, line: &str) {
        (self.log)(line);
    }

    /// Has whoever keeps attributes of files in a cache told of what they cannot know, the first time that this is called.
    pub fn on_notice(&self, notice: Notice) {
        let _ = self.notice.set(notice);
    }

    /// Has the kernel told of nodes that it may forget, the first time that this is called.
    pub(crate) fn on_prune(&self, prune: Prune) {
        let _ = self.prune.set(prune);
    }

    /// A node was handed out, which may make them too many.
    pub(crate) fn came(&self, node: Node) {
        if let (Some(named), Some(prune)) = (self.known.came(node), self.prune.get()) {
            prune(named);
        }
    }

    /// A file's permissions became others than whoever asked expects.
    pub(crate) fn notice(&self, node: Node) {
        if let Some(notice) = self.notice.get() {
            notice(node);
        }
    }

    /// Whether something may be changed, which will happen then.
    pub(crate) fn change(&self) -> Answer<()> {
        if self.options.read_only || self.failed.get().is_some() {
            return Err(Errno(libc::EROFS));
        }
        // Looked at before it is stored: a line of memory that all threads write to would slow all of them.
        if !self.changed.load(Ordering::Relaxed) {
            self.changed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// What syncing the volume gives.
    pub fn sync_all(&self) -> Answer<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.promise()?;
        self.write_accesses();
        self.told(self.system.sync_all())
    }

    /// Whether a sync may still say that nothing is lost: not after writing has failed.
    pub(crate) fn promise(&self) -> Answer<()> {
        if self.failed.get().is_some() { Err(Errno(libc::EIO)) } else { Ok(()) }
    }

    /// Makes durable what was changed since the last time, if anything was.
    pub(crate) fn sync_changes(&self) {
        if self.failed.get().is_some() {
            return;
        }
        let was_read = self.write_accesses();
        if self.changed.swap(false, Ordering::Relaxed) || was_read {
            let _ = self.told(self.system.sync_all());
        }
    }

    /// Gives the volume the times of reading that wait. Returns whether there were any.
    fn write_accesses(&self) -> bool {
        self.accesses.write(|node, at| self.write_access(node, at))
    }

    /// Gives the volume a time of reading. Nobody waits for the outcome: damage and failures of the device go to the log, and
    /// for want of room the time is lost.
    pub(crate) fn write_access(&self, node: Node, at: Timestamp) {
        match self.system.note_access(node, at) {
            // It was forgotten meanwhile, with its time.
            Ok(()) | Err(Error::NotFound) => {}
            failed => drop(self.told(failed)),
        }
    }

    /// Makes everything durable and closes the volume.
    pub(crate) fn close(&self) -> Result<()> {
        match (self.options.read_only, self.failed.get()) {
            (true, _) => Ok(()),
            (false, Some(reason)) => Err(Error::ReadOnly(format!("it was not closed, because {reason}"))),
            (false, None) => {
                self.write_accesses();
                self.system.unmount()
            }
        }
    }

    /// A result as a program is told it. Damage and failures of the device go to the log; once writing to the device has
    /// failed, nothing is written any more: what would follow might make things worse, and a program that was told of the
    /// failure may not be the one that goes on.
    pub(crate) fn told<T>(&self, result: Result<T>) -> Answer<T> {
        result.map_err(|error| {
            self.note(&error);
            error.errno()
        })
    }

    fn note(&self, error: &Error) {
        use platter_device::Error::Io;
        let lost = |operation| matches!(operation, Operation::Write | Operation::Flush);
        match error {
            Error::Device(Io { operation, .. })
                if lost(*operation) && self.failed.set(error.to_string()).is_ok() =>
            {
                self.tell(&format!("{error}: the mount is read-only from now on"));
            }
            Error::Damaged(_) | Error::Device(_) => self.tell(&error.to_string()),
            _ => {}
        }
    }
}
