//! A volume as pages of HTTP, for reading.
//!
//! The protocol is the part of HTTP/1.1 (RFC 9110 and 9112) that a browser and a download need, GET and HEAD, and is written
//! here: the small servers of others (tiny_http among them) had no release for years, know no limits for heads and
//! connections, and have no say about who is asked for in `Host`; the kept ones are frameworks with a runtime. Here a head
//! has at most 16 KiB and 15 seconds, no request has a body, and the number of connections is that of all servers of
//! this program.
//!
//! What is on the volume is hostile: names are escaped wherever they stand, contents are for downloading and never
//! a part of the page, and the page has no script and may have none. What asks is hostile too: a page elsewhere that leads
//! its own name to this address (DNS rebinding) is recognised by `Host`, and one that merely refers to this address by
//! `Sec-Fetch-Site`.

mod download;
mod escape;
mod listing;
mod live;
mod range;
mod request;
mod response;

use crate::command::failure::Failure;
use crate::command::view::{Part, View};
use platter_vfs::Name;
use request::{Head, HttpRequest};
use response::{Response, Status};
use std::io::{self, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;

/// The most requests that a connection may have.
const MOST_REQUESTS: u32 = 1000;

/// The pages of a volume.
pub(super) struct Page {
    view: View,
    /// The image, as the user named it.
    image: String,
    address: SocketAddr,
    /// Held by what takes long: one at a time.
    long: Mutex<()>,
}

/// What a path of the page stands for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    /// A directory or file of the volume; of a directory, the entries from this one on.
    Entry {
        path: Vec<Name>,
        from: usize,
    },
    /// A content, to be downloaded.
    Content {
        path: Vec<Name>,
        part: Part,
    },
    Volume,
    Check,
    Deleted,
    Style,
    Icon,
    Unknown,
}

impl Page {
    /// The pages of a volume that are served at an address.
    pub(super) fn new(view: View, image: String, address: SocketAddr) -> Page {
        Page { view, image, address, long: Mutex::new(()) }
    }

    /// Serves a connection until the client or an error ends it.
    pub(super) fn serve(&self, reader: &mut dyn Read, writer: &mut (dyn Write + Send)) -> io::Result<()> {
        let mut reader = BufReader::new(reader);
        for _ in 0..MOST_REQUESTS {
            let head = match request::read(&mut reader)? {
                Head::End => return Ok(()),
                Head::Wrong(status, why) => {
                    let mut response = Response::new(writer, false, true);
                    self.refuse(&mut response, status, why)?;
                    return writer.flush();
                }
                Head::Request(request) => request,
            };
            let mut response = Response::new(writer, head.is_head, head.closes);
            self.answer(&head, &mut response)?;
            let closes = response.closes();
            writer.flush()?;
            if closes {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &HttpRequest, response: &mut Response<'_>) -> io::Result<()> {
        if !request.asks_for(self.address) {
            let why = "this server is asked for by its address only";
            return self.refuse(response, Status::Misdirected, why);
        }
        let place = Route::of(&request.path, &request.query);
        let is_long = matches!(place, Route::Check | Route::Deleted);
        if request.is_cross_site && (is_long || !request.navigates) {
            return self.refuse(response, Status::Forbidden, "a page of another site asks for this one");
        }
        let done = match &place {
            Route::Entry { path, from } => self.entry(path, *from),
            Route::Content { path, part } => match self.view.part(path, part) {
                Ok(held) => return self.download(request, (path, part), &held, response),
                Err(failure) => Err(failure),
            },
            Route::Volume => self.volume(),
            Route::Check => return self.check(response),
            Route::Deleted => return self.deleted(response),
            Route::Style => {
                return response.whole(Status::Ok, "text/css; charset=utf-8", listing::STYLE.as_bytes());
            }
            Route::Icon => return response.whole(Status::Ok, "image/svg+xml", listing::ICON.as_bytes()),
            Route::Unknown => return self.refuse(response, Status::NotFound, "there is no such page"),
        };
        match done {
            Ok(html) => response.html(Status::Ok, &html),
            Err(failure) => self.fail(response, &failure),
        }
    }

    fn fail(&self, response: &mut Response<'_>, failure: &Failure) -> io::Result<()> {
        self.refuse(response, Status::NotFound, &failure.to_string())
    }

    fn refuse(&self, response: &mut Response<'_>, status: Status, why: &str) -> io::Result<()> {
        let html = self.frame(status.words(), &format!("<p>{}</p>", escape::html(why)));
        response.html(status, &html)
    }
}

impl Route {
    fn of(path: &str, query: &str) -> Route {
        let Some(rest) = path.strip_prefix('/') else { return Route::Unknown };
        let (first, rest) = rest.split_once('/').unwrap_or((rest, ""));
        match (first, rest) {
            ("", _) | ("browse", _) => match escape::names(rest) {
                Some(path) => {
                    let from = escape::field(query, "from").and_then(|from| String::from_utf8(from).ok());
                    let from = from.and_then(|from| from.parse().ok()).unwrap_or(0);
                    Route::Entry { path, from }
                }
                None => Route::Unknown,
            },
            ("file", _) => {
                let part = match (escape::field(query, "stream"), escape::field(query, "snapshot")) {
                    (Some(name), _) => Part::Stream(Name::from_bytes(&name)),
                    (None, Some(name)) => Part::Snapshot(Name::from_bytes(&name)),
                    (None, None) => Part::Main,
                };
                escape::names(rest).map_or(Route::Unknown, |path| Route::Content { path, part })
            }
            ("volume", "") => Route::Volume,
            ("check", "") => Route::Check,
            ("deleted", "") => Route::Deleted,
            ("style.css", "") => Route::Style,
            ("icon.svg", "") => Route::Icon,
            _ => Route::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_for_places() {
        let names = |all: &[&str]| all.iter().map(|name| Name::from(*name)).collect::<Vec<_>>();
        assert_eq!(Route::of("/", ""), Route::Entry { path: vec![], from: 0 });
        assert_eq!(
            Route::of("/browse/a%20b/c/", "from=12"),
            Route::Entry { path: names(&["a b", "c"]), from: 12 }
        );
        let content = Route::Content { path: names(&["a/b"]), part: Part::Stream(Name::from("x&y")) };
        assert_eq!(Route::of("/file/a%2Fb", "stream=x%26y"), content);
        for wrong in [
            "",
            "x",
            "/none",
            "/check/x",
            "/browse/%2e%2E/x",
            "/browse/a/../b",
            "/file/%zz",
            "/browse/%",
            "/style.css/",
        ] {
            let place = Route::of(wrong, "");
            assert!(matches!(place, Route::Unknown | Route::Style), "{wrong}: {place:?}");
        }
    }
}
