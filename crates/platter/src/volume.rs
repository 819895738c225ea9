//! An open volume, with operations by path.

use crate::copy::{self, EntryPath, Origin, Outcome, Target};
use crate::directory::{DirEntry, ReadDir, Walk};
use crate::error::{About, Error, ErrorKind, Result};
use crate::event::{Event, Listener};
use crate::file::File;
use crate::keys::Keys;
use crate::node::{Held, names};
use crate::opening::{Access, DeviceOptions, open_device, patiently, refuse_beside_writer, refuse_in_doubt};
use crate::shared::Shared;
use crate::source::Source;
use platter_device::host::HostBytes;
use platter_device::{Caching, Device};
use platter_vfs::{
    Attributes, Capabilities, Change, Extent, FileSystem, Integrity, Kind, LocalTime, Name, NodeStream,
    OpenOptions as How, RenameFlags, Reparse, Space, VolumeInfo,
};
use std::path::Path;
use std::sync::Arc;

/// Opens the volume that a source names, for reading: see [`Source`] for its forms. Nothing is written, not even the
/// repairs that opening for writing makes after a power cut.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound), [`NotAVolume`](ErrorKind::NotAVolume), [`Damaged`](ErrorKind::Damaged),
/// [`Locked`](ErrorKind::Locked) while a mount or another process writes to it, and the errors of the device.
pub fn open(source: impl AsRef<Path>) -> Result<Volume> {
    OpenOptions::new().open(source)
}

/// Opens the volume that a source names, for reading and writing, for this process alone.
///
/// # Errors
/// As [`open`], and [`InUse`](ErrorKind::InUse) or [`Locked`](ErrorKind::Locked) if the kernel or a process uses the
/// device.
pub fn open_rw(source: impl AsRef<Path>) -> Result<Volume> {
    OpenOptions::new().access(Access::Write { force: false }).open(source)
}

/// The options of opening a volume.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    device: DeviceOptions,
    how: How,
    beside_writer: bool,
}

impl OpenOptions {
    /// Options for reading, through the host's page cache, with UTC as local time, and without a listener.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Sets how the device is accessed, and which access other processes have meanwhile.
    pub fn access(mut self, access: Access) -> OpenOptions {
        self.device.access = access;
        self
    }

    /// Sets whether the host's page cache is used.
    pub fn caching(mut self, caching: Caching) -> OpenOptions {
        self.device.caching = caching;
        self
    }

    /// Sets the listener that is told of events of a mirror's copies, and of a device that ends before its volume.
    pub fn listener(mut self, listener: Listener) -> OpenOptions {
        self.device.listener = listener;
        self
    }

    /// Sets the keys that encrypted volumes are opened with.
    pub fn keys(mut self, keys: Keys) -> OpenOptions {
        self.device.keys = keys;
        self
    }

    /// Sets the minutes that local time is ahead of UTC on every date, for formats that keep local time (FAT, and exFAT where
    /// an entry has no offset): short for [`local_time`](OpenOptions::local_time).
    pub fn local_offset_minutes(self, minutes: i32) -> OpenOptions {
        self.local_time(LocalTime::Ahead(minutes))
    }

    /// Sets the local time, for formats that keep local time. The default is UTC.
    pub fn local_time(mut self, local: LocalTime) -> OpenOptions {
        self.how.local_time = local;
        self
    }

    /// Sets whether every sync is a commit in the format's own structures. Otherwise a sync of ReFS may write a log
    /// that only Platter reads, which takes fewer writes.
    pub fn commits_syncs(mut self, commits: bool) -> OpenOptions {
        self.how.commits_syncs = commits;
        self
    }

    /// Sets whether a volume of which Windows keeps shadow copies is written to. They show something else then, since no
    /// copy is made of what is overwritten. Otherwise such a volume is read-only.
    pub fn lose_shadow_copies(mut self, lose: bool) -> OpenOptions {
        self.how.lose_shadow_copies = lose;
        self
    }

    /// Sets whether a copy of a mirror is opened by itself although its rebuild was not completed, so that it holds parts of
    /// two contents.
    pub fn unfinished(mut self, unfinished: bool) -> OpenOptions {
        self.device.unfinished = unfinished;
        self
    }

    /// Sets whether a volume is read that another process has open for writing. Its newest state is in that process, so
    /// what is read is older, or a mixture.
    pub fn beside_writer(mut self, beside: bool) -> OpenOptions {
        self.beside_writer = beside;
        self
    }

    /// Opens the volume that a source names.
    ///
    /// # Errors
    /// As [`open_rw`].
    pub fn open(&self, source: impl AsRef<Path>) -> Result<Volume> {
        let source = Source::parse(source)?;
        if !self.device.access.writes() && !self.beside_writer {
            patiently(&source.paths, || refuse_beside_writer(&source))?;
        }
        self.open_on(open_device(&source, &self.device)?, &source.to_string())
    }

    /// Opens the volume on a device that the caller provides, for reading unless [`OpenOptions::access`] says
    /// otherwise. Error messages call the device `name`.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_on(&self, device: Arc<dyn Device>, name: &str) -> Result<Volume> {
        let writes = self.device.access.writes();
        let how = How { read_only: !writes, ..self.how };
        let system = platter_formats::open(device, how).about(name)?;
        refuse_in_doubt(&*system, self.device.access).about(name)?;
        let device = system.device();
        if let Some(why) = device.why_read_only().filter(|_| device.end() < device.len()) {
            self.device.listener.tell(&Event::CutOff(&format!("{name}: {why}")));
        }
        Ok(Volume(Arc::new(Shared::new(system, name, writes))))
    }
}

/// An open volume. Clones are handles on the same volume, and all calls may be made from many threads at once.
///
/// Paths on a volume have `/` between their names, whatever the format; whether case counts depends on the volume.
/// Symbolic links are not followed, since most of them lead to places on the machine they come from:
/// [`Volume::read_link`] returns their targets.
///
/// ```
/// # fn main() -> platter::Result<()> {
/// # #[cfg(feature = "exfat")] {
/// # use platter::device::{MemoryDevice, Sectors};
/// # let device = std::sync::Arc::new(MemoryDevice::new(32 << 20, Sectors::SMALL));
/// # let exfat = platter::formats::by_name("exfat").expect("a format of this build");
/// # exfat.make(&*device, &Default::default(), &platter::Silent).expect("a volume");
/// # let options = platter::OpenOptions::new().access(platter::Access::Write { force: false });
/// # let volume = options.open_on(device, "in memory")?; /*
/// let volume = platter::open_rw("disk.img")?;
/// # */
/// volume.create_dir_all("photos/2026")?;
/// volume.write("photos/2026/list.txt", b"one")?;
/// assert_eq!(volume.metadata("photos/2026/list.txt")?.size, 3);
/// volume.rename("photos/2026", "photos/old")?;
/// volume.close()?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// Changes survive a power cut when [`Volume::sync`] or [`Volume::close`] has returned. A volume that is dropped
/// without [`Volume::close`] is closed too, but errors are ignored.
#[derive(Clone)]
pub struct Volume(Arc<Shared>);

impl Volume {
    /// The volume's file system, for callers that need nodes, plans and queues.
    pub fn system(&self) -> &Arc<dyn FileSystem> {
        &self.0.system
    }

    /// The name under which the volume was opened.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn find(&self, path: &Path) -> Result<Held> {
        self.0.refuse_copies()?;
        Held::find(self.system(), &names(path.as_os_str().as_bytes())).about(self.shown(path))
    }

    /// Returns the parent directory of a path, and its last name.
    fn place(&self, path: &Path) -> Result<(Held, Name)> {
        self.0.refuse_copies()?;
        let names = names(path.as_os_str().as_bytes());
        let Some((last, above)) = names.split_last() else {
            let why = "is the root directory, which always is there";
            return Err(Error::refused(ErrorKind::InvalidArgument, self.shown(path), why));
        };
        Ok((Held::find(self.system(), above).about(self.shown(path))?, last.clone()))
    }

    fn shown(&self, path: &Path) -> String {
        path.display().to_string()
    }

    /// Calls the file system with the node that a path leads to.
    fn at<T>(
        &self,
        path: &Path,
        call: impl FnOnce(&dyn FileSystem, &Held) -> platter_vfs::Result<T>,
    ) -> Result<T> {
        let held = self.find(path)?;
        call(&**self.system(), &held).about(self.shown(path))
    }

    /// Calls the file system with the parent directory and the last name of a path, which need not exist.
    fn in_directory<T>(
        &self,
        path: &Path,
        call: impl FnOnce(&dyn FileSystem, &Held, &Name) -> platter_vfs::Result<T>,
    ) -> Result<T> {
        let (directory, name) = self.place(path)?;
        call(&**self.system(), &directory, &name).about(self.shown(path))
    }

    // Information about the volume

    /// The volume's format, label and identifier, and whether it was closed.
    ///
    /// # Errors
    /// The errors of reading the volume.
    pub fn info(&self) -> Result<VolumeInfo> {
        self.0.refuse_copies()?;
        self.system().info().about(self.name())
    }

    /// The features of the volume's format.
    pub fn capabilities(&self) -> &Capabilities {
        self.system().capabilities()
    }

    /// The total and the free space.
    ///
    /// # Errors
    /// The errors of reading the volume.
    pub fn space(&self) -> Result<Space> {
        self.0.refuse_copies()?;
        self.system().space().about(self.name())
    }

    /// Changes the label. An empty label removes it.
    ///
    /// # Errors
    /// [`InvalidName`](ErrorKind::InvalidName) for a label that the format cannot hold.
    pub fn set_label(&self, label: &str) -> Result<()> {
        self.0.refuse_copies()?;
        self.system().set_label(label).about(self.name())
    }

    // Directories

    /// Returns the entries of a directory, in the volume's order. Of a damaged directory, the entries that can be
    /// read come first, and the error last.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) and the other errors of resolving the path.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let path = path.as_ref();
        Ok(ReadDir::new(&self.0, self.find(path)?, path))
    }

    /// Returns everything below a directory, each directory before its entries. For a directory that cannot be read,
    /// an error comes among the entries, and the walk goes on after it.
    ///
    /// # Errors
    /// As [`Volume::read_dir`].
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk> {
        Ok(Walk::new(&self.0, self.read_dir(path)?))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists), [`InvalidName`](ErrorKind::InvalidName), [`NoSpace`](ErrorKind::NoSpace),
    /// [`ReadOnly`](ErrorKind::ReadOnly), and the errors of resolving the path.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_directory(path.as_ref(), |system, directory, name| {
            let node = system.create(directory.node, name, Kind::Directory)?;
            system.forget(node, 1);
            Ok(())
        })
    }

    /// Makes a directory, and its missing parent directories.
    ///
    /// # Errors
    /// As [`Volume::create_dir`]; [`NotADirectory`](ErrorKind::NotADirectory) where a name of the path exists and is
    /// no directory.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.0.refuse_copies()?;
        let mut held = Held::root(self.system());
        for name in names(path.as_os_str().as_bytes()) {
            let next = match self.system().create(held.node, &name, Kind::Directory) {
                Err(platter_vfs::Error::Exists) => held.child(&name),
                made => made.map(|node| Held::new(self.system(), node)),
            };
            held = next.about(self.shown(path))?;
        }
        match self.system().attributes(held.node).about(self.shown(path))?.kind {
            Kind::Directory => Ok(()),
            _ => Err(Error::new(self.shown(path), platter_vfs::Error::NotADirectory)),
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`NotEmpty`](ErrorKind::NotEmpty), and as [`Volume::remove_file`].
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_directory(path.as_ref(), |system, directory, name| system.rmdir(directory.node, name))
    }

    /// Removes a directory with everything in it.
    ///
    /// # Errors
    /// The first error; entries that were removed before it stay removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        // The walk returns a directory before its entries, so in reverse order each directory is empty when it is
        // removed.
        let all = self.walk(path)?.collect::<Result<Vec<DirEntry>>>()?;
        for entry in all.into_iter().rev() {
            match entry.metadata().kind {
                Kind::Directory => self.remove_dir(entry.path())?,
                _ => self.remove_file(entry.path())?,
            }
        }
        self.remove_dir(path)
    }

    // Names

    /// Whether the path exists.
    ///
    /// # Errors
    /// The errors of resolving the path, except those that mean it does not exist.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.find(path.as_ref()) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the size, times and flags of the file or directory at a path.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) and the other errors of resolving the path.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Attributes> {
        self.at(path.as_ref(), |system, held| system.attributes(held.node))
    }

    /// Changes times, flags or size, and returns the new attributes.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly), and as [`Volume::metadata`].
    pub fn set_metadata(&self, path: impl AsRef<Path>, change: &Change) -> Result<Attributes> {
        self.at(path.as_ref(), |system, held| system.set_attributes(held.node, change))
    }

    /// Removes a name of a file, or a symbolic link. The content is freed with the last name.
    ///
    /// # Errors
    /// [`IsADirectory`](ErrorKind::IsADirectory), [`NotPermitted`](ErrorKind::NotPermitted),
    /// [`ReadOnly`](ErrorKind::ReadOnly), and the errors of resolving the path.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_directory(path.as_ref(), |system, directory, name| system.unlink(directory.node, name))
    }

    /// Moves an entry, also to another directory. An existing entry with the new name is replaced, if both are files
    /// or the existing one is an empty directory.
    ///
    /// # Errors
    /// [`NotEmpty`](ErrorKind::NotEmpty), [`InvalidArgument`](ErrorKind::InvalidArgument) for a directory that would be
    /// moved into itself, and as [`Volume::create_dir`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from, to, RenameFlags::Replace)
    }

    /// Like [`Volume::rename`]; `flags` say what happens to an existing entry with the new name.
    ///
    /// # Errors
    /// As [`Volume::rename`], and [`Exists`](ErrorKind::Exists).
    pub fn rename_with(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        flags: RenameFlags,
    ) -> Result<()> {
        let (target, new_name) = self.place(to.as_ref())?;
        self.in_directory(from.as_ref(), |system, directory, name| {
            system.rename(directory.node, name, target.node, &new_name, flags)
        })
    }

    /// Gives a file a further name.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported), and as [`Volume::create_dir`].
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let original = self.find(original.as_ref())?;
        self.in_directory(link.as_ref(), |system, directory, name| {
            system.link(original.node, directory.node, name)
        })
    }

    /// Makes a symbolic link to `target`, which need not exist.
    ///
    /// # Errors
    /// As [`Volume::hard_link`].
    pub fn symlink(&self, target: &str, link: impl AsRef<Path>) -> Result<()> {
        self.in_directory(link.as_ref(), |system, directory, name| {
            let node = system.symlink(directory.node, name, target)?;
            system.forget(node, 1);
            Ok(())
        })
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the path is no symbolic link, and as [`Volume::metadata`].
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<String> {
        self.at(path.as_ref(), |system, held| system.read_link(held.node))
    }

    // Files

    /// Opens an existing file for reading, and for writing if the volume is open for writing.
    ///
    /// # Errors
    /// [`IsADirectory`](ErrorKind::IsADirectory), and as [`Volume::metadata`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        self.file(path, self.find(path)?)
    }

    /// Opens a file for reading and writing. It is made if it does not exist, and emptied if it does.
    ///
    /// # Errors
    /// As [`Volume::create_dir`], and [`IsADirectory`](ErrorKind::IsADirectory).
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        match self.create_new_file(path.as_ref()) {
            Err(error) if error.kind() == ErrorKind::Exists => {
                let file = self.open_file(path)?;
                file.set_len(0)?;
                Ok(file)
            }
            made => made,
        }
    }

    /// Makes a file and opens it for reading and writing.
    ///
    /// # Errors
    /// As [`Volume::create_dir`].
    pub fn create_new_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let node = self
            .in_directory(path, |system, directory, name| system.create(directory.node, name, Kind::File))?;
        Ok(File::new(&self.0, Held::new(self.system(), node), self.shown(path)))
    }

    fn file(&self, path: &Path, held: Held) -> Result<File> {
        match self.system().attributes(held.node).about(self.shown(path))?.kind {
            Kind::Directory => Err(Error::new(self.shown(path), platter_vfs::Error::IsADirectory)),
            _ => Ok(File::new(&self.0, held, self.shown(path))),
        }
    }

    /// Returns the whole content of a file. Memory is allocated as content is read, because the recorded size may be
    /// damaged.
    ///
    /// # Errors
    /// As [`Volume::open_file`] and [`File::read_at`].
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        const PIECE: usize = 1 << 20;
        let file = self.open_file(path)?;
        let mut content = Vec::new();
        loop {
            let at = content.len();
            content.resize(at + PIECE, 0);
            let got = file.read_at(at as u64, &mut content[at..])?;
            content.truncate(at + got);
            if got == 0 {
                return Ok(content);
            }
        }
    }

    /// Makes a file with this content; the content of an existing file is replaced.
    ///
    /// # Errors
    /// As [`Volume::create_file`] and [`File::write_at`].
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
        self.create_file(path)?.write_at(0, content)
    }

    /// Returns the extents of a file: where its content lies on the device, holes included.
    ///
    /// # Errors
    /// As [`Volume::metadata`].
    pub fn extents(&self, path: impl AsRef<Path>) -> Result<Vec<Extent>> {
        self.at(path.as_ref(), |system, held| system.extents(held.node))
    }

    // Copies

    /// Copies a file or directory of the host to a path on the volume, with everything that the volume can hold. Where the
    /// path is that of a directory, the copy is made in it under its own name. The copy is durable as other changes are.
    ///
    /// What could not be copied, and what the volume has no place for, is counted in the [`Outcome`] and told to the
    /// listener.
    ///
    /// # Errors
    /// That the source is not there, or no directory at the place of the copy.
    pub fn copy_in(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &copy::Options,
        listener: &dyn copy::CopyListener,
    ) -> Result<Outcome> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let origin = Origin::of_host(from)?;
        let is_directory =
            self.find(to).is_ok_and(|held| self.kind(&held).is_ok_and(|kind| kind == Kind::Directory));
        let (names, name) = match is_directory {
            true => (names(to.as_os_str().as_bytes()), copy::host_name(from)?),
            false => {
                let mut names = names(to.as_os_str().as_bytes());
                let name = names.pop().ok_or_else(|| self.nameless(to))?;
                (names, name)
            }
        };
        self.0.refuse_copies()?;
        let held = Held::find(self.system(), &names).about(self.shown(to))?;
        let target = Target::Volume(EntryPath { volume: String::new(), names }, held);
        Ok(copy::one(origin, &target, &name, options, listener))
    }

    /// Copies a file or directory of the volume to a path of the host, with everything that the host can hold. Where the
    /// path is that of a directory, the copy is made in it under its own name.
    ///
    /// What could not be copied, and what the host has no place for, is counted in the [`Outcome`] and told to the
    /// listener.
    ///
    /// # Errors
    /// As [`Volume::metadata`]; that the root directory has no name for its copy.
    pub fn copy_out(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &copy::Options,
        listener: &dyn copy::CopyListener,
    ) -> Result<Outcome> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let held = self.find(from)?;
        let names = names(from.as_os_str().as_bytes());
        let (directory, name) = match names.last().filter(|_| to.is_dir()) {
            Some(name) => (to, name.clone()),
            None if to.is_dir() => return Err(self.nameless(from)),
            None => {
                let above = to.parent().filter(|above| !above.as_os_str().is_empty());
                (above.unwrap_or(Path::new(".")), copy::host_name(to)?)
            }
        };
        let origin = Origin::Volume(EntryPath { volume: String::new(), names }, held);
        let target = Target::Host(directory.to_path_buf());
        Ok(copy::one(origin, &target, &name, options, listener))
    }

    fn kind(&self, held: &Held) -> platter_vfs::Result<Kind> {
        Ok(self.system().attributes(held.node)?.kind)
    }

    fn nameless(&self, path: &Path) -> Error {
        Error::refused(ErrorKind::InvalidArgument, self.shown(path), copy::NAMELESS)
    }

    // Streams and attributes

    /// Returns the names and sizes of a file's or directory's named streams.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported), and as [`Volume::metadata`].
    pub fn streams(&self, path: impl AsRef<Path>) -> Result<Vec<NodeStream>> {
        self.at(path.as_ref(), |system, held| system.streams().and_then(|part| part.list(held.node)))
    }

    /// Opens a named stream.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn open_stream(&self, path: impl AsRef<Path>, stream: &str) -> Result<File> {
        self.stream(path.as_ref(), stream, false)
    }

    /// Opens a named stream. It is made if it does not exist, and emptied if it does.
    ///
    /// # Errors
    /// As [`Volume::streams`] and [`Volume::create_dir`].
    pub fn create_stream(&self, path: impl AsRef<Path>, stream: &str) -> Result<File> {
        let file = self.stream(path.as_ref(), stream, true)?;
        file.set_len(0)?;
        Ok(file)
    }

    fn stream(&self, path: &Path, stream: &str, create: bool) -> Result<File> {
        let held = self.find(path)?;
        let about = format!("{}:{stream}", path.display());
        let node = self
            .system()
            .streams()
            .and_then(|part| part.open(held.node, &Name::from(stream), create))
            .about(&about)?;
        Ok(File::new(&self.0, Held::new(self.system(), node), about))
    }

    /// Removes a named stream.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn remove_stream(&self, path: impl AsRef<Path>, stream: &str) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.streams().and_then(|part| part.remove(held.node, &Name::from(stream)))
        })
    }

    /// Returns the names of the extended attributes of a file or directory.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn extended_attributes(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        self.at(path.as_ref(), |system, held| {
            system.extended_attributes().and_then(|part| part.list(held.node))
        })
    }

    /// Returns the value of an extended attribute.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn extended_attribute(&self, path: impl AsRef<Path>, name: &str) -> Result<Vec<u8>> {
        self.at(path.as_ref(), |system, held| {
            system.extended_attributes().and_then(|part| part.get(held.node, name))
        })
    }

    /// Sets (`Some`) or removes (`None`) an extended attribute.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn set_extended_attribute(
        &self,
        path: impl AsRef<Path>,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.extended_attributes().and_then(|part| part.set(held.node, name, value))
        })
    }

    /// Returns the tag and the data of a file's or directory's reparse point, if it has one.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn reparse_point(&self, path: impl AsRef<Path>) -> Result<Option<Reparse>> {
        self.at(path.as_ref(), |system, held| system.reparse_points().and_then(|part| part.get(held.node)))
    }

    /// Sets (`Some`) or removes (`None`) a file's or directory's reparse point.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn set_reparse_point(&self, path: impl AsRef<Path>, point: Option<&Reparse>) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.reparse_points().and_then(|part| part.set(held.node, point))
        })
    }

    /// Returns the self-relative Windows security descriptor of a file or directory.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn security_descriptor(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.at(path.as_ref(), |system, held| {
            system.security_descriptors().and_then(|part| part.get(held.node))
        })
    }

    /// Sets the security descriptor of a file or directory. It is stored, and not enforced.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn set_security_descriptor(&self, path: impl AsRef<Path>, descriptor: &[u8]) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.security_descriptors().and_then(|part| part.set(held.node, descriptor))
        })
    }

    /// Returns whether the data of a file has checksums; for a directory, whether new entries will have them.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn integrity(&self, path: impl AsRef<Path>) -> Result<Integrity> {
        self.at(path.as_ref(), |system, held| system.integrity().and_then(|part| part.get(held.node)))
    }

    /// Turns checksums of data on or off, also for a file that has data.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn set_integrity(&self, path: impl AsRef<Path>, integrity: Integrity) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.integrity().and_then(|part| part.set(held.node, integrity))
        })
    }

    /// Returns the names of a file's snapshots.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn snapshots(&self, path: impl AsRef<Path>) -> Result<Vec<Name>> {
        self.at(path.as_ref(), |system, held| system.snapshots().and_then(|part| part.list(held.node)))
    }

    /// Makes a snapshot of a file's present content under this name.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn create_snapshot(&self, path: impl AsRef<Path>, name: &str) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.snapshots().and_then(|part| part.create(held.node, &Name::from(name)))
        })
    }

    /// Removes a snapshot.
    ///
    /// # Errors
    /// As [`Volume::streams`].
    pub fn remove_snapshot(&self, path: impl AsRef<Path>, name: &str) -> Result<()> {
        self.at(path.as_ref(), |system, held| {
            system.snapshots().and_then(|part| part.remove(held.node, &Name::from(name)))
        })
    }

    // Durability

    /// Makes the volume durable: once this returns, all its present content survives a power cut.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync(&self) -> Result<()> {
        self.0.refuse_copies()?;
        self.system().sync_all().about(self.name())
    }

    /// Makes everything durable and marks the volume clean. Changes through other handles fail afterwards. Does
    /// nothing if the volume was opened for reading.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn close(self) -> Result<()> {
        if !self.0.writes {
            return Ok(());
        }
        self.0.refuse_copies()?;
        self.system().unmount().about(self.name())
    }
}
