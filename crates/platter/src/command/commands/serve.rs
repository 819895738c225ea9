//! `platter serve`

use crate::command::failure::{About, Failure, Outcome, shown, tell};
use crate::command::host::{self, Listening};
use crate::command::interrupt;
use crate::command::keys::keys;
use crate::command::output::Output;
use crate::command::page::Page;
use crate::command::serving::{Serve, listen, serve_all};
use crate::command::view::View;
use crate::command::volume::{ReadOptions, open_unfinished};
use clap::{ArgGroup, Args};
use platter::nbd::Export;
use platter::{Access, Source};
use platter_device::{Device, select_partition};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Serve an image, a partition or a mirror as a disk to other programs, or its files as a page
///
/// With --nbd, whatever speaks NBD uses the image as a disk: qemu, nbdcopy, nbdfuse, fio, the kernel's nbd-client. A VHDX, VHD,
/// qcow2, VMDK, E01 or split image is served as the disk in it, and a volume that BitLocker encrypts as it is, or decrypted if a key is given. Without --write, clients can only read. With it, no other process writes to the
/// image meanwhile, and what a client has flushed survives a power cut.
///
/// With --http, a browser shows the volume: directories, attributes, streams, snapshots, deleted files and a check, and
/// downloads files. Nothing is written. Where no address is named, the page is at one of this machine alone; whoever reaches the
/// address reads the volume.
///
/// Every user of this machine can reach the port; a socket only who may enter its directory and write to it. The
/// command runs until Ctrl-C, which ends all connections and makes everything durable.
#[derive(Args)]
#[command(group(ArgGroup::new("protocol").required(true).args(["nbd", "http"])))]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE; with @N partition N
    image: PathBuf,
    /// Speak the network block device protocol
    #[arg(long)]
    nbd: bool,
    /// Show the files as a page at ADDRESS:PORT, or at PORT of 127.0.0.1; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "0", value_parser = address,
          conflicts_with_all = ["write", "socket", "port"])]
    http: Option<SocketAddr>,
    /// Let clients write
    #[arg(long, conflicts_with = "force")]
    write: bool,
    /// Listen at a socket of this path, which must not exist, in place of a port
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    socket: Option<PathBuf>,
    /// Listen at this port of 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = NBD_PORT)]
    port: u16,
    /// Show shadow copy N of the volume, 1 is the oldest (NTFS, with --http)
    #[arg(long, value_name = "N", requires = "http")]
    shadow: Option<u32>,
    #[command(flatten)]
    volume: ReadOptions,
}

/// The port of NBD, as it is registered at <https://www.iana.org/assignments/service-names-port-numbers>.
const NBD_PORT: u16 = 10809;

/// How long a browser may send or take nothing. It connects again when it needs to.
const PATIENCE: Duration = Duration::from_secs(15);

/// Parses an address with its port, or a port of this machine alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or(text.strip_prefix(':')).unwrap_or(text);
    match (port.parse(), text.parse()) {
        (Ok(port), _) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        (_, Ok(address)) => Ok(address),
        _ => {
            Err("expected an address with a port, such as 127.0.0.1:8080 or [::1]:8080, or a port"
                .to_string())
        }
    }
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        match self.http {
            Some(address) => self.serve_page(address),
            None => self.serve_disk(),
        }
    }

    fn serve_disk(&self) -> Outcome {
        let (listening, at) = self.listen()?;
        let device = self.open()?;
        let export = Arc::new(Export::new(device.clone(), !self.write));
        let is_read_only = export.is_read_only();
        let how = if is_read_only { "for reading" } else { "for reading and writing" };
        let serve =
            move |reader: &mut dyn Read, writer: &mut (dyn Write + Send)| export.serve(reader, writer);
        self.serve(&*listening, how, &at, Arc::new(serve))?;
        if !is_read_only {
            device.flush()?;
        }
        Ok(0)
    }

    fn serve_page(&self, address: SocketAddr) -> Outcome {
        let (listening, address) = listen(address, Some(PATIENCE)).about(address)?;
        let view = View::open(&self.image, &self.volume, self.shadow)?;
        if !address.ip().is_loopback() {
            tell(format_args!(
                "platter: {address} is not of this machine alone: whoever reaches it reads the volume"
            ));
        }
        let page = Page::new(view, shown(&self.image).to_string(), address);
        let serve = move |reader: &mut dyn Read, writer: &mut (dyn Write + Send)| page.serve(reader, writer);
        self.serve(&*listening, "for reading", &format!("http://{address}/"), Arc::new(serve))?;
        Ok(0)
    }

    /// Says where clients reach the server, and serves them until the command is to end.
    fn serve(
        &self,
        listening: &dyn Listening,
        how: &str,
        at: &str,
        serve: Arc<Serve>,
    ) -> Result<(), Failure> {
        interrupt::listen();
        let mut output = Output::new();
        output.line(format_args!("{}: served {how} at {at}; Ctrl-C ends it", shown(&self.image)))?;
        output.finish()?;
        serve_all(listening, &serve);
        Ok(())
    }

    fn open(&self) -> Result<Arc<dyn Device>, Failure> {
        let (image, named) = Source::split_partition(&self.image);
        // A client sees the whole disk unless a partition is named; an option that names one counts more.
        let partition = self.volume.partition.or(named);
        let access = if self.write { Access::Write { force: false } } else { Access::ReadAlone };
        let device = open_unfinished(&image, access, self.volume.force)?;
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
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
        let (listening, address) = listen(address, None).about(&port)?;
        Ok((listening, format!("nbd://{address}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_this_machine_unless_another_is_named() {
        for (text, meant) in [
            ("8080", "127.0.0.1:8080"),
            (":0", "127.0.0.1:0"),
            ("localhost:1", "127.0.0.1:1"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:9", "[::1]:9"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()), Ok(meant.to_string()), "{text}");
        }
        for text in ["", "disk.img", "127.0.0.1", "example.org:80", "65536"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
