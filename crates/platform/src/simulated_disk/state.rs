//! The state of the simulated disk: names and contents, each as they are seen now and as they would survive.
//!
//! Called by `SimulatedDisk` and its files under one lock. A change is applied to what is seen at once and kept in a list
//! until it is synced; a power loss applies a random part of the lists to the durable side and forgets the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::faults::Faults;
use crate::file_image::{BLOCK_BYTES, Image};
use crate::{Random, SeededRandom};

/// What a device writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

pub(super) type InodeId = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Directory,
    File(InodeId),
}

/// A change of a directory that is not durable yet.
enum NameChange {
    Link { path: PathBuf, node: Node },
    Unlink { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, node: Node },
}

/// A change of a file that is not durable yet.
pub(super) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLength(u64),
    PunchHole { offset: u64, length: u64 },
    Allocate { offset: u64, length: u64 },
}

#[derive(Default)]
pub(super) struct Inode {
    durable: Image,
    pub(super) seen: Image,
    unsynced: Vec<Change>,
    open_files: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) faults: Faults,
    /// Grows when the machine or the process goes down; files opened before are dead.
    pub(super) generation: u64,
    pub(super) capacity_bytes: Option<u64>,
    /// Operations until the power fails.
    pub(super) power_fails_after: Option<u64>,
    /// The power failed at an operation, and the disk waits for it to be switched on.
    pub(super) is_down: bool,
    /// The names of the files that are open lead nowhere.
    pub(super) is_taken_away: bool,
    /// Whether a write that fails has written whole sectors, as a file system's blocks are.
    pub(super) fails_between_sectors: bool,
    entries: BTreeMap<PathBuf, Node>,
    durable_entries: BTreeMap<PathBuf, Node>,
    unsynced_names: Vec<NameChange>,
    inodes: BTreeMap<InodeId, Inode>,
    next_inode: InodeId,
}

/// How much of a list of unsynced changes a power loss keeps.
enum Survival {
    Nothing,
    Everything,
    Prefix(usize),
    Subset,
}

impl Survival {
    fn draw(random: &SeededRandom, changes: usize) -> Survival {
        match random.below(4) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::Prefix(random.below(changes as u64 + 1) as usize),
            _ => Survival::Subset,
        }
    }

    fn keeps(&self, position: usize, random: &SeededRandom) -> bool {
        match self {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Prefix(count) => position < *count,
            Survival::Subset => random.chance(0.5),
        }
    }
}

impl Change {
    fn apply(&self, image: &mut Image) {
        match self {
            Change::Write { offset, bytes } => image.write(bytes, *offset),
            Change::SetLength(length) => image.set_length(*length),
            Change::PunchHole { offset, length } => image.punch_hole(*offset, *length),
            Change::Allocate { offset, length } => image.allocate(*offset, *length),
        }
    }

    /// Applies some of the sectors of a write; other changes are small metadata and never torn.
    fn apply_torn(&self, image: &mut Image, random: &SeededRandom) {
        let Change::Write { offset, bytes } = self else {
            return self.apply(image);
        };
        let end = offset + bytes.len() as u64;
        let cut = random.chance(0.5).then(|| offset + random.below(bytes.len() as u64 + 1));
        let mut at = *offset;
        while at < end {
            let sector_end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
            let kept = match cut {
                Some(cut) => sector_end <= cut,
                None => random.chance(0.5),
            };
            if kept {
                image.write(&bytes[(at - offset) as usize..(sector_end - offset) as usize], at);
            }
            at = sector_end;
        }
    }
}

impl Inode {
    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// As on Linux: the kernel tried each page once and now calls all of them clean; those that failed stay visible to
    /// reads and are never written again.
    pub(super) fn sync_failing(&mut self, random: &SeededRandom) {
        for change in self.unsynced.drain(..) {
            if random.chance(0.5) {
                change.apply_torn(&mut self.durable, random);
            }
        }
    }

    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) {
        self.seen.flip_bit(offset, bit);
        self.durable.flip_bit(offset, bit);
    }

    fn lose_power(&mut self, random: &SeededRandom) {
        let survival = Survival::draw(random, self.unsynced.len());
        for (position, change) in self.unsynced.drain(..).enumerate() {
            if survival.keeps(position, random) {
                match matches!(survival, Survival::Subset) && random.chance(0.3) {
                    true => change.apply_torn(&mut self.durable, random),
                    false => change.apply(&mut self.durable),
                }
            } else if matches!(survival, Survival::Prefix(count) if count == position) {
                change.apply_torn(&mut self.durable, random);
            }
        }
        self.seen = self.durable.clone();
        self.open_files = 0;
    }
}

impl NameChange {
    fn apply(&self, entries: &mut BTreeMap<PathBuf, Node>) {
        match self {
            NameChange::Link { path, node } => {
                entries.insert(path.clone(), *node);
            }
            NameChange::Unlink { path } => {
                entries.remove(path);
            }
            NameChange::Rename { from, to, node } => {
                entries.remove(from);
                entries.insert(to.clone(), *node);
            }
        }
    }

    fn is_in(&self, directory: &Path) -> bool {
        let within = |path: &PathBuf| path.parent() == Some(directory);
        match self {
            NameChange::Link { path, .. } | NameChange::Unlink { path } => within(path),
            NameChange::Rename { from, to, .. } => within(from) || within(to),
        }
    }

    fn node(&self) -> Option<Node> {
        match self {
            NameChange::Link { node, .. } | NameChange::Rename { node, .. } => Some(*node),
            NameChange::Unlink { .. } => None,
        }
    }
}

impl State {
    pub(super) fn node(&self, path: &Path) -> Option<Node> {
        match path.as_os_str().is_empty() {
            true => Some(Node::Directory),
            false => self.entries.get(path).copied(),
        }
    }

    pub(super) fn inode(&mut self, id: InodeId) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<InodeId> {
        self.check_parent(path)?;
        let id = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(id, Inode::default());
        self.change_names(NameChange::Link { path: path.to_owned(), node: Node::File(id) });
        Ok(id)
    }

    pub(super) fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        match self.node(path) {
            Some(Node::Directory) => return Ok(()),
            Some(Node::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            None => {}
        }
        if let Some(parent) = path.parent() {
            self.create_directory(parent)?;
        }
        self.change_names(NameChange::Link { path: path.to_owned(), node: Node::Directory });
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        match self.entries.get(path) {
            None => return Err(io::ErrorKind::NotFound.into()),
            Some(Node::Directory) if !self.list(path)?.is_empty() => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            Some(_) => {}
        }
        self.change_names(NameChange::Unlink { path: path.to_owned() });
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = match self.entries.get(from) {
            None => return Err(io::ErrorKind::NotFound.into()),
            Some(Node::Directory) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "the simulated disk renames only files"));
            }
            Some(node) => *node,
        };
        if self.node(to) == Some(Node::Directory) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.check_parent(to)?;
        self.change_names(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), node });
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.check_directory(directory)?;
        let inside = self.entries.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned()).collect())
    }

    pub(super) fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.check_directory(directory)?;
        let changes = std::mem::take(&mut self.unsynced_names);
        for change in changes {
            match change.is_in(directory) {
                true => change.apply(&mut self.durable_entries),
                false => self.unsynced_names.push(change),
            }
        }
        self.forget_unreachable();
        Ok(())
    }

    /// Some of the changes reach the disk, the others stay to be synced again: names are journaled, and a file system whose
    /// journal fails stops altogether rather than forget a change.
    pub(super) fn sync_directory_failing(&mut self, directory: &Path, random: &SeededRandom) {
        let changes = std::mem::take(&mut self.unsynced_names);
        for change in changes {
            match change.is_in(directory) && random.chance(0.5) {
                true => change.apply(&mut self.durable_entries),
                false => self.unsynced_names.push(change),
            }
        }
    }

    pub(super) fn opened(&mut self, id: InodeId) -> io::Result<()> {
        self.inode(id)?.open_files += 1;
        Ok(())
    }

    pub(super) fn closed(&mut self, id: InodeId) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.open_files = inode.open_files.saturating_sub(1);
        }
        self.forget_unreachable();
    }

    /// Bytes taken by files that have a name or are open.
    pub(super) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<InodeId> = file_ids(self.entries.values()).collect();
        let taken = self.inodes.iter().filter(|(id, inode)| inode.open_files > 0 || named.contains(id));
        taken.map(|(_, inode)| inode.seen.allocated_bytes()).sum()
    }

    /// Blocks that can still be taken; `None` when the disk has no limit.
    pub(super) fn free_blocks(&self) -> Option<u64> {
        self.capacity_bytes.map(|capacity| capacity.saturating_sub(self.used_bytes()) / BLOCK_BYTES)
    }

    /// Fails without power, which may go away just now.
    pub(super) fn check_power(&mut self, random: &SeededRandom) -> io::Result<()> {
        match &mut self.power_fails_after {
            Some(0) => {
                self.power_fails_after = None;
                self.is_down = true;
                self.lose_power(random);
            }
            Some(operations) => *operations -= 1,
            None => {}
        }
        if self.is_down { Err(io::Error::other("the power has failed")) } else { Ok(()) }
    }

    pub(super) fn lose_power(&mut self, random: &SeededRandom) {
        self.generation += 1;
        let survival = Survival::draw(random, self.unsynced_names.len());
        for (position, change) in std::mem::take(&mut self.unsynced_names).into_iter().enumerate() {
            if survival.keeps(position, random) {
                change.apply(&mut self.durable_entries);
            }
        }
        self.drop_orphans();
        self.entries = self.durable_entries.clone();
        for inode in self.inodes.values_mut() {
            inode.lose_power(random);
        }
        self.forget_unreachable();
        self.keep_returned_blocks();
    }

    /// What was given back, but not durably, is taken again. A file system has given it to nobody else meanwhile, so it never
    /// holds more than fits; here others may have had it.
    fn keep_returned_blocks(&mut self) {
        let used = self.used_bytes();
        self.capacity_bytes = self.capacity_bytes.map(|capacity| capacity.max(used));
    }

    pub(super) fn crash_process(&mut self) {
        self.generation += 1;
        self.inodes.values_mut().for_each(|inode| inode.open_files = 0);
        self.forget_unreachable();
    }

    /// Names whose directory did not survive are gone with it.
    fn drop_orphans(&mut self) {
        // Parents sort before their children, so one pass in order is enough.
        let mut kept: BTreeMap<PathBuf, Node> = BTreeMap::new();
        for (path, node) in std::mem::take(&mut self.durable_entries) {
            let parent = path.parent().unwrap_or(Path::new(""));
            if parent.as_os_str().is_empty() || kept.get(parent) == Some(&Node::Directory) {
                kept.insert(path, node);
            }
        }
        self.durable_entries = kept;
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.entries);
        self.unsynced_names.push(change);
    }

    fn forget_unreachable(&mut self) {
        let mut reachable: BTreeSet<InodeId> = file_ids(self.entries.values()).collect();
        reachable.extend(file_ids(self.durable_entries.values()));
        for node in self.unsynced_names.iter().filter_map(NameChange::node) {
            reachable.extend(file_ids(std::iter::once(&node)));
        }
        self.inodes.retain(|id, inode| inode.open_files > 0 || reachable.contains(id));
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        self.check_directory(path.parent().unwrap_or(Path::new("")))
    }

    fn check_directory(&self, path: &Path) -> io::Result<()> {
        match self.node(path) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn file_ids<'a>(nodes: impl Iterator<Item = &'a Node>) -> impl Iterator<Item = InodeId> {
    nodes.filter_map(|node| match node {
        Node::File(id) => Some(*id),
        Node::Directory => None,
    })
}
