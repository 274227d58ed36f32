//! What an expression reads from its document, so that a plan can leave the rest out.

use std::collections::BTreeSet;

use super::metadata::MetadataUse;

/// The fields and variables that expressions, projections or stages need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DependencySet {
    /// Dotted paths of the document.
    pub paths: BTreeSet<String>,
    /// The whole document is needed (`$$ROOT`), whatever `paths` says.
    pub whole_document: bool,
    /// Names of user variables that the expression does not bind itself.
    pub variables: BTreeSet<String>,
    /// The result differs from one evaluation to the next (`$rand`).
    pub volatile: bool,
    /// What is known of the document beside its fields is needed.
    pub metadata: MetadataUse,
}

impl DependencySet {
    /// Nothing needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Needs the field at a dotted path.
    pub fn add_path(&mut self, path: &str) {
        if !self.paths.contains(path) {
            self.paths.insert(path.to_owned());
        }
    }

    /// The paths needed, without those inside another; `None` when the whole document is.
    pub fn needed_paths(&self) -> Option<Vec<&str>> {
        if self.whole_document {
            return None;
        }
        let covered = |path: &str| path.match_indices('.').any(|(at, _)| self.paths.contains(&path[..at]));
        Some(self.paths.iter().map(String::as_str).filter(|path| !covered(path)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_others_are_dropped() {
        let mut set = DependencySet::new();
        for path in ["a.b", "a", "ab", "c.d"] {
            set.add_path(path);
        }
        assert_eq!(set.needed_paths(), Some(vec!["a", "ab", "c.d"]));
    }
}
