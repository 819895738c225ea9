//! What people type who know other programs, and what they are told: suggestions by meaning, where the parser of arguments
//! suggests by spelling.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::ffi::OsString;
use std::path::Path;

/// Words of other programs for commands, and the sentence about the command of this program.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["format", "mkntfs", "mkexfat", "mkrefs", "mkdosfs", "make", "create", "init", "newfs"],
        "`platter mkfs FILE_SYSTEM IMAGE --size SIZE` makes a file system",
    ),
    (
        &["fsck", "chkdsk", "repair", "verify", "fix", "ntfsfix", "e2fsck", "refsutil", "checkdisk", "scan"],
        "`platter check IMAGE` checks a volume, and `platter check --repair IMAGE` repairs it",
    ),
    (
        &[
            "undelete",
            "rescue",
            "restore",
            "salvage",
            "unerase",
            "photorec",
            "testdisk",
            "carve",
            "ntfsundelete",
        ],
        "`platter recover IMAGE DIRECTORY` copies out what is left of a volume, deleted files too",
    ),
    (&["unmount", "eject", "detach", "fusermount"], "`platter umount DIRECTORY` ends a mount"),
    (&["attach", "open", "automount"], "`platter mount IMAGE DIRECTORY` makes a directory of a volume"),
    (
        &["dir", "list", "tree", "find", "ll"],
        "`platter ls -R IMAGE:/PATH` lists a directory with everything below it",
    ),
    (
        &["copy", "xcopy", "robocopy", "rsync", "import", "export", "extract", "put", "get", "push", "pull"],
        "`platter cp -r SOURCE TARGET` copies to a volume, from one or between two",
    ),
    (&["move", "rename", "ren"], "`platter mv IMAGE:/OLD IMAGE:/NEW` moves and renames"),
    (
        &["del", "delete", "erase", "remove", "rmdir", "rd", "unlink"],
        "`platter rm IMAGE:/PATH` removes files, and with -r directories",
    ),
    (&["md", "makedir"], "`platter mkdir IMAGE:/PATH` makes directories"),
    (&["type", "print", "show", "less", "more", "head", "tail"], "`platter cat IMAGE:/PATH` prints files"),
    (
        &["bench", "benchmark", "fio", "perf", "speed", "measure", "test"],
        "`platter compare` compares file systems, and `platter run WORKLOAD` runs one load on one of them",
    ),
    (
        &["diskspd", "iometer", "crystaldiskmark", "jetstress", "naspt"],
        "`platter run WORKLOAD` runs such a load",
    ),
    (
        &[
            "blkid",
            "lsblk",
            "fsinfo",
            "ntfsinfo",
            "fsutil",
            "dumpe2fs",
            "identify",
            "probe",
            "partitions",
            "fdisk",
        ],
        "`platter info IMAGE` shows partitions and each volume's format, label and space",
    ),
    (
        &["ntfslabel", "fatlabel", "exfatlabel", "e2label", "tune2fs", "setlabel", "relabel"],
        "`platter label IMAGE NAME` changes a volume's label",
    ),
    (
        &["free", "usage", "quota", "space"],
        "`platter df IMAGE` shows a volume's space, `platter du IMAGE:/PATH` that of files",
    ),
    (
        &["attrib", "chattr", "lsattr", "setfattr", "getfattr", "streams", "xattr"],
        "`platter attr list IMAGE:/PATH` lists streams and attributes",
    ),
    (
        &["raid", "mdadm", "rebuild"],
        "`platter mirror` looks after mirrors, and a mirror is written mirror:IMAGE,IMAGE",
    ),
    (&["cmp", "compare-trees"], "`platter diff ONE OTHER` compares the content of volumes and directories"),
    (
        &["reflink", "dedup", "dedupe"],
        "`platter clone IMAGE:/FILE IMAGE:/NEW` makes a copy that shares clusters",
    ),
    (&["usn", "fsutil-usn", "changes"], "`platter journal IMAGE` reads the change journal"),
    (
        &["defrag", "optimize", "trim", "fstrim", "resize", "ntfsresize", "convert", "shrink", "grow"],
        "there is no command for that; a volume is copied to a new one with `platter mkfs` and `platter cp -r`",
    ),
    (
        &["encrypt", "decrypt", "bitlocker", "unlock"],
        "every command opens volumes of BitLocker: --password-file, --recovery-key-file or --key-file gives a key, and on a terminal \
         they ask for one; nothing is encrypted anew or decrypted for good",
    ),
];

/// Words of other programs for options: the command, its words, and the sentence.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "check",
        &["--fix", "--yes", "-y", "-a", "-p", "-r", "/f", "/F", "/r", "/R", "--auto", "--spotfix"],
        "`--repair` repairs what the check finds",
    ),
    (
        "check",
        &["-n", "--dry-run", "--no", "--readonly", "--read-only"],
        "without `--repair` nothing is written",
    ),
    ("check", &["-f"], "every check is a full one; `--if-dirty` skips volumes that were closed"),
    (
        "check",
        &["-b", "--backup", "--superblock"],
        "copies of damaged structures are found without an option",
    ),
    ("mkfs", &["-t", "--type", "--fs", "--format"], FIRST),
    ("mkfs", &["-F", "-f"], "`--force` overwrites what is there; FAT's kinds are fat12, fat16 and fat32"),
    ("mkfs", &["-n", "--name", "--volume-label", "/v"], "`--label` is the volume's name"),
    (
        "mkfs",
        &["-c", "-b", "--block-size", "--cluster-size", "--allocation-unit", "/a", "-s"],
        "`--cluster` is the cluster size, as in --cluster 64k",
    ),
    ("mkfs", &["-q", "-Q", "--quick", "/q", "/Q"], "that is the default; `--full` overwrites every cluster"),
    ("mount", &["-t", "--type", "--types"], "the file system is recognised"),
    ("mount", &["-r", "--ro", "--read-only", "--readonly"], "`-o ro` mounts for reading"),
    ("mount", &["-w", "--rw", "--read-write"], "a volume is mounted for writing unless `-o ro` is given"),
    ("mount", &["--loop"], "image files need no loop device"),
    ("mount", &["--offset"], "a partition is named as IMAGE@2 or with `--partition 2`"),
    ("umount", &["-f", "--force", "-R"], "`--lazy` detaches a mount that is in use"),
    (
        "recover",
        &["-o", "--out", "--output", "--to", "-d"],
        "the directory to copy to comes behind the image: platter recover IMAGE DIRECTORY",
    ),
    ("cp", &["-i", "--interactive"], "`-n` leaves files that are there already"),
    (
        "cp",
        &["-s", "-l", "--link", "--symbolic-link"],
        "`platter clone` makes copies within a volume that share clusters",
    ),
    ("rm", &["-i", "-I", "--interactive"], "what is named is removed without a question"),
    ("mkdir", &["-m", "--mode"], "owners and permissions are set through a mount"),
    (
        "compare",
        &["--fs", "--filesystems", "--file-systems", "--formats"],
        "`--targets raw,ntfs,…` names what to compare",
    ),
    ("compare", &["--output", "-o", "--report"], "`--out` is the directory of the reports"),
    (
        "compare",
        &["--size", "--file-size"],
        "`--device IMAGE`, or mem:1G, is what to measure on, and the workload says how much of it",
    ),
    ("scrub", &["--repair", "--fix", "-y"], "a mirror is repaired from its other copies without an option"),
    ("info", &["-a", "--all", "-v", "--verbose"], "all that is known is shown"),
];

const FIRST: &str = "the file system comes first: platter mkfs ntfs IMAGE";

/// Names of file systems that no format of this program has, or not under this name.
const FORMATS: &[(&[&str], &str)] = &[
    (&["vfat", "msdos", "dos"], "`fat32` (or fat12, fat16; `fat` chooses by size)"),
    (&["ntfs3", "ntfs-3g", "ntfs3g"], "`ntfs`"),
    (&["exfat-fuse", "exfatfs"], "`exfat`"),
    (&["resilient"], "`refs`"),
    (
        &[
            "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "hfs", "hfs+", "apfs", "udf", "iso9660",
            "jfs", "bcachefs",
        ],
        "not made by Platter, which makes the file systems of Windows; `platter compare --targets` measures others as \
         root, where their own programs are installed",
    ),
];

/// The same error, with a suggestion by meaning where there is one, and without suggestions that would not help.
pub(super) fn explained(mut error: Error, arguments: &[OsString]) -> Error {
    let command = arguments.get(1).and_then(|command| command.to_str()).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(&error, ContextKind::InvalidSubcommand);
            if let Some(tip) = meant(COMMANDS, &word) {
                error.remove(ContextKind::SuggestedSubcommand);
                suggest(&mut error, tip);
            }
        }
        ErrorKind::UnknownArgument => {
            // That it may be a value behind `--` helps nobody.
            error.remove(ContextKind::Suggested);
            let option = text(&error, ContextKind::InvalidArg);
            let option = option.split('=').next().unwrap_or_default();
            let tip = OPTIONS.iter().find(|(of, words, _)| *of == command && words.contains(&option));
            if let Some((_, _, tip)) = tip {
                error.remove(ContextKind::SuggestedArg);
                suggest(&mut error, tip);
            } else if command == "run" && arguments.iter().any(|argument| argument == "diskspd") {
                error.remove(ContextKind::SuggestedArg);
                suggest(
                    &mut error,
                    &format!("the options of diskspd come behind `--`: platter run diskspd -- {option}"),
                );
            }
        }
        ErrorKind::InvalidValue if text(&error, ContextKind::InvalidArg).contains("FILE_SYSTEM") => {
            let word = text(&error, ContextKind::InvalidValue);
            if let Some(tip) = meant(FORMATS, &word) {
                error.remove(ContextKind::SuggestedValue);
                suggest(&mut error, &format!("{word} is {tip}"));
            } else if command == "mkfs" && (word.contains(['.', '/', ':']) || Path::new(&word).exists()) {
                error.remove(ContextKind::SuggestedValue);
                suggest(&mut error, FIRST);
            }
        }
        _ => {}
    }
    error
}

fn meant(table: &'static [(&[&str], &str)], word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    // mkfs.ntfs, fsck.exfat, mount.refs
    let plain = word.split_once('.').map_or(&*word, |(program, _)| program);
    let helper = match plain {
        "mkfs" if plain != word => "format",
        "mount" if plain != word => "attach",
        "umount" if plain != word => "unmount",
        plain => plain,
    };
    table.iter().find(|(words, _)| words.contains(&&*word) || words.contains(&helper)).map(|(_, tip)| *tip)
}

fn text(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn suggest(error: &mut Error, tip: &str) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip.to_string())]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::cli;

    fn said(line: &str) -> String {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = cli::parse(&arguments).err().unwrap_or_else(|| panic!("{line} is understood"));
        explained(error, &arguments).to_string()
    }

    #[test]
    fn words_of_other_programs_lead_to_commands() {
        for (line, wanted) in [
            ("platter format a.img", "`platter mkfs FILE_SYSTEM IMAGE --size SIZE`"),
            ("platter mkfs.ntfs a.img", "`platter mkfs FILE_SYSTEM IMAGE --size SIZE`"),
            ("platter fsck a.img", "`platter check --repair IMAGE`"),
            ("platter fsck.exfat a.img", "`platter check --repair IMAGE`"),
            ("platter CHKDSK a.img", "`platter check --repair IMAGE`"),
            ("platter undelete a.img", "`platter recover IMAGE DIRECTORY`"),
            ("platter unmount m", "`platter umount DIRECTORY`"),
            ("platter benchmark", "`platter compare`"),
            ("platter blkid a.img", "`platter info IMAGE`"),
            ("platter check --fix a.img", "`--repair` repairs"),
            ("platter check a.img /f", "`--repair` repairs"),
            ("platter mkfs -t ntfs a.img", "the file system comes first"),
            ("platter mkfs a.img ntfs", "the file system comes first"),
            ("platter mkfs ntfs a.img -n DATA", "`--label`"),
            ("platter mkfs ntfs a.img --quick", "`--full`"),
            ("platter mkfs vfat a.img", "`fat32`"),
            ("platter mkfs ext4 a.img", "the file systems of Windows"),
            ("platter check --as ntfs3 a.img", "`ntfs`"),
            ("platter mount -t ntfs a.img m", "the file system is recognised"),
            ("platter mount --ro a.img m", "`-o ro`"),
            ("platter recover a.img --output d", "platter recover IMAGE DIRECTORY"),
        ] {
            let said = said(line);
            assert!(said.contains(&format!("tip: {wanted}")) || said.contains(wanted), "{line}: {said}");
            assert!(!said.contains("'-- "), "{line}: {said}");
        }
        assert!(said("platter chekc a.img").contains("'check'"), "what is spelled wrongly is still found");
        assert!(said("platter run diskspd -b8K").contains("platter run diskspd -- -b"));
    }

    /// A word that becomes a command, or an option that a command gets, needs no explanation any more.
    #[test]
    fn no_word_is_explained_that_is_understood() {
        let program = cli::program();
        for word in COMMANDS.iter().flat_map(|(words, _)| *words) {
            assert!(program.find_subcommand(word).is_none(), "{word}");
        }
        for (command, words, _) in OPTIONS {
            let command =
                program.find_subcommand(command).unwrap_or_else(|| panic!("{command} is a command"));
            let is_known = |word: &str| {
                command.get_arguments().any(|argument| {
                    let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                    let short = argument.get_short_and_visible_aliases().unwrap_or_default();
                    word.strip_prefix("--").is_some_and(|word| long.contains(&word))
                        || word
                            .strip_prefix('-')
                            .is_some_and(|word| short.iter().any(|short| short.to_string() == word))
                })
            };
            words.iter().for_each(|word| assert!(!is_known(word), "{} {word}", command.get_name()));
        }
        for name in FORMATS.iter().flat_map(|(names, _)| *names) {
            assert!(platter_formats::by_name(name).is_none(), "{name}");
        }
    }
}
