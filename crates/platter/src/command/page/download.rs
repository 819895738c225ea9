//! Contents of files, to be downloaded.

use super::Page;
use super::escape::disposition;
use super::range::{Asked, asked};
use super::request::HttpRequest;
use super::response::{Response, Status};
use crate::command::view::Part;
use platter::Held;
use platter_device::Buffer;
use platter_vfs::{Kind, Name};
use std::io;
use std::ops::Range;

/// The number of bytes read at a time; after a failed read, [`SMALL`] bytes are.
const PIECE: usize = 1 << 20;
const SMALL: usize = 4096;

/// Endings of names, and what such files are (<https://www.iana.org/assignments/media-types>).
const KINDS: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ini", "text/plain; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("txt", "text/plain; charset=utf-8"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// What a file of this name is.
pub(super) fn kind_of(name: &Name) -> &'static str {
    let name = name.to_string();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_it = |(known, _): &&(&str, &str)| known.eq_ignore_ascii_case(ending);
    KINDS.iter().find(is_it).map_or("application/octet-stream", |(_, kind)| kind)
}

impl Page {
    /// Sends a content, or the part of it that is asked for.
    pub(super) fn download(
        &self,
        request: &HttpRequest,
        (path, part): (&[Name], &Part),
        held: &Held,
        response: &mut Response<'_>,
    ) -> io::Result<()> {
        let attributes = match held.system.attributes(held.node) {
            Ok(attributes) if attributes.kind == Kind::File => attributes,
            Ok(_) => return self.refuse(response, Status::NotFound, "only files have a content"),
            Err(error) => return self.refuse(response, Status::NotFound, &error.to_string()),
        };
        let size = attributes.size;
        // As long as the volume is open for reading, a content stays what it is.
        let modified = attributes.modified;
        let tag = format!("\"{size:x}-{:x}-{:x}\"", modified.seconds, modified.nanoseconds);
        let is_same = request.if_range.as_ref().is_none_or(|wanted| *wanted == tag);
        let range = if is_same { request.range.as_deref() } else { None };
        let own = path.last().cloned().unwrap_or_else(|| Name::from("volume"));
        let (name, kind) = match part {
            Part::Main => (own.to_string(), kind_of(&own)),
            Part::Stream(part) | Part::Snapshot(part) => (format!("{own}.{part}"), kind_of(part)),
        };
        let mut headers = format!(
            "Content-Type: {kind}\r\nContent-Disposition: {}\r\nContent-Security-Policy: sandbox\r\n\
             Accept-Ranges: bytes\r\nETag: {tag}\r\n",
            disposition(&name)
        );
        let (status, range) = match asked(range, size) {
            Asked::All => (Status::Ok, 0..size),
            Asked::Part(range) => {
                headers += &format!("Content-Range: bytes {}-{}/{size}\r\n", range.start, range.end - 1);
                (Status::Part, range)
            }
            Asked::Nothing => {
                let headers = format!("Content-Range: bytes */{size}\r\n");
                return response.head(Status::Range, &headers, Some(0));
            }
        };
        self.send(held, range, (status, &headers), response)
    }

    /// Sends a range of a content with its head, which is sent once the first piece was read.
    fn send(
        &self,
        held: &Held,
        range: Range<u64>,
        (status, headers): (Status, &str),
        response: &mut Response<'_>,
    ) -> io::Result<()> {
        let (mut at, mut piece) = (range.start, PIECE);
        let mut buffer = Buffer::new(PIECE);
        let mut is_begun = false;
        loop {
            let most = (range.end - at).min(piece as u64) as usize;
            let read = match held.system.read(held.node, at, &mut buffer[..most]) {
                // Only a part of a large piece may be unreadable.
                Err(_) if piece > SMALL => {
                    piece = SMALL;
                    continue;
                }
                Err(error) if !is_begun => {
                    return self.refuse(response, Status::NotFound, &error.to_string());
                }
                // What was promised cannot be sent, and the client sees that by the end of the connection.
                Err(error) => return Err(io::Error::other(error.to_string())),
                Ok(read) => read,
            };
            if !is_begun {
                response.head(status, headers, Some(range.end - range.start))?;
                is_begun = true;
            }
            response.content(&buffer[..read])?;
            at += read as u64;
            if at >= range.end || response.is_head() {
                return Ok(());
            }
            if read == 0 {
                return Err(io::Error::other("a file ends before its size"));
            }
        }
    }
}
