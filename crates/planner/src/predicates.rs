//! The predicates of a filter that an index could be searched by: its conjuncts, and those inside their `$elemMatch`.

use document::{FieldPath, Interruption, work};
use query_language::filter::FilterNode;

/// A predicate about the values at one path.
#[derive(Debug, Clone)]
pub(crate) struct Predicate<'f> {
    /// Which of the filter's conjuncts it belongs to.
    pub(crate) conjunct: usize,
    /// The path from the top of the document.
    pub(crate) path: String,
    pub(crate) node: &'f FilterNode,
    /// The `$elemMatch`es around it, outermost first.
    pub(crate) scopes: Vec<ElementScope>,
}

/// One element of the array at some path, which everything inside an `$elemMatch` is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ElementScope {
    /// Different for every `$elemMatch` of a filter.
    pub(crate) number: usize,
    /// Components of the array's path.
    pub(crate) path_length: usize,
}

impl Predicate<'_> {
    /// Whether both are about the same element of every array up to component `component` of their paths.
    pub(crate) fn shares_element(&self, other: &Predicate<'_>, component: usize) -> bool {
        let covers = |scope: &&ElementScope| scope.path_length > component;
        self.scopes.iter().filter(covers).any(|scope| other.scopes.contains(scope))
    }

    /// Whether a document without a value at the path cannot match.
    pub(crate) fn rejects_missing(&self) -> bool {
        rejects_missing(self.node)
    }
}

/// The conjuncts of a filter.
pub(crate) fn conjuncts(root: &FilterNode) -> &[FilterNode] {
    match root {
        FilterNode::And(children) => children,
        other => std::slice::from_ref(other),
    }
}

/// Conditions and constants in a filter.
pub(crate) fn size(node: &FilterNode) -> usize {
    let constants = if let FilterNode::In(leaf) = node { leaf.values().len() } else { 0 };
    1 + constants + node.children().iter().map(size).sum::<usize>()
}

/// The predicates of the conjuncts.
///
/// # Errors
/// The command is to stop.
pub(crate) fn predicates(conjuncts: &[FilterNode]) -> Result<Vec<Predicate<'_>>, Interruption> {
    let mut collector = Collector { found: Vec::new(), scopes: Vec::new(), next_scope: 0 };
    for (conjunct, node) in conjuncts.iter().enumerate() {
        collector.collect(conjunct, "", node)?;
    }
    Ok(collector.found)
}

struct Collector<'f> {
    found: Vec<Predicate<'f>>,
    scopes: Vec<ElementScope>,
    next_scope: usize,
}

impl<'f> Collector<'f> {
    fn collect(&mut self, conjunct: usize, prefix: &str, node: &'f FilterNode) -> Result<(), Interruption> {
        work::step()?;
        match node {
            FilterNode::ElemMatchObject(leaf) => {
                let path = join(prefix, leaf.path.as_str());
                let scope = ElementScope { number: self.next_scope, path_length: path.split('.').count() };
                self.next_scope += 1;
                self.scopes.push(scope);
                for inner in conjuncts(&leaf.filter) {
                    // A position in an inner array is not what an index takes it for. Within an inner `$elemMatch` that has been looked at already.
                    if self.scopes.len() > 1 || !names_position(inner) {
                        self.collect(conjunct, &path, inner)?;
                    }
                }
                self.scopes.pop();
            }
            FilterNode::And(children) => {
                children.iter().try_for_each(|child| self.collect(conjunct, prefix, child))?;
            }
            node => {
                if let Some(path) = sole_path(node) {
                    let path = join(prefix, path.as_str());
                    self.found.push(Predicate { conjunct, path, node, scopes: self.scopes.clone() });
                }
            }
        }
        Ok(())
    }
}

fn join(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") }
}

/// Whether a path in it has a number among its names.
fn names_position(node: &FilterNode) -> bool {
    let inner = if let FilterNode::ElemMatchObject(leaf) = node { Some(&*leaf.filter) } else { None };
    node.path().is_some_and(|path| has_position(path.as_str()))
        || node.children().iter().chain(inner).any(names_position)
}

fn has_position(path: &str) -> bool {
    path.split('.').any(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The path of all leaves, if they have the same.
fn sole_path(node: &FilterNode) -> Option<&FieldPath> {
    match node {
        FilterNode::ElemMatchObject(_) => None,
        FilterNode::And(children) | FilterNode::Or(children) | FilterNode::Nor(children) => {
            let mut paths = children.iter().map(sole_path);
            let first = paths.next()??;
            paths.all(|path| path == Some(first)).then_some(first)
        }
        FilterNode::Not(child) => sole_path(child),
        leaf => leaf.path(),
    }
}

fn rejects_missing(node: &FilterNode) -> bool {
    match node {
        FilterNode::AlwaysFalse => true,
        FilterNode::And(children) => children.iter().any(rejects_missing),
        FilterNode::Or(children) => children.iter().all(rejects_missing),
        FilterNode::Comparison(leaf) => !leaf.accepts_missing(),
        FilterNode::In(leaf) => !leaf.accepts_missing(),
        FilterNode::Exists(_)
        | FilterNode::Type(_)
        | FilterNode::Size(_)
        | FilterNode::Mod(_)
        | FilterNode::Bits(_)
        | FilterNode::Regex(_)
        | FilterNode::ElemMatchObject(_)
        | FilterNode::ElemMatchValue(_)
        | FilterNode::Geo(_)
        | FilterNode::Near(_) => true,
        // Below an empty array nothing is null, and yet there is no value.
        FilterNode::Not(child) => matches!(
            &**child,
            FilterNode::Comparison(leaf) if leaf.accepts_missing() && leaf.path.len() == 1
        ),
        FilterNode::Nor(_)
        | FilterNode::Expr(_)
        | FilterNode::JsonSchema(_)
        | FilterNode::SampleRate(_)
        | FilterNode::Where(_)
        | FilterNode::Text(_) => false,
    }
}
