//! The browser without a terminal: keys go in, the screen comes out.

use super::{Answer, Begin, Job, Model, Screen, Side, Task, TaskEnd};
use crate::command::browse::draw::draw;
use crate::command::browse::key::{KEYS, Key};
use crate::command::view::{Details, Listing, Lost, Part, Preview};
use platter_vfs::{Attributes, Cursor, DosFlags, Entry, Kind, Name, Progress, Timestamp};
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

fn attributes(kind: Kind, size: u64) -> Attributes {
    let modified = Timestamp::default();
    Attributes {
        kind,
        size,
        allocated: size,
        links: 1,
        flags: DosFlags(0x20),
        created: None,
        modified,
        accessed: None,
        changed: None,
    }
}

fn listing(entries: &[(&str, Kind, u64)]) -> Listing {
    let entry = |(name, kind, size): &(&str, Kind, u64)| Entry {
        name: Name::from(*name),
        node: None,
        attributes: attributes(*kind, *size),
        next: Cursor::START,
    };
    Listing { entries: entries.iter().map(entry).collect(), failure: None }
}

fn names(path: &[&str]) -> Vec<Name> {
    path.iter().map(|name| Name::from(*name)).collect()
}

/// Plays what reads the volume: every directory has the same entries.
fn answer(job: Job, done: &mut Vec<Job>) -> Option<Answer> {
    const ENTRIES: [(&str, Kind, u64); 4] = [
        ("photos", Kind::Directory, 0),
        ("a.txt", Kind::File, 12),
        ("evil\u{202e}\u{1b}[2Jgpj.exe", Kind::File, 5000),
        ("link", Kind::SymbolicLink, 3),
    ];
    Some(match job {
        Job::List(place) => Answer::Listed { place, listing: Ok(listing(&ENTRIES)) },
        Job::Look(path) => {
            let name = path.last().map_or_else(String::new, ToString::to_string);
            let kind =
                ENTRIES.iter().find(|(entry, ..)| *entry == name).map_or(Kind::File, |(_, kind, _)| *kind);
            let details = Details {
                attributes: attributes(kind, 12),
                facts: vec![("kind", "file".into()), ("size", "12 B".into())],
                parts: vec![
                    (Part::Stream(Name::from("notes")), 4),
                    (Part::Snapshot(Name::from("monday")), 12),
                ],
            };
            let preview = (kind == Kind::File).then(|| Ok(Preview::new(b"hello, world", 0, 12)));
            Answer::Looked { path, side: Ok(Side { details, preview }) }
        }
        Job::Read { path, part, offset } => {
            let window = Ok(Preview::new(b"one\ntwo\nthree\n", offset, 14));
            Answer::Read { path, part, offset, window }
        }
        Job::Volume => Answer::Volume(Ok(vec!["format  NTFS 3.1".into()])),
        Job::Begin(..) => {
            done.push(job);
            return None;
        }
    })
}

struct Played {
    model: Model,
    begun: Vec<Job>,
}

impl Played {
    fn new() -> Played {
        let (model, jobs) = Model::new("disk.img".into(), "/home/me".into(), Vec::new());
        let mut played = Played { model, begun: Vec::new() };
        played.do_all(jobs);
        played
    }

    fn do_all(&mut self, jobs: Vec<Job>) {
        let mut waiting = jobs;
        while let Some(job) = waiting.pop() {
            if let Some(answer) = answer(job, &mut self.begun) {
                waiting.extend(self.model.hear(answer));
            }
        }
    }

    fn press(&mut self, keys: &[Key]) -> &mut Played {
        for key in keys {
            let jobs = self.model.press(*key);
            self.do_all(jobs);
        }
        self
    }

    fn type_text(&mut self, text: &str) -> &mut Played {
        let keys: Vec<Key> = text.chars().map(Key::Char).collect();
        self.press(&keys)
    }

    fn end(&mut self, task: Task, lines: Result<Vec<String>, String>, is_cut_off: bool) {
        let jobs = self.model.hear(Answer::Ended(TaskEnd { task, lines, is_cut_off }));
        self.do_all(jobs);
    }

    fn screen(&mut self, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let model = &mut self.model;
        terminal
            .draw(|frame| {
                let area = frame.area();
                model.resize(area.height.into());
                if let Some(cursor) = draw(model, area, frame.buffer_mut()) {
                    frame.set_cursor_position(cursor);
                }
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
        (0..height).map(line).collect()
    }
}

#[test]
fn the_first_screen() {
    let mut played = Played::new();
    let shown = played.press(&[Key::Down]).screen(64, 10);
    let expected = [
        " disk.img: /",
        " photos/                        │ kind  file",
        " a.txt                     12 B │ size  12 B",
        " evil??[2Jgpj.exe       4.9 KiB │",
        " link@                      3 B │ hello, world",
        "                                │",
        "                                │",
        "                                │",
        "4 entries",
        "F1 Help F3 View F5 Copy F10 Quit / Search c Check d Deleted r Re",
    ];
    assert_eq!(shown, expected);
    // On a narrow screen there is room for one half.
    let shown = played.screen(40, 10);
    assert_eq!(shown[2], format!("{:<30}{:>10}", " a.txt", "12 B"));
    assert_eq!(played.press(&[Key::Tab]).screen(40, 10)[1], "kind  file");
}

#[test]
fn keys_of_mc_and_of_ranger_move_alike() {
    for (into, up) in
        [(Key::Enter, Key::Backspace), (Key::Right, Key::Left), (Key::Char('l'), Key::Char('h'))]
    {
        let mut played = Played::new();
        played.press(&[Key::Home, into]);
        assert_eq!(played.model.tree.place, names(&["photos"]));
        played.press(&[Key::Char('G'), up]);
        assert_eq!(
            (&played.model.tree.place, played.model.tree.pick.at),
            (&names(&[]), 0),
            "the bar is where it was"
        );
        played.press(&[up]);
        assert_eq!(played.model.tree.place, names(&[]), "nothing is above the root");
    }
    let mut played = Played::new();
    let entry = |played: &Played| played.model.tree.selected().unwrap().name.to_string();
    played.press(&[Key::Down, Key::Char('j'), Key::Char('k')]);
    assert_eq!(entry(&played), "a.txt");
    played.press(&[Key::Char('s')]);
    assert_eq!(entry(&played), "a.txt", "another order moves no bar");
    let order: Vec<u64> = played.model.tree.entries().iter().map(|entry| entry.attributes.size).collect();
    assert_eq!(order, [0, 5000, 12, 3], "directories first, then the largest");
}

#[test]
fn a_file_is_viewed_and_copied() {
    let mut played = Played::new();
    let shown = played.press(&[Key::Down, Key::Function(3)]).screen(60, 10);
    assert_eq!(
        (shown[0].as_str(), shown[1].as_str(), shown[3].as_str()),
        (" disk.img: /a.txt (content)", "one", "three")
    );
    assert_eq!(shown[8], "bytes 0 to 14 of 14");
    assert!(played.press(&[Key::Char('x')]).screen(80, 10)[1].contains("6f 6e 65 0a"));
    played.press(&[Key::Char('q'), Key::Function(5)]);
    assert_eq!(played.screen(60, 10)[8], "Copy to: /home/me/");
    played.type_text("/tmp/x").press(&[Key::Enter]);
    let Some(Job::Begin(Begin::Copy { items, target }, watch)) = played.begun.pop() else { panic!("a copy") };
    assert_eq!((items, target.to_str()), (vec![(names(&["a.txt"]), Part::Main)], Some("/tmp/x")));
    watch.progress("copying", 1, 4);
    assert_eq!(played.screen(60, 10)[8], "copy: copying, 25 % (Esc ends it)");
    // One at a time.
    assert!(played.press(&[Key::Char('c')]).screen(60, 10)[8].starts_with("copy: "));
    assert!(played.begun.is_empty() && !watch.is_stopped());
    played.press(&[Key::Escape]);
    assert!(watch.is_stopped());
    played.end(Task::Copy, Ok(vec!["copied 0 files".into()]), true);
    assert_eq!(played.screen(60, 10)[8], "copied 0 files");
}

#[test]
fn marked_entries_are_copied_together() {
    let mut played = Played::new();
    played.press(&[Key::Char(' '), Key::Insert, Key::Char('y')]).type_text("out").press(&[Key::Enter]);
    let Some(Job::Begin(Begin::Copy { items, .. }, _)) = played.begun.pop() else { panic!("a copy") };
    assert_eq!(
        items.into_iter().map(|(path, _)| path).collect::<Vec<_>>(),
        [names(&["photos"]), names(&["a.txt"])]
    );
}

#[test]
fn streams_and_snapshots_are_viewed_and_copied_like_files() {
    let mut played = Played::new();
    let shown = played.press(&[Key::Down, Key::Char('t')]).screen(60, 10);
    assert!(shown[1].starts_with(" stream notes") && shown[2].starts_with(" snapshot monday"), "{shown:?}");
    let shown = played.press(&[Key::Down, Key::Enter]).screen(60, 10);
    assert_eq!(shown[0], " disk.img: /a.txt (snapshot monday)");
    played.press(&[Key::Function(3), Key::Char('y')]);
    assert_eq!(played.screen(60, 10)[8], "Copy to: /home/me/a.txt.monday");
    played.press(&[Key::Enter]);
    let Some(Job::Begin(Begin::Copy { items, .. }, _)) = played.begun.pop() else { panic!("a copy") };
    assert_eq!(items[0].1, Part::Snapshot(Name::from("monday")));
}

#[test]
fn a_search_finds_follows_and_goes_back() {
    let mut played = Played::new();
    let at = |played: &Played| played.model.tree.pick.at;
    played.press(&[Key::Char('/')]).type_text("LI");
    assert_eq!(at(&played), 3);
    played.press(&[Key::Escape]);
    assert_eq!(at(&played), 0);
    played.press(&[Key::Char('/')]).type_text("t").press(&[Key::Enter]);
    assert_eq!(at(&played), 0, "the entry under the bar counts");
    assert_eq!(at(played.press(&[Key::Char('n')])), 1);
    assert_eq!(at(played.press(&[Key::Char('n')])), 0);
    assert_eq!(at(played.press(&[Key::Char('N')])), 1);
    assert!(
        played.press(&[Key::Char('/')]).type_text("none of them").screen(60, 10)[8]
            .starts_with("Search: none")
    );
}

#[test]
fn deleted_files_are_listed_as_they_are_found_and_recovered() {
    let mut played = Played::new();
    played.press(&[Key::Char('d')]);
    let Some(Job::Begin(Begin::Search, watch)) = played.begun.pop() else { panic!("a search") };
    let lost = |name: &str| Lost {
        path: names(&["d", name]),
        stream: None,
        kind: Kind::File,
        size: 7,
        modified: Timestamp::default(),
        sureness: "likely",
    };
    played.model.hear(Answer::Found(vec![lost("one"), lost("two*")]));
    let shown = played.screen(60, 10);
    assert!(shown[1].starts_with("likely   /d/one"), "{shown:?}");
    played.press(&[Key::Escape]);
    assert!(watch.is_stopped());
    played.end(Task::Search, Err("stopped".into()), true);
    assert_eq!(played.screen(60, 10)[8], "the search was ended");
    played.press(&[Key::Down, Key::Function(5)]).type_text("out").press(&[Key::Enter]);
    let Some(Job::Begin(Begin::Recover { directory, patterns }, _)) = played.begun.pop() else {
        panic!("a recovery")
    };
    assert_eq!(directory.to_str(), Some("out"));
    assert!(patterns[0].matches(&names(&["d", "two*"])) && !patterns[0].matches(&names(&["d", "two"])));
}

#[test]
fn a_check_shows_the_verdict_first() {
    let mut played = Played::new();
    played.press(&[Key::Char('c')]);
    played.end(Task::Check, Ok(vec!["/a: lost [lost-chain]".into(), "disk.img: 1 found".into()]), false);
    let shown = played.screen(60, 10);
    assert_eq!((shown[0].as_str(), shown[1].as_str()), (" Check", "disk.img: 1 found"));
    played.press(&[Key::Char('q'), Key::Char('c')]);
    played.end(Task::Check, Err("in use".into()), false);
    assert_eq!(played.screen(60, 10)[8], "check: in use");
}

#[test]
fn quitting_waits_for_a_copy_once() {
    let mut played = Played::new();
    played.press(&[Key::Function(5)]).type_text("x").press(&[Key::Enter, Key::Char('q')]);
    let Some(Job::Begin(_, watch)) = played.begun.pop() else { panic!("a copy") };
    assert!(watch.is_stopped() && !played.model.has_quit);
    played.end(Task::Copy, Ok(Vec::new()), true);
    assert!(played.model.has_quit);
    for key in [Key::Char('q'), Key::Function(10), Key::Control('c')] {
        assert!(Played::new().press(&[key]).model.has_quit);
    }
}

#[test]
fn no_key_on_no_screen_of_any_size_panics() {
    let keys = [
        Key::Down,
        Key::Char('t'),
        Key::Enter,
        Key::Right,
        Key::End,
        Key::PageUp,
        Key::Char('x'),
        Key::Function(5),
        Key::Escape,
        Key::Char('q'),
        Key::Char('?'),
        Key::PageDown,
        Key::Backspace,
        Key::Char('/'),
        Key::Char('ä'),
        Key::Enter,
        Key::Char('i'),
        Key::Left,
        Key::Tab,
        Key::Down,
        Key::Char('d'),
        Key::Down,
        Key::Char('h'),
        Key::Char('s'),
        Key::Char(' '),
    ];
    for (width, height) in [(0, 0), (1, 1), (5, 2), (40, 10), (60, 3), (300, 100)] {
        let mut played = Played::new();
        for key in keys.into_iter().cycle().take(200) {
            played.press(&[key]).screen(width, height);
            if let Some(Job::Begin(..)) = played.begun.pop() {
                played.end(Task::Search, Ok(vec!["done".into()]), false);
            }
        }
    }
}

#[test]
fn the_help_opens_and_closes() {
    let mut played = Played::new();
    let shown = played.press(&[Key::Char('?')]).screen(100, 40);
    assert!(KEYS.iter().all(|(keys, _)| shown.iter().any(|line| line.starts_with(keys))), "{shown:#?}");
    played.press(&[Key::Function(1)]);
    assert!(played.model.over.is_empty());
    played.press(&[Key::Char('i')]);
    assert!(matches!(played.model.over.last(), Some(Screen::Text { .. })));
}
