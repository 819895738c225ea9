use super::fake::Fake;
use super::*;

/// Makes a volume of this name in a directory, for files of 64 MiB.
fn make(fake: &Arc<Fake>, directory: &Path, name: &str) -> Result<WindowsPeer> {
    let windows: Arc<dyn Windows> = fake.clone();
    WindowsPeer::by_name(name).unwrap().make(&windows, directory, 64 << 20)
}

fn fake(change: impl FnOnce(&mut Fake)) -> (tempfile::TempDir, Arc<Fake>) {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new(folder.path());
    change(&mut fake);
    (folder, Arc::new(fake))
}

/// How many files are in the directory.
fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file()).count()
}

#[test]
fn each_is_made_with_a_letter_of_its_own_and_removed() {
    let (folder, fake) = fake(|_| ());
    let peers: Vec<WindowsPeer> =
        WindowsPeer::names().map(|name| make(&fake, folder.path(), name).unwrap()).collect();
    let made = ["ntfs", "refs", "refs", "exfat", "fat32"]
        .map(str::to_owned)
        .into_iter()
        .zip(['Y', 'X', 'W', 'V', 'U']);
    assert_eq!(fake.attached(), made.collect::<Vec<_>>());
    let (path, integrity) = peers[2].directory().unwrap();
    assert!(path.ends_with("W") && integrity && !peers[1].directory().unwrap().1);
    assert_eq!(peers[1].title(), "ReFS of Windows, 4 KiB clusters");
    assert_eq!((files(folder.path()), peers[4].largest_file()), (5, u32::MAX.into()));
    let scripts = fake.scripts.lock().unwrap().join("");
    assert!(scripts.contains(" maximum=4096 type=fixed\r\n"), "{scripts}");
    assert!(scripts.contains("format fs=ntfs unit=4096 label=PLATTER quick\r\n"), "{scripts}");
    assert!(scripts.contains("format fs=exfat label=PLATTER quick\r\n"), "{scripts}");
    peers[0].end().unwrap();
    peers[0].end().unwrap();
    drop(peers);
    assert_eq!((fake.attached(), files(folder.path())), (Vec::new(), 0));
}

/// What each Windows refuses, the sentence for it, and that nothing is left.
#[test]
fn each_refusal_is_a_sentence_with_the_remedy() {
    type Change = fn(&mut Fake);
    let refusals: [(Change, &str, &str); 7] = [
        (|fake| fake.is_elevated = false, "windows-ntfs", "open the terminal as administrator"),
        (|fake| fake.makes_refs = false, "windows-refs", "Home and Pro do not; run it on Enterprise"),
        (|fake| fake.makes_refs = false, "windows-refs+integrity", "leave windows-refs+integrity out"),
        (|fake| fake.hidden = 1 << 24, "windows-ntfs", "drive letter Y: to the volume"),
        (|fake| fake.hidden = 1 << 24, "windows-exfat", "net use Y: /delete"),
        (
            |fake| fake.letters = u32::MAX,
            "windows-ntfs",
            "all drive letters from D to Z are in use; free one",
        ),
        (|fake| fake.has_room = false, "windows-fat32", "that drive needs the space"),
    ];
    for (change, name, sentence) in refusals {
        let (folder, fake) = fake(change);
        let error = make(&fake, folder.path(), name).err().unwrap().to_string();
        assert!(error.contains(sentence) && error.contains(name), "{error}");
        assert_eq!((fake.attached(), files(folder.path())), (Vec::new(), 0), "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let (folder, fake) = fake(|_| ());
    let windows: Arc<dyn Windows> = fake.clone();
    let make = |name: &str, directory: &Path, span| {
        let peer = WindowsPeer::by_name(name).unwrap();
        peer.make(&windows, directory, span).err().unwrap().to_string()
    };
    let large = make("windows-fat32", folder.path(), 40 << 30);
    assert!(large.contains("at most 32 GiB") && large.contains("smaller --span"), "{large}");
    for name in ["ä", "a\"b"] {
        let told = make("windows-ntfs", &folder.path().join(name), 1 << 20);
        assert!(told.contains("choose another directory with --out"), "{told}");
    }
    let there = folder.path().join(format!("platter-windows-ntfs-{}.vhdx", std::process::id()));
    std::fs::write(&there, "of somebody").unwrap();
    let told = make("windows-ntfs", folder.path(), 1 << 20);
    assert!(told.contains("is there already") && told.contains("remove it"), "{told}");
    assert_eq!(std::fs::read(&there).unwrap(), b"of somebody");
    assert!(fake.scripts.lock().unwrap().is_empty());
    let unmade = WindowsPeer::by_name("windows-ntfs").unwrap();
    assert!(unmade.directory().err().unwrap().to_string().contains("dir:X:"));
}

#[test]
fn a_volume_that_stays_is_told_with_what_removes_it() {
    let (folder, fake) = fake(|fake| fake.has_open_files = true);
    let told = make(&fake, folder.path(), "windows-ntfs").unwrap().end().err().unwrap().to_string();
    assert!(
        told.contains("stays attached as drive Y:") && told.contains("detach it in Disk Management"),
        "{told}"
    );
    assert_eq!(fake.attached(), [("ntfs".to_owned(), 'Y')]);
}

#[test]
fn without_diskpart_the_sentence_says_so() {
    let told = refusals::not_run(&io::ErrorKind::NotFound.into());
    assert!(told.contains("diskpart is not there") && told.contains("dir:X:"), "{told}");
}
