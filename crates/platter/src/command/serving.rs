//! Serving clients, each with a thread of its own, until the command is to end.

use crate::command::failure::tell;
use crate::command::host::{Connection, Listening};
use crate::command::interrupt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often a server that waits for clients looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);

/// The most connections at once, each of which has threads and buffers of its own. Further clients wait.
const MOST_CONNECTIONS: usize = 16;

/// What is done for a client: what it sends, and what is sent to it.
pub(super) type Serve = dyn Fn(&mut dyn Read, &mut (dyn Write + Send)) -> io::Result<()> + Send + Sync;

/// Listens at an address, of which the port may be 0 for a free one; returns the address that it has become. With
/// `patience`, a client that sends or takes nothing for so long is given up.
pub(super) fn listen(
    address: SocketAddr,
    patience: Option<Duration>,
) -> io::Result<(Box<dyn Listening>, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((Box::new(Port { listener, patience }), address))
}

struct Port {
    listener: TcpListener,
    patience: Option<Duration>,
}

/// Accepts clients until the command is to end, and ends with the last connection.
pub(super) fn serve_all(listening: &dyn Listening, serve: &Arc<Serve>) {
    let mut connections: Vec<(thread::JoinHandle<()>, Box<dyn Connection>)> = Vec::new();
    let mut has_failed = false;
    while !interrupt::is_asked() {
        connections.retain(|(thread, _)| !thread.is_finished());
        if connections.len() == MOST_CONNECTIONS {
            thread::sleep(PAUSE);
            continue;
        }
        match listening.next() {
            Ok(Some(connection)) => {
                has_failed = false;
                match begin(connection, serve) {
                    Ok(one) => connections.push(one),
                    Err(error) => tell(format_args!("platter: a connection: {error}")),
                }
            }
            Ok(None) => thread::sleep(PAUSE),
            Err(error) => {
                if !has_failed {
                    tell(format_args!("platter: a client cannot be accepted: {error}"));
                }
                has_failed = true;
                thread::sleep(PAUSE);
            }
        }
    }
    for (thread, connection) in connections {
        connection.end();
        // A panic of a connection is reported by itself.
        let _ = thread.join();
    }
}

/// Serves one connection with a thread of its own; returns it with what ends the connection.
fn begin(
    connection: Box<dyn Connection>,
    serve: &Arc<Serve>,
) -> io::Result<(thread::JoinHandle<()>, Box<dyn Connection>)> {
    let (mut reader, mut writer) = (connection.reader()?, connection.writer()?);
    let serve = serve.clone();
    let serve = move || {
        // Whoever goes in the middle of a request breaks the connection.
        let gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        match serve(&mut reader, &mut writer) {
            Err(error) if !gone.contains(&error.kind()) => {
                tell(format_args!("platter: a connection: {error}"));
            }
            _ => {}
        }
    };
    Ok((thread::Builder::new().name("client".into()).spawn(serve)?, connection))
}

impl Listening for Port {
    fn next(&self) -> io::Result<Option<Box<dyn Connection>>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                // Replies are small, and a client waits for them.
                stream.set_nodelay(true)?;
                stream.set_read_timeout(self.patience)?;
                stream.set_write_timeout(self.patience)?;
                Ok(Some(Box::new(stream)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Connection for TcpStream {
    fn reader(&self) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(io::BufReader::new(self.try_clone()?)))
    }

    fn writer(&self) -> io::Result<Box<dyn io::Write + Send>> {
        Ok(Box::new(io::BufWriter::new(self.try_clone()?)))
    }

    fn end(&self) {
        // A client that is gone has ended it already.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}
