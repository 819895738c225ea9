//! Named streams: listed, opened and removed.

use super::NtfsVolume;
use crate::core::{Core, DETACHED};
use crate::file::{Attr, Body, File};
use crate::layout::{Kind as Type, record_flags};
use crate::space::Held;
use platter_vfs::{Error, Name, NameRules, Node, NodeStream, Result};

impl NtfsVolume {
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
}
