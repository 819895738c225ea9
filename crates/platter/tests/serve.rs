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
