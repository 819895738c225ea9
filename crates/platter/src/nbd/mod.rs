//! Serving a device to programs and kernels that speak NBD.
//!
//! The protocol is that of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: the fixed newstyle
//! negotiation and simple replies. A server has one export, the default one, whose name is empty.

use platter_device::sync::Mutex;
use platter_device::{Device, read_any};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// The most bytes of one request, as the protocol has it for clients that were told no other limit. With
/// [`WORKERS`], it bounds the memory of a connection.
const MOST: u32 = 32 << 20;

/// How many requests of a connection are carried out at once. Further ones wait in the socket.
const WORKERS: usize = 8;

/// The most bytes of an option of the negotiation: a name has at most 4,096.
const MOST_OPTION: u32 = 64 << 10;

const MAGIC: u64 = 0x4E42_444D_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags of the handshake, the same for both sides: newstyle with errors, and no zeroes behind the export's size.
const FIXED_NEWSTYLE: u16 = 1 << 0;
const NO_ZEROES: u16 = 1 << 1;

/// Options that a client asks for.
mod option {
    pub(super) const EXPORT_NAME: u32 = 1;
    pub(super) const ABORT: u32 = 2;
    pub(super) const LIST: u32 = 3;
    pub(super) const INFO: u32 = 6;
    pub(super) const GO: u32 = 7;
}

/// Replies to options.
mod answer {
    pub(super) const ACK: u32 = 1;
    pub(super) const SERVER: u32 = 2;
    pub(super) const INFO: u32 = 3;
    pub(super) const UNSUPPORTED: u32 = (1 << 31) + 1;
    pub(super) const INVALID: u32 = (1 << 31) + 3;
    pub(super) const UNKNOWN: u32 = (1 << 31) + 6;
}

/// Kinds of information about an export.
mod info {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// What an export can do, in the flags that are sent with its size.
mod can {
    pub(super) const HAS_FLAGS: u16 = 1 << 0;
    pub(super) const READ_ONLY: u16 = 1 << 1;
    pub(super) const FLUSH: u16 = 1 << 2;
    pub(super) const FUA: u16 = 1 << 3;
    pub(super) const TRIM: u16 = 1 << 5;
    pub(super) const WRITE_ZEROES: u16 = 1 << 6;
    pub(super) const MULTI_CONN: u16 = 1 << 8;
}

/// Commands of requests.
mod command {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const DISCONNECT: u16 = 2;
    pub(super) const FLUSH: u16 = 3;
    pub(super) const TRIM: u16 = 4;
    pub(super) const WRITE_ZEROES: u16 = 6;
    /// The flag of a write that is durable before its reply.
    pub(super) const FUA: u16 = 1 << 0;
}

/// Error numbers of replies.
mod errno {
    pub(super) const NOT_PERMITTED: u32 = 1;
    pub(super) const IO: u32 = 5;
    pub(super) const INVALID: u32 = 22;
    pub(super) const NO_SPACE: u32 = 28;
}

/// A device that clients use as a disk. Any number of connections may be served at once, each by a thread of its own:
/// what one has flushed, all have.
pub struct Export {
    device: Arc<dyn Device>,
    read_only: bool,
}

/// How the negotiation ended.
enum Negotiated {
    /// The client uses the export.
    Go,
    /// The client has what it wanted to know.
    End,
}

/// A request as it came.
struct Asked {
    command: u16,
    durable: bool,
    cookie: u64,
    offset: u64,
    length: u32,
    data: Vec<u8>,
}

impl Export {
    /// An export of `device`; for reading only if `read_only`, or if the device is.
    pub fn new(device: Arc<dyn Device>, read_only: bool) -> Export {
        let read_only = read_only || device.read_only();
        Export { device, read_only }
    }

    /// Whether clients can only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Serves one connection until the client ends it. Every request that was read is carried out and replied to, or the
    /// connection is broken.
    ///
    /// # Errors
    /// Those of the connection, and [`io::ErrorKind::InvalidData`] for what is not the protocol.
    pub fn serve(&self, reader: &mut dyn Read, writer: &mut (dyn Write + Send)) -> io::Result<()> {
        match self.negotiate(reader, writer)? {
            Negotiated::Go => self.transmit(reader, writer),
            Negotiated::End => Ok(()),
        }
    }

    fn flags(&self) -> u16 {
        let all = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN;
        all | if self.read_only { can::READ_ONLY } else { can::TRIM | can::WRITE_ZEROES }
    }

    fn negotiate(&self, reader: &mut dyn Read, writer: &mut dyn Write) -> io::Result<Negotiated> {
        writer.write_all(&MAGIC.to_be_bytes())?;
        writer.write_all(&OPTION_MAGIC.to_be_bytes())?;
        writer.write_all(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
        writer.flush()?;
        let flags = u32::from_be_bytes(read(reader)?);
        let no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(wrong(format!("flags {flags:#x} of the client: only 0x3 are known")));
        }
        loop {
            expect(u64::from_be_bytes(read(reader)?), OPTION_MAGIC, "an option")?;
            let (option, length) = (u32::from_be_bytes(read(reader)?), u32::from_be_bytes(read(reader)?));
            if length > MOST_OPTION {
                return Err(wrong(format!("an option of {length} bytes: at most {MOST_OPTION} are taken")));
            }
            let mut data = vec![0; length as usize];
            reader.read_exact(&mut data)?;
            let mut reply = |answer: u32, data: &[u8]| -> io::Result<()> {
                writer.write_all(&OPTION_REPLY_MAGIC.to_be_bytes())?;
                writer.write_all(&option.to_be_bytes())?;
                writer.write_all(&answer.to_be_bytes())?;
                writer.write_all(&(data.len() as u32).to_be_bytes())?;
                writer.write_all(data)
            };
            match option {
                option::EXPORT_NAME if data.is_empty() => {
                    writer.write_all(&self.device.len().to_be_bytes())?;
                    writer.write_all(&self.flags().to_be_bytes())?;
                    writer.write_all(&[0; 124][..if no_zeroes { 0 } else { 124 }])?;
                    writer.flush()?;
                    return Ok(Negotiated::Go);
                }
                // This option has no reply for errors.
                option::EXPORT_NAME => return Ok(Negotiated::End),
                option::ABORT => {
                    reply(answer::ACK, &[])?;
                    writer.flush()?;
                    return Ok(Negotiated::End);
                }
                option::LIST => {
                    // One export: the length of its name, and no name.
                    reply(answer::SERVER, &0_u32.to_be_bytes())?;
                    reply(answer::ACK, &[])?;
                }
                option::INFO | option::GO => match wanted_name(&data) {
                    Some([]) => {
                        let mut about = info::EXPORT.to_be_bytes().to_vec();
                        about.extend(self.device.len().to_be_bytes());
                        about.extend(self.flags().to_be_bytes());
                        reply(answer::INFO, &about)?;
                        let sectors = self.device.sectors();
                        let mut about = info::BLOCK_SIZE.to_be_bytes().to_vec();
                        about.extend(sectors.logical.to_be_bytes());
                        about.extend(sectors.physical.max(4096).to_be_bytes());
                        about.extend(MOST.to_be_bytes());
                        reply(answer::INFO, &about)?;
                        reply(answer::ACK, &[])?;
                        if option == option::GO {
                            writer.flush()?;
                            return Ok(Negotiated::Go);
                        }
                    }
                    Some(_) => reply(answer::UNKNOWN, b"there is one export, the default one")?,
                    None => reply(answer::INVALID, b"the name is longer than the option")?,
                },
                _ => reply(answer::UNSUPPORTED, &[])?,
            }
            writer.flush()?;
        }
    }

    fn transmit(&self, reader: &mut dyn Read, writer: &mut (dyn Write + Send)) -> io::Result<()> {
        let (send, receive) = sync_channel::<Asked>(0);
        let (receive, writer) = (Mutex::new(receive), Mutex::new(writer));
        let failed: Mutex<Option<io::Error>> = Mutex::new(None);
        let read = thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some(request) = next(&receive) {
                        if let Err(error) = self.carry_out(request, &writer) {
                            failed.lock().get_or_insert(error);
                        }
                    }
                });
            }
            let mut each = || -> io::Result<()> {
                while let Some(request) = self.read_request(reader)? {
                    // A reply that cannot be sent ends the connection.
                    if send.send(request).is_err() || failed.lock().is_some() {
                        break;
                    }
                }
                Ok(())
            };
            let read = each();
            drop(send);
            read
        });
        let failed = failed.lock().take();
        failed.map_or(read, Err)
    }

    /// Reads a request with its data; `None` where the client ends the connection.
    fn read_request(&self, reader: &mut dyn Read) -> io::Result<Option<Asked>> {
        let magic = match read(reader) {
            Ok(magic) => u32::from_be_bytes(magic),
            // Whoever goes without a word has no request that waits.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        expect(magic.into(), REQUEST_MAGIC.into(), "a request")?;
        let (flags, command) = (u16::from_be_bytes(read(reader)?), u16::from_be_bytes(read(reader)?));
        let (cookie, offset) = (u64::from_be_bytes(read(reader)?), u64::from_be_bytes(read(reader)?));
        let length = u32::from_be_bytes(read(reader)?);
        let mut data = Vec::new();
        if command == command::WRITE {
            if length > MOST {
                return Err(wrong(format!("a write of {length} bytes: at most {MOST} are taken")));
            }
            data.resize(length as usize, 0);
            reader.read_exact(&mut data)?;
        }
        let durable = flags & command::FUA != 0;
        let request = Asked { command, durable, cookie, offset, length, data };
        Ok((command != command::DISCONNECT).then_some(request))
    }

    /// Carries out a request and replies.
    fn carry_out(&self, mut request: Asked, writer: &Mutex<&mut (dyn Write + Send)>) -> io::Result<()> {
        let done = self.try_out(&mut request);
        let data = if request.command == command::READ && done.is_ok() { &request.data[..] } else { &[] };
        let mut writer = writer.lock();
        writer.write_all(&REPLY_MAGIC.to_be_bytes())?;
        writer.write_all(&done.err().unwrap_or(0).to_be_bytes())?;
        writer.write_all(&request.cookie.to_be_bytes())?;
        writer.write_all(data)?;
        writer.flush()
    }

    /// Carries out a request; the error is the number that the reply has.
    fn try_out(&self, request: &mut Asked) -> Result<(), u32> {
        let (device, offset, length) = (&*self.device, request.offset, u64::from(request.length));
        let changes = matches!(request.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if changes && self.read_only {
            return Err(errno::NOT_PERMITTED);
        }
        let ends = offset.checked_add(length).filter(|end| *end <= device.len());
        if request.command != command::FLUSH && ends.is_none() {
            return Err(if changes { errno::NO_SPACE } else { errno::INVALID });
        }
        let sector = u64::from(device.sectors().logical);
        if changes && !(offset.is_multiple_of(sector) && length.is_multiple_of(sector)) {
            return Err(errno::INVALID);
        }
        let done = match request.command {
            command::READ if request.length > MOST => return Err(errno::INVALID),
            command::READ => {
                request.data.resize(request.length as usize, 0);
                read_any(device, offset, &mut request.data)
            }
            command::WRITE => device.write_at(offset, &request.data),
            command::TRIM => device.discard(offset, length),
            command::WRITE_ZEROES => write_zeroes(device, offset, length),
            command::FLUSH => device.flush(),
            _ => return Err(errno::INVALID),
        };
        let done = if request.durable && changes { done.and_then(|()| device.flush()) } else { done };
        done.map_err(|_| errno::IO)
    }
}

/// Writes zeroes: what a discarded range reads as is not known.
fn write_zeroes(device: &dyn Device, offset: u64, length: u64) -> platter_device::Result<()> {
    let zeroes = vec![0; length.min(1 << 20) as usize];
    let mut done = 0;
    while done < length {
        let part = (length - done).min(zeroes.len() as u64);
        device.write_at(offset + done, &zeroes[..part as usize])?;
        done += part;
    }
    Ok(())
}

/// The next request; one worker at a time waits for it.
fn next(receive: &Mutex<Receiver<Asked>>) -> Option<Asked> {
    receive.lock().recv().ok()
}

/// The export's name in the data of an option: its length, it itself, and what the client wants to know.
fn wanted_name(data: &[u8]) -> Option<&[u8]> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.get(..u32::from_be_bytes(*length) as usize)
}

fn read<const N: usize>(reader: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn expect(found: u64, expected: u64, what: &str) -> io::Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(wrong(format!(
        "{what} begins with {found:#x} and not with {expected:#x}: the client does not speak NBD"
    )))
}

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
