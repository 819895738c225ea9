//! `platter serve --nbd`: other people's programs use an image as a disk.

use crate::common::{Place, content};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

/// A server, which is killed at the end if it still runs.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server at the socket `s`; returns it when clients can connect.
fn serve(place: &Place, line: &str) -> Served {
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("; Ctrl-C ends it"), "{said}");
    Served(child)
}

fn end(mut served: Served, signal: &str) -> Option<i32> {
    crate::common::mount::kill(signal, served.0.id());
    served.0.wait().unwrap().code()
}

const SOCKET: &str = "nbd+unix:///?socket=s";

#[test]
fn others_read_and_write_what_is_served() {
    let place = Place::new("serve");
    let bytes = content(5, 40 << 20);
    fs::write(place.path("data"), &bytes).unwrap();
    place.works("mkfs ntfs disk.vhdx --size 256M");
    place.works("cp data disk.vhdx:/data");

    // A VHDX is the disk in it, for reading as long as nobody says more.
    let served = serve(&place, "serve --nbd --socket s disk.vhdx");
    let about = place.tool("nbdinfo", &["--json", SOCKET]);
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    assert_eq!(
        (&about["exports"][0]["is_read_only"], &about["exports"][0]["export-size"]),
        (&true.into(), &(256_u64 << 20).into())
    );
    place.tool("nbdcopy", &[SOCKET, "copy.img"]);
    assert!(place.platter("cat copy.img:/data").stdout == bytes);
    let refused = place.command("nbdcopy", &["copy.img", SOCKET]).output().unwrap();
    assert!(!refused.status.success());
    assert_eq!(end(served, "-INT"), Some(0));
    assert!(!place.path("s").exists(), "the socket goes with the server");
    place.tool("qemu-img", &["convert", "-f", "vhdx", "-O", "raw", "disk.vhdx", "judge.img"]);
    assert!(fs::read(place.path("copy.img")).unwrap() == fs::read(place.path("judge.img")).unwrap());

    // What is written arrives, also by several connections with many requests each.
    let served = serve(&place, "serve --nbd --write --socket s disk.vhdx@1");
    let refused = place.fails("rm disk.vhdx:/data");
    assert!(refused.contains("disk.vhdx"), "{refused}");
    let size = place.tool("nbdinfo", &["--size", SOCKET]).trim().parse::<u64>().unwrap();
    assert!(size < 256 << 20, "a partition: {size}");
    let fill = content(6, size as usize);
    fs::write(place.path("fill"), &fill).unwrap();
    place.tool("nbdcopy", &["--connections=4", "--requests=16", "--flush", "fill", SOCKET]);
    place.tool("nbdcopy", &["--connections=4", SOCKET, "back"]);
    assert!(fs::read(place.path("back")).unwrap() == fill);
    place.tool(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "write -P 7 -f 4096 8192",
            "-c",
            "write -z 65536 65536",
            "-c",
            "discard 0 4096",
            "-c",
            "flush",
            SOCKET,
        ],
    );
    // Killed, it loses nothing that was flushed.
    assert_eq!(end(served, "-KILL"), None);
    assert!(fs::metadata(place.path("s")).unwrap().file_type().is_socket());
    let _served = serve(&place, "serve --nbd --socket s disk.vhdx@1");
    place.tool("nbdcopy", &[SOCKET, "after"]);
    let after = fs::read(place.path("after")).unwrap();
    assert!(after[4096..12288].iter().all(|&byte| byte == 7));
    assert!(after[65536..131_072].iter().all(|&byte| byte == 0));
    assert!(after[131_072..] == fill[131_072..]);
}

#[test]
fn fio_verifies_what_it_wrote_through_a_server() {
    let place = Place::new("serve-fio");
    fs::File::create(place.path("disk.img")).unwrap().set_len(64 << 20).unwrap();
    let served = serve(&place, "serve --nbd --write --socket s disk.img");
    let job = "[global]\nioengine=nbd\nuri=nbd+unix:///?socket=s\nsize=64M\nrw=randwrite\nbs=4k\niodepth=32\nverify=crc32c\n\
               number_ios=4000\nfsync=100\n[job]\n";
    fs::write(place.path("job"), job).unwrap();
    place.tool("fio", &["job"]);
    assert_eq!(end(served, "-TERM"), Some(0));
}

#[test]
fn clients_that_speak_nonsense_harm_nobody() {
    let place = Place::new("serve-nonsense");
    fs::File::create(place.path("disk.img")).unwrap().set_len(8 << 20).unwrap();
    let served = serve(&place, "serve --nbd --write --socket s disk.img");
    let mut silent = Vec::new();
    for number in 0..20_u8 {
        let mut stream = UnixStream::connect(place.path("s")).unwrap();
        // The server may have ended the connection already.
        let _ = stream.write_all(&[number; 100]);
        if number < 4 {
            silent.push(stream);
        }
    }
    assert_eq!(place.tool("nbdinfo", &["--size", SOCKET]).trim(), (8 << 20).to_string());
    assert_eq!(end(served, "-INT"), Some(0));
}

#[test]
fn what_cannot_be_served_is_said() {
    let place = Place::new("serve-refusals");
    fs::File::create(place.path("disk.img")).unwrap().set_len(8 << 20).unwrap();
    assert!(place.fails("serve --nbd none.img").contains("none.img"));
    fs::write(place.path("s"), "a file").unwrap();
    assert!(place.fails("serve --nbd --socket s disk.img").contains("platter: s: "));
    assert_eq!(fs::read(place.path("s")).unwrap(), b"a file");
    assert!(place.fails("serve --nbd disk.img@3").contains("partition"));
    assert!(place.fails("serve --nbd disk.img --partition 3").contains("no partition 3"));
    assert!(place.ends(2, "serve --nbd disk.img --write --force").1.contains("--force"));
    assert!(place.ends(2, "serve disk.img").1.contains("--nbd"));
}

/// A Linux with its root directory on a disk that is served from a container. The server is killed as soon as the guest has
/// synced what it wrote and says so.
#[test]
#[ignore = "a campaign: an emulated machine boots"]
fn campaign_of_guests_on_served_disks() {
    for image in ["disk.vhdx", "disk.vhd", "disk.qcow2", "disk.img"] {
        guest(image);
    }
}

/// What the guest starts: it writes files, syncs them, and prints their sums.
const INIT: &str = "#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mkdir /work
for number in $(seq 1 150); do
    head -c ${number}0011 /dev/urandom > /work/$number
    [ $((number % 3)) = 0 ] && rm /work/$((number - 1))
done
sync
cd /work && echo && sha256sum *
echo GUEST-SYNCED
sleep 1000
";

fn guest(image: &str) {
    let place = Place::new("serve-guest");
    let script = "mkdir -p root/bin root/sbin root/dev root/proc && cp /bin/busybox root/bin/ && cp init root/sbin/ && \
                  chmod +x root/sbin/init && mkfs.ext4 -q -d root plain.img 256M";
    fs::write(place.path("init"), INIT).unwrap();
    place.tool("sh", &["-ec", script]);
    let kind = match image.rsplit('.').next() {
        Some("img") => "raw",
        Some("vhd") => "vpc",
        kind => kind.unwrap(),
    };
    place.tool("qemu-img", &["convert", "-f", "raw", "-O", kind, "plain.img", image]);
    let served = serve(&place, &format!("serve --nbd --write --socket s {image}"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest.sh");
    let socket = format!("nbd+unix:///?socket={}", place.path("s").display());
    let mut guest = place.command("setsid", &["sh", script, &socket]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines: Vec<String> = Vec::new();
    for line in BufReader::new(guest.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("GUEST-SYNCED") {
            break;
        }
        lines.push(line);
    }
    assert_eq!(end(served, "-KILL"), None, "{lines:?}");
    // It and the emulator, which waits for the server when it is asked to end, are a group of processes of their own.
    place.tool("sh", &["-c", &format!("kill -KILL -{}", guest.id())]);
    guest.wait().unwrap();
    // The disk is the container's again, as another program reads it.
    place.tool("qemu-img", &["convert", "-f", kind, "-O", "raw", image, "after.img"]);
    // The guest had not unmounted it: the journal is replayed, and then nothing is damaged.
    let replayed = place.command("e2fsck", &["-fp", "after.img"]).output().unwrap();
    assert!(matches!(replayed.status.code(), Some(0 | 1)), "{replayed:?}");
    fs::create_dir(place.path("out")).unwrap();
    place.tool("debugfs", &["-R", "rdump /work out", "after.img"]);
    let sums = place.tool("sh", &["-ec", "cd out/work && sha256sum *"]);
    let told: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| line.contains("  ")).collect();
    assert_eq!(told.iter().filter(|line| sums.contains(*line)).count(), 100, "{image}: {lines:?}");
    assert_eq!(sums.lines().count(), 100, "{image}");
}
