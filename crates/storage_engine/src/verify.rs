//! The structural check: every page of every tree, every key in order and inside its fences, every byte accounted for.
//!
//! Called by `validate` and after every storage test. Exact for trees that are not being changed meanwhile.

use std::collections::HashSet;

use crate::TreeId;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, KIND_NODE, Node, Presence, SLOT_BYTES};
use crate::overflow::{self, OverflowReference};
use crate::page_store::PageId;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Pages looked at.
    pub pages: u64,
    /// Entries that are there for the newest snapshot.
    pub entries: u64,
    /// What is wrong, one line each; empty when all is well.
    pub errors: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// Leaves out what another check of the same trees has not found of the same pages. A tree that changes while it is checked is complained about, each time at
    /// other pages; what is really wrong with a page stays wrong.
    pub fn retain_found_again(&mut self, again: &VerifyReport) {
        // A complaint begins with the tree and the page.
        let page = |error: &str| error.split(':').next().unwrap_or_default().to_owned();
        let pages: HashSet<String> = again.errors.iter().map(|error| page(error)).collect();
        self.errors.retain(|error| pages.contains(&page(error)));
    }
}

struct Visit {
    page: PageId,
    level: Option<u8>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Engine {
    /// Checks one tree.
    pub fn verify_tree(&self, tree: TreeId) -> Result<VerifyReport> {
        Ok(self.verify_tree_unless(tree, &|| false)?.unwrap_or_default())
    }

    /// Checks one tree; `None` when `is_stopped`, which is asked at each page, has ended it.
    pub fn verify_tree_unless(&self, tree: TreeId, is_stopped: &dyn Fn() -> bool) -> Result<Option<VerifyReport>> {
        let mut report = VerifyReport::default();
        let is_done = self.verify_into(tree, &mut HashSet::new(), &mut report, is_stopped)?;
        Ok(is_done.then_some(report))
    }

    /// Checks these trees (all that there are, the catalog's included), that no page belongs to two of them, that every
    /// allocated page belongs to one, and the page store underneath.
    pub fn verify(&self, trees: &[TreeId]) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let mut seen = HashSet::new();
        for tree in trees {
            self.verify_into(*tree, &mut seen, &mut report, &|| false)?;
        }
        let dropped: Vec<TreeId> = self.dropped_trees.lock().iter().collect();
        for tree in dropped {
            let pages = self.trees.pages_of(tree)?;
            seen.extend(pages.inner.iter().chain(&pages.leaves).chain(&pages.overflow).copied());
        }
        let mut chains = self.trees.history.overflow_heads();
        chains.extend_from_slice(&self.trees.leftovers.chains.lock());
        for head in chains {
            seen.extend(overflow::pages(&self.trees.cache, head)?);
        }
        for page in (0..self.store.page_id_limit()).map(PageId) {
            if self.trees.cache.frames.is_allocated(page) && !seen.contains(&page) {
                report.errors.push(format!("page {} is allocated and belongs to no tree", page.0));
            }
        }
        report.errors.extend(self.store.verify()?.problems);
        Ok(report)
    }

    /// `false` when it was stopped.
    fn verify_into(
        &self,
        tree: TreeId,
        seen: &mut HashSet<PageId>,
        report: &mut VerifyReport,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let mut to_visit = vec![Visit { page: tree.root(), level: None, lower: Vec::new(), upper: None }];
        while let Some(visit) = to_visit.pop() {
            if is_stopped() {
                return Ok(false);
            }
            let complain = |reason: &str| format!("tree {} page {}: {reason}", tree.0, visit.page.0);
            match self.trees.copy_page(visit.page, &mut image) {
                Ok(true) => {}
                Ok(false) => {
                    report.errors.push(complain("is referred to and not allocated"));
                    continue;
                }
                Err(error @ (EngineError::Store(_) | EngineError::Corrupt { .. })) => {
                    report.errors.push(complain(&error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            }
            if !seen.insert(visit.page) {
                report.errors.push(complain("is referred to twice"));
                continue;
            }
            report.pages += 1;
            let node = Node(&*image);
            report.errors.extend(check_node(&node, tree, &visit).iter().map(|reason| complain(reason)));
            if node.kind() != KIND_NODE {
                continue;
            }
            if node.is_leaf() {
                self.check_overflow(&node, seen, report, &complain)?;
            } else {
                push_children(&node, &visit, &mut to_visit);
            }
        }
        Ok(true)
    }

    fn check_overflow(
        &self,
        node: &Node<&PageImage>,
        seen: &mut HashSet<PageId>,
        report: &mut VerifyReport,
        complain: &dyn Fn(&str) -> String,
    ) -> Result<()> {
        for position in 0..node.count() {
            report.entries += u64::from(node.presence(position) == Presence::Live);
            let (bytes, is_overflow) = node.value(position);
            if !is_overflow {
                continue;
            }
            let Some(reference) = OverflowReference::decode(bytes) else {
                report.errors.push(complain("has a damaged overflow reference"));
                continue;
            };
            let mut value = Vec::new();
            match overflow::read(&self.trees.cache, reference, &mut value) {
                Ok(()) => {
                    // It may have been given back since it was read.
                    let pages = match overflow::pages(&self.trees.cache, reference.head) {
                        Err(error) if error.is_damage() => {
                            report.errors.push(complain(&error.to_string()));
                            continue;
                        }
                        pages => pages?,
                    };
                    report.pages += pages.len() as u64;
                    let twice = pages.iter().filter(|page| !seen.insert(**page)).count();
                    if twice > 0 {
                        report.errors.push(complain("shares overflow pages with another entry"));
                    }
                }
                Err(error) => report.errors.push(complain(&error.to_string())),
            }
        }
        Ok(())
    }
}

fn push_children(node: &Node<&PageImage>, visit: &Visit, to_visit: &mut Vec<Visit>) {
    let mut lower = visit.lower.clone();
    for position in 0..=node.count() {
        let upper = if position < node.count() {
            let mut key = Vec::new();
            node.copy_key(position, &mut key);
            Some(key)
        } else {
            visit.upper.clone()
        };
        let page = node.child(position);
        let level = Some(node.level().saturating_sub(1));
        to_visit.push(Visit { page, level, lower: std::mem::take(&mut lower), upper: upper.clone() });
        lower = upper.unwrap_or_default();
    }
}

fn check_node(node: &Node<&PageImage>, tree: TreeId, visit: &Visit) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |is_good: bool, reason: &str| {
        if !is_good {
            errors.push(reason.to_owned());
        }
    };
    check(node.kind() == KIND_NODE, "is not a node");
    check(node.tree() == tree.0, "belongs to another tree");
    check(visit.level.is_none_or(|level| level == node.level()), "is at the wrong level");
    check(node.lower_fence() == visit.lower, "has a lower fence that its parent does not know");
    check(node.upper_fence() == visit.upper.as_deref(), "has an upper fence that its parent does not know");
    let mut previous: Option<Vec<u8>> = None;
    let mut heap = node.lower_fence().len() + node.upper_fence().map_or(0, <[u8]>::len);
    let mut versioned = 0;
    for position in 0..node.count() {
        let mut key = Vec::new();
        node.copy_key(position, &mut key);
        check(previous.as_ref().is_none_or(|previous| *previous < key), "has keys out of order");
        check(key.as_slice() >= node.lower_fence(), "has a key below its lower fence");
        check(node.upper_fence().is_none_or(|fence| key.as_slice() < fence), "has a key above its upper fence");
        check(node.search(&key) == crate::node::Found::At(position), "has a key that a search does not find");
        heap += node.heap_bytes(position);
        versioned += usize::from(node.version(position).since() != 0 || node.presence(position) == Presence::Ghost);
        previous = Some(key);
    }
    check(versioned == node.versioned(), "miscounts its versions");
    check(node.heap_start() >= HEADER_BYTES + node.count() * SLOT_BYTES, "has its slots in its heap");
    check(node.heap_start() + heap + node.garbage() == PAGE_BYTES, "does not account for all bytes of its heap");
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_page_twice_is_wrong() {
        let report = |errors: &[&str]| VerifyReport {
            errors: errors.iter().map(|error| (*error).to_owned()).collect(),
            ..VerifyReport::default()
        };
        let mut found = report(&["tree 7 page 9: is at the wrong level", "tree 7 page 11: is referred to twice"]);
        found.retain_found_again(&report(&["tree 7 page 9: has keys out of order", "tree 7 page 12: is not a node"]));
        assert_eq!(found.errors, ["tree 7 page 9: is at the wrong level"]);
        found.retain_found_again(&report(&["tree 7 page 11: is referred to twice"]));
        assert!(found.is_ok());
    }
}
