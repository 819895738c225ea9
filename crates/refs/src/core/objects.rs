//! Objects: the trees that have a row in the object table.

use super::{Core, FIRST_OBJECT, Object, ROOT_DIRECTORY};
use crate::container::Tier;
use crate::layout::record::key;
use crate::layout::{ObjectRow, PageReference, Record, Root, header};
use crate::pages::Pages;
use crate::tree::{Order, Tree};
use platter_vfs::{Error, Result};

impl Core {
    /// The security descriptor with this identifier.
    pub(crate) fn security_descriptor(&mut self, id: u64) -> Result<Option<Vec<u8>>> {
        let from = crate::layout::system::security_key_from(id);
        let mut found = None;
        let (tree, pages) = self.tree(0x530)?;
        tree.scan(pages, &from, |row| {
            let known = crate::layout::system::read_security_row(row.key, row.value);
            found = known.filter(|(other, _)| *other == id).map(|(_, descriptor)| descriptor.to_vec());
            Ok(false)
        })?;
        Ok(found)
    }

    /// Adds a security descriptor to the volume unless it is there, and returns its identifier. Descriptors with the
    /// same hash are told apart by a number in the identifier.
    pub(crate) fn provide_security(&mut self, descriptor: &[u8]) -> Result<u64> {
        /// The most descriptors with the same hash.
        const MOST: u64 = 1 << 16;
        let first = crate::layout::system::security_id(descriptor);
        for number in 0..MOST {
            let id = first + (number << 32);
            match self.security_descriptor(id)? {
                Some(known) if known == descriptor => return Ok(id),
                Some(_) => {}
                None => {
                    let (row_key, value) = crate::layout::system::security_row_with(id, descriptor);
                    let (tree, pages) = self.tree_mut(0x530)?;
                    tree.put(pages, &row_key, 0, &value)?;
                    return Ok(id);
                }
            }
        }
        Err(Error::NoSpace)
    }
}

impl Core {
    /// Finds out the highest object number in use.
    pub(crate) fn find_last_object(&mut self) -> Result<()> {
        let mut last = FIRST_OBJECT - 1;
        let (tree, pages) = self.root(Root::Objects);
        let from = ObjectRow::key(FIRST_OBJECT);
        tree.scan(pages, &from, |row| {
            last = last.max(ObjectRow::number_of(row.key));
            Ok(true)
        })?;
        // A number is never given out twice, so those of removed objects count too.
        let (tree, pages) = self.root(Root::Objects);
        let given = header::last_object(&tree.extra(pages)?).unwrap_or(0);
        self.next_object = last.max(given.min(1 << 62)) + 1;
        Ok(())
    }

    /// The object of this number, which is opened if it is not open yet.
    pub(crate) fn object(&mut self, number: u64) -> Result<&mut Object> {
        if !self.objects.contains_key(&number) {
            let (tree, pages) = self.root(Root::Objects);
            let row = tree
                .get(pages, &ObjectRow::key(number), |row| ObjectRow::from_bytes(row.value, 0))?
                .transpose()?;
            let row = row.ok_or(Error::NotFound)?;
            let (size, room) =
                (PageReference::compact(row.root.checksum.algorithm), self.geometry().reference);
            if size > room {
                let expected = format!("a reference of {room} bytes");
                return Err(Error::damaged("object row", 0, expected, format!("one of {size}")));
            }
            let order = match number {
                ROOT_DIRECTORY | FIRST_OBJECT.. | 0x520 => self.order(),
                0x530 => Order::SecondWord,
                _ => Order::Words,
            };
            let mut tree = Tree::open(number, order, Tier::Medium, row.root);
            if self.geometry().version.keeps_homes() && is_directory(number) {
                // The own record is the first row in either order.
                let own = tree.get(&mut self.pages, &key::OWN, |row| Record::tells_case(row.value));
                if own.is_ok_and(|own| own == Some(true)) {
                    tree = Tree::open(number, Order::Cased, Tier::Medium, row.root);
                }
            }
            self.objects.insert(number, Object { tree, last_child: row.last_child });
        }
        Ok(self.objects.get_mut(&number).expect("there now"))
    }

    /// Whether a directory tells names apart by case. Platter only reads such a directory.
    pub(crate) fn tells_case(&mut self, directory: u64) -> bool {
        is_directory(directory)
            && self.object(directory).is_ok_and(|object| matches!(object.tree.order(), Order::Cased))
    }

    /// The tree of an object, to be read, and the pages.
    pub(crate) fn tree(&mut self, number: u64) -> Result<(&Tree, &mut Pages)> {
        self.object(number)?;
        Ok((&self.objects[&number].tree, &mut self.pages))
    }

    /// The tree of an object, to be changed, and the pages.
    pub(crate) fn tree_mut(&mut self, number: u64) -> Result<(&mut Tree, &mut Pages)> {
        self.object(number)?;
        self.changed.object(number);
        self.pages.space.owe_rows(self.changed.pages());
        self.news = true;
        let object = self.objects.get_mut(&number).expect("opened");
        Ok((&mut object.tree, &mut self.pages))
    }

    /// Makes an object with an empty tree.
    pub(crate) fn add_object(
        &mut self,
        number: u64,
        schema: u32,
        order: Order,
        extra: usize,
        kind: u16,
        last_child: Option<u64>,
    ) -> Result<()> {
        let tree = Tree::create(&mut self.pages, number, schema, order, Tier::Medium, &vec![0; extra], kind)?;
        self.objects.insert(number, Object { tree, last_child });
        self.pages.edits += 1;
        self.changed.object(number);
        self.pages.space.owe_rows(self.changed.pages());
        self.news = true;
        Ok(())
    }

    /// Returns the number for a new object.
    pub(crate) fn new_object_number(&mut self) -> u64 {
        self.next_object += 1;
        self.next_object - 1
    }

    /// Removes an object and its tree.
    pub(crate) fn remove_object(&mut self, number: u64) -> Result<()> {
        self.object(number)?;
        let object = self.objects.remove(&number).expect("opened");
        self.changed.forget_object(number);
        self.pages.space.owe_rows(self.changed.pages());
        object.tree.destroy(&mut self.pages)?;
        for root in [Root::Objects, Root::ObjectsCopy] {
            let (tree, pages) = self.root(root);
            tree.remove(pages, &ObjectRow::key(number))?;
        }
        self.news = true;
        Ok(())
    }

    /// Returns the number for a new child of a directory.
    pub(crate) fn new_ordinal(&mut self, directory: u64) -> Result<u64> {
        self.tree_mut(directory)?;
        let object = self.objects.get_mut(&directory).expect("opened");
        let last = object.last_child.get_or_insert(1);
        *last += 1;
        Ok(*last)
    }
}

/// Whether an object of this number holds names.
fn is_directory(number: u64) -> bool {
    matches!(number, ROOT_DIRECTORY | FIRST_OBJECT..)
}
