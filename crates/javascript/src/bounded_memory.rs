//! The memory of an engine: as much as it may have, and whether it has asked for more.
//!
//! `unsafe`, because the engine is C and is given raw memory. Called by `engine.rs`; rquickjs's `RustAllocator` does the
//! allocation. The engine's own limit would do but for one thing: a script that has used up its memory leaves no room for
//! the exception that says so, the engine throws `null` instead, and once the script's frames are gone nobody sees why.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;

use rquickjs::allocator::{Allocator, RustAllocator};

/// An allocator that refuses what goes beyond its bytes, and notes that it has.
pub(crate) struct BoundedMemory {
    bytes_left: usize,
    has_refused: Rc<Cell<bool>>,
}

impl BoundedMemory {
    pub(crate) fn new(bytes: usize, has_refused: Rc<Cell<bool>>) -> Self {
        Self { bytes_left: bytes, has_refused }
    }

    /// Whether there is room for so many bytes.
    fn has_room(&self, bytes: usize) -> bool {
        let has_room = bytes <= self.bytes_left;
        if !has_room {
            self.has_refused.set(true);
        }
        has_room
    }

    /// What the engine was given counts with its rounding.
    fn taken(&mut self, given: *mut u8) -> *mut u8 {
        if !given.is_null() {
            // SAFETY: `RustAllocator` has just given it.
            self.bytes_left = self.bytes_left.saturating_sub(unsafe { RustAllocator::usable_size(given) });
        }
        given
    }
}

// SAFETY: all memory is `RustAllocator`'s, which keeps the trait's promises; null is a permitted answer.
unsafe impl Allocator for BoundedMemory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.has_room(size) {
            return std::ptr::null_mut();
        }
        let given = RustAllocator.alloc(size);
        self.taken(given)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if !count.checked_mul(size).is_some_and(|size| self.has_room(size)) {
            return std::ptr::null_mut();
        }
        let given = RustAllocator.calloc(count, size);
        self.taken(given)
    }

    unsafe fn dealloc(&mut self, memory: *mut u8) {
        // SAFETY: the caller promises that `alloc`, `calloc` or `realloc` gave it, so it is `RustAllocator`'s.
        unsafe {
            self.bytes_left += RustAllocator::usable_size(memory);
            RustAllocator.dealloc(memory);
        }
    }

    unsafe fn realloc(&mut self, memory: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; if there is no memory for it, the old one stays the caller's.
        unsafe {
            let old_size = RustAllocator::usable_size(memory);
            if !self.has_room(new_size.saturating_sub(old_size)) {
                return std::ptr::null_mut();
            }
            let given = RustAllocator.realloc(memory, new_size);
            if !given.is_null() {
                self.bytes_left += old_size;
            }
            self.taken(given)
        }
    }

    unsafe fn usable_size(memory: *mut u8) -> usize {
        // SAFETY: as in `dealloc`.
        unsafe { RustAllocator::usable_size(memory) }
    }
}
