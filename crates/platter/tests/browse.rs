//! `platter browse` in a real terminal, which tmux provides.

use crate::common::{Place, content};
use std::fs;
use std::time::{Duration, Instant};

/// A terminal with the browser in it.
struct Screen<'p> {
    place: &'p Place,
    socket: String,
}

impl Screen<'_> {
    /// Starts a command in a terminal of this size.
    fn start<'p>(place: &'p Place, size: (u32, u32), line: &str) -> Screen<'p> {
        let program = env!("CARGO_BIN_EXE_platter");
        // The code is shown last: who has seen it may read what was written before.
        let shell = format!(
            "stty -a >before; {program} {line}; code=$?; stty -a >after; echo \"code $code\"; exec cat"
        );
        Screen::with(place, size, &shell)
    }

    /// Starts a shell's commands in a terminal of this size.
    fn with<'p>(place: &'p Place, size: (u32, u32), shell: &str) -> Screen<'p> {
        let screen = Screen { place, socket: place.path("tmux").display().to_string() };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        screen.tmux(&["new-session", "-d", "-x", &width, "-y", &height, shell]);
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let fixed = ["-u", "-f", "/dev/null", "-S", &self.socket];
        let all: Vec<&str> = fixed.iter().chain(arguments).copied().collect();
        self.place.tool("tmux", &all)
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows this, and returns the screen.
    fn waits_for(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let shown = self.shown();
            if shown.contains(text) {
                return shown;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "no {text:?} on\n{shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let fixed = ["-S", &self.socket, "kill-server"];
        let _ = self.place.command("tmux", &fixed).output();
    }
}

fn volume(place: &Place) -> Vec<u8> {
    let bytes = content(5, 300_000);
    fs::create_dir_all(place.path("src/photos")).unwrap();
    fs::write(place.path("src/photos/a.jpg"), &bytes).unwrap();
    fs::write(place.path("src/list.txt"), "first line\nsecond line\n").unwrap();
    place.works("mkfs exfat disk.img --size 64M");
    place.works("cp -r src/. disk.img:/");
    bytes
}

#[test]
fn somebody_looks_around_views_and_copies() {
    let place = Place::new("browse");
    let bytes = volume(&place);
    let before = fs::read(place.path("disk.img")).unwrap();
    let screen = Screen::start(&place, (80, 24), "browse disk.img");
    let shown = screen.waits_for("2 entries");
    assert!(shown.contains(" photos/") && shown.contains("list.txt"), "{shown}");
    screen.press(&["Down"]);
    screen.waits_for("second line");
    screen.press(&["F3"]);
    screen.waits_for("bytes 0 to 23 of 23");
    screen.press(&["q"]);
    screen.waits_for("2 entries");
    screen.press(&["Home", "Enter"]);
    let shown = screen.waits_for("a.jpg");
    assert!(shown.contains("disk.img: /photos"), "{shown}");
    screen.press(&["F5"]);
    screen.waits_for("Copy to: ");
    screen.type_text("copy.jpg");
    screen.press(&["Enter"]);
    screen.waits_for("copied 1 files");
    assert!(fs::read(place.path("copy.jpg")).unwrap() == bytes);
    // Nothing is overwritten.
    fs::write(place.path("there.jpg"), "mine").unwrap();
    screen.press(&["y"]);
    screen.waits_for("Copy to: ");
    screen.type_text("there.jpg");
    screen.press(&["Enter"]);
    screen.waits_for("is not overwritten");
    assert_eq!(fs::read(place.path("there.jpg")).unwrap(), b"mine");
    screen.press(&["q"]);
    screen.press(&["BSpace"]);
    screen.waits_for("2 entries");
    screen.press(&["F10"]);
    screen.waits_for("code 0");
    let [old, new] = ["before", "after"].map(|name| fs::read_to_string(place.path(name)).unwrap());
    assert_eq!(old, new, "the terminal is as it was");
    assert!(fs::read(place.path("disk.img")).unwrap() == before, "nothing was written");
}

#[test]
fn a_check_and_a_search_for_deleted_files_run_beside_the_screen() {
    let place = Place::new("browse-search");
    volume(&place);
    place.works("rm disk.img:/list.txt");
    let screen = Screen::start(&place, (100, 24), "browse disk.img:/photos");
    screen.waits_for("a.jpg");
    screen.press(&["c"]);
    screen.waits_for("no damage");
    screen.press(&["q", "d"]);
    screen.waits_for("1 deleted or damaged");
    let shown = screen.shown();
    assert!(shown.contains("/list.txt"), "{shown}");
    screen.press(&["F5"]);
    screen.waits_for("Recover to the new directory: ");
    screen.type_text("back");
    screen.press(&["Enter"]);
    screen.waits_for("1 files with");
    let found = place.tool("find", &["back", "-name", "list.txt"]);
    let back = fs::read_to_string(place.path(found.trim())).unwrap();
    assert_eq!(back, "first line\nsecond line\n");
    screen.press(&["C-c"]);
    screen.waits_for("code 0");
}

#[test]
fn a_small_screen_hostile_names_and_a_signal() {
    let place = Place::new("browse-small");
    fs::create_dir_all(place.path("src")).unwrap();
    fs::write(place.path("src/a\u{202e}\u{200f}gpj.exe"), "x").unwrap();
    place.works("mkfs ntfs disk.img --size 64M");
    place.works("cp -r src/. disk.img:/");
    let screen = Screen::start(&place, (40, 10), "browse disk.img");
    screen.waits_for("a??gpj.exe");
    for size in [("200", "60"), ("10", "3"), ("40", "10")] {
        screen.tmux(&["resize-window", "-x", size.0, "-y", size.1]);
        screen.press(&["?", "Down", "q", "Tab", "Tab"]);
    }
    screen.waits_for("a??gpj.exe");
    let pids = screen.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let shell = pids.trim().to_string();
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    crate::common::mount::kill("-TERM", children.trim().parse().unwrap());
    screen.waits_for("code 130");
}

#[test]
fn it_ends_with_its_terminal() {
    let place = Place::new("browse-gone");
    volume(&place);
    let program = env!("CARGO_BIN_EXE_platter");
    // With the signal that tells of the end, and without.
    for trap in ["", "trap '' HUP; "] {
        let screen = Screen::with(
            &place,
            (80, 24),
            &format!("{trap}echo $$ >process; exec {program} browse disk.img"),
        );
        screen.waits_for("2 entries");
        let process = fs::read_to_string(place.path("process")).unwrap();
        drop(screen);
        let begun = Instant::now();
        // Nobody may have waited for it, but of what has ended there is no program.
        while fs::read_link(format!("/proc/{}/exe", process.trim())).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{trap}it still runs");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn without_a_terminal_it_says_so() {
    let place = Place::new("browse-none");
    place.works("mkfs fat32 disk.img --size 64M");
    assert!(place.fails("browse disk.img").contains("needs a terminal"));
    assert!(place.fails("browse none.img").contains("none.img"));
    assert!(place.fails("browse disk.img:/none").contains("none"));
    // The volume was opened before that is said.
    fs::File::create(place.path("parts.img")).unwrap().set_len(200 << 20).unwrap();
    fs::write(place.path("table"), "label: gpt\nsize=64M,type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7\n")
        .unwrap();
    place.tool("sh", &["-c", "sfdisk -q parts.img < table"]);
    place.works("mkfs ntfs parts.img@1");
    assert!(place.fails("browse parts.img@1").contains("needs a terminal"));
    assert!(place.fails("browse parts.img@2").contains("partition"));
}
