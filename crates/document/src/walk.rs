//! Walking a path with the array semantics of MongoDB's query operators.
//!
//! A path `a.b` on `{a: [{b: 1}, {c: 2}, 3]}` visits 1 and, for the second element, missing; the third is skipped.
//! Rules, at each array met before the end of the path:
//! - every element that is a document is walked with the rest of the path;
//! - if the next component is a number, the element at that position is walked with what follows it;
//! - an array directly inside an array is entered only by such a position;
//! - an element named by its position at the end of the path is visited whole, also when it is an array.
//!
//! At the end of the path any other array is visited element by element, then as a whole, unless the caller wants it whole.
//! A path that ends in something other than a document or array is missing, which is reported as such.
//! Callers: filters in `query_language`, `distinct`.

use std::ops::ControlFlow;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};

use crate::element::{Element, elements, elements_of_bytes};
use crate::path::FieldPath;
use crate::work;

/// What to do with an array at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafArrays {
    /// Visit each element, then the array itself.
    Expand,
    /// Visit only the array itself.
    Whole,
}

/// One place that the path leads to.
#[derive(Debug, Clone, Copy)]
pub struct PathItem<'a> {
    /// The element found; `None` when the path is missing here.
    pub element: Option<Element<'a>>,
    /// The position in the outermost array that was expanded on the way; an element that the path names by its position
    /// is not found by expanding.
    pub array_position: Option<usize>,
    /// True when the element was met by expanding an array at the end of the path.
    pub in_leaf_array: bool,
}

impl<'a> PathItem<'a> {
    /// The value found; `None` when the path is missing here.
    #[inline]
    pub fn value(&self) -> Option<RawBsonRef<'a>> {
        self.element.map(|element| element.value())
    }

    /// True when the path leads nowhere here.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.element.is_none()
    }
}

/// Visits every place in `document` that `path` leads to, until `visit` breaks.
#[inline]
pub fn walk_path<'a, B>(
    document: &'a RawDocument,
    path: &FieldPath,
    leaf_arrays: LeafArrays,
    mut visit: impl FnMut(PathItem<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let name = path.first().as_bytes();
    let found = elements(document).find_named(name);
    let ends_here = path.len() == 1 && !matches!(found, Some(Element { element_type: ElementType::Array, .. }));
    if found.is_none() || ends_here {
        return visit(PathItem { element: found, array_position: None, in_leaf_array: false });
    }
    Walk { path, leaf_arrays, visit: &mut visit }.continue_from(found, 1, None)
}

struct Walk<'w, V> {
    path: &'w FieldPath,
    leaf_arrays: LeafArrays,
    visit: &'w mut V,
}

impl<V> Walk<'_, V> {
    /// Walks from `found`, the element that the component before `next` leads to.
    fn continue_from<'a, B>(
        &mut self,
        found: Option<Element<'a>>,
        mut next: usize,
        array_position: Option<usize>,
    ) -> ControlFlow<B>
    where
        V: FnMut(PathItem<'a>) -> ControlFlow<B>,
    {
        let mut found = found;
        while let Some(element) = found {
            match element.element_type {
                ElementType::Array if next == self.path.len() => return self.end_at_array(element, array_position),
                ElementType::Array => return self.enter_array(element, next, array_position),
                _ if next == self.path.len() => break,
                ElementType::EmbeddedDocument => {
                    let name = self.path.name(next).as_bytes();
                    found = elements_of_bytes(element.value_bytes()).find_named(name);
                    next += 1;
                }
                _ => found = None,
            }
        }
        (self.visit)(PathItem { element: found, array_position, in_leaf_array: false })
    }

    /// Visits an array at the end of the path.
    fn end_at_array<'a, B>(&mut self, array: Element<'a>, array_position: Option<usize>) -> ControlFlow<B>
    where
        V: FnMut(PathItem<'a>) -> ControlFlow<B>,
    {
        if self.leaf_arrays == LeafArrays::Expand {
            for (position, element) in elements_of_bytes(array.value_bytes()).enumerate() {
                work::count(1);
                let array_position = array_position.or(Some(position));
                (self.visit)(PathItem { element: Some(element), array_position, in_leaf_array: true })?;
            }
        }
        (self.visit)(PathItem { element: Some(array), array_position, in_leaf_array: false })
    }

    /// Walks the rest of the path, from the component `next`, through the elements of an array.
    fn enter_array<'a, B>(&mut self, array: Element<'a>, next: usize, outer: Option<usize>) -> ControlFlow<B>
    where
        V: FnMut(PathItem<'a>) -> ControlFlow<B>,
    {
        let named_position = self.path.position(next);
        for (position, element) in elements_of_bytes(array.value_bytes()).enumerate() {
            work::count(1);
            let array_position = outer.or(Some(position));
            if element.element_type == ElementType::EmbeddedDocument {
                self.continue_from(Some(element), next, array_position)?;
            }
            if named_position == Some(position) {
                self.at_position(element, next + 1, outer)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Walks from an array element named by its position; `next` is the component after the position.
    fn at_position<'a, B>(&mut self, element: Element<'a>, next: usize, array_position: Option<usize>) -> ControlFlow<B>
    where
        V: FnMut(PathItem<'a>) -> ControlFlow<B>,
    {
        if next == self.path.len() {
            return (self.visit)(PathItem { element: Some(element), array_position, in_leaf_array: false });
        }
        if matches!(element.element_type, ElementType::EmbeddedDocument | ElementType::Array) {
            return self.continue_from(Some(element), next, array_position);
        }
        // A number or string in the middle of the path: like other scalars in arrays it is not reported as missing.
        ControlFlow::Continue(())
    }
}
