//! Dotted field paths, parsed once, and plain lookup along them.
//!
//! Parsing is lenient (filters accept empty components); callers with stricter rules ask `has_empty_component`.

use std::fmt;
use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use crate::element::{Element, elements, elements_of_bytes};
use bson::spec::ElementType;

/// A parsed path such as `a.b.0`. Copies share it: many operators may have one long path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    text: Arc<str>,
    components: Arc<[Component]>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Component {
    start: u32,
    end: u32,
    position: Option<u32>,
}

impl FieldPath {
    /// Splits `path` at its dots. Any text is a path; an empty one has one empty component.
    pub fn new(path: &str) -> Self {
        let mut start = 0u32;
        let components = path
            .split('.')
            .map(|name| {
                let component = Component { start, end: start + name.len() as u32, position: array_position(name) };
                start = component.end + 1;
                component
            })
            .collect();
        Self { text: path.into(), components }
    }

    /// The whole path as written.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number of components; at least 1.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.components.len()
    }

    /// The name at `index`; empty when out of range.
    #[inline]
    pub fn name(&self, index: usize) -> &str {
        self.components
            .get(index)
            .and_then(|component| self.text.get(component.start as usize..component.end as usize))
            .unwrap_or("")
    }

    /// The array position that the component at `index` may stand for: digits without leading zeroes.
    #[inline]
    pub fn position(&self, index: usize) -> Option<usize> {
        self.components.get(index).and_then(|component| component.position).map(|position| position as usize)
    }

    /// The first component.
    #[inline]
    pub fn first(&self) -> &str {
        self.name(0)
    }

    /// The last component.
    pub fn last(&self) -> &str {
        self.name(self.len() - 1)
    }

    /// The names of all components.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        (0..self.len()).map(|index| self.name(index))
    }

    /// The text from the component at `index` to the end; empty when out of range.
    pub fn suffix(&self, index: usize) -> &str {
        self.components.get(index).and_then(|component| self.text.get(component.start as usize..)).unwrap_or("")
    }

    /// The text of the first `count` components.
    pub fn prefix(&self, count: usize) -> &str {
        match count.checked_sub(1).and_then(|last| self.components.get(last)) {
            Some(component) => self.text.get(..component.end as usize).unwrap_or(""),
            None if count == 0 => "",
            None => &self.text,
        }
    }

    /// True when a component is empty, as in `a..b`, `.a` or the empty path.
    pub fn has_empty_component(&self) -> bool {
        self.components.iter().any(|component| component.start == component.end)
    }

    /// True when `other` is this path or lies below it.
    pub fn is_prefix_of(&self, other: &FieldPath) -> bool {
        other.text.strip_prefix(&*self.text).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// This path followed by `name` (which may be dotted).
    pub fn child(&self, name: &str) -> FieldPath {
        FieldPath::new(&format!("{}.{name}", self.text))
    }
}

impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        FieldPath::new(path)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FieldPath({:?})", self.text)
    }
}

/// The array position a name stands for: decimal digits without leading zeroes.
fn array_position(name: &str) -> Option<u32> {
    let canonical = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    if canonical { name.parse().ok() } else { None }
}

/// The element named `name` at the top level of `document`.
#[inline]
pub fn get_element<'a>(document: &'a RawDocument, name: &str) -> Option<Element<'a>> {
    elements(document).find_named(name.as_bytes())
}

/// The value of the field `name` (not a path) at the top level of `document`.
#[inline]
pub fn get_field<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    get_element(document, name).map(|element| element.value())
}

/// The value at `path`: documents by field name, arrays by position, nothing implicit. `None` when it is missing.
pub fn get_path<'a>(document: &'a RawDocument, path: &FieldPath) -> Option<RawBsonRef<'a>> {
    let mut current = get_element(document, path.first())?;
    for index in 1..path.len() {
        let mut inner = elements_of_bytes(current.value_bytes());
        current = match current.element_type {
            ElementType::EmbeddedDocument => inner.find_named(path.name(index).as_bytes())?,
            ElementType::Array => inner.nth(path.position(index)?)?,
            _ => return None,
        };
    }
    Some(current.value())
}
