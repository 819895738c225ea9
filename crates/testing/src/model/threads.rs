//! Many threads on one volume: none of them may wait for ever or see another's data.

use super::Random;
use platter_device::Buffer;
use platter_vfs::{
    Change, Cursor, Error, FileSystem, Integrity, Kind, Name, Node, Plan, RenameFlags, Result, SyncScope,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs six threads that change files of their own and a shared one, while a seventh syncs.
///
/// # Panics
/// If an operation fails, or a thread finds another's data in its files.
pub fn get_along(system: &dyn FileSystem, rounds: u64) {
    let shared = system.create(Node::ROOT, &"shared".into(), Kind::File).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (1..=6).map(|thread| scope.spawn(move || live(system, thread, rounds, shared))).collect();
        let over = &over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                system.sync_all().unwrap();
                let space = system.space().unwrap();
                assert!(space.free <= space.total);
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, Ordering::Relaxed);
        for result in ended {
            result.unwrap();
        }
    });
    system.forget(shared, 1);
}

/// The outcome of an operation that a format may not support; `None` if it does not.
fn optional<T>(outcome: Result<T>) -> Option<T> {
    match outcome {
        Err(Error::Unsupported { .. }) => None,
        outcome => Some(outcome.unwrap()),
    }
}

/// Bytes that identify the thread that writes them.
fn mine(thread: u64, length: usize) -> Vec<u8> {
    vec![0x80 | thread as u8; length]
}

/// The operations of one thread: on files of its own in the shared directory, and on one file that all write to.
fn live(system: &dyn FileSystem, thread: u64, rounds: u64, shared: Node) {
    let mut random = Random::new(thread);
    let name = |number: u64| Name::from(format!("thread {thread} file {number}").as_str());
    for round in 0..rounds {
        let number = random.below(4);
        let node = match system.create(Node::ROOT, &name(number), Kind::File) {
            Ok(node) => node,
            Err(Error::Exists) => system.lookup(Node::ROOT, &name(number)).unwrap(),
            Err(error) => panic!("{error}"),
        };
        match random.below(14) {
            0..4 => {
                let offset = random.below(40_000);
                system.write(node, offset, &mine(thread, random.below(9000) as usize)).unwrap();
            }
            4 => {
                let size = Some(random.below(30_000));
                system.set_attributes(node, &Change { size, ..Change::default() }).unwrap();
            }
            5 => {
                let to = name(random.below(4));
                system.rename(Node::ROOT, &name(number), Node::ROOT, &to, RenameFlags::Replace).unwrap();
            }
            6 => system.unlink(Node::ROOT, &name(number)).unwrap(),
            7 => system.sync(node, if round % 2 == 0 { SyncScope::All } else { SyncScope::Data }).unwrap(),
            8 => {
                // Another thread may truncate the shared file at any moment.
                let size = Some(random.below(200_000));
                system.set_attributes(shared, &Change { size, ..Change::default() }).unwrap();
            }
            9 => {
                let start = random.below(30_000);
                optional(system.punch(node, start..start + 1 + random.below(20_000)));
            }
            10 => {
                let start = random.below(30_000);
                let keep_size = random.chance(50);
                optional(system.allocate(node, start..start + 1 + random.below(20_000), keep_size));
            }
            11 => {
                let integrity = Integrity { enabled: random.chance(50), enforced: true };
                optional(system.integrity().and_then(|part| part.set(node, integrity)));
            }
            12 => {
                if let Some(side) =
                    optional(system.streams().and_then(|part| part.open(node, &"side".into(), true)))
                {
                    system.write(side, random.below(9000), &mine(thread, 3000)).unwrap();
                    system.forget(side, 1);
                }
            }
            _ => {
                let mut entries = Vec::new();
                system.read_directory(Node::ROOT, Cursor::START, 1000, &mut entries).unwrap();
                assert!(!entries.is_empty());
            }
        }
        let size = system.attributes(node).unwrap().size;
        let mut content = vec![0; size as usize];
        assert_eq!(system.read(node, 0, &mut content).unwrap() as u64, size);
        let foreign = content.iter().find(|&&byte| byte != 0 && byte != 0x80 | thread as u8);
        assert_eq!(foreign, None, "thread {thread} round {round}: what another wrote");
        system.forget(node, 1);
        in_flight(system, &mut random, thread, shared);
    }
}

/// Keeps up to four planned writes and reads in flight at once on the shared file, all from this thread.
fn in_flight(system: &dyn FileSystem, random: &mut Random, thread: u64, shared: Node) {
    let data = Buffer::from(&mine(thread, 4096)[..]);
    let mut plans: Vec<(Plan, bool)> = Vec::new();
    let mut sound = true;
    let mut to_plan = 4;
    while to_plan > 0 || !plans.is_empty() {
        if to_plan > 0 {
            let (mut plan, write) = (Plan::default(), random.chance(50));
            let offset = random.below(48) * 4096;
            let planned = plan.make_whole(&**system.device(), |plan| match write {
                true => system.plan_write(shared, offset, &data, plan),
                false => system.plan_read(shared, offset, 4096, plan),
            });
            match planned {
                Ok(()) => {
                    to_plan -= 1;
                    plans.push((plan, write));
                    continue;
                }
                // The caller that has claimed the range may be waiting for one of these plans.
                Err(Error::Busy) if !plans.is_empty() => {}
                Err(Error::Busy) => {
                    system.wait_until_free(shared);
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
        }
        let (plan, write) = plans.swap_remove(random.below(plans.len() as u64) as usize);
        sound &= carry_out(system, plan, write, &data);
    }
    // Asserted only when everything is finished, because others may wait for these plans.
    assert!(sound, "a sector of two minds");
}

/// Carries out a plan; returns whether each sector that it read has the data of a single thread.
fn carry_out(system: &dyn FileSystem, mut plan: Plan, write: bool, data: &[u8]) -> bool {
    let mut buffer = Buffer::new(4096);
    if write {
        let done = plan.write_to(&**system.device(), data);
        system.finish_write(&mut plan, data, done).unwrap();
        return true;
    }
    let done = plan.read_from(&**system.device(), &mut buffer);
    let read = system.finish_read(&mut plan, &mut buffer, done).unwrap();
    // Each sector has the data of one thread, or zeroes behind the offset where the file was truncated and grew again.
    buffer[..read].chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0] || *byte == 0))
}
