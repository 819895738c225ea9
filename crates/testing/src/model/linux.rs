//! The Linux kernel as a judge, in an emulated machine.

use super::ImageFile;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// The result of mounting a volume in an emulated Linux.
#[derive(Clone, Debug)]
pub struct Linux {
    /// What the script printed; `None` if the volume could not be mounted.
    pub output: Option<String>,
    /// Whether the volume was unmounted without an error.
    pub unmounted: bool,
    /// The messages of the kernel about the file system and the device.
    pub messages: String,
}

/// Mounts an image as file system type `system`, with mount options, in an emulated Linux, and runs a shell script
/// there in the root directory of the volume. The image is changed unless the options are `ro`.
///
/// # Panics
/// If the emulation cannot be run; `linux.sh` beside this file lists what it needs.
pub fn linux(system: &str, options: &str, image: &ImageFile, script: &str) -> Linux {
    linux_within(600, system, options, image, script)
}

/// The same with a time limit for the script, in seconds.
///
/// # Panics
/// Like [`linux`].
pub fn linux_within(seconds: u32, system: &str, options: &str, image: &ImageFile, script: &str) -> Linux {
    let mut child = Command::new("sh")
        .args([
            "-c",
            include_str!("linux.sh"),
            "linux.sh",
            system,
            options,
            image.path(),
            &seconds.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("a pipe that takes it");
    let ended = child.wait_with_output().expect("the emulation ends");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    let (ran, messages) = text.split_once("MESSAGES\n").unwrap_or_else(|| panic!("no Linux ran:\n{text}"));
    let output = ran
        .split_once("SCRIPT-BEGIN\n")
        .map(|(_, rest)| rest.split_once("SCRIPT-END").map_or(rest, |it| it.0));
    Linux {
        output: output.map(str::to_owned),
        unmounted: ran.contains("UNMOUNTED"),
        messages: messages.to_owned(),
    }
}

/// Prints every file and directory: "d PATH" or "f SIZE SHA256 PATH", a line for each.
const TREE_SCRIPT: &str = r#"
find . -mindepth 1 -type d | sed 's|^[.]|d |'
find . -type f | while IFS= read -r path; do
    sum=$(sha256sum "$path")
    echo "f $(stat -c %s "$path") ${sum%% *} ${path#.}"
done
"#;

/// The files of a volume by path, each with its size and the SHA-256 of its content; `None` for a directory.
pub type Listed = BTreeMap<String, Option<(u64, String)>>;

/// Returns every file and directory in an image, as an emulated Linux reads them, and the messages of the kernel
/// meanwhile. See [`linux`].
///
/// # Panics
/// If the emulation cannot be run, or the volume cannot be mounted.
pub fn listed_by_linux(system: &str, options: &str, image: &ImageFile) -> (Listed, String) {
    let Linux { output, messages, .. } = linux(system, options, image, TREE_SCRIPT);
    let listing = output.unwrap_or_else(|| panic!("Linux did not mount the volume:\n{messages}"));
    let listed = listing
        .lines()
        .map(|line| match line.strip_prefix("d ") {
            Some(path) => (path.to_owned(), None),
            None => match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
                ["f", size, sum, path] => (
                    path.to_owned(),
                    Some((size.parse().expect("the script prints a number"), sum.to_owned())),
                ),
                _ => panic!("the script printed {line:?}"),
            },
        })
        .collect();
    (listed, messages)
}
