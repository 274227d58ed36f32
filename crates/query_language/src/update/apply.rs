//! One pass over a document that applies all operators of an update and writes the new document.
//!
//! The walk follows the tree of the update's paths. Elements that no path reaches are copied as one span of bytes; only
//! the documents and arrays on a path are opened. A value written equal to what was there counts as no change, and a
//! walk without a change yields nothing.

use bson::raw::RawDocument;
use bson::spec::ElementType;
use document::work;
use smallvec::{SmallVec, smallvec};

use super::UpdateContext;
use super::display;
use super::element::{Element, elements_of_bytes, malformed};
use super::level::{Level, Nodes};
use super::limits::{check_depth, check_length, check_size};
use super::modified::ModifiedPaths;
use super::operator::{Scope, WhenBlocked};
use super::operators::rename::find_values;
use super::parse::OperatorUpdate;
use super::path::array_position;
use super::single_field;
use super::tree::{FieldsNode, ItemsNode, Leaf, Node};
use super::value::{Change, NewValue};
use super::writer::{self, PositionName};
use crate::error::{ErrorKind, QueryError, Result};
use crate::growth::make_room;

/// Most nulls put between the end of an array and a position written beyond it.
const BACKFILL_MAX: usize = 1_500_000;

/// Room for a few new fields, so that most updates allocate once.
const GROWTH_BYTES: usize = 64;

/// The document after the update and the paths that changed; `None` when nothing did.
pub(super) fn apply_operators<'a>(
    update: &'a OperatorUpdate,
    root: &'a RawDocument,
    context: &'a UpdateContext<'a>,
) -> Result<Option<(Vec<u8>, u64)>> {
    let changed = match single_field::only_field(update) {
        Some((name, leaf)) => {
            let mut modified = 0;
            ModifiedPaths::note(&mut modified, leaf.number);
            single_field::apply_to_field(name, leaf, root, context)?.map(|out| (out, modified))
        }
        None => walk_document(update, root, context)?,
    };
    if let Some((out, _)) = &changed {
        check_size(out, context.purpose)?;
        if update.may_exceed_depth {
            check_depth(out)?;
        }
    }
    Ok(changed)
}

fn walk_document<'a>(
    update: &'a OperatorUpdate,
    root: &'a RawDocument,
    context: &'a UpdateContext<'a>,
) -> Result<Option<(Vec<u8>, u64)>> {
    let renamed = find_values(&update.renames, root)?;
    let out = Vec::with_capacity(root.as_bytes().len() + GROWTH_BYTES);
    let mut walk = Walk { update, root, context, renamed: &renamed, out, modified: 0 };
    let level = Level::new(&[&update.root], context)?;
    let changed = walk.fields_of_document(&level, Some(root.as_bytes()), None)?;
    Ok(changed.then_some((walk.out, walk.modified)))
}

/// The names from the root to where the walk is, for messages.
#[derive(Clone, Copy)]
struct Trail<'t> {
    parent: Option<&'t Trail<'t>>,
    name: &'t str,
}

impl Trail<'_> {
    fn text(&self) -> String {
        match self.parent {
            Some(parent) => format!("{}.{}", parent.text(), self.name),
            None => self.name.to_owned(),
        }
    }
}

/// What happened to one element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// It stays; nothing was written.
    Kept,
    /// It was written, after the bytes that were pending before it.
    Written,
    /// It is to be left out.
    Removed,
}

/// Where an element stands.
struct Place<'p> {
    trail: Trail<'p>,
    in_array: bool,
    /// Bytes of the same level that precede it and are not copied yet.
    pending: &'p [u8],
}

impl Place<'_> {
    /// Whether writing `value` over `existing` changes nothing. An `_id` that is equal stays as it is, whatever the types.
    fn is_unchanged(&self, existing: &Element<'_>, value: &NewValue<'_>) -> bool {
        let same = existing.element_type == value.kind() && existing.value_bytes() == value.bytes();
        let is_id = self.trail.parent.is_none() && self.trail.name == "_id";
        same || is_id && {
            let _by_bytes = document::collation::enter(None);
            document::compare_views(existing.view(), value.view()).is_eq()
        }
    }
}

struct Walk<'a, 'r> {
    update: &'a OperatorUpdate,
    root: &'a RawDocument,
    context: &'a UpdateContext<'a>,
    renamed: &'r [Option<Element<'a>>],
    out: Vec<u8>,
    modified: u64,
}

impl<'a: 'r, 'r> Walk<'a, 'r> {
    /// Writes a document, made from `before` or from nothing; says whether it differs.
    fn fields_of_document(
        &mut self,
        level: &Level<'a>,
        before: Option<&'a [u8]>,
        parent: Option<&Trail<'_>>,
    ) -> Result<bool> {
        let mark = writer::begin(&mut self.out);
        let mut seen: SmallVec<[bool; 16]> = smallvec![false; level.len()];
        let mut changed = false;
        if let Some(bytes) = before {
            changed = self.existing_fields(level, bytes, parent, &mut seen)?;
        }
        work::done(level.len())?;
        for (index, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
            let trail = Trail { parent, name: level.name(index) };
            let place = Place { trail, in_array: false, pending: &[] };
            let visit = self.visit(&level.nodes(index), None, &place)?;
            self.check_root_field(&trail, None, visit, &level.nodes(index))?;
            changed |= visit == Visit::Written;
        }
        writer::end(&mut self.out, mark);
        Ok(changed)
    }

    /// The fields that are there already, in their order.
    fn existing_fields(
        &mut self,
        level: &Level<'a>,
        bytes: &'a [u8],
        parent: Option<&Trail<'_>>,
        seen: &mut [bool],
    ) -> Result<bool> {
        let mut walk = elements_of_bytes(bytes);
        let (mut copied, mut start) = (4, 4);
        work::done(work::of_elements(bytes.len()))?;
        let mut unseen = seen.len();
        let mut changed = false;
        while unseen > 0 {
            let Some(element) = walk.next() else { break };
            let end = bytes.len() - walk.remaining();
            if let Some(index) = level.find(element.name_bytes())
                && let Some(seen) = seen.get_mut(index).filter(|seen| !**seen)
            {
                *seen = true;
                unseen -= 1;
                let trail = Trail { parent, name: level.name(index) };
                let place = Place { trail, in_array: false, pending: span(bytes, copied, start) };
                let visit = self.visit(&level.nodes(index), Some(element), &place)?;
                self.check_root_field(&trail, Some(&element), visit, &level.nodes(index))?;
                if visit == Visit::Removed {
                    self.out.extend_from_slice(span(bytes, copied, start));
                }
                if visit != Visit::Kept {
                    changed = true;
                    copied = end;
                }
            }
            start = end;
        }
        if walk.is_malformed() {
            return Err(malformed("a value exceeds its document"));
        }
        self.out.extend_from_slice(span(bytes, copied, bytes.len() - 1));
        Ok(changed)
    }

    /// Rules for fields of the whole document: `_id` stays, and names beginning with `$` are not for updates.
    fn check_root_field(
        &self,
        trail: &Trail<'_>,
        existing: Option<&Element<'_>>,
        visit: Visit,
        nodes: &Nodes<'a>,
    ) -> Result<()> {
        if visit == Visit::Kept || trail.parent.is_some() {
            return Ok(());
        }
        if trail.name == "_id" && existing.is_some() {
            let path = nodes.iter().find_map(|node| node.find_leaf(&|_| true)).map_or("_id", |leaf| &leaf.path.text);
            let message = format!("Performing an update on the path '{path}' would modify the immutable field '_id'");
            return Err(QueryError::new(ErrorKind::ImmutableField, message));
        }
        if trail.name.starts_with('$') && visit == Visit::Written {
            return Err(dollar_prefixed(trail.name));
        }
        Ok(())
    }

    /// Applies what the update has for one element. `nodes` are several when positional paths meet.
    fn visit(&mut self, nodes: &Nodes<'a>, existing: Option<Element<'a>>, place: &Place<'_>) -> Result<Visit> {
        match nodes.as_slice() {
            [Node::Leaf(leaf)] => self.visit_leaf(leaf, existing, place),
            several => {
                let fields: SmallVec<[&'a FieldsNode; 2]> = several
                    .iter()
                    .filter_map(|node| if let Node::Fields(node) = node { Some(node) } else { None })
                    .collect();
                if fields.len() == several.len() {
                    return self.descend_fields(fields, existing, place);
                }
                let items: SmallVec<[&'a ItemsNode; 2]> = several
                    .iter()
                    .filter_map(|node| if let Node::Items(node) = node { Some(node) } else { None })
                    .collect();
                if items.len() == several.len() {
                    return self.descend_items(&items, existing, place);
                }
                let message = format!("Update created a conflict at '{}'", place.trail.text());
                Err(QueryError::new(ErrorKind::ConflictingUpdateOperators, message))
            }
        }
    }

    fn visit_leaf(&mut self, leaf: &'a Leaf, existing: Option<Element<'a>>, place: &Place<'_>) -> Result<Visit> {
        let scope = Scope { root: self.root, context: self.context, leaf, renamed: self.renamed };
        let value = match leaf.operator.apply(existing, &scope)? {
            Change::Keep => return Ok(Visit::Kept),
            Change::Remove if !place.in_array => {
                ModifiedPaths::note(&mut self.modified, leaf.number);
                return Ok(Visit::Removed);
            }
            Change::Remove => NewValue::NULL,
            Change::Write(value) => value,
        };
        if existing.as_ref().is_some_and(|existing| place.is_unchanged(existing, &value)) {
            return Ok(Visit::Kept);
        }
        ModifiedPaths::note(&mut self.modified, leaf.number);
        let more = place.pending.len() + value.bytes().len();
        // One value may be set in every item of an array: it is refused before it is there very often.
        check_length(self.out.len() + more, self.context.purpose)?;
        make_room(&mut self.out, more + place.trail.name.len() + 2)?;
        self.out.extend_from_slice(place.pending);
        writer::element(&mut self.out, value.kind(), place.trail.name.as_bytes(), value.bytes());
        Ok(Visit::Written)
    }

    fn descend_fields(
        &mut self,
        nodes: SmallVec<[&'a FieldsNode; 2]>,
        existing: Option<Element<'a>>,
        place: &Place<'_>,
    ) -> Result<Visit> {
        let kind = existing.map_or(ElementType::EmbeddedDocument, |element| element.element_type);
        let level = Level::new(&nodes, self.context)?;
        let mark = self.out.len();
        let changed = match (kind, existing) {
            (ElementType::EmbeddedDocument, _) => {
                self.begin_nested(kind, place);
                self.fields_of_document(&level, existing.map(|element| element.value_bytes()), Some(&place.trail))?
            }
            (ElementType::Array, Some(array)) => {
                self.begin_nested(kind, place);
                self.fields_of_array(&level, &array, &place.trail)?
            }
            (_, Some(scalar)) => {
                for index in 0..level.len() {
                    self.check_blocked(&level, index, &scalar, &place.trail)?;
                }
                false
            }
            (_, None) => false,
        };
        Ok(self.end_nested(mark, changed))
    }

    fn begin_nested(&mut self, kind: ElementType, place: &Place<'_>) {
        self.out.extend_from_slice(place.pending);
        writer::header(&mut self.out, kind, place.trail.name.as_bytes());
    }

    /// Takes back what was written since `mark` when it is no change.
    fn end_nested(&mut self, mark: usize, changed: bool) -> Visit {
        if changed {
            return Visit::Written;
        }
        self.out.truncate(mark);
        Visit::Kept
    }

    /// How a leaf's operator reacts to a value in the middle of its path that cannot hold the rest.
    fn reaction(&self, leaf: &Leaf) -> WhenBlocked {
        let scope = Scope { root: self.root, context: self.context, leaf, renamed: self.renamed };
        leaf.operator.when_blocked(&scope)
    }

    /// Refuses the child of `level` at `index` if it would have to exist in a value that cannot hold it.
    fn check_blocked(&self, level: &Level<'a>, index: usize, holder: &Element<'_>, trail: &Trail<'_>) -> Result<()> {
        let refuses = |leaf: &Leaf| self.reaction(leaf) != WhenBlocked::Ignore;
        let Some(leaf) = level.nodes(index).iter().find_map(|node| node.find_leaf(&refuses)) else { return Ok(()) };
        let shown = display::named(trail.name, holder);
        let name = level.name(index);
        let message = match self.reaction(leaf) {
            WhenBlocked::CannotTraverse => {
                format!("Cannot use the part ({name}) of ({}) to traverse the element ({{{shown}}})", leaf.path.text)
            }
            _ => format!("Cannot create field '{name}' in element {{{shown}}}"),
        };
        Err(QueryError::new(ErrorKind::PathNotViable, message))
    }

    /// Writes an array whose items are addressed by position.
    fn fields_of_array(&mut self, level: &Level<'a>, array: &Element<'a>, trail: &Trail<'_>) -> Result<bool> {
        let mut targets: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for index in 0..level.len() {
            match array_position(level.name(index)) {
                Some(position) => targets.push((position, index)),
                None => self.check_blocked(level, index, array, trail)?,
            }
        }
        let mut targets = targets.into_iter().peekable();
        let mark = writer::begin(&mut self.out);
        let (mut length, mut changed) =
            self.items_of_array(array.value_bytes(), trail, |walk, position, item, place| {
                match targets.next_if(|(target, _)| *target == position) {
                    Some((_, index)) => walk.visit(&level.nodes(index), Some(item), place),
                    None => Ok(Visit::Kept),
                }
            })?;
        for (position, index) in targets {
            if self.item_beyond_end(level, index, length, position, trail)? {
                length = position + 1;
                changed = true;
            }
        }
        writer::end(&mut self.out, mark);
        Ok(changed)
    }

    /// Copies the items of an array (without its length and terminator), with `visit` deciding about each; returns how
    /// many there are and whether any changed.
    fn items_of_array(
        &mut self,
        bytes: &'a [u8],
        parent: &Trail<'_>,
        mut visit: impl FnMut(&mut Self, usize, Element<'a>, &Place<'_>) -> Result<Visit>,
    ) -> Result<(usize, bool)> {
        let mut walk = elements_of_bytes(bytes);
        let (mut copied, mut start, mut position) = (4, 4, 0);
        let mut changed = false;
        work::done(work::of_elements(bytes.len()))?;
        while let Some(item) = walk.next() {
            let end = bytes.len() - walk.remaining();
            let name = PositionName::new(position);
            let trail = Trail { parent: Some(parent), name: name.as_str() };
            let place = Place { trail, in_array: true, pending: span(bytes, copied, start) };
            if visit(self, position, item, &place)? != Visit::Kept {
                changed = true;
                copied = end;
            }
            start = end;
            position += 1;
        }
        if walk.is_malformed() {
            return Err(malformed("a value exceeds its document"));
        }
        self.out.extend_from_slice(span(bytes, copied, bytes.len() - 1));
        Ok((position, changed))
    }

    /// Writes an item behind the end of an array of `length` items, with nulls between.
    fn item_beyond_end(
        &mut self,
        level: &Level<'a>,
        index: usize,
        length: usize,
        position: usize,
        parent: &Trail<'_>,
    ) -> Result<bool> {
        let creates = |leaf: &Leaf| self.reaction(leaf) == WhenBlocked::CannotCreate;
        if !level.nodes(index).iter().any(|node| node.find_leaf(&creates).is_some()) {
            return Ok(false);
        }
        if position - length > BACKFILL_MAX {
            let message = format!("can't backfill more than {BACKFILL_MAX} elements");
            return Err(QueryError::new(ErrorKind::CannotBackfillArray, message));
        }
        let mark = self.out.len();
        for missing in length..position {
            work::step()?;
            writer::element(&mut self.out, ElementType::Null, PositionName::new(missing).as_bytes(), &[]);
        }
        let trail = Trail { parent: Some(parent), name: level.name(index) };
        let place = Place { trail, in_array: true, pending: &[] };
        let written = self.visit(&level.nodes(index), None, &place)? == Visit::Written;
        match written {
            // Each position may be far behind the one before: what is filled is looked at before there is too much of it.
            true => check_size(&self.out, self.context.purpose)?,
            false => self.out.truncate(mark),
        }
        Ok(written)
    }

    /// Writes an array whose items are addressed by `$[]` and `$[identifier]`.
    fn descend_items(
        &mut self,
        nodes: &[&'a ItemsNode],
        existing: Option<Element<'a>>,
        place: &Place<'_>,
    ) -> Result<Visit> {
        let array = match existing {
            Some(array) if array.element_type == ElementType::Array => array,
            Some(other) => {
                let shown = display::named(place.trail.name, &other);
                return Err(bad_value(format!("Cannot apply array updates to non-array element {shown}")));
            }
            None => {
                let path = place.trail.text();
                return Err(bad_value(format!(
                    "The path '{path}' must exist in the document in order to apply array updates."
                )));
            }
        };
        let mark = self.out.len();
        self.begin_nested(ElementType::Array, place);
        let array_mark = writer::begin(&mut self.out);
        let (_, changed) = self.items_of_array(array.value_bytes(), &place.trail, |walk, _, item, place| {
            let children = walk.children_for(nodes, &item)?;
            match children.is_empty() {
                true => Ok(Visit::Kept),
                false => walk.visit(&children, Some(item), place),
            }
        })?;
        writer::end(&mut self.out, array_mark);
        Ok(self.end_nested(mark, changed))
    }

    /// The children that apply to an item.
    fn children_for(&self, nodes: &[&'a ItemsNode], item: &Element<'a>) -> Result<Nodes<'a>> {
        work::done(nodes.len())?;
        let mut children = Nodes::new();
        for node in nodes {
            children.extend(node.every.as_deref());
            for (filter, child) in &node.filtered {
                if self.update.array_filters.matches(*filter, item)? {
                    children.push(child);
                }
            }
        }
        Ok(children)
    }
}

/// Bytes between two offsets; none when a damaged document makes them senseless.
fn span(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    bytes.get(from..to).unwrap_or_default()
}

/// A top-level name beginning with `$`, which neither operators nor replacements may store, whether they change a document or
/// insert it.
pub(super) fn dollar_prefixed(name: &str) -> QueryError {
    let message = format!(
        "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's replacement \
         document. Consider using an aggregation pipeline with $replaceWith."
    );
    QueryError::new(ErrorKind::DollarPrefixedFieldName, message)
}

fn bad_value(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::BadValue, message)
}
