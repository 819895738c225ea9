//! `platter serve --http`: a volume as pages, for programs and in a real browser.

use crate::common::{Place, content};
use platter_device::{FileRecord, MirrorSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A server, which is killed at the end if it still runs.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer: its status, its headers in small letters, and its content.
struct Answer {
    status: u16,
    headers: String,
    content: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8(self.content.clone()).unwrap()
    }

    fn has(&self, header: &str) -> bool {
        self.headers.lines().any(|line| line == header)
    }
}

impl Served {
    fn new(place: &Place, line: &str) -> Served {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Served { child, address: address.unwrap_or_else(|| panic!("no address in {said:?}")).to_string() }
    }

    /// Sends bytes, and returns all that comes back until the server ends the connection.
    fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut back = Vec::new();
        // A server that refuses what it has read of may have ended the connection already.
        let _ = stream.write_all(bytes);
        let _ = stream.read_to_end(&mut back);
        back
    }

    fn ask(&self, request: &str) -> Answer {
        let back = self.raw(request.as_bytes());
        let end = back.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&back)));
        let head = String::from_utf8(back[..end].to_vec()).unwrap();
        let (first, headers) = head.split_once("\r\n").unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let small = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            format!("{}: {value}\n", name.to_lowercase())
        };
        Answer { status, headers: headers.lines().map(small).collect(), content: back[end + 4..].to_vec() }
    }

    fn get_with(&self, method: &str, path: &str, headers: &str) -> Answer {
        let address = &self.address;
        self.ask(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    fn get(&self, path: &str) -> Answer {
        self.get_with("GET", path, "")
    }

    fn end(mut self) -> Option<i32> {
        crate::common::mount::kill("-INT", self.child.id());
        self.child.wait().unwrap().code()
    }
}

/// A volume of NTFS with files, a stream, and one that was deleted.
fn volume(place: &Place) -> Vec<u8> {
    let bytes = content(9, 3_000_000);
    fs::create_dir_all(place.path("src/photos")).unwrap();
    fs::write(place.path("src/photos/large.bin"), &bytes).unwrap();
    fs::write(place.path("src/list.txt"), "one & <two>\n").unwrap();
    fs::write(place.path("src/gone.txt"), "gone").unwrap();
    fs::write(place.path("note"), "a stream").unwrap();
    place.works("mkfs ntfs disk.img --size 64M --label DATA");
    place.works("cp -r src/. disk.img:/");
    place.works("attr set disk.img:/list.txt stream:note note");
    place.works("rm disk.img:/gone.txt");
    bytes
}

#[test]
fn files_are_listed_and_downloaded_by_range() {
    let place = Place::new("page");
    let bytes = volume(&place);
    let before = fs::read(place.path("disk.img")).unwrap();
    let served = Served::new(&place, "serve disk.img --http 127.0.0.1:0");
    assert!(served.address.starts_with("127.0.0.1:"));
    let page = served.get("/");
    let text = page.text();
    assert_eq!(page.status, 200);
    assert!(
        page.has("content-type: text/html; charset=utf-8") && page.has("x-content-type-options: nosniff")
    );
    assert!(
        page.headers.contains("content-security-policy: default-src 'none'; style-src 'self';"),
        "{}",
        page.headers
    );
    assert!(
        text.contains("<a href=\"/browse/photos\">photos/</a>") && text.contains("/browse/list.txt"),
        "{text}"
    );
    let page = served.get("/browse/list.txt").text();
    assert!(page.contains("one &amp; &lt;two&gt;") && page.contains("?stream=note"), "{page}");
    assert_eq!(served.get("/file/list.txt?stream=note").text(), "a stream");
    let stream = served.get("/file/list.txt?snapshot=note");
    assert_eq!(stream.status, 404, "a stream is no snapshot");

    let whole = served.get("/file/photos/large.bin");
    assert!(
        whole.content == bytes && whole.has("content-length: 3000000") && whole.has("accept-ranges: bytes")
    );
    assert!(whole.has("content-type: application/octet-stream"), "{}", whole.headers);
    assert!(whole.has("content-disposition: attachment; filename=\"large.bin\"; filename*=UTF-8''large.bin"));
    assert!(served.get("/file/list.txt").has("content-type: text/plain; charset=utf-8"));
    for (range, part) in [("0-0", 0..1), ("1500000-", 1_500_000..3_000_000), ("-7", 2_999_993..3_000_000)] {
        let answer = served.get_with("GET", "/file/photos/large.bin", &format!("Range: bytes={range}\r\n"));
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.content == bytes[part.clone()]);
        assert!(answer.has(&format!("content-range: bytes {}-{}/3000000", part.start, part.end - 1)));
    }
    let none = served.get_with("GET", "/file/photos/large.bin", "Range: bytes=3000000-\r\n");
    assert!(none.status == 416 && none.has("content-range: bytes */3000000"));
    let other = served.get_with("GET", "/file/photos/large.bin", "Range: bytes=0-0\r\nIf-Range: \"old\"\r\n");
    assert_eq!((other.status, other.content.len()), (200, 3_000_000));
    let head = served.get_with("HEAD", "/file/photos/large.bin", "");
    assert!(head.status == 200 && head.content.is_empty() && head.has("content-length: 3000000"));
    // What other programs make of it.
    place.tool(
        "curl",
        &["-sS", "-o", "half", "-r", "0-999", &format!("http://{}/file/photos/large.bin", served.address)],
    );
    place.tool(
        "curl",
        &["-sS", "-C", "-", "-o", "half", &format!("http://{}/file/photos/large.bin", served.address)],
    );
    assert!(fs::read(place.path("half")).unwrap() == bytes, "a download goes on where it was interrupted");

    assert!(served.get("/volume").text().contains("DATA"));
    let check = served.get("/check").text();
    assert!(check.contains("no damage") && check.ends_with("</html>\n"), "{check}");
    let deleted = served.get("/deleted").text();
    assert!(deleted.contains("/gone.txt") && !deleted.contains("/list.txt"), "{deleted}");
    assert_eq!(served.end(), Some(0));
    assert!(fs::read(place.path("disk.img")).unwrap() == before, "nothing was written");
}

/// Names that no program of Windows would make, 13 units each, in the order of NTFS.
fn hostile() -> Vec<Vec<u16>> {
    let texts = [
        "<script>a1<b>",
        "\"onx=\"'&'<i>1",
        "a%2e%2e%00%25",
        "ctl\u{1}\n\u{1b}[31mxy",
        "a\u{202e}gpj.exe123",
        "..\\..\\..\\etc\\",
        "a/../../b<x>1",
        "x#y?z=1&q;+ v",
    ];
    let mut names: Vec<Vec<u16>> = texts.iter().map(|text| text.encode_utf16().collect()).collect();
    names.push(vec![0x62, 0xD800, 0x61, 0xDC41, 0x64, 0xDFFF, 0x2E, 0x74, 0x78, 0x74]);
    for name in &mut names {
        name.resize(13, u16::from(b'~'));
    }
    let upper = |unit: &u16| if (0x61..=0x7A).contains(unit) { unit - 0x20 } else { *unit };
    names.sort_by_key(|name| name.iter().map(upper).collect::<Vec<u16>>());
    names
}

/// A volume of NTFS with hostile names in the directory `d`: each file has the number of its name as its content.
fn hostile_volume(place: &Place) {
    fs::create_dir_all(place.path("src/d")).unwrap();
    let names = hostile();
    for number in 0..names.len() {
        fs::write(place.path(&format!("src/d/placeholder{number:02}")), format!("content {number}")).unwrap();
    }
    place.works("mkfs ntfs disk.img --size 64M");
    place.works("cp -r src/. disk.img:/");
    let mut image = fs::read(place.path("disk.img")).unwrap();
    for (number, name) in names.iter().enumerate() {
        let bytes = |units: &[u16]| units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>();
        let old = bytes(&format!("placeholder{number:02}").encode_utf16().collect::<Vec<u16>>());
        let places: Vec<usize> = (0..image.len() - old.len())
            .filter(|&at| image[at] == b'p' && image[at..].starts_with(&old))
            .collect();
        assert!(places.len() >= 2, "in the record and in the index: {places:?}");
        for at in places {
            image[at..at + old.len()].copy_from_slice(&bytes(name));
        }
    }
    fs::write(place.path("disk.img"), image).unwrap();
}

#[test]
fn hostile_names_are_text_and_lead_to_their_files_only() {
    let place = Place::new("page-hostile");
    hostile_volume(&place);
    let served = Served::new(&place, "serve disk.img --http 127.0.0.1:0");
    let text = served.get("/browse/d").text();
    assert!(!text.contains("<script") && !text.contains("<i>") && !text.contains("<b>"), "{text}");
    assert!(!text.contains(['\u{202e}', '\u{1b}', '\u{1}']), "{text}");
    let links: Vec<&str> =
        text.split("href=\"/file").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), hostile().len(), "{text}");
    let mut found: Vec<String> = Vec::new();
    for link in links {
        assert!(link.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/%-._~".contains(&byte)), "{link}");
        let file = served.get(&format!("/file{link}"));
        assert_eq!(file.status, 200, "{link}");
        assert!(file.headers.contains("content-disposition: attachment; filename="), "{}", file.headers);
        assert!(!file.headers.contains(['\u{1b}', '<']), "{}", file.headers);
        let page = served.get(&format!("/browse{link}"));
        assert_eq!(page.status, 200, "{link}");
        assert!(!page.text().contains("<script") && !page.text().contains("<i>"), "{}", page.text());
        found.push(file.text());
    }
    found.sort();
    let expected: Vec<String> = (0..hostile().len()).map(|number| format!("content {number}")).collect();
    assert_eq!(found, expected);
    for path in [
        "/file/..%2f..%2fetc/passwd",
        "/file/../../etc/passwd",
        "/browse/%2e%2e/x",
        "/file/%ff%fe",
        "/file/%",
    ] {
        assert_eq!(served.get(path).status, 404, "{path}");
    }
}

#[test]
fn who_asks_for_another_host_or_from_another_site_gets_nothing() {
    let place = Place::new("page-host");
    volume(&place);
    let served = Served::new(&place, "serve disk.img --http");
    let port = served.address.rsplit(':').next().unwrap().to_string();
    let of = |host: &str| {
        served.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    assert_eq!((of(&format!("localhost:{port}")), of(&served.address)), (200, 200));
    for host in
        [format!("evil.example:{port}"), "localhost".to_string(), format!("127.0.0.1.evil.example:{port}")]
    {
        assert_eq!(of(&host), 421, "{host}");
    }
    let cross = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: ";
    assert_eq!(served.get_with("GET", "/file/list.txt", &format!("{cross}no-cors\r\n")).status, 403);
    assert_eq!(served.get_with("GET", "/", &format!("{cross}navigate\r\n")).status, 200);
    assert_eq!(served.get_with("GET", "/check", &format!("{cross}navigate\r\n")).status, 403);
    for (request, status) in [
        (format!("POST / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address), 405),
        ("GET / HTTP/1.1\r\n\r\n".to_string(), 400),
        ("GET / HTTP/3\r\nHost: x\r\n\r\n".to_string(), 505),
        (format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(20_000)), 431),
    ] {
        assert_eq!(served.ask(&request).status, status, "{}", &request[..20]);
    }
    assert!(served.raw(&content(3, 50_000)).len() < 2000);
    // Those who say nothing keep nobody away.
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&served.address).unwrap()).collect();
    assert_eq!(served.get("/").status, 200);
    // Two requests on one connection.
    let two = format!(
        "GET /style.css HTTP/1.1\r\nHost: {0}\r\n\r\nHEAD / HTTP/1.0\r\nHost: {0}\r\n\r\n",
        served.address
    );
    let back = String::from_utf8(served.raw(two.as_bytes())).unwrap();
    assert_eq!(back.matches("HTTP/1.1 200 OK").count(), 2, "{back}");
    assert_eq!(served.end(), Some(0));
    drop(silent);
}

#[test]
fn a_partition_and_a_copy_are_named_as_for_every_command() {
    let place = Place::new("page-partition");
    fs::File::create(place.path("disk.img")).unwrap().set_len(160 << 20).unwrap();
    fs::write(place.path("table"), "label: gpt\nsize=64M,type=uefi\nsize=64M,type=uefi\n").unwrap();
    place.tool("sh", &["-c", "sfdisk -q disk.img < table"]);
    place.works("mkfs ntfs disk.img@1 --label FIRST");
    place.works("mkfs exfat disk.img@2 --label SECOND");
    assert!(place.fails("serve disk.img --http --partition 7").contains("7"));
    for line in
        ["disk.img --http --partition 2", "disk.img@2 --http", "disk.img@1 --http 127.0.0.1:0 --partition 2"]
    {
        let served = Served::new(&place, &format!("serve {line}"));
        let (volume, check) = (served.get("/volume").text(), served.get("/check").text());
        assert!(volume.contains("SECOND") && !volume.contains("FIRST"), "{line}: {volume}");
        assert!(check.contains("exFAT") && !check.contains("NTFS"), "{line}: {check}");
        assert_eq!(served.end(), Some(0));
    }
    place.works("mkfs ntfs mirror:half.img,other.img --size 64M --label HALF");
    MirrorSet::note_unfinished(&FileRecord::of(&place.path("half.img"))).unwrap();
    assert!(place.fails("serve half.img --http").contains("--force"));
    let served = Served::new(&place, "serve half.img --http --force");
    assert!(served.get("/volume").text().contains("HALF"));
}

#[test]
fn what_cannot_be_shown_is_said() {
    let place = Place::new("page-refusals");
    fs::File::create(place.path("disk.img")).unwrap().set_len(8 << 20).unwrap();
    assert!(place.fails("serve none.img --http 0").contains("none.img"));
    assert!(place.fails("serve disk.img --http 0").contains("disk.img"));
    assert!(place.ends(2, "serve disk.img").1.contains("--http"));
    assert!(place.ends(2, "serve disk.img --http example").1.contains("a port"));
    assert!(place.ends(2, "serve disk.img --http 0 --write").1.contains("--write"));
    volume(&place);
    let mut child = place
        .command(env!("CARGO_BIN_EXE_platter"), &["serve", "disk.img", "--http", "0.0.0.0:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let _ = child.kill();
    let _ = child.wait();
    assert!(said.contains("whoever reaches it reads the volume"), "{said}");
}

/// Opens an address in headless Chromium. Returns the DOM, and the messages of the console. Chromium has crashed once in
/// thousands of starts, so that counts only the third time.
fn browse(place: &Place, address: &str) -> (String, Vec<String>) {
    for _ in 0..3 {
        let profile = format!("--user-data-dir={}", place.path("profile").display());
        let output = Command::new("timeout")
            .args(["--kill-after=5", "240", "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
            .args([
                "--enable-logging=stderr",
                "--v=0",
                "--dump-dom",
                "--virtual-time-budget=60000",
                &profile,
                address,
            ])
            .output()
            .expect(
                "chromium and timeout are needed for this test; Debian: apt-get install chromium coreutils",
            );
        let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if dom.contains("</html>") {
            let complaints = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
            return (dom.into_owned(), complaints);
        }
    }
    panic!("chromium showed nothing of {address}");
}

/// What axe-core finds on a page.
fn findings(place: &Place, axe: &str, page: &str) -> String {
    let run = "axe.run(document,{resultTypes:['violations']}).then(found=>document.body.append('axe-core '+'ran: '+\
               found.violations.map(one=>one.id+' ('+one.nodes.length+': '+one.nodes[0].html+')').join('; ')+\
               '. End of axe-core.'))";
    let page = page.replace("</body>", &format!("<script>{axe}</script><script>{run}</script></body>"));
    fs::write(place.path("page.html"), page).unwrap();
    let (dom, _) = browse(place, &format!("file://{}", place.path("page.html").display()));
    let after = dom.split_once("axe-core ran: ").unwrap_or_else(|| panic!("axe-core did not end: {dom}")).1;
    after.split_once(". End of axe-core.").unwrap().0.to_owned()
}

#[test]
fn a_browser_shows_the_pages_and_axe_core_finds_nothing_on_them() {
    let place = Place::new("page-browser");
    volume(&place);
    let find = "import axe_core_python, os; print(os.path.dirname(axe_core_python.__file__))";
    let directory = place.tool("python3", &["-c", find]);
    let axe = fs::read_to_string(format!("{}/axe.min.js", directory.trim())).unwrap();
    let served = Served::new(&place, "serve disk.img --http 127.0.0.1:0");
    // With the headers, as the server sends it: nothing is refused by its own policy.
    let (dom, complaints) = browse(&place, &format!("http://{}/", served.address));
    assert!(dom.contains("list.txt"), "{dom}");
    assert_eq!(complaints, [] as [&str; 0]);
    let style = served.get("/style.css").text();
    for path in ["/", "/browse/list.txt", "/deleted"] {
        let page = served.get(path).text();
        let link = "<link rel=\"stylesheet\" href=\"/style.css\">";
        assert!(page.contains(link));
        let light = page
            .replace(link, &format!("<style>{style}</style>"))
            .replace("<link rel=\"icon\" href=\"/icon.svg\">", "");
        assert_eq!(findings(&place, &axe, &light), "", "{path}");
        let dark = light.replace("@media(prefers-color-scheme:dark)", "@media all");
        assert_ne!(dark, light);
        assert_eq!(findings(&place, &axe, &dark), "", "{path}, dark");
    }
    // It finds something where there is something.
    let pale = "<!doctype html><html lang=en><head><title>x</title></head><body><main><h1>x</h1><img src=''></main></body></html>";
    assert!(findings(&place, &axe, pale).contains("image-alt"));
    // A hostile volume in the browser, with its own headers: no script runs.
    let place = Place::new("page-browser-hostile");
    hostile_volume(&place);
    let served = Served::new(&place, "serve disk.img --http 127.0.0.1:0");
    let (dom, complaints) = browse(&place, &format!("http://{}/browse/d", served.address));
    assert!(dom.contains("&lt;script&gt;a1&lt;b&gt;") && !dom.contains("<script"), "{dom}");
    assert_eq!(complaints, [] as [&str; 0]);
}
