//! Everything that can be read of a damaged engine: entries of all trees, page by page, without walking the trees.
//!
//! Called by `transaction`'s repair. Writes nothing. A leaf says to which tree it belongs, so a lost inner page costs nothing, and a
//! lost leaf only itself.

use std::collections::{HashMap, HashSet};

use platform::Disk;

use crate::TreeId;
use crate::checkpoint_mark::{CheckpointMark, MarkContents};
use crate::error::Result;
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, KIND_NODE, KIND_OVERFLOW, Node, PageBytes, Presence};
use crate::overflow::{OverflowReference, parse_page, value_checksum};
use crate::page_store::{PageAddress, PageId, SalvagedStore};
use crate::saved_changes;

/// An engine's directory opened for salvage.
pub struct Salvage {
    store: SalvagedStore,
    contents: Option<MarkContents>,
    dropped_trees: HashSet<TreeId>,
    addresses: HashMap<PageId, PageAddress>,
    /// To which tree a page belongs, as far as the pages above it say.
    owners: HashMap<PageId, TreeId>,
}

/// A page that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPage {
    /// The page.
    pub page: u64,
    /// The tree it belonged to, if that is known.
    pub tree: Option<TreeId>,
    /// What is wrong.
    pub reason: String,
}

impl Salvage {
    /// Opens what is there, and finds out which pages belong to which tree.
    ///
    /// # Errors
    /// When there is no page file.
    pub fn open(disk: &dyn Disk) -> Result<Salvage> {
        let mut store = SalvagedStore::open(disk)?;
        let contents = store.mark.as_deref().and_then(|mark| match MarkContents::decode(mark) {
            Ok(contents) => Some(contents),
            Err(error) => {
                store.problems.push(error.to_string());
                None
            }
        });
        let addresses = store.pages.iter().copied().collect();
        let dropped_trees = HashSet::new();
        let mut salvage = Salvage { store, contents, dropped_trees, addresses, owners: HashMap::new() };
        salvage.find_dropped_trees();
        salvage.find_owners();
        Ok(salvage)
    }

    fn find_dropped_trees(&mut self) {
        let Some(contents) = &self.contents else { return };
        self.dropped_trees.extend(&contents.leftovers.dropped_trees);
        let Some(head) = contents.saved_changes else { return };
        let (store, addresses) = (&self.store, &self.addresses);
        let mut read = |page: PageId, image: &mut PageImage| {
            let address = addresses.get(&page).copied().unwrap_or(PageAddress::NONE);
            store.read(page, address, &mut image[..])?;
            Ok(())
        };
        match saved_changes::dropped_trees(&mut read, head, addresses.len() as u64) {
            Ok(dropped) => self.dropped_trees.extend(dropped),
            Err(error) => self.store.problems.push(error.to_string()),
        }
    }

    fn find_owners(&mut self) {
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let mut owners = HashMap::new();
        for (page, address) in &self.store.pages {
            if self.store.read(*page, *address, &mut image[..]).is_err() {
                continue;
            }
            let node = Node(&*image);
            if node.kind() == KIND_OVERFLOW {
                owners.insert(*page, TreeId((&*image).u64_at(crate::node::field::TREE)));
                continue;
            }
            let tree = TreeId(node.tree());
            owners.insert(*page, tree);
            if node.kind() == KIND_NODE && !node.is_leaf() {
                owners.insert(node.rightmost(), tree);
                for position in 0..node.count() {
                    owners.entry(node.child(position)).or_insert(tree);
                }
            }
        }
        self.owners = owners;
    }

    /// From where the oplog goes on; `None` when no checkpoint could be read.
    pub fn mark(&self) -> Option<CheckpointMark> {
        self.contents.as_ref().map(|contents| contents.mark)
    }

    /// Trees that were dropped and whose pages are not freed yet.
    pub fn dropped_trees(&self) -> HashSet<TreeId> {
        self.dropped_trees.clone()
    }

    /// What could not be read beside pages.
    pub fn problems(&self) -> &[String] {
        &self.store.problems
    }

    /// Calls `visit` with every entry that is there for the newest snapshot of the trees that `wanted` accepts: tree, key and value.
    /// Where an entry is found twice, the newer one comes later. Returns the pages that could not be read.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn for_each_entry<E>(
        &self,
        wanted: impl Fn(TreeId) -> bool,
        mut visit: impl FnMut(TreeId, &[u8], &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<LostPage>, E> {
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let (mut lost, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for (page, address) in &self.store.pages {
            let owner = self.owners.get(page).copied();
            if owner.is_some_and(|tree| !wanted(tree)) {
                continue;
            }
            let epoch = match self.store.read(*page, *address, &mut image[..]) {
                Ok(epoch) => epoch,
                Err(error) => {
                    lost.push(LostPage { page: page.0, tree: owner, reason: error.to_string() });
                    continue;
                }
            };
            let node = Node(&*image);
            if node.kind() != KIND_NODE || !node.is_leaf() {
                continue;
            }
            let tree = TreeId(node.tree());
            for position in (0..node.count()).filter(|position| node.presence(*position) == Presence::Live) {
                node.copy_key(position, &mut key);
                if let Err(reason) = self.copy_value(&node, position, epoch, &mut value) {
                    lost.push(LostPage {
                        page: page.0,
                        tree: Some(tree),
                        reason: format!("the value of an entry: {reason}"),
                    });
                    continue;
                }
                visit(tree, &key, &value)?;
            }
        }
        Ok(lost)
    }

    /// Copies a value out of a leaf first written in `leaf_epoch`. The pages of a large one were all first written in one epoch, not
    /// after that of the leaf: a page that was given to another value since is found out by this.
    fn copy_value(
        &self,
        node: &Node<&PageImage>,
        position: usize,
        leaf_epoch: u64,
        value: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        value.clear();
        let (bytes, is_overflow) = node.value(position);
        if !is_overflow {
            value.extend_from_slice(bytes);
            return Ok(());
        }
        let reference = OverflowReference::decode(bytes).ok_or("a damaged reference")?;
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let mut next = Some(reference.head);
        let (mut value_epoch, mut checksum) = (None, 0);
        while let Some(page) = next {
            let address = self.addresses.get(&page).ok_or_else(|| format!("page {} is not there", page.0))?;
            let epoch = self.store.read(page, *address, &mut image[..]).map_err(|error| error.to_string())?;
            if epoch > leaf_epoch || *value_epoch.get_or_insert(epoch) != epoch {
                return Err(format!("page {} holds another value by now", page.0));
            }
            let (following, length) =
                parse_page(&image).ok_or_else(|| format!("page {} is no part of a value", page.0))?;
            value.extend_from_slice(image.get(HEADER_BYTES..HEADER_BYTES + length).unwrap_or_default());
            checksum = value_checksum(&image);
            if value.len() > reference.length as usize {
                break;
            }
            next = following;
        }
        if value.len() != reference.length as usize {
            return Err("its chain has another length".to_owned());
        }
        // Epochs after the last checkpoint begin again after a crash, so that pages of one epoch can be of two lives.
        if checksum != 0 && checksum != crc32c::crc32c(value) {
            return Err("its pages are parts of different values".to_owned());
        }
        Ok(())
    }
}
