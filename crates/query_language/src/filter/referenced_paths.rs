//! Which paths a filter reads.

use std::collections::BTreeSet;

use super::FilterNode;
use crate::expression::DependencySet;

/// The paths that a filter reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferencedPaths {
    /// Dotted paths; those inside an `$elemMatch` continue the path of the array.
    pub paths: BTreeSet<String>,
    /// An expression needs the whole document, or a schema does.
    pub whole_document: bool,
}

impl ReferencedPaths {
    pub(crate) fn of(node: &FilterNode) -> Self {
        let mut referenced = Self::default();
        referenced.add(node, "");
        referenced
    }

    fn add(&mut self, node: &FilterNode, prefix: &str) {
        if let Some(path) = node.path() {
            let path = join(prefix, path.as_str());
            if let FilterNode::ElemMatchObject(leaf) = node {
                self.add(&leaf.filter, &path);
            }
            self.paths.insert(path);
        }
        for child in node.children() {
            self.add(child, prefix);
        }
        self.whole_document |= matches!(node, FilterNode::JsonSchema(_) | FilterNode::Where(_) | FilterNode::Text(_));
        if let FilterNode::Expr(leaf) = node {
            let mut needed = DependencySet::new();
            leaf.expression().dependencies(&mut needed);
            self.whole_document |= needed.whole_document;
            self.paths.extend(needed.paths);
        }
    }
}

fn join(prefix: &str, path: &str) -> String {
    match prefix.is_empty() {
        true => path.to_owned(),
        false => format!("{prefix}.{path}"),
    }
}
