//! Looking at a database's pages without opening the engine: nothing is written.
//!
//! Called, through `commands`, by the subcommand `inspect`, on a stopped server's directory or a copy. It shows the last
//! published checkpoint; what the oplog holds beyond it is not in any page yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::Disk;

use crate::TreeId;
use crate::checkpoint_mark::{CheckpointMark, MarkContents};
use crate::error::{EngineError, Result};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, KIND_CHANGES, KIND_NODE, KIND_OVERFLOW, Node, PageBytes, Presence, field};
use crate::overflow::{LAST, LENGTH_AT, NEXT_AT, OverflowReference, PAYLOAD_BYTES};
use crate::page_store::{Inspection, PageAddress, PageId};

/// A database being looked at.
pub struct EngineInspection {
    store: Inspection,
}

/// What the pages of a tree come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Pages with entries.
    pub leaves: u64,
    /// Pages above them.
    pub inner: u64,
    /// Pages of large values.
    pub overflow: u64,
    /// Entries that are there.
    pub entries: u64,
    /// Entries that were deleted and are still kept.
    pub ghosts: u64,
    /// Bytes of the compressed pages on disk.
    pub disk_bytes: u64,
}

/// What all pages come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSums {
    /// By tree.
    pub trees: BTreeMap<TreeId, TreeSize>,
    /// Pages of changes that the checkpoint has saved beside the trees. Such changes are in none of the other figures.
    pub saved_change_pages: u64,
    /// Bytes of those pages, compressed, on disk.
    pub saved_change_bytes: u64,
}

/// A page taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDescription {
    /// The page.
    pub page: PageId,
    /// Where its image is.
    pub address: PageAddress,
    /// The tree it belongs to.
    pub tree: TreeId,
    /// What kind of page it is.
    pub content: PageContent,
}

/// What is in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// A page of a B-tree.
    Node {
        /// 0 for a leaf.
        level: u8,
        /// The least key that may be in it.
        lower_fence: Vec<u8>,
        /// The key that is the first beyond it; none in the last page of a level.
        upper_fence: Option<Vec<u8>>,
        /// What all its keys begin with.
        prefix: Vec<u8>,
        /// Bytes that are not used.
        free_bytes: usize,
        /// In order of their keys.
        entries: Vec<EntryDescription>,
        /// The child behind the last entry of an inner page.
        rightmost: Option<PageId>,
    },
    /// A part of a large value.
    Overflow {
        /// The next part, if there is one.
        next: Option<PageId>,
        /// The bytes.
        payload: Vec<u8>,
    },
    /// Changes of leaves that the checkpoint has saved beside them.
    SavedChanges {
        /// The next page of them, if there is one.
        next: Option<PageId>,
        /// Bytes of them in this page.
        bytes: usize,
    },
    /// A kind that this build does not know.
    Unknown(u8),
}

/// An entry of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDescription {
    /// The whole key.
    pub key: Vec<u8>,
    /// What it leads to.
    pub value: EntryValue,
    /// Whether it was deleted and is kept for older snapshots.
    pub is_ghost: bool,
    /// The commit since when it is so; 0 when that is settled.
    pub since: u64,
}

/// What an entry leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryValue {
    /// The value, in the page itself.
    Inline(Vec<u8>),
    /// A chain of overflow pages.
    Overflow {
        /// Length of the value.
        bytes: u32,
        /// The first page.
        head: PageId,
    },
    /// The child of an inner page with the keys below this one.
    Child(PageId),
}

impl EngineInspection {
    /// Looks at the database in `disk`.
    ///
    /// # Errors
    /// `Store` when there is none, or its files are damaged.
    pub fn open(disk: Arc<dyn Disk>) -> Result<EngineInspection> {
        Ok(EngineInspection { store: Inspection::open(disk)? })
    }

    /// The page store underneath: superblocks, page-table files, extents.
    pub fn store(&self) -> &Inspection {
        &self.store
    }

    /// What a checkpoint's mark says of the oplog.
    ///
    /// # Errors
    /// `Setup` when it is damaged.
    pub fn mark(bytes: &[u8]) -> Result<CheckpointMark> {
        Ok(MarkContents::decode(bytes)?.mark)
    }

    /// Takes a page apart.
    ///
    /// # Errors
    /// `Store` when the checkpoint has no such page or its block is damaged.
    pub fn page(&self, page: PageId) -> Result<PageDescription> {
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let address = self.store.read_page(page, &mut image[..])?;
        let image: &PageImage = &image;
        let tree = TreeId(image.u64_at(field::TREE));
        let content = match image[field::KIND] {
            KIND_NODE => describe_node(&Node(image)),
            KIND_OVERFLOW => {
                let length = (image.u32_at(LENGTH_AT) as usize).min(PAYLOAD_BYTES);
                let next = Some(image.u64_at(NEXT_AT)).filter(|next| *next != LAST).map(PageId);
                PageContent::Overflow { next, payload: image[HEADER_BYTES..HEADER_BYTES + length].to_vec() }
            }
            KIND_CHANGES => match crate::saved_changes::parse_page(image) {
                Some((next, payload)) => PageContent::SavedChanges { next, bytes: payload.len() },
                None => PageContent::Unknown(KIND_CHANGES),
            },
            kind => PageContent::Unknown(kind),
        };
        Ok(PageDescription { page, address, tree, content })
    }

    /// Reads every page, and sums up by tree.
    ///
    /// # Errors
    /// `Store` for the first page that cannot be read.
    pub fn page_sums(&self) -> Result<PageSums> {
        let mut sums = PageSums::default();
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        for (page, _) in self.store.pages() {
            let address = self.store.read_page(page, &mut image[..])?;
            let image: &PageImage = &image;
            if image[field::KIND] == KIND_CHANGES {
                sums.saved_change_pages += 1;
                sums.saved_change_bytes += address.length_bytes() as u64;
                continue;
            }
            let size = sums.trees.entry(TreeId(image.u64_at(field::TREE))).or_default();
            size.disk_bytes += address.length_bytes() as u64;
            let node = Node(image);
            match image[field::KIND] {
                KIND_NODE if node.is_leaf() => {
                    size.leaves += 1;
                    let ghosts = node.ghosts();
                    size.ghosts += ghosts as u64;
                    size.entries += (node.count() - ghosts) as u64;
                }
                KIND_NODE => size.inner += 1,
                _ => size.overflow += 1,
            }
        }
        Ok(sums)
    }

    /// The present entries of a tree in order: for trees that fit into memory, such as the catalog.
    ///
    /// # Errors
    /// `Store`, `Corrupt`.
    pub fn entries(&self, tree: TreeId) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        self.collect(PageId(tree.0), u8::MAX, &mut found)?;
        Ok(found)
    }

    fn collect(&self, page: PageId, level_max: u8, found: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let description = self.page(page)?;
        let corrupt = |reason: &str| EngineError::Corrupt { tree: description.tree.0, page, reason: reason.to_owned() };
        let PageContent::Node { level, entries, rightmost, .. } = &description.content else {
            return Err(corrupt("it is not a page of a tree"));
        };
        // Levels fall on the way down, so that damaged pages cannot make a circle.
        if *level > level_max {
            return Err(corrupt("it is not below its parent"));
        }
        for entry in entries.iter().filter(|entry| !entry.is_ghost) {
            match &entry.value {
                EntryValue::Child(child) => self.collect(*child, level.saturating_sub(1), found)?,
                EntryValue::Inline(value) => found.push((entry.key.clone(), value.clone())),
                EntryValue::Overflow { bytes, head } => found.push((entry.key.clone(), self.value(*head, *bytes)?)),
            }
        }
        rightmost.map_or(Ok(()), |child| self.collect(child, level.saturating_sub(1), found))
    }

    /// Reads a large value.
    ///
    /// # Errors
    /// `Store`, `Corrupt`.
    pub fn value(&self, head: PageId, bytes: u32) -> Result<Vec<u8>> {
        let (mut value, mut next) = (Vec::new(), Some(head));
        while let Some(page) = next {
            let description = self.page(page)?;
            match description.content {
                PageContent::Overflow { next: following, payload } if value.len() < bytes as usize => {
                    value.extend_from_slice(&payload);
                    next = following;
                }
                _ => {
                    let reason = "it does not go on the large value that leads to it".to_owned();
                    return Err(EngineError::Corrupt { tree: description.tree.0, page, reason });
                }
            }
        }
        Ok(value)
    }
}

fn describe_node(node: &Node<&PageImage>) -> PageContent {
    let is_leaf = node.is_leaf();
    let describe = |position: usize| {
        let (bytes, is_overflow) = node.value(position);
        let value = match (is_leaf, is_overflow.then(|| OverflowReference::decode(bytes)).flatten()) {
            (false, _) => EntryValue::Child(node.child(position)),
            (true, Some(reference)) => EntryValue::Overflow { bytes: reference.length, head: reference.head },
            (true, None) => EntryValue::Inline(bytes.to_vec()),
        };
        EntryDescription {
            key: [node.prefix(), node.suffix(position)].concat(),
            value,
            is_ghost: node.presence(position) == Presence::Ghost,
            since: node.version(position).since(),
        }
    };
    PageContent::Node {
        level: node.level(),
        lower_fence: node.lower_fence().to_vec(),
        upper_fence: node.upper_fence().map(<[u8]>::to_vec),
        prefix: node.prefix().to_vec(),
        free_bytes: node.total_free(),
        entries: (0..node.count()).map(describe).collect(),
        rightmost: (!is_leaf).then(|| node.rightmost()),
    }
}
