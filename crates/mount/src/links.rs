//! Links of Windows that begin at a drive: junctions, and symbolic links with an absolute target.
//!
//! What such a link says, `C:\Users` or `\??\C:\Users`, is no path on Linux. With the option `windows_links` its target is
//! sought on the volume of the link, and where it is there, the link leads to it at the mount point.

use crate::served::Served;
use platter_vfs::reparse::{WindowsPath, windows_path};
use platter_vfs::{Cursor, Entry, Kind, Name, Node, upper_case};

/// Names that are listed at once, to find the one that a name in other case means.
const LISTED: usize = 256;

impl Served {
    /// Where a link leads on this machine, if it is one of Windows with an absolute target and that is on this volume;
    /// `None` for every other link, whose target is served as it is stored.
    pub(crate) fn target_inside(&self, node: Node) -> Option<Vec<u8>> {
        let links = self.options.windows_links.as_ref()?;
        let path = windows_path(&self.system.reparse_points().and_then(|part| part.get(node)).ok()??)?;
        let is_here = match (&path, links.drive) {
            (WindowsPath::Drive(drive, _), Some(own)) => drive.eq_ignore_ascii_case(&own),
            (WindowsPath::Drive(..) | WindowsPath::Root(_), _) => true,
            (WindowsPath::Volume(_), _) => false,
        };
        let names = match &path {
            WindowsPath::Drive(_, names) | WindowsPath::Root(names) => &names[..],
            WindowsPath::Volume(_) => &[],
        };
        match is_here.then(|| self.inside(names)).flatten() {
            Some(inside) => Some([links.at.as_slice(), &inside].concat()),
            None => {
                let place = match path {
                    WindowsPath::Drive(drive, _) => format!("drive {}:", drive.to_ascii_uppercase()),
                    WindowsPath::Volume(volume) => format!("volume {volume}"),
                    WindowsPath::Root(_) => "places that are not on the volume".into(),
                };
                self.tell_once(format!(
                    "links to {place} lead nowhere here, and are shown as they are stored"
                ));
                None
            }
        }
    }

    /// The path, from the volume's root on, of what these names lead to by the volume's own rule, as the mount has it.
    /// `None` if there is no such file. Behind a link, which leads on by itself, names are taken as they are.
    fn inside(&self, names: &[Name]) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        let mut at = Node::ROOT;
        let mut held = Vec::new();
        let mut rest = names.iter();
        let found = loop {
            let Some(name) = rest.next() else { break true };
            let Some((next, stored)) = self.named(at, name) else { break false };
            held.push(next);
            path.push(b'/');
            path.extend(stored.to_bytes().iter());
            match self.system.attributes(next).map(|attributes| attributes.kind) {
                Ok(Kind::SymbolicLink) => {
                    for name in rest.by_ref() {
                        path.push(b'/');
                        path.extend(name.to_bytes().iter());
                    }
                    break true;
                }
                Ok(_) => at = next,
                Err(_) => break false,
            }
        };
        held.into_iter().for_each(|node| self.system.forget(node, 1));
        found.then_some(path)
    }

    /// What a directory has under a name, and how it spells the name. Windows does not tell names apart by case: where there
    /// is no name in this spelling, another one of it is meant. The caller forgets the node.
    fn named(&self, directory: Node, name: &Name) -> Option<(Node, Name)> {
        if let Ok(node) = self.system.lookup_exact(directory, name) {
            return Some((node, name.clone()));
        }
        let folded = |name: &Name| name.units().iter().map(|unit| upper_case(*unit)).collect::<Vec<u16>>();
        let wanted = folded(name);
        let (mut entries, mut cursor) = (Vec::new(), Cursor::START);
        loop {
            entries.clear();
            // Of a directory that is damaged in part, what can be listed is.
            let _ = self.system.read_directory(directory, cursor, LISTED, &mut entries);
            let is_it = |entry: &&Entry| folded(&entry.name) == wanted;
            if let Some(found) = entries.iter().find(is_it) {
                let node = self.system.lookup_exact(directory, &found.name).ok()?;
                return Some((node, found.name.clone()));
            }
            cursor = entries.last()?.next;
        }
    }
}
