//! `platter serve`

use crate::command::failure::{About, Failure, Outcome, shown, tell};
use crate::command::host::{self, Connection, Listening};
use crate::command::interrupt;
use crate::command::keys::keys;
use crate::command::output::Output;
use crate::command::volume::open_device;
use clap::Args;
use platter::nbd::Export;
use platter::{Access, Source};
use platter_device::{Device, select_partition};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

/// Serve an image, a partition or a mirror as a disk to other programs
///
/// Whatever speaks NBD uses the image as a disk then: qemu, nbdcopy, nbdfuse, fio, the kernel's nbd-client. A VHDX, VHD or
/// split image is served as the disk in it, and a volume that BitLocker encrypts as it is, or decrypted if a key is given. Without --write, clients can only read. With it, no other process writes to the
/// image meanwhile, and what a client has flushed survives a power cut.
///
/// Every user of this machine can reach the port; a socket only who may enter its directory and write to it. The
/// command runs until Ctrl-C, which ends all connections and makes everything durable.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE; with @N partition N
    image: PathBuf,
    /// Speak the network block device protocol
    #[arg(long, required = true)]
    nbd: bool,
    /// Let clients write
    #[arg(long)]
    write: bool,
    /// Listen at a socket of this path, which must not exist, in place of a port
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    socket: Option<PathBuf>,
    /// Listen at this port of 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = NBD_PORT)]
    port: u16,
}

/// The port of NBD, as it is registered at <https://www.iana.org/assignments/service-names-port-numbers>.
const NBD_PORT: u16 = 10809;

/// How often a server that waits for clients looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);

/// The most connections at once, each of which has threads and buffers of its own. Further clients wait.
const MOST_CONNECTIONS: usize = 16;

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let (listening, at) = self.listen()?;
        let device = self.open()?;
        let export = Arc::new(Export::new(device.clone(), !self.write));
        interrupt::listen();
        let how = if export.is_read_only() { "for reading" } else { "for reading and writing" };
        let mut output = Output::new();
        output.line(format_args!("{}: served {how} at {at}; Ctrl-C ends it", shown(&self.image)))?;
        output.finish()?;
        serve_all(&*listening, &export);
        if !export.is_read_only() {
            device.flush()?;
        }
        Ok(0)
    }

    fn open(&self) -> Result<Arc<dyn Device>, Failure> {
        let (image, partition) = Source::split_partition(&self.image);
        let access = if self.write { Access::Write { force: false } } else { Access::ReadAlone };
        let device = open_device(&image, access)?;
        if self.write
            && let Some(why) = device.why_read_only()
        {
            return Err(Failure::new(shown(&image), format!("cannot be written to: {why}")));
        }
        let device = match partition {
            None => device,
            Some(_) => select_partition(device, partition, &|_| false)?,
        };
        // What is encrypted is served as it is, unless a key says otherwise.
        Ok(keys().unlocked_if_given(device)?)
    }

    /// Where clients reach the server, and how that is written for them.
    fn listen(&self) -> Result<(Box<dyn Listening>, String), Failure> {
        if let Some(path) = &self.socket {
            let listening = host::listen_at(path).about(shown(path))?;
            return Ok((listening, format!("nbd+unix:///?socket={}", path.display())));
        }
        let port = format!("port {} of 127.0.0.1", self.port);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).about(&port)?;
        listener.set_nonblocking(true).about(&port)?;
        let address = listener.local_addr().about(&port)?;
        Ok((Box::new(listener), format!("nbd://{address}")))
    }
}

/// Accepts clients until the command is to end, and ends with the last connection.
fn serve_all(listening: &dyn Listening, export: &Arc<Export>) {
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
                match begin(connection, export) {
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
    export: &Arc<Export>,
) -> io::Result<(thread::JoinHandle<()>, Box<dyn Connection>)> {
    let (mut reader, mut writer) = (connection.reader()?, connection.writer()?);
    let export = export.clone();
    let serve = move || {
        // Whoever goes in the middle of a request breaks the connection.
        let gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        match export.serve(&mut reader, &mut writer) {
            Err(error) if !gone.contains(&error.kind()) => {
                tell(format_args!("platter: a connection: {error}"));
            }
            _ => {}
        }
    };
    Ok((thread::Builder::new().name("nbd".into()).spawn(serve)?, connection))
}

impl Listening for TcpListener {
    fn next(&self) -> io::Result<Option<Box<dyn Connection>>> {
        match self.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                // Replies are small, and a client waits for them.
                stream.set_nodelay(true)?;
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
