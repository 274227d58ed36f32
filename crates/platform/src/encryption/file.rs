//! An open file whose content is encrypted, in sectors.
//!
//! ```text
//! file below:  headers │ sector 0 │ sector 1 │ ... │ sector n-1 │ zeros, as many bytes as sector n-1 has of content
//! content:              0..484     484..968                      (none if it is full)
//! ```
//!
//! Handed out by `disk`. The zeros behind the last sector tell the exact length. A crash may lose them: then the length is
//! that of the whole last sector, and zeros are behind the content.
//!
//! Locks: `extension` is held for reading by writes within the file, for writing by all that changes its length. Under it,
//! each write holds the lock of its group of sectors, as the first and the last sector may have to be read before. Reads
//! hold nothing. One that meets a sector while it is written finds its tag wrong, and tries again with the lock.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use ring::aead::LessSafeKey;

use super::keychain::Keychain;
use super::sector::{self, CONTENT_BYTES, DAMAGED, HEADER_BYTES, Identity, SECTOR_BYTES};
use crate::{File, OpenMode};

const SECTOR: u64 = SECTOR_BYTES as u64;
const CONTENT: u64 = CONTENT_BYTES as u64;
const HEADER_SECTORS: u64 = HEADER_BYTES / SECTOR;
/// Sectors that are read or written at once: 128 KiB. A group begins at a multiple of that in the file below.
const GROUP_SECTORS: u64 = 256;
const LOCKS: usize = 64;
/// What file systems give back at once.
const BLOCK: u64 = 4096;

/// What handles on the same file share.
pub(super) struct FileState {
    identity: Identity,
    extension: RwLock<()>,
    groups: [Mutex<()>; LOCKS],
}

impl FileState {
    pub(super) fn new(identity: Identity) -> FileState {
        FileState { identity, extension: RwLock::default(), groups: std::array::from_fn(|_| Mutex::default()) }
    }

    /// The lock of the group that a sector is in.
    fn group(&self, number: u64) -> &Mutex<()> {
        &self.groups[((number + HEADER_SECTORS) / GROUP_SECTORS) as usize % LOCKS]
    }
}

pub(super) struct EncryptedFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    /// `None`: the file is empty, and open for reading only, or the disk had no room for its headers.
    state: Option<Arc<FileState>>,
    mode: OpenMode,
    keychain: Arc<Keychain>,
}

/// What to make of a sector that is not what was encrypted there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    Fails,
    /// Its content is replaced by bytes that nobody has written.
    IsFilledIn,
}

/// A part of a range of content that is within one group.
struct Piece {
    /// Where it begins in the range.
    at: usize,
    bytes: usize,
    first_sector: u64,
    sectors: usize,
    /// Where it begins in its first sector.
    skipped: usize,
}

fn pieces(offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (from, left) = (offset + at as u64, length - at);
        if left == 0 {
            return None;
        }
        let first_sector = from / CONTENT;
        let group_end = ((first_sector + HEADER_SECTORS) / GROUP_SECTORS + 1) * GROUP_SECTORS - HEADER_SECTORS;
        let bytes = usize::try_from(group_end * CONTENT - from).unwrap_or(left).min(left);
        let skipped = (from % CONTENT) as usize;
        let piece = Piece { at, bytes, first_sector, sectors: (skipped + bytes).div_ceil(CONTENT_BYTES), skipped };
        at += bytes;
        Some(piece)
    })
}

/// Where a sector is in the file below.
fn below(number: u64) -> u64 {
    (number + HEADER_SECTORS) * SECTOR
}

/// The length of the file below when the content has this one.
fn length_below(length: u64) -> u64 {
    below(length.div_ceil(CONTENT)) + length % CONTENT
}

/// The length of the content when the file below has this one.
fn length_of_content(length_below: u64) -> u64 {
    let (sectors, rest) = (length_below.saturating_sub(HEADER_BYTES) / SECTOR, length_below % SECTOR);
    match rest {
        1..CONTENT if sectors > 0 => (sectors - 1) * CONTENT + rest,
        _ => sectors * CONTENT,
    }
}

fn too_far() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "beyond what a file can hold")
}

fn end_of(offset: u64, length: u64) -> io::Result<u64> {
    offset.checked_add(length).filter(|end| *end < 1 << 62).ok_or_else(too_far)
}

impl EncryptedFile {
    pub(super) fn new(
        inner: Arc<dyn File>,
        path: PathBuf,
        state: Option<Arc<FileState>>,
        mode: OpenMode,
        keychain: Arc<Keychain>,
    ) -> EncryptedFile {
        EncryptedFile { inner, path, state, mode, keychain }
    }

    fn writable(&self) -> io::Result<&FileState> {
        let reason = || match self.mode {
            OpenMode::Read => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::StorageFull,
        };
        self.state.as_deref().ok_or_else(|| reason().into())
    }

    fn damaged(&self, number: u64) -> io::Error {
        let (path, at) = (self.path.display(), below(number));
        let message = format!("{path}: the sector at {at} is damaged: it is not what was encrypted there");
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    /// Reads sectors and decrypts them. What is behind the end stays zeros.
    fn read_sectors(&self, state: &FileState, first: u64, buffer: &mut [u8], damage: Damage) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.inner.read_at(&mut buffer[filled..], below(first) + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        // Part of a sector is what tells the length, or what a failed write has left.
        buffer[filled / SECTOR_BYTES * SECTOR_BYTES..].fill(0);
        let mut cipher: Option<(u32, Arc<LessSafeKey>)> = None;
        for (number, bytes) in (first..).zip(buffer.chunks_exact_mut(SECTOR_BYTES)) {
            if sector::is_blank(bytes) {
                continue;
            }
            let session = sector::session_of(bytes);
            if cipher.as_ref().is_none_or(|(of, _)| *of != session) {
                cipher = self.keychain.cipher(session)?.map(|cipher| (session, cipher));
            }
            let place = sector::place(&state.identity, number);
            let is_opened = cipher.as_ref().is_some_and(|(_, cipher)| sector::open(bytes, cipher, place));
            match damage {
                _ if is_opened => {}
                Damage::Fails => return Err(self.damaged(number)),
                Damage::IsFilledIn => sector::content(bytes).fill(DAMAGED),
            }
        }
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], offset: u64, damage: Damage) -> io::Result<usize> {
        let Some(state) = self.state.as_deref() else { return Ok(0) };
        let left = self.length()?.saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let mut buffer = Vec::new();
        for piece in pieces(offset, count) {
            buffer.clear();
            buffer.resize(piece.sectors * SECTOR_BYTES, 0);
            self.read_piece(state, &piece, &mut buffer, damage)?;
            copy_content(&mut buffer, piece.skipped, &mut bytes[piece.at..piece.at + piece.bytes]);
        }
        Ok(count)
    }

    fn read_piece(&self, state: &FileState, piece: &Piece, buffer: &mut [u8], damage: Damage) -> io::Result<()> {
        match self.read_sectors(state, piece.first_sector, buffer, Damage::Fails) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                // It may just be being written.
                let _group = state.group(piece.first_sector).lock();
                self.read_sectors(state, piece.first_sector, buffer, damage)
            }
            outcome => outcome,
        }
    }

    /// A sector that is changed in part. What of it is damaged stays to be noticed by whoever verifies it.
    fn read_old(&self, state: &FileState, number: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_sectors(state, number, buffer, Damage::IsFilledIn)
    }

    /// Writes a piece, and behind its last sector so many zeros. The group's lock is held.
    fn write_piece(&self, state: &FileState, piece: &Piece, bytes: &[u8], zeros: usize) -> io::Result<()> {
        let session = self.keychain.session()?;
        let mut buffer = vec![0; piece.sectors * SECTOR_BYTES + zeros];
        let (last, end) = (piece.sectors - 1, piece.skipped + piece.bytes);
        if piece.skipped > 0 {
            self.read_old(state, piece.first_sector, &mut buffer[..SECTOR_BYTES])?;
        }
        if end % CONTENT_BYTES > 0 && (last > 0 || piece.skipped == 0) {
            let place = last * SECTOR_BYTES;
            self.read_old(state, piece.first_sector + last as u64, &mut buffer[place..place + SECTOR_BYTES])?;
        }
        let number = session.take(piece.sectors as u64);
        let (mut skipped, mut done) = (piece.skipped, 0);
        for (index, sector) in buffer.chunks_exact_mut(SECTOR_BYTES).take(piece.sectors).enumerate() {
            let count = (CONTENT_BYTES - skipped).min(bytes.len() - done);
            sector::content(sector)[skipped..skipped + count].copy_from_slice(&bytes[done..done + count]);
            (skipped, done) = (0, done + count);
            let place = sector::place(&state.identity, piece.first_sector + index as u64);
            if !sector::seal(sector, &session.cipher, session.number, number + index as u64, place) {
                return Err(io::Error::other("the encryption failed"));
            }
        }
        self.inner.write_all_at(&buffer, below(piece.first_sector))
    }

    /// Writes; `zeros` go behind the last sector.
    fn write_pieces(&self, state: &FileState, bytes: &[u8], offset: u64, zeros: usize) -> io::Result<()> {
        for piece in pieces(offset, bytes.len()) {
            let zeros = if piece.at + piece.bytes == bytes.len() { zeros } else { 0 };
            let _group = state.group(piece.first_sector).lock();
            self.write_piece(state, &piece, &bytes[piece.at..piece.at + piece.bytes], zeros)?;
        }
        Ok(())
    }

    /// Writes zeros into a part of one sector, unless they are there already. One in which nothing else is left becomes
    /// blank, so that its block can be given back.
    fn clear(&self, state: &FileState, from: u64, to: u64) -> io::Result<()> {
        let (number, count) = (from / CONTENT, to.saturating_sub(from) as usize);
        if count == 0 || below(number) + SECTOR > self.inner.length()? {
            return Ok(());
        }
        let _group = state.group(number).lock();
        let mut sector = [0; SECTOR_BYTES];
        self.read_old(state, number, &mut sector)?;
        let skipped = (from % CONTENT) as usize;
        let content = sector::content(&mut sector);
        if sector::is_blank(&content[skipped..skipped + count]) {
            return Ok(());
        }
        content[skipped..skipped + count].fill(0);
        if sector::is_blank(content) {
            return self.inner.write_all_at(&[0; SECTOR_BYTES], below(number));
        }
        let piece = Piece { at: 0, bytes: count, first_sector: number, sectors: 1, skipped };
        self.write_piece(state, &piece, &[0; CONTENT_BYTES][..count], 0)
    }

    /// Gives back the block at an end of a hole, if the rest of it is zeros, too. Otherwise holes side by side would leave
    /// a block between them that none of them gives back.
    fn give_back_block(&self, state: &FileState, block: u64) -> io::Result<()> {
        if block < HEADER_BYTES || block + BLOCK > self.inner.length()? / SECTOR * SECTOR {
            return Ok(());
        }
        let _group = state.group(block / SECTOR - HEADER_SECTORS).lock();
        let mut bytes = [0; BLOCK as usize];
        self.inner.read_exact_at(&mut bytes, block)?;
        if sector::is_blank(&bytes) { self.inner.punch_hole(block, BLOCK) } else { Ok(()) }
    }
}

impl File for EncryptedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(bytes, offset, Damage::Fails)
    }

    fn read_unverified_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(bytes, offset, Damage::IsFilledIn)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = end_of(offset, bytes.len() as u64)?;
        let state = self.writable()?;
        if bytes.is_empty() {
            return Ok(());
        }
        {
            let _within = state.extension.read();
            if end <= self.length()? {
                return self.write_pieces(state, bytes, offset, 0);
            }
        }
        let _extending = state.extension.write();
        if end <= self.length()? {
            return self.write_pieces(state, bytes, offset, 0);
        }
        self.write_pieces(state, bytes, offset, (end % CONTENT) as usize)?;
        let wanted = length_below(end);
        // The sector that was the last one has become full: what told its length goes.
        if self.inner.length()? > wanted { self.inner.set_length(wanted) } else { Ok(()) }
    }

    fn keep_written(&self, is_kept: bool) {
        self.inner.keep_written(is_kept);
    }

    fn begin_write_back(&self, offset: u64, length: u64) {
        let (from, to) = covering(offset, length);
        self.inner.begin_write_back(from, to - from);
    }

    fn read_nothing_ahead(&self) {
        self.inner.read_nothing_ahead();
    }

    fn begin_read(&self, offset: u64, length: u64) {
        let (from, to) = covering(offset, length);
        self.inner.begin_read(from, to - from);
    }

    fn forget_cached(&self, offset: u64, length: u64) {
        let (from, to) = covering(offset, length);
        self.inner.forget_cached(from, to - from);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        match self.state {
            Some(_) => Ok(length_of_content(self.inner.length()?)),
            None => Ok(0),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let length = end_of(0, length)?;
        let state = self.writable()?;
        let _extending = state.extension.write();
        let (before, wanted) = (self.length()?, length_below(length));
        if length < before {
            let sectors = length.div_ceil(CONTENT);
            // What follows the last sector must be zeros: it goes first.
            self.inner.set_length(below(sectors))?;
            self.clear(state, length, sectors * CONTENT)?;
        }
        self.inner.set_length(wanted)
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        let state = self.writable()?;
        let _within = state.extension.read();
        let end = end_of(offset, length)?.min(self.length()?);
        if offset >= end {
            return Ok(());
        }
        let (first, behind) = (offset.div_ceil(CONTENT), end / CONTENT);
        if first > behind {
            return self.clear(state, offset, end);
        }
        self.clear(state, offset, first * CONTENT)?;
        self.clear(state, behind * CONTENT, end)?;
        if first < behind {
            self.inner.punch_hole(below(first), (behind - first) * SECTOR)?;
        }
        let mut ends = [offset / CONTENT, first, behind].map(|number| below(number) / BLOCK).to_vec();
        ends.dedup();
        ends.into_iter().try_for_each(|block| self.give_back_block(state, block * BLOCK))
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = end_of(offset, length)?;
        let state = self.writable()?;
        if length == 0 {
            return Ok(());
        }
        let _extending = state.extension.write();
        let (from, _) = covering(offset, length);
        let to = if end > self.length()? { length_below(end) } else { below(end.div_ceil(CONTENT)) };
        let to_allocate = to.min(length_below(end.max(self.length()?))) - from;
        self.inner.allocate(from, to_allocate)?;
        let wanted = length_below(end);
        if end > length_of_content(self.inner.length()?) { self.inner.set_length(wanted) } else { Ok(()) }
    }
}

/// Copies content out of decrypted sectors, without the first bytes.
fn copy_content(sectors: &mut [u8], mut skipped: usize, into: &mut [u8]) {
    let mut done = 0;
    for sector in sectors.chunks_exact_mut(SECTOR_BYTES) {
        let count = (CONTENT_BYTES - skipped).min(into.len() - done);
        into[done..done + count].copy_from_slice(&sector::content(sector)[skipped..skipped + count]);
        (skipped, done) = (0, done + count);
    }
}

/// The range of the file below that holds a range of content.
fn covering(offset: u64, length: u64) -> (u64, u64) {
    let end = offset.saturating_add(length).min(1 << 54);
    (below(offset.min(end) / CONTENT), below(end.div_ceil(CONTENT)))
}
