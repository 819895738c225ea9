//! A socket with a path, at which clients connect.

use super::{Connection, Listening};
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A socket with a path, which is removed at the end.
struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// Listens at a socket of this path. A socket that nobody listens at any more, as a killed process leaves it, is
/// replaced.
pub(crate) fn listen_at(path: &Path) -> io::Result<Box<dyn Listening>> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    listener.set_nonblocking(true)?;
    Ok(Box::new(Socket { listener, path: path.to_path_buf() }))
}

fn is_deserted(path: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(refused)
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Listening for Socket {
    fn next(&self) -> io::Result<Option<Box<dyn Connection>>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Ok(Some(Box::new(stream)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Connection for UnixStream {
    fn reader(&self) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(io::BufReader::new(self.try_clone()?)))
    }

    fn writer(&self) -> io::Result<Box<dyn io::Write + Send>> {
        Ok(Box::new(io::BufWriter::new(self.try_clone()?)))
    }

    fn end(&self) {
        // A client that is gone has ended it already.
        let _ = self.shutdown(Shutdown::Both);
    }
}
