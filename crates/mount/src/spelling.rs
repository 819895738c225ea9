//! Names that the kernel spells otherwise than the volume does.
//!
//! Where names match whatever their case, one file is found under many spellings, and the kernel takes each for a name of
//! its own. Three things follow from that, and are kept right here.
//!
//! * The kernel asks anew each time before it uses a spelling other than the stored one, and never remembers that a name
//!   leads nowhere: a file may be made under another spelling of it. Only the stored spelling of a name is remembered.
//! * When a file is removed or moved under another spelling, the kernel still remembers the stored one. It is told then
//!   that all names it remembers are out of date, before it learns that the file is gone.
//! * rename(2) from one spelling to another reaches this process only if the kernel finds nothing under the second one:
//!   two names of one inode are left as they are by POSIX. `/proc` says which system call the thread is in that asks. In a
//!   rename(2) the first question for another spelling is answered with `ESTALE`. The kernel then starts the system call
//!   again, and asks for every name in it. If it asks for the file under another name just before it asks for the spelling
//!   again, that is the new name, and the answer is that there is no such name. Otherwise the spelling is found.
//!
//! Where `/proc` does not say it, as to a user who may not trace other processes, every question for another spelling of a
//! file is treated like that: link(2) and mknod(2) then fail with `ESTALE` where they should with `EEXIST`. Directories are
//! found at once then, since mkdir(2) has to see that they are there, and rename(2) to another spelling leaves them as they
//! are.
//!
//! A spelling that was found stays in the kernel's memory a little longer, until a thread has had it dropped. Meanwhile
//! the kernel would ask for it twice in a system call, once to see whether it is still right, and `ESTALE` is answered to
//! both.
//!
//! Source: proc_pid_syscall(5); `fuse_dentry_revalidate` and `fuse_lookup` in `fs/fuse/dir.c`, `do_renameat2` and `filename_lookup` in
//! `fs/namei.c` of Linux 6.18.

use platter_vfs::Node;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most threads of programs of which the last other spelling is known.
const MOST_THREADS: usize = 1 << 12;
/// How long a question for a spelling waits until the spelling is dropped. The one who asks may be holding up whoever
/// drops it.
const PATIENCE: Duration = Duration::from_millis(5);

/// A name as a directory and bytes.
pub(crate) type NameIn = (u64, Box<[u8]>);

/// What to answer to a question for another spelling of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// `ESTALE`: the kernel starts the system call again.
    Again,
    /// There is no such name.
    Absent,
    /// The file. The kernel is to drop the spelling afterwards if `drops` is set.
    Here {
        /// Whether the spelling is to be dropped.
        drops: bool,
    },
}

/// The last other spelling that a thread of a program asked for.
struct Walk {
    name: NameIn,
    node: u64,
    /// How often `ESTALE` is still to be answered, or `None` if the spelling was found.
    left: Option<u8>,
    /// Whether the file was asked for under its stored name since then, and was not on the way to another one.
    is_named_twice: bool,
    is_directory: bool,
}

/// How often a thread that is not asleep yet is asked for its system call.
const TRIES: usize = 200;

/// The spellings that the kernel may know.
pub(crate) struct Spellings {
    /// Whether a thread is in a call of rename(2), if that can be known.
    is_renaming: fn(u32) -> Option<bool>,
    walks: Mutex<HashMap<u32, Walk>>,
    /// The other spelling by which the kernel knows a directory: it keeps one name of each directory.
    directories: Mutex<HashMap<u64, Box<[u8]>>>,
    /// The spellings of files that are to be dropped.
    dropping: Mutex<HashSet<NameIn>>,
    dropped: Condvar,
    /// Whether any other spelling was ever asked for.
    is_used: AtomicBool,
}

impl Default for Spellings {
    fn default() -> Spellings {
        Spellings {
            is_renaming,
            walks: Mutex::default(),
            directories: Mutex::default(),
            dropping: Mutex::default(),
            dropped: Condvar::new(),
            is_used: AtomicBool::new(false),
        }
    }
}

/// The numbers of rename(2), renameat(2) and renameat2(2).
fn renames() -> Vec<i64> {
    let mut numbers = vec![libc::SYS_renameat2];
    #[cfg(not(any(target_arch = "riscv64", target_arch = "loongarch64")))]
    numbers.push(libc::SYS_renameat);
    #[cfg(target_arch = "x86_64")]
    // The last three are those of programs for 32 bits, and have no names in calls for 64 bits.
    numbers.extend([libc::SYS_rename, 38, 302, 353]);
    numbers
}

/// Whether a thread, which waits for an answer, is in a call of rename(2); `None` if this process may not know it.
fn is_renaming(thread: u32) -> Option<bool> {
    for _ in 0..TRIES {
        let said = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        match said.split_whitespace().next()? {
            // It is about to fall asleep.
            "running" => std::thread::sleep(Duration::from_micros(50)),
            number => return Some(number.parse().is_ok_and(|number| renames().contains(&number))),
        }
    }
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spellings {
    /// Whether any other spelling was ever asked for.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Notes that a thread asked for a file or directory under the name that is stored. Returns whether the kernel is to
    /// ask for the attributes if it passes through the directory.
    pub(crate) fn stored(&self, thread: u32, node: Node) -> bool {
        if !self.is_used() {
            return false;
        }
        lock(&self.directories).remove(&node.0);
        let mut walks = lock(&self.walks);
        let Some(walk) = walks.get_mut(&thread) else { return false };
        let is_same = walk.node == node.0;
        walk.is_named_twice |= is_same;
        is_same
    }

    /// Notes that a thread asked for the attributes of a directory, as on the way through it to another name.
    pub(crate) fn passed(&self, thread: u32, node: Node) {
        if !self.is_used() {
            return;
        }
        if let Some(walk) = lock(&self.walks).get_mut(&thread)
            && walk.node == node.0
            && walk.left.is_some()
        {
            walk.is_named_twice = false;
        }
    }

    /// Decides what is answered to a thread that asks for a file or directory under another spelling.
    pub(crate) fn other(&self, thread: u32, name: NameIn, node: Node, is_directory: bool) -> Verdict {
        self.is_used.store(true, Ordering::Relaxed);
        // The kernel gives no number to threads that are not in the namespace of whoever mounted.
        let verdict = if thread == 0 { None } else { self.next(thread, &name, node, is_directory) };
        match verdict {
            Some(verdict) => verdict,
            None if is_directory => {
                lock(&self.directories).insert(node.0, name.1);
                Verdict::Here { drops: false }
            }
            None => Verdict::Here { drops: lock(&self.dropping).insert(name) },
        }
    }

    /// Returns what is answered if the spelling is not found; `None` if it is.
    fn next(&self, thread: u32, name: &NameIn, node: Node, is_directory: bool) -> Option<Verdict> {
        let is_renaming = (self.is_renaming)(thread);
        let mut walks = lock(&self.walks);
        if is_renaming == Some(false) || is_renaming.is_none() && is_directory {
            walks.remove(&thread);
            return None;
        }
        if let Some(walk) = walks.get_mut(&thread) {
            match &mut walk.left {
                Some(_) if walk.name == *name && walk.is_named_twice => {
                    walks.remove(&thread);
                    return Some(Verdict::Absent);
                }
                Some(left @ 1..) if walk.name == *name => {
                    *left -= 1;
                    return Some(Verdict::Again);
                }
                Some(0) if walk.name == *name => {
                    walk.left = None;
                    return None;
                }
                // Two paths lead through a directory at most, and here is a third name of it.
                None if walk.name == *name && walk.is_named_twice => {}
                // The system call was started again, and this directory is on the way to the name.
                Some(_) if is_directory && !walk.is_directory => return None,
                // Both names of a rename are this one.
                None if walk.name == *name && !is_directory => {
                    walks.remove(&thread);
                    return None;
                }
                // The same path goes on below a directory, a second one leads through it, or both names of a rename are
                // spelt otherwise.
                None if is_directory && (name.0 == walk.node || walk.name == *name)
                    || walk.name != *name && walk.node == node.0 && !is_directory =>
                {
                    (walk.name, walk.node, walk.is_named_twice) = (name.clone(), node.0, false);
                    return None;
                }
                _ => {}
            }
        }
        drop(walks);
        // The kernel's only name of this directory is this spelling, so it does not ask for both in a rename.
        if is_directory && lock(&self.directories).get(&node.0).is_some_and(|known| *known == name.1) {
            return None;
        }
        let left = Some(u8::from(!is_directory && !self.waited(name)));
        let mut walks = lock(&self.walks);
        if walks.len() >= MOST_THREADS {
            walks.clear();
        }
        let walk = Walk { name: name.clone(), node: node.0, left, is_named_twice: false, is_directory };
        walks.insert(thread, walk);
        Some(Verdict::Again)
    }

    /// Waits a moment until a spelling is dropped, and returns whether it is.
    fn waited(&self, name: &NameIn) -> bool {
        let dropping = lock(&self.dropping);
        let is_there = |dropping: &mut HashSet<NameIn>| dropping.contains(name);
        let (dropping, _) = self
            .dropped
            .wait_timeout_while(dropping, PATIENCE, is_there)
            .unwrap_or_else(PoisonError::into_inner);
        !dropping.contains(name)
    }

    /// Notes that the kernel has dropped a spelling.
    pub(crate) fn is_dropped(&self, name: &NameIn) {
        lock(&self.dropping).remove(name);
        self.dropped.notify_all();
    }

    /// Notes that a thread made a request other than a question for a name, so that its next question belongs to another
    /// system call.
    pub(crate) fn turned(&self, thread: u32) {
        if self.is_used() {
            lock(&self.walks).remove(&thread);
        }
    }

    /// Notes that the kernel has forgotten a directory.
    pub(crate) fn forget(&self, node: Node) {
        if self.is_used() {
            lock(&self.directories).remove(&node.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Node = Node(7);
    const HERE: Verdict = Verdict::Here { drops: true };

    fn name(text: &str) -> NameIn {
        (1, text.as_bytes().into())
    }

    #[test]
    fn a_spelling_is_found_when_it_is_asked_for_again() {
        let spellings = Spellings { is_renaming: |_| None, ..Spellings::default() };
        let ask = |thread, text| spellings.other(thread, name(text), FILE, false);
        assert_eq!(ask(3, "NOTE"), Verdict::Again);
        assert_eq!(ask(3, "NOTE"), HERE);
        spellings.turned(3);
        spellings.is_dropped(&name("NOTE"));
        assert_eq!((ask(3, "NOTE"), ask(4, "NOTE")), (Verdict::Again, Verdict::Again));
        assert_eq!((ask(3, "NOTE"), ask(4, "NOTE")), (HERE, Verdict::Here { drops: false }));
    }

    #[test]
    fn in_a_rename_between_spellings_the_second_leads_nowhere() {
        let spellings = Spellings { is_renaming: |_| Some(true), ..Spellings::default() };
        let ask = || spellings.other(3, name("NOTE"), FILE, false);
        assert_eq!(ask(), Verdict::Again);
        spellings.stored(3, FILE);
        assert_eq!(ask(), Verdict::Absent);
        // A rename of a spelling to itself.
        assert_eq!((ask(), ask(), ask()), (Verdict::Again, HERE, Verdict::Here { drops: false }));
        // The spelling that was found just before is still known: it is asked for twice.
        assert_eq!((ask(), ask()), (Verdict::Again, Verdict::Again));
        spellings.stored(3, FILE);
        assert_eq!(ask(), Verdict::Absent);
    }

    /// A path is asked for again by itself, and the system call for the last name in it.
    #[test]
    fn a_path_with_two_spellings_is_asked_for_again() {
        const HELD: Verdict = Verdict::Here { drops: false };
        let spellings = Spellings { is_renaming: |_| Some(true), ..Spellings::default() };
        let directory = || spellings.other(3, name("DIR"), Node(9), true);
        let file = || spellings.other(3, (9, (*b"NOTE").into()), FILE, false);
        assert_eq!((directory(), directory()), (Verdict::Again, HELD));
        assert_eq!(spellings.other(3, (9, (*b"BELOW").into()), Node(11), true), HELD);
        assert_eq!((file(), directory(), file()), (Verdict::Again, HELD, HERE));
        spellings.turned(3);
        spellings.is_dropped(&(9, (*b"NOTE").into()));
        // The kernel knows the directory by this name now, and asks for no other one.
        assert_eq!((directory(), file(), directory()), (HELD, Verdict::Again, HELD));
        spellings.stored(3, FILE);
        assert_eq!(file(), Verdict::Absent);
        spellings.stored(3, Node(9));
        assert_eq!(directory(), Verdict::Again);
        spellings.stored(3, Node(9));
        assert_eq!(directory(), Verdict::Absent);
        // On the way to another name both lead to it.
        assert_eq!(directory(), Verdict::Again);
        assert!(spellings.stored(3, Node(9)));
        spellings.passed(3, Node(9));
        assert_eq!(directory(), HELD);
    }

    #[test]
    fn outside_a_rename_a_spelling_is_found_at_once() {
        let spellings = Spellings { is_renaming: |_| Some(false), ..Spellings::default() };
        assert_eq!(spellings.other(3, name("NOTE"), FILE, false), HERE);
        spellings.stored(3, FILE);
        assert_eq!(spellings.other(3, name("note"), FILE, false), HERE);
        assert_eq!(is_renaming(std::process::id()), Some(false));
    }

    #[test]
    fn what_is_known_of_threads_is_bounded() {
        let spellings = Spellings { is_renaming: |_| None, ..Spellings::default() };
        for thread in 1..100_000 {
            spellings.other(thread, name("NOTE"), FILE, false);
        }
        assert!(lock(&spellings.walks).len() <= MOST_THREADS);
    }
}
