//! Devices that fail while a volume is open.

use crate::common::{USUAL, check_clean, open};
use platter_device::{Device, Fault, Faults, Operation, OverlayDevice, When};
use platter_vfs::{Error, FileSystem, Kind, Name, Names, Node, Place, SyncScope};
use std::sync::Arc;

fn name(number: u64) -> Name {
    Name::from(&*format!("a name of some length, number {number}"))
}

/// The content of a file after a power cut at this moment.
fn after_a_cut(device: &Arc<dyn Device>, file: &str) -> Vec<u8> {
    let system = open(Arc::new(OverlayDevice::new(device.clone())));
    let file = system.lookup(Node::ROOT, &file.into()).unwrap();
    let mut content = vec![0; 20_000];
    let length = system.read(file, 0, &mut content).unwrap();
    content.truncate(length);
    content
}

/// Makes a volume with two files that were written and not synced. The first has a further name in a directory of many
/// blocks, and that directory cannot be read.
fn with_a_directory_that_cannot_be_read(with: impl FnOnce(Arc<Faults>, &dyn FileSystem, Node, Node)) {
    let memory: Arc<dyn Device> = USUAL.make();
    {
        let system = open(memory.clone());
        let directory = system.create(Node::ROOT, &"directory".into(), Kind::Directory).unwrap();
        for number in 0..400 {
            system.create(directory, &name(number), Kind::File).unwrap();
        }
        let first = system.create(Node::ROOT, &"first".into(), Kind::File).unwrap();
        system.link(first, directory, &name(1000)).unwrap();
        system.create(Node::ROOT, &"second".into(), Kind::File).unwrap();
        system.unmount().unwrap();
    }
    let device = Arc::new(Faults::new(memory.clone(), 8664));
    let system = open(device.clone());
    let first = system.lookup(Node::ROOT, &"first".into()).unwrap();
    let second = system.lookup(Node::ROOT, &"second".into()).unwrap();
    system.write(first, 0, &[1; 10_000]).unwrap();
    system.write(second, 0, &[2; 10_000]).unwrap();
    device.inject(When::from(Operation::Read, device.count(Operation::Read)), Fault::Fail);
    with(device.clone(), &system, first, second);
    device.heal();
    let _ = system.unmount();
    check_clean(&*memory).unwrap();
}

/// A commit that cannot record one file records the others, fails for that one, and leaves it for a later commit.
#[test]
fn what_a_commit_cannot_record_waits_for_the_next() {
    with_a_directory_that_cannot_be_read(|device, system, first, second| {
        let memory: Arc<dyn Device> = device.clone();
        let failed = |outcome| assert!(matches!(outcome, Err(Error::Device(_))), "{outcome:?}");
        let before = system.attributes(first).unwrap();
        failed(system.sync_all());
        failed(system.sync(first, SyncScope::All));
        system.sync(second, SyncScope::All).unwrap();
        assert_eq!(system.attributes(first).unwrap(), before);
        device.heal();
        assert!(after_a_cut(&memory, "second") == [2; 10_000]);
        assert!(after_a_cut(&memory, "first") != [1; 10_000], "nothing was left to record");
        system.sync(first, SyncScope::All).unwrap();
        assert!(after_a_cut(&memory, "first") == [1; 10_000]);
        assert_eq!(system.attributes(first).unwrap(), before);
    });
}

/// A volume is closed even if a file cannot be recorded, and the unmount reports the failure.
#[test]
fn what_cannot_be_recorded_at_the_end_is_told() {
    with_a_directory_that_cannot_be_read(|device, system, _, _| {
        let memory: Arc<dyn Device> = device.clone();
        let outcome = system.unmount();
        assert!(matches!(outcome, Err(Error::Device(_))), "{outcome:?}");
        device.heal();
        assert!(!open(Arc::new(OverlayDevice::new(memory.clone()))).info().unwrap().dirty);
        assert!(after_a_cut(&memory, "second") == [2; 10_000]);
    });
}

/// After a failed write or flush nothing more is written, and every change and sync fails. Data that was synced before
/// is there at the next mount.
#[test]
fn after_a_failed_write_the_volume_refuses_changes() {
    for operation in [Operation::Write, Operation::Flush] {
        for nth in 0..6 {
            let memory: Arc<dyn Device> = USUAL.make();
            let device = Arc::new(Faults::new(memory.clone(), 8664));
            let system = open(device.clone());
            let file = system.create(Node::ROOT, &"synced".into(), Kind::File).unwrap();
            system.write(file, 0, &[1; 10_000]).unwrap();
            system.sync_all().unwrap();
            device.inject(When::nth(operation, device.count(operation) + nth), Fault::Tear);
            let mut is_refused = false;
            for number in 0..40 {
                let file = system.create(Node::ROOT, &name(number), Kind::File);
                let outcome = file.and_then(|_| system.sync_all());
                if is_refused {
                    assert!(matches!(outcome, Err(Error::ReadOnly(_))), "{outcome:?}");
                }
                is_refused |= outcome.is_err();
            }
            assert!(is_refused, "{operation:?} {nth}");
            let written = device.count(Operation::Write);
            assert!(matches!(system.unmount(), Err(Error::ReadOnly(_))));
            assert_eq!(device.count(Operation::Write), written);
            check_clean(&OverlayDevice::new(memory.clone())).unwrap();
            assert!(after_a_cut(&memory, "synced") == [1; 10_000]);
        }
    }
}

/// A `hiberfil.sys` whose beginning cannot be read does not keep the volume from being read. Whether Windows is
/// hibernated on it is not known then, so nothing is written.
#[test]
fn a_volume_of_which_nobody_knows_whether_windows_sleeps_is_only_read() {
    let memory: Arc<dyn Device> = USUAL.make();
    let at = {
        let system = open(memory.clone());
        let file = system.create(Node::ROOT, &"hiberfil.sys".into(), Kind::File).unwrap();
        system.write(file, 0, &[b"wake".as_slice(), &[0; 20_000]].concat()).unwrap();
        let other = system.create(Node::ROOT, &"other".into(), Kind::File).unwrap();
        system.write(other, 0, b"content").unwrap();
        system.sync_all().unwrap();
        let extents = system.extents(file).unwrap();
        let Place::Device(at) = extents[0].place else { panic!("{extents:?}") };
        system.unmount().unwrap();
        at
    };
    let reason = |system: &dyn FileSystem| {
        system.create(Node::ROOT, &"new".into(), Kind::File).unwrap_err().to_string()
    };
    {
        let system = open(Arc::new(OverlayDevice::new(memory.clone())));
        system.create(Node::ROOT, &"new".into(), Kind::File).unwrap();
    }
    let device = Arc::new(Faults::new(memory, 8664));
    device.inject(When::within(Operation::Read, at..at + 512), Fault::Fail);
    let system = open(device);
    assert!(reason(&system).contains("whether Windows is hibernated is not known"), "{}", reason(&system));
    let other = system.lookup(Node::ROOT, &"other".into()).unwrap();
    let mut content = [0; 7];
    system.read(other, 0, &mut content).unwrap();
    assert_eq!(&content, b"content");
}
