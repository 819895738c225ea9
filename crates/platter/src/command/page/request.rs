//! The head of a request (RFC 9112).

use super::response::Status;
use std::io::{self, BufRead, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The most bytes of a head.
const LONGEST: usize = 16 << 10;

/// How long a head may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a client has sent.
#[derive(Debug)]
pub(super) enum Head {
    Request(HttpRequest),
    /// Something else, and what is said of it.
    Wrong(Status, &'static str),
    /// Nothing more.
    End,
}

/// A request without a body.
#[derive(Debug, Default)]
pub(super) struct HttpRequest {
    /// Whether only the head of the answer is asked for.
    pub(super) is_head: bool,
    /// The path, as it was sent.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) range: Option<String>,
    /// The state of the content for which the range is asked.
    pub(super) if_range: Option<String>,
    /// Whether the client wants no further answer on this connection.
    pub(super) closes: bool,
    /// Whether a page of another site asks.
    pub(super) is_cross_site: bool,
    /// Whether the answer is to be a page of its own, and not a part of another.
    pub(super) navigates: bool,
    host: String,
}

/// Reads the head of a request.
pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Head> {
    const SLOW: Head = Head::Wrong(Status::Timeout, "the request takes too long");
    let mut begun = None;
    let mut head: Vec<u8> = Vec::new();
    let mut line = 0;
    loop {
        let there = match reader.fill_buf() {
            Ok(there) => &there[..there.len().min(LONGEST - head.len())],
            // A connection that is kept open ends without a word.
            Err(error) if gave_up(&error) => return Ok(if head.is_empty() { Head::End } else { SLOW }),
            Err(error) => return Err(error),
        };
        if there.is_empty() {
            return Ok(match head.len() {
                0 => Head::End,
                LONGEST => Head::Wrong(Status::TooLong, "the head of the request is too long"),
                _ => Head::Wrong(Status::Bad, "the request is not complete"),
            });
        }
        // Who sends a byte now and then does not hold a connection for longer than others.
        if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Ok(SLOW);
        }
        let end = there.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(there.len());
        head.extend_from_slice(&there[..used]);
        reader.consume(used);
        if end.is_none() {
            continue;
        }
        match (&head[line..], line) {
            // An empty line before the request is ignored (RFC 9112, 2.2).
            (b"\n" | b"\r\n", 0) => head.clear(),
            (b"\n" | b"\r\n", _) => break,
            _ => line = head.len(),
        }
    }
    let text = std::str::from_utf8(&head).ok();
    let text = text.filter(|text| !text.chars().any(|c| c.is_control() && !matches!(c, '\r' | '\n' | '\t')));
    Ok(match text.and_then(parse) {
        Some(head) => head,
        None => Head::Wrong(Status::Bad, "the request is not one of HTTP"),
    })
}

/// Whether the client sent nothing for too long.
fn gave_up(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn parse(text: &str) -> Option<Head> {
    let mut lines = text.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target, version) = (first.next()?, first.next()?, first.next()?);
    if first.next().is_some() {
        return None;
    }
    let is_old = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ if version.starts_with("HTTP/") => {
            return Some(Head::Wrong(Status::Version, "only HTTP/1.1 and 1.0 are spoken here"));
        }
        _ => return None,
    };
    if !matches!(method, "GET" | "HEAD") {
        return Some(Head::Wrong(Status::Method, "this page can be read only: GET and HEAD"));
    }
    let mut request =
        HttpRequest { is_head: method == "HEAD", closes: is_old, navigates: true, ..HttpRequest::default() };
    let mut hosts = 0;
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        // A blank before the colon, or a line that goes on, is an attempt to be understood in two ways (RFC 9112, 5.1).
        if name.is_empty() || name.contains([' ', '\t']) {
            return None;
        }
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                request.host = value.to_string();
            }
            "range" => request.range = Some(value.to_string()),
            "if-range" => request.if_range = Some(value.to_string()),
            "connection" => {
                let has = |word: &str| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(word));
                request.closes = has("close") || is_old && !has("keep-alive");
            }
            "content-length" if value == "0" => {}
            "content-length" | "transfer-encoding" => {
                return Some(Head::Wrong(Status::Bad, "a request has no body here"));
            }
            "sec-fetch-site" => request.is_cross_site = value.eq_ignore_ascii_case("cross-site"),
            "sec-fetch-mode" => request.navigates = value.eq_ignore_ascii_case("navigate"),
            _ => {}
        }
    }
    if hosts > 1 || hosts == 0 && !is_old {
        return None;
    }
    // A whole address counts more than the header (RFC 9112, 3.2.2).
    let target = match target.strip_prefix("http://") {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            request.host = rest[..end].to_string();
            if end == rest.len() { "/" } else { &rest[end..] }
        }
        None => target,
    };
    if !target.starts_with('/') {
        return None;
    }
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (request.path, request.query) = (path.to_string(), query.to_string());
    Some(Head::Request(request))
}

impl HttpRequest {
    /// Whether the request is for a server at this address. A name would be one that somebody else has led here, so only
    /// addresses are, and `localhost`.
    pub(super) fn asks_for(&self, address: SocketAddr) -> bool {
        let (host, port) = match self.host.rsplit_once(':') {
            // The colons of an address of IPv6 are between brackets.
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
            _ => (self.host.as_str(), Some(80)),
        };
        if port != Some(address.port()) {
            return false;
        }
        if host.eq_ignore_ascii_case("localhost") {
            return address.ip().is_loopback() || address.ip().is_unspecified();
        }
        let host = match host.strip_prefix('[') {
            Some(inside) => inside.strip_suffix(']').and_then(|inside| inside.parse().ok()).map(IpAddr::V6),
            None => host.parse().ok().map(IpAddr::V4),
        };
        // Of a server at all addresses, any of them is meant.
        host.is_some_and(|host| host == address.ip() || address.ip().is_unspecified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Head {
        read(&mut text.as_bytes()).unwrap()
    }

    fn request(text: &str) -> HttpRequest {
        match of(text) {
            Head::Request(request) => request,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_read() {
        let one = request("\r\nGET /a%20b?x=1#y HTTP/1.1\r\nHost: 127.0.0.1:80\r\nRange:bytes=0-1\r\n\r\n");
        assert_eq!(
            (one.path.as_str(), one.query.as_str(), one.range.as_deref()),
            ("/a%20b", "x=1", Some("bytes=0-1"))
        );
        assert!(!one.is_head && !one.closes && !one.is_cross_site && one.navigates);
        let one = request(
            "HEAD / HTTP/1.1\nhost: x\nConnection: Keep-Alive, close\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\n\n",
        );
        assert!(one.is_head && one.closes && one.is_cross_site && !one.navigates);
        assert!(request("GET / HTTP/1.0\r\n\r\n").closes);
        assert_eq!(request("GET http://[::1]:9/x HTTP/1.1\r\nHost: evil\r\n\r\n").host, "[::1]:9");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let wrong = |text: &str| match of(text) {
            Head::Wrong(status, _) => status,
            other => panic!("{text:?}: {other:?}"),
        };
        for text in [
            "nonsense\r\n\r\n",
            "GET /\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
            "GET x HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
            "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /\u{1} HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n",
        ] {
            assert_eq!(wrong(text), Status::Bad, "{text:?}");
        }
        assert_eq!(wrong("POST / HTTP/1.1\r\nHost: x\r\n\r\n"), Status::Method);
        assert_eq!(wrong("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), Status::Version);
        assert_eq!(wrong(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(LONGEST))), Status::TooLong);
        assert_eq!(wrong(&format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(LONGEST))), Status::TooLong);
        assert!(matches!(of(""), Head::End));
        assert!(matches!(read(&mut &b"\xFF\xFE / \r\n\r\n"[..]), Ok(Head::Wrong(Status::Bad, _))));
    }

    #[test]
    fn only_addresses_are_asked_for() {
        let asks = |host: &str, address: &str| {
            let request = HttpRequest { host: host.to_string(), ..HttpRequest::default() };
            request.asks_for(address.parse().unwrap())
        };
        for (host, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost:8080", "[::1]:8080"),
            ("[::1]:8080", "[::1]:8080"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("192.0.2.7:8080", "0.0.0.0:8080"),
        ] {
            assert!(asks(host, address), "{host} at {address}");
        }
        for (host, address) in [
            ("", "127.0.0.1:80"),
            ("evil.example:8080", "127.0.0.1:8080"),
            ("evil.example:8080", "0.0.0.0:8080"),
            ("127.0.0.1:8081", "127.0.0.1:8080"),
            ("127.0.0.1", "127.0.0.1:8080"),
            ("127.0.0.1.evil.example:8080", "127.0.0.1:8080"),
            ("localhost:8080", "192.0.2.7:8080"),
            ("192.0.2.8:8080", "192.0.2.7:8080"),
            ("[::1:8080", "[::1]:8080"),
            ("::1:8080", "[::1]:8080"),
        ] {
            assert!(!asks(host, address), "{host} at {address}");
        }
    }
}
