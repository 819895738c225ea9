//! Image files for the other programs that judge volumes.

use platter_device::Device;
use std::io::{Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary image file, removed when this is dropped.
pub struct ImageFile {
    path: String,
}

/// The number of bytes examined at once.
const PIECE: usize = 64 << 10;
/// A piece of zeroes, to find pieces that need not be written. Comparing whole pieces is fast, for images of gigabytes.
static ZEROES: [u8; PIECE] = [0; PIECE];

impl ImageFile {
    /// Makes an image file of this many bytes, all zero.
    ///
    /// # Panics
    /// If the file cannot be made in the temporary directory; the other functions here panic likewise.
    pub fn empty(length: u64) -> ImageFile {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("platter-{}-{number}.img", std::process::id());
        let path = std::env::temp_dir().join(name).to_str().expect("a path in UTF-8").to_owned();
        let file = std::fs::File::create(&path).expect("a writable temporary directory");
        file.set_len(length).expect("a file system that takes images of this size");
        ImageFile { path }
    }

    /// Makes an image file of these bytes, with holes for pieces of zeroes.
    pub fn new(image: &[u8]) -> ImageFile {
        let file = ImageFile::empty(image.len() as u64);
        let pieces = image.chunks(PIECE);
        file.fill(pieces.enumerate().map(|(at, piece)| ((at * PIECE) as u64, piece)));
        file
    }

    /// Makes an image file of a device's content, with holes for pieces of zeroes.
    pub fn of(device: &dyn Device) -> ImageFile {
        let file = ImageFile::empty(device.len());
        let mut buffer = vec![0; 16 * PIECE];
        let mut at = device.next_data(0);
        while at < device.len() {
            let length = (device.len() - at).min(buffer.len() as u64) as usize;
            device.read_at(at, &mut buffer[..length]).expect("a device that can be read");
            file.fill(
                buffer[..length].chunks(PIECE).zip(0..).map(|(piece, n)| (at + n * PIECE as u64, piece)),
            );
            at = device.next_data(at + length as u64);
        }
        file
    }

    fn fill<'p>(&self, pieces: impl Iterator<Item = (u64, &'p [u8])>) {
        let mut file = std::fs::File::options().write(true).open(&self.path).expect("the image is there");
        for (at, piece) in pieces.filter(|(_, piece)| **piece != ZEROES[..piece.len()]) {
            file.seek(SeekFrom::Start(at)).expect("a place in a file");
            file.write_all(piece).expect("room in the temporary directory");
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The present content of the file.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("the image is there")
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}
