//! The answer to a request.

use chrono::Utc;
use std::io::{self, Write};

/// What a server says of a request (RFC 9110, 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Part,
    Bad,
    Forbidden,
    NotFound,
    Method,
    Timeout,
    Range,
    Misdirected,
    TooLong,
    Busy,
    Version,
}

impl Status {
    fn number(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::Part => 206,
            Status::Bad => 400,
            Status::Forbidden => 403,
            Status::NotFound => 404,
            Status::Method => 405,
            Status::Timeout => 408,
            Status::Range => 416,
            Status::Misdirected => 421,
            Status::TooLong => 431,
            Status::Busy => 503,
            Status::Version => 505,
        }
    }

    /// The status in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Part => "Partial Content",
            Status::Bad => "Bad Request",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::Method => "Method Not Allowed",
            Status::Timeout => "Request Timeout",
            Status::Range => "Range Not Satisfiable",
            Status::Misdirected => "Misdirected Request",
            Status::TooLong => "Request Header Fields Too Large",
            Status::Busy => "Service Unavailable",
            Status::Version => "HTTP Version Not Supported",
        }
    }
}

/// What every answer says. A page has no script, no frame and no form, and is in no frame of another; nothing of it is kept by
/// a cache, since it is somebody's files; and nobody guesses what a content is.
const ALWAYS: &str = "Content-Security-Policy: default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'\r\n\
                      X-Content-Type-Options: nosniff\r\n\
                      X-Frame-Options: DENY\r\n\
                      Referrer-Policy: no-referrer\r\n\
                      Cross-Origin-Resource-Policy: same-origin\r\n\
                      Cross-Origin-Opener-Policy: same-origin\r\n\
                      Cache-Control: no-store\r\n";

/// The answer to one request.
pub(super) struct Response<'w> {
    writer: &'w mut (dyn Write + Send),
    /// Whether only the head is sent.
    is_head: bool,
    closes: bool,
}

impl<'w> Response<'w> {
    /// An answer, of which only the head was asked for or not; with `closes` the last one of its connection.
    pub(super) fn new(writer: &'w mut (dyn Write + Send), is_head: bool, closes: bool) -> Response<'w> {
        Response { writer, is_head, closes }
    }

    /// Whether no further request is answered on this connection.
    pub(super) fn closes(&self) -> bool {
        self.closes
    }

    /// Whether only the head is sent.
    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// Sends the head, with headers that each end with `\r\n`. Without a length, the end of the connection is that of the
    /// content.
    pub(super) fn head(&mut self, status: Status, headers: &str, length: Option<u64>) -> io::Result<()> {
        self.closes |= length.is_none();
        let date = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT");
        let (number, words) = (status.number(), status.words());
        write!(self.writer, "HTTP/1.1 {number} {words}\r\nDate: {date}\r\n{ALWAYS}{headers}")?;
        if let Some(length) = length {
            write!(self.writer, "Content-Length: {length}\r\n")?;
        }
        if status == Status::Method {
            self.writer.write_all(b"Allow: GET, HEAD\r\n")?;
        }
        self.writer.write_all(if self.closes { b"Connection: close\r\n\r\n" } else { b"\r\n" })
    }

    /// Sends a part of the content.
    pub(super) fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_head { Ok(()) } else { self.writer.write_all(bytes) }
    }

    /// Sends what was written until now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Sends a content.
    pub(super) fn whole(&mut self, status: Status, kind: &str, content: &[u8]) -> io::Result<()> {
        self.head(status, &format!("Content-Type: {kind}\r\n"), Some(content.len() as u64))?;
        self.content(content)
    }

    /// Sends a page.
    pub(super) fn html(&mut self, status: Status, html: &str) -> io::Result<()> {
        self.whole(status, HTML, html.as_bytes())
    }

    /// Begins a page whose end is not known yet.
    pub(super) fn begin_html(&mut self) -> io::Result<()> {
        self.head(Status::Ok, &format!("Content-Type: {HTML}\r\n"), None)
    }
}

const HTML: &str = "text/html; charset=utf-8";
