//! Security descriptors: read, changed, and chosen for a new node.

use super::NtfsVolume;
use super::attributes::{standard, whole_value};
use crate::core::{Core, DETACHED};
use crate::file::Attr;
use crate::format::security;
use crate::layout::{FileTime, Kind as Type, StandardExtended, StandardInformation};
use platter_vfs::security::is_descriptor;
use platter_vfs::{Error, Node, Result};

impl NtfsVolume {
    pub(super) fn descriptor_of(&self, node: Node) -> Result<Vec<u8>> {
        let mut core = self.core();
        let (_, file) = self.owner_of(&mut core, node.0)?;
        if let Some(attr) = file.find(Type::SECURITY_DESCRIPTOR, &[]) {
            return whole_value(&core, attr, 1 << 17);
        }
        match standard(&file)?.extended.map_or(0, |extended| extended.security) {
            0 => Err(Error::NotFound),
            id => core.security_descriptor(id),
        }
    }

    pub(super) fn change_descriptor(&self, node: Node, descriptor: &[u8]) -> Result<()> {
        if !is_descriptor(descriptor) {
            return Err(Error::InvalidArgument(
                "a security descriptor is self-relative, and its parts are whole",
            ));
        }
        let mut core = self.change()?;
        let number = core.nodes.get(node.0)?.file;
        self.absorb_written(&mut core, number)?;
        let (owner, file) = self.owner_of(&mut core, node.0)?;
        let now = FileTime(self.now());
        core.transact(|core| {
            let mut file = file;
            let id = core.provide_security(descriptor)?;
            let mut standard = standard(&file)?;
            let extended = standard.extended.unwrap_or_default();
            standard.extended = Some(StandardExtended { security: id, ..extended });
            standard.changed = now;
            core.remove_value(&mut file, Type::SECURITY_DESCRIPTOR, number < DETACHED);
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
            core.store(file)
        })?;
        self.touch(owner);
        Ok(())
    }

    /// The security identifier for a new node in a directory: if the directory has the default for directories, the
    /// default for the node's kind; else the directory's own.
    pub(super) fn security_for(
        &self,
        core: &mut Core,
        above: &StandardInformation,
        is_directory: bool,
    ) -> Result<u32> {
        let inherited = above.extended.map_or(0, |extended| extended.security);
        let id = if is_directory { security::DIRECTORY } else { security::FILE };
        if inherited == security::DIRECTORY && core.has_descriptor(id) {
            return Ok(id);
        }
        match inherited {
            0 => core.provide_security(&crate::secure::open_to_all()),
            _ => Ok(inherited),
        }
    }
}
