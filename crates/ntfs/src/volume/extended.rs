//! Extended attributes.

use super::attributes::{stamp_change, whole_value};
use super::{NTFS, NtfsVolume};
use crate::core::{Core, DETACHED};
use crate::file::{Attr, File};
use crate::layout::{ExtendedAttribute, FileTime, Kind as Type};
use platter_vfs::{Error, Node, Result};

impl NtfsVolume {
    /// The names of the extended attributes.
    pub(super) fn extended_names(&self, node: Node) -> Result<Vec<String>> {
        let names = self.extended_of(&mut self.core(), node)?;
        Ok(names.iter().map(|one| one.shown_name().into_owned()).collect())
    }

    /// The value of an extended attribute.
    pub(super) fn extended_value(&self, node: Node, name: &str) -> Result<Vec<u8>> {
        let (mut all, fault) = self.readable_extended_of(&mut self.core(), node)?;
        let missing = || fault.err().unwrap_or(Error::NotFound);
        let known = ExtendedAttribute::find(&all, name).ok_or_else(missing)?;
        Ok(all.swap_remove(known).value)
    }

    fn extended_of(&self, core: &mut Core, node: Node) -> Result<Vec<ExtendedAttribute>> {
        let (all, fault) = self.readable_extended_of(core, node)?;
        fault.map(|()| all)
    }

    /// The extended attributes of a file that can be read, and the fault that the others have.
    fn readable_extended_of(
        &self,
        core: &mut Core,
        node: Node,
    ) -> Result<(Vec<ExtendedAttribute>, Result<()>)> {
        let mut all = Vec::new();
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Ok((all, Ok(())));
        }
        let number = entity.file;
        let file = core.file(number)?;
        let Some(attr) = file.find(Type::EA, &[]) else { return Ok((all, Ok(()))) };
        let bytes = whole_value(core, attr, ExtendedAttribute::LONGEST)?;
        let fault = ExtendedAttribute::read_into(&mut all, &bytes, 0);
        Ok((all, fault))
    }

    pub(super) fn change_extended(&self, node: Node, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        let mut core = self.change()?;
        if core.nodes.get(node.0)?.part.is_some() {
            return Err(Error::InvalidArgument("a named stream has no extended attributes"));
        }
        let mut all = self.extended_of(&mut core, node)?;
        for &(name, value) in changes {
            set_extended(&mut all, name, value)?;
        }
        let number = core.nodes.get(node.0)?.file;
        self.absorb_written(&mut core, number)?;
        let mut file = (*core.file(number)?).clone();
        let now = FileTime(self.now());
        core.transact(|core| {
            put_extended(core, &mut file, &all, number < DETACHED)?;
            stamp_change(&mut file, now)?;
            core.store(file)
        })?;
        self.touch(node.0);
        Ok(())
    }
}

/// Sets (`Some`) or removes (`None`) one of the extended attributes of a file.
pub(super) fn set_extended(all: &mut Vec<ExtendedAttribute>, name: &str, value: Option<&[u8]>) -> Result<()> {
    if name.is_empty() || name.len() > 255 || name.contains('\0') {
        return Err(Error::InvalidArgument(
            "the name of an extended attribute has 1 to 255 bytes without NUL",
        ));
    }
    match (value, ExtendedAttribute::find(all, name)) {
        (Some(value), _) if value.len() as u64 > ExtendedAttribute::LONGEST => return Err(too_many()),
        (Some(value), Some(known)) => all[known].value = value.into(),
        (Some(value), None) => {
            all.push(ExtendedAttribute { flags: 0, name: name.into(), value: value.into() });
        }
        (None, Some(known)) => drop(all.remove(known)),
        (None, None) => return Err(Error::NotFound),
    }
    Ok(())
}

/// Gives a file these extended attributes and no others. The caller stores the file. `on_disk` says whether the file
/// has a record.
pub(super) fn put_extended(
    core: &mut Core,
    file: &mut File,
    all: &[ExtendedAttribute],
    on_disk: bool,
) -> Result<()> {
    if all.is_empty() {
        core.remove_value(file, Type::EA, on_disk);
        file.take(Type::EA_INFORMATION, &[]);
        return Ok(());
    }
    let bytes = ExtendedAttribute::write_all(all);
    if bytes.len() as u64 > ExtendedAttribute::LONGEST {
        return Err(too_many());
    }
    file.put(Attr::resident(Type::EA_INFORMATION, ExtendedAttribute::information(all)));
    core.place_value(file, Type::EA, bytes, on_disk)
}

fn too_many() -> Error {
    Error::RecordFull { format: NTFS, what: "extended attributes together have at most 65,535 bytes" }
}
