//! The comparison of 2009 on external disks, in virtual time: what it states about its loads, one by one.

use platter_lab::post::{Post, Repeat};

/// The statements that the model does not share; docs/models.md says why.
const NOT: [&str; 11] = [
    "playback: NTFS is clearly slow over USB",
    "4x: NTFS is slower everywhere",
    "record: FAT32 loses much on slow links",
    "content: NTFS is worst on eSATA",
    "content: all are equal on the small disk",
    "office: exFAT is ten times worse on slow links",
    "photos: FireWire has almost twice USB",
    "copy from: NTFS gains little on eSATA",
    "copy to: exFAT loses on eSATA",
    "tree from: FAT32 wins a little everywhere",
    "tree to: NTFS is the same on all links",
];

#[test]
fn what_was_stated_of_external_disks_holds_or_is_listed() {
    let document = Post::named("004").unwrap().repeat(&Repeat::default(), &()).unwrap();
    let found = document.published_beside.unwrap().statements;
    let wrong: Vec<_> = found.iter().filter(|stated| stated.holds == NOT.contains(&&*stated.text)).collect();
    let rates = || document.results.iter().map(|result| (&result.target, &result.case.name, result.mb_per_s));
    assert!(wrong.is_empty(), "{wrong:?}\n{:?}", rates().collect::<Vec<_>>());
    assert!(NOT.iter().all(|what| found.iter().any(|stated| stated.text == *what)));
}
