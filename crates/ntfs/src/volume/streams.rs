//! Attributes, named streams, extended attributes and security descriptors of files.

use super::*;
use crate::file::Body;
use crate::layout::{ExtendedAttribute, StandardExtended};
use crate::space::Held;
use platter_vfs::security::is_descriptor;

impl NtfsVolume {
    /// The node of the file that a node belongs to (another one for a named stream), and that file, which has the times
    /// and flags.
    fn owner_of(&self, core: &mut Core, node: u64) -> Result<(u64, File)> {
        let entity = core.nodes.get(node)?;
        let owner = entity.part.as_ref().map_or(node, |(owner, _)| *owner);
        let number = entity.file;
        Ok((owner, (*core.file(number)?).clone()))
    }

    /// Changes a node's flags and times.
    pub(super) fn change_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        // Earlier writes are recorded first, so that their times do not overwrite those that are set now.
        let parts = core.nodes.get(node.0)?.parts.clone();
        let (owner, _) = self.owner_of(&mut core, node.0)?;
        for part in parts.into_iter().chain([owner, node.0]) {
            self.absorb_node(&mut core, part)?;
        }
        let (_, mut file) = self.owner_of(&mut core, node.0)?;
        let mut standard = standard(&file)?;
        if let Some(flags) = change.flags {
            standard.flags = standard.flags & !DosFlags::SETTABLE.0 | flags.0 & DosFlags::SETTABLE.0;
        }
        for (place, time) in [
            (&mut standard.created, change.created),
            (&mut standard.modified, change.modified),
            (&mut standard.accessed, change.accessed),
        ] {
            *place = time.map_or(*place, timestamp_to_file_time);
        }
        let is_change = change.flags.is_some()
            || change.created.is_some()
            || change.modified.is_some()
            || change.accessed.is_some();
        if is_change {
            standard.changed = now;
            let is_read_only = standard.flags & file_flags::READ_ONLY != 0;
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
            core.transact(|core| core.store(file))?;
            let entity = core.nodes.get(owner)?;
            for node in entity.parts.iter().copied().chain([owner]) {
                if let Some(stream) = core.nodes.get(node).ok().and_then(|entity| entity.stream.as_ref()) {
                    stream.read_only.store(is_read_only, Ordering::SeqCst);
                }
            }
            self.touch(owner);
        }
        self.attributes_of(&mut core, node.0)
    }

    /// Records the time when a node's content was last read.
    pub(super) fn keep_access(&self, node: Node, at: Timestamp) -> Result<()> {
        let mut core = self.change()?;
        let (owner, mut file) = self.owner_of(&mut core, node.0)?;
        let mut standard = standard(&file)?;
        standard.accessed = timestamp_to_file_time(at);
        file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        core.transact(|core| core.store(file))?;
        self.touch(owner);
        Ok(())
    }

    // Named streams

    pub(super) fn streams_of(&self, node: Node) -> Result<Vec<NodeStream>> {
        let mut core = self.core();
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Ok(Vec::new());
        }
        let (number, parts) = (entity.file, entity.parts.clone());
        let file = core.file(number)?;
        let named = file.attributes.iter().filter(|attr| attr.kind == Type::DATA && !attr.name.is_empty());
        Ok(named
            .map(|attr| {
                let open = parts
                    .iter()
                    .filter_map(|part| core.nodes.get(*part).ok())
                    .find(|part| part.part.as_ref().is_some_and(|(_, name)| *name == attr.name));
                let size = match open.and_then(|part| part.stream.as_ref()) {
                    Some(stream) => stream.read().size,
                    None => attr.size(),
                };
                NodeStream { name: Name::from_units(&attr.name), size }
            })
            .collect())
    }

    fn stream_name(&self, core: &Core, file: &File, name: &Name) -> Option<Box<[u16]>> {
        let fold = |unit: &u16| core.upcase.get(usize::from(*unit)).copied().unwrap_or(*unit);
        let named = file.attributes.iter().filter(|attr| attr.kind == Type::DATA && !attr.name.is_empty());
        named
            .map(|attr| attr.name.clone())
            .find(|known| known.iter().map(fold).eq(name.units().iter().map(fold)))
    }

    pub(super) fn open_stream(&self, node: Node, name: &Name, create: bool) -> Result<Node> {
        let mut core = if create { self.change_or_read()? } else { self.core() };
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Err(Error::InvalidArgument("a named stream has no streams of its own"));
        }
        let number = entity.file;
        let file = core.file(number)?;
        let units = match self.stream_name(&core, &file, name) {
            Some(units) => units,
            None if !create => return Err(Error::NotFound),
            None => {
                NameRules::STREAM.check(name)?;
                core.writable()?;
                let mut file = (*file).clone();
                file.add(Attr::resident(Type::DATA, Vec::new()).named(name.units()));
                core.transact(|core| core.store(file))?;
                name.units().into()
            }
        };
        let part = core.nodes.enter_part(node.0, &units)?;
        core.nodes.get_mut(part)?.handed_out += 1;
        Ok(Node(part))
    }

    /// The core, locked for an operation that may turn out to change nothing, and so is allowed on a read-only volume.
    fn change_or_read(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.relieve()?;
        Ok(self.core())
    }

    pub(super) fn delete_stream(&self, node: Node, name: &Name) -> Result<()> {
        let mut core = self.change()?;
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Err(Error::NotFound);
        }
        let (number, parts) = (entity.file, entity.parts.clone());
        let file = core.file(number)?;
        let units = self.stream_name(&core, &file, name).ok_or(Error::NotFound)?;
        let part = parts.into_iter().find(|part| {
            core.nodes.get(*part).is_ok_and(|part| part.part.as_ref().is_some_and(|(_, name)| *name == units))
        });
        if let Some(part) = part {
            self.absorb_node(&mut core, part)?;
        }
        self.absorb_node(&mut core, node.0)?;
        let mut file = (*core.file(number)?).clone();
        let is_held = part.is_some_and(|part| {
            core.nodes.get(part).is_ok_and(|part| {
                part.handed_out > 0 || part.stream.as_ref().is_some_and(|stream| !stream.is_quiet())
            })
        });
        let on_disk = number < DETACHED;
        let kept = core.transact(|core| {
            let attr = file.take(Type::DATA, &units).ok_or(Error::NotFound)?;
            let mut kept = None;
            if let Body::Outside(outside) = &attr.body {
                match (is_held, on_disk) {
                    (true, true) => core.hide_runs(&outside.runs.to_vec()),
                    (true, false) => {}
                    (false, on_disk) => core.give_runs(&outside.runs.to_vec(), Held::Data, on_disk),
                }
            }
            if is_held {
                // Programs that hold the removed stream go on with it: as a file without a name that has the times and
                // flags of the file that the stream was part of.
                let mut alone = File::new(file.reference, record_flags::IN_USE);
                alone.attributes.extend(file.find(Type::STANDARD_INFORMATION, &[]).cloned());
                alone.add(Attr { name: Box::default(), ..attr });
                kept = Some(core.detach(alone));
            }
            core.store(file)?;
            Ok(kept)
        })?;
        match (part, kept) {
            (Some(part), Some(kept)) => core.nodes.part_ways(part, kept),
            (Some(part), None) => {
                self.unlist([part]);
                core.nodes.remove(part);
            }
            _ => {}
        }
        Ok(())
    }

    // Extended attributes

    pub(super) fn extended_of(&self, core: &mut Core, node: Node) -> Result<Vec<ExtendedAttribute>> {
        let (all, fault) = self.readable_extended_of(core, node)?;
        fault.map(|()| all)
    }

    /// The extended attributes of a file that can be read, and the fault that the others have.
    pub(super) fn readable_extended_of(
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

    // Security descriptors

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
