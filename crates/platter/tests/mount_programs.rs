//! Loads and servers of other projects on mounted volumes. Needs root, `/dev/fuse`, fusermount3, dbench, stress-ng,
//! Samba and its test suite.

use crate::common::Place;
use crate::common::mount::{FORMATS, KINDS, Mount, WITH_OWNERS};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

#[test]
fn dbench_runs_a_file_servers_load() {
    for format in KINDS {
        let mount = Mount::new("dbench", format);
        let load = "/usr/share/dbench/client.txt";
        let said = mount.place.tool("dbench", &["-c", load, "-D", "m", "-t", "2", "4"]);
        assert!(said.contains("Throughput") && !said.contains("ERROR"), "{format}: {said}");
        mount.end();
    }
}

/// The stressors of the class `filesystem` that do not work on the directory they are given, or need what no FUSE file
/// system has (fiemap, verity).
const NOT_FOR_A_MOUNT: &str = "binderfs,fiemap,verity,eventfd,ioprio,procfs,handle,bind-mount,dup";
/// Those that need what FAT and exFAT do not have: permissions of a file, times to the second, links, and attributes.
const NOT_FOR_FAT: &str = "access,utime,link,symlink,xattr";

#[test]
fn stress_ng_finds_nothing_while_all_its_loads_run_at_once() {
    for format in KINDS {
        // Large, because some of the loads write far behind the end of files, and exFAT and FAT have no holes: others end
        // early on a full volume.
        let mount = Mount::made("stress", format, "disk.img", "8G");
        let without = match format.contains("fat") {
            true => format!("{NOT_FOR_A_MOUNT},{NOT_FOR_FAT}"),
            false => NOT_FOR_A_MOUNT.to_string(),
        };
        let all = format!(
            "--class filesystem --all 1 --timeout 3s --verify --temp-path m -x {without} \
             --hdd-bytes 64m --iomix-bytes 64m --copy-file-bytes 128m --fallocate-bytes 64m"
        );
        mount.place.tool("stress-ng", &all.split_whitespace().collect::<Vec<_>>());
        mount.end();
    }
}

/// Three crates: a program with a build script, a macro that the compiler loads from the volume, and a library.
const CRATES: &[(&str, &str)] = &[
    ("Cargo.toml", "[workspace]\nresolver = '2'\nmembers = ['app', 'base', 'doubled']\n"),
    (
        "app/Cargo.toml",
        "[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n\
         [dependencies]\nbase = { path = '../base' }\ndoubled = { path = '../doubled' }\n",
    ),
    (
        "app/build.rs",
        "fn main() {\n    let to = std::env::var(\"OUT_DIR\").unwrap();\n    \
         std::fs::write(format!(\"{to}/made.rs\"), \"const MADE: u32 = 1;\").unwrap();\n}\n",
    ),
    (
        "app/src/main.rs",
        "include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\n\
         fn main() { println!(\"{}\", doubled::doubled!(20) + base::value() + MADE) }\n\
         #[test] fn works() { assert_eq!(MADE, 1) }\n",
    ),
    ("base/Cargo.toml", "[package]\nname = 'base'\nversion = '0.1.0'\nedition = '2021'\n"),
    ("base/src/lib.rs", "pub fn value() -> u32 { 1 }\n"),
    (
        "doubled/Cargo.toml",
        "[package]\nname = 'doubled'\nversion = '0.1.0'\nedition = '2021'\n[lib]\nproc-macro = true\n",
    ),
    (
        "doubled/src/lib.rs",
        "use proc_macro::TokenStream;\n#[proc_macro]\npub fn doubled(number: TokenStream) -> TokenStream {\n    \
         format!(\"(2 * {number})\").parse().unwrap()\n}\n",
    ),
];

#[test]
fn cargo_builds_tests_and_builds_again() {
    for format in FORMATS {
        let mount = Mount::new("cargo", format);
        for (name, text) in CRATES {
            let path = mount.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cargo = |words: &str| {
            let arguments: Vec<&str> = words.split(' ').chain(["--offline"]).collect();
            let mut command = mount.place.command(env!("CARGO"), &arguments);
            // The settings of the build that runs this test are not those of the one on the mount.
            for setting in ["CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "RUSTFLAGS", "RUSTC_WRAPPER"] {
                command.env_remove(setting);
            }
            let output = command.current_dir(mount.at("")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{format}: {words}: {said}");
            (String::from_utf8(output.stdout).unwrap(), said)
        };
        cargo("test --quiet");
        assert_eq!(cargo("run --quiet").0, "42\n", "{format}");
        let (_, said) = cargo("build");
        assert!(!said.contains("Compiling"), "{format}: {said}");
        fs::write(mount.at("base/src/lib.rs"), "pub fn value() -> u32 { 2 }\n").unwrap();
        // FAT's times have steps of two seconds.
        let later = SystemTime::now() + Duration::from_secs(10);
        File::options().write(true).open(mount.at("base/src/lib.rs")).unwrap().set_modified(later).unwrap();
        assert_eq!(cargo("run --quiet").0, "43\n", "{format}");
        mount.end();
    }
}

/// A Samba server with one share, on a port of its own.
struct Samba {
    place: Place,
    port: String,
    server: Child,
}

/// Parts of Samba's test suite that take some seconds together.
const PARTS: &[&str] = &[
    "smb2.rw",
    "smb2.rename",
    "smb2.getinfo",
    "smb2.setinfo",
    "smb2.mkdir",
    "smb2.openattr",
    "smb2.sharemode",
    "smb2.compound",
    "smb2.fileid",
    "smb2.charset",
    "smb2.delete-on-close-perms",
];
/// Parts for servers that keep access control lists, attributes and streams in extended attributes.
const PARTS_WITH_ATTRIBUTES: &[&str] =
    &["smb2.create.aclfile", "smb2.create.acldir", "smb2.acls", "smb2.ea", "smb2.streams"];

impl Samba {
    /// Starts a server that shares `directory`.
    fn new(directory: &Path, has_attributes: bool) -> Samba {
        let place = Place::new("samba");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut settings = format!(
            "[global]\nserver role = standalone server\nload printers = no\ndisable spoolss = yes\n\
             interfaces = lo\nbind interfaces only = yes\nkernel oplocks = no\nsmb ports = {port}\n"
        );
        for name in ["private", "lock", "state", "cache", "pid"] {
            let path = place.path(name);
            fs::create_dir(&path).unwrap();
            let name = if name == "private" { "private dir".into() } else { format!("{name} directory") };
            settings += &format!("{name} = {}\n", path.display());
        }
        settings += &format!("ncalrpc dir = {0}\nlog file = {0}/log\n", place.0.display());
        settings += match has_attributes {
            true => "vfs objects = acl_xattr streams_xattr\nea support = yes\nstore dos attributes = yes\n",
            false => "nt acl support = no\nea support = no\nstore dos attributes = no\n",
        };
        settings += &format!("[share]\npath = {}\nread only = no\n", directory.display());
        fs::write(place.path("smb.conf"), settings).unwrap();
        place.tool("sh", &["-ec", "printf 'x\\nx\\n' | smbpasswd -L -c smb.conf -s -a root"]);
        let mut server =
            place.command("smbd", &["--foreground", "--no-process-group", "--configfile=smb.conf"]);
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let samba = Samba { place, port, server: server.expect("smbd is needed for this test") };
        let began = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{}", samba.port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "smbd does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        samba
    }

    /// Runs parts of Samba's tests; returns how often a test of each name succeeded, and what the programs said.
    fn successes(&self, parts: &[&'static str]) -> (BTreeMap<String, u32>, String) {
        let (mut successes, mut said) = (BTreeMap::new(), String::new());
        for part in parts {
            let to = ["-s", "smb.conf", "-p", &self.port, "//127.0.0.1/share", "-U", "root%x", part];
            let output = self.place.command("smbtorture", &to).output();
            let output = output.expect("smbtorture is needed for this test");
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                if let Some(test) = line.strip_prefix("success: ") {
                    *successes.entry(format!("{part}: {test}")).or_default() += 1;
                }
            }
            for text in [&output.stdout, &output.stderr] {
                said += &String::from_utf8_lossy(text);
            }
        }
        said += &fs::read_to_string(self.place.path("log")).unwrap_or_default();
        (successes, said)
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Not every test of Samba's succeeds with every setting and version of it; what succeeds on the host's own file system
/// must succeed on a mount.
#[test]
fn samba_serves_a_mount_as_it_serves_a_directory_of_the_host() {
    // Many tests wait for times and locks.
    thread::scope(|scope| {
        scope.spawn(|| serve(["fat32", "exfat"], false));
        scope.spawn(|| serve(WITH_OWNERS, true));
    });
}

fn serve(formats: [&str; 2], has_attributes: bool) {
    let parts = if has_attributes { [PARTS, PARTS_WITH_ATTRIBUTES].concat() } else { PARTS.to_vec() };
    let host = Place::new("samba-host");
    let (expected, said) = Samba::new(&host.0, has_attributes).successes(&parts);
    assert!(expected.len() >= 30, "{expected:?}\n{said}");
    for format in formats {
        let mount = Mount::new("samba", format);
        let (found, said) = Samba::new(&mount.at(""), has_attributes).successes(&parts);
        // A name in other letters is found at once where names match whatever their case, so that Samba does not look
        // for the stored spelling and tells the one it was asked for.
        let is_found_at_once = |test: &str| format != "ntfs" && test == "smb2.getinfo: normalized";
        let missing: Vec<&String> = expected
            .iter()
            .filter(|(test, times)| found.get(*test) < Some(times) && !is_found_at_once(test))
            .map(|(test, _)| test)
            .collect();
        assert!(missing.is_empty(), "{format}: {missing:?}\n{said}");
        mount.end();
    }
}
