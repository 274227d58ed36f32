//! The failure that this engine was founded to remove, on purpose: writing a page builds each of its keys from the start
//! of the page, as MongoDB 4.2.1 did (SERVER-44991).
//!
//! Behind the feature `key-rebuild-demonstration`, which is off by default and refused in release builds. It exists so
//! that `plimsoll compare` can be seen to name the guilty function and the counter by itself; see
//! `docs/founding-stories.md`. What is written stays the same: only time is lost.

use crate::frame_arena::PageImage;
use crate::node::Node;

#[cfg(not(debug_assertions))]
compile_error!("key-rebuild-demonstration makes the engine slow on purpose: it is not for release builds");

/// Materialises the keys of a leaf about to be written, each by going through all before it.
#[inline(never)]
pub(crate) fn rebuild_keys_from_page_start(image: &PageImage) {
    let node = Node(image);
    if !node.is_leaf() {
        return;
    }
    let mut key = Vec::new();
    for position in 0..node.count() {
        for before in 0..=position {
            node.copy_key(before, &mut key);
        }
        std::hint::black_box(&key);
    }
}
