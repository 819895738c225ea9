//! The volume of a mount, with the state that all its requests share.

use crate::access::Accesses;
use crate::errors::{Answer, Errno};
use crate::known::KnownNodes;
use crate::known_streams::KnownStreams;
use crate::log::Log;
use crate::options::Options;
use crate::owners::Owners;
use crate::scrubbing::Scrubbing;
use crate::spelling::{NameIn, Spellings};
use crate::syncs::Syncs;
use platter_device::Operation;
use platter_vfs::{CaseRule, Error, FileSystem, Node, Result, Timestamp};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Called with a node whose permissions changed without a request of the kernel to change them, so that the kernel's
/// cached attributes of the node are out of date.
pub type Notice = Box<dyn Fn(Node) + Send + Sync>;

/// Called with the numbers of nodes that the kernel is to drop from its cache, unless a program uses them.
pub(crate) type Prune = Box<dyn Fn(Vec<u64>) + Send + Sync>;

/// Called with a spelling of a name that the kernel is to drop from its cache, after the answer to the request that is
/// being carried out; [`Served::is_dropped`] says that it has.
pub(crate) type DropName = Box<dyn Fn(NameIn) + Send + Sync>;

/// Called with a range of a file of which the kernel is to write what programs have changed through mappings. Returns when
/// it has.
pub(crate) type HandOver = Box<dyn Fn(Node, Range<u64>) + Send + Sync>;

/// Called when all names in the kernel's cache are out of date, with a file of which one name certainly is.
pub(crate) type AllOld = Box<dyn Fn(Node) + Send + Sync>;

/// A mounted volume. The methods carry out the requests of the kernel, in plain types.
pub struct Served {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) options: Options,
    pub(crate) owners: Owners,
    pub(crate) accesses: Accesses,
    pub(crate) known: KnownNodes,
    pub(crate) scrubbing: Scrubbing,
    pub(crate) streams: KnownStreams,
    pub(crate) spellings: Spellings,
    pub(crate) syncs: Arc<Syncs>,
    /// Whether names are found under other spellings than the stored one.
    pub(crate) has_spellings: bool,
    log: Log,
    notice: OnceLock<Notice>,
    prune: OnceLock<Prune>,
    drop_name: OnceLock<DropName>,
    hand_over: OnceLock<HandOver>,
    /// The number of requests that wait until the kernel has handed content over.
    waiting: AtomicUsize,
    all_old: OnceLock<AllOld>,
    /// The first failure of a write or flush of the device. Once it is set, nothing is written any more.
    failed: OnceLock<String>,
    /// The lines that are sent once only.
    told_once: Mutex<BTreeSet<String>>,
    /// Whether the volume may have changes that are not durable.
    changed: AtomicBool,
}

impl Served {
    /// Serves a volume.
    pub fn new(system: Arc<dyn FileSystem>, options: Options, log: Log) -> Served {
        let owners = Owners::new(&*system, &options);
        let accesses = Accesses::new(&*system, &options);
        let syncs = Syncs::new(options.threads / 2);
        let has_spellings = system.capabilities().names.case == CaseRule::Insensitive;
        Served {
            system,
            options,
            owners,
            accesses,
            known: KnownNodes::default(),
            scrubbing: Scrubbing::default(),
            streams: KnownStreams::default(),
            spellings: Spellings::default(),
            syncs,
            has_spellings,
            log,
            notice: OnceLock::new(),
            prune: OnceLock::new(),
            drop_name: OnceLock::new(),
            hand_over: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            all_old: OnceLock::new(),
            failed: OnceLock::new(),
            told_once: Mutex::default(),
            changed: AtomicBool::new(false),
        }
    }

    /// The volume.
    pub fn system(&self) -> &Arc<dyn FileSystem> {
        &self.system
    }

    /// The function that messages go to.
    pub(crate) fn log(&self) -> Log {
        self.log.clone()
    }

    /// Sends a message to the administrator of the machine.
    pub(crate) fn tell(&self, line: &str) {
        (self.log)(line);
    }

    /// The same, unless the same line was sent before, or many others were.
    pub(crate) fn tell_once(&self, line: String) {
        const MOST: usize = 64;
        let mut told = self.told_once.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST && told.insert(line.clone()) {
            drop(told);
            self.tell(&line);
        }
    }

    /// Sets the function that is called when cached attributes of a node are out of date. Only the first call of this
    /// method counts.
    pub fn on_notice(&self, notice: Notice) {
        let _ = self.notice.set(notice);
    }

    /// Sets the function that is called with nodes that the kernel is to forget. Only the first call of this method
    /// counts.
    pub(crate) fn on_prune(&self, prune: Prune) {
        let _ = self.prune.set(prune);
    }

    /// Sets the function that is called with a spelling that the kernel is to drop. Only the first call of this method
    /// counts.
    pub(crate) fn on_drop_name(&self, drop_name: DropName) {
        let _ = self.drop_name.set(drop_name);
    }

    /// Sets the function that is called when all names that the kernel knows are out of date. Only the first call of this
    /// method counts.
    pub(crate) fn on_all_old(&self, all_old: AllOld) {
        let _ = self.all_old.set(all_old);
    }

    /// Sets the function that has the kernel write what it holds of a file. Only the first call of this method counts.
    pub(crate) fn on_hand_over(&self, hand_over: HandOver) {
        let _ = self.hand_over.set(hand_over);
    }

    /// Has the kernel write what programs have changed in a range of a file through mappings. The kernel sends requests
    /// for that, which other threads answer; if too many of them wait like this, nothing is done and `false` returned.
    pub(crate) fn hand_over(&self, node: Node, range: Range<u64>) -> bool {
        let Some(hand_over) = self.hand_over.get() else { return true };
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst);
        let may_wait = waiting < self.options.threads / 2;
        if may_wait {
            hand_over(node, range);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        may_wait
    }

    /// Whether the kernel can be told that its names are out of date.
    pub(crate) fn tells_old_names(&self) -> bool {
        self.all_old.get().is_some()
    }

    /// Has the kernel drop a spelling.
    pub(crate) fn drop_name(&self, name: NameIn) {
        match self.drop_name.get() {
            Some(drop_name) => drop_name(name),
            None => self.spellings.is_dropped(&name),
        }
    }

    /// Tells the kernel that all names that it knows are out of date, because this file lost one of them under another
    /// spelling.
    pub(crate) fn all_old(&self, node: Node) {
        if let Some(all_old) = self.all_old.get() {
            all_old(node);
        }
    }

    /// Adds 1 to the lookup count of a node. If the kernel has too many nodes in its cache by now, it is asked to
    /// forget some.
    pub(crate) fn came(&self, node: Node) {
        if let (Some(named), Some(prune)) = (self.known.came(node), self.prune.get()) {
            prune(named);
        }
    }

    /// Reports that the kernel's cached attributes of a node are out of date.
    pub(crate) fn notice(&self, node: Node) {
        if let Some(notice) = self.notice.get() {
            notice(node);
        }
    }

    /// Must be called before each change. Fails if the mount is read-only or a write has failed, and otherwise notes
    /// that the volume has changes to sync.
    pub(crate) fn change(&self) -> Answer<()> {
        if self.options.read_only || self.failed.get().is_some() {
            return Err(Errno(libc::EROFS));
        }
        // The mark is read before it is stored: all threads use it, and a store by each of them would slow all of them.
        if !self.changed.load(Ordering::Relaxed) {
            self.changed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    /// The errors of syncing the volume, and `EIO` after a write has failed.
    pub fn sync_all(&self) -> Answer<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.promise()?;
        self.write_accesses();
        self.told(self.system.sync_all())
    }

    /// The first failure of a write or flush of the device.
    pub(crate) fn failed(&self) -> Option<String> {
        self.failed.get().cloned()
    }

    /// Fails if a write has failed: no sync may report success after that.
    pub(crate) fn promise(&self) -> Answer<()> {
        if self.failed.get().is_some() { Err(Errno(libc::EIO)) } else { Ok(()) }
    }

    /// Syncs the volume, if it may have changes since the last call.
    pub(crate) fn sync_changes(&self) {
        if self.failed.get().is_some() {
            return;
        }
        let was_read = self.write_accesses();
        if self.changed.swap(false, Ordering::Relaxed) || was_read {
            let _ = self.told(self.system.sync_all());
        }
    }

    /// Passes the access times that wait in memory to the volume. Returns whether there were any.
    fn write_accesses(&self) -> bool {
        self.accesses.write(|node, at| self.write_access(node, at))
    }

    /// Passes an access time to the volume. No program waits for the result: damage and failures of the device go to
    /// the log, and if the volume has no room for the time, the time is lost.
    pub(crate) fn write_access(&self, node: Node, at: Timestamp) {
        match self.system.note_access(node, at) {
            // The node does not exist any more, so its access time is not needed.
            Ok(()) | Err(Error::NotFound) => {}
            failed => drop(self.told(failed)),
        }
    }

    /// Makes all changes durable and closes the volume. Requests that come later fail.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if a write failed earlier, and the errors of closing the volume.
    pub fn close(&self) -> Result<()> {
        self.scrubbing.end();
        match (self.options.read_only, self.failed.get()) {
            (true, _) => Ok(()),
            (false, Some(reason)) => Err(Error::ReadOnly(format!("it was not closed, because {reason}"))),
            (false, None) => {
                self.write_accesses();
                self.system.unmount()
            }
        }
    }

    /// Turns a result of the volume into the answer to a program. Damage and failures of the device go to the log. Once
    /// writing to the device has failed, the mount is read-only: further writes might make the damage worse, and the
    /// program that was told of the failure may not be the one that writes next.
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
