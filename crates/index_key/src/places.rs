//! The keys of 2dsphere and 2d indexes: for each place in a document the cells that have it, beside the values of
//! other fields.
//!
//! Called by `generate` for such a pattern. A document has a key for each choice of one cell or value a field; without
//! any place it has none. A cell of the sphere is its number in S2, one of a grid eight bytes (`geometry::GridCell`).
//!
//! ```text
//! {loc: {type: "Point", ...}, a: 1}     ("2dsphere", 1)   (number of the smallest cell, 1)
//! {loc: {type: "Polygon", ...}, a: 1}   ("2dsphere", 1)   (cell, 1) (cell, 1) ... some twenty that cover it
//! {loc: [[1, 2], [3, 4]], a: [5, 6]}    ("2d", 1)         (cell, 5) (cell, 6) (other cell, 5) (other cell, 6)
//! ```

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use document::{Element, FieldPath, Number, ValueView, elements_of_bytes, work};
use geometry::{
    Cell, CellLevels, Check, GeometryError, Grid, Target, covering, is_geojson, parse_flat_point, parse_location,
};

use crate::encode::encode_view;
use crate::error::KeyError;
use crate::key_pattern::{Direction, FieldKind, KeyPattern};
use crate::key_set::KeySet;

/// How an index parts the sphere, or the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaceCells {
    /// Of 2dsphere fields.
    pub levels: CellLevels,
    /// Of a 2d field.
    pub grid: Grid,
}

impl PlaceCells {
    /// Those that areas are covered by which are asked for: as large as they come.
    pub fn levels_of_queries(&self) -> CellLevels {
        CellLevels { coarsest: 0, ..self.levels }
    }
}

impl Default for PlaceCells {
    fn default() -> PlaceCells {
        PlaceCells { levels: CellLevels { coarsest: 0, finest: 23 }, grid: Grid::default() }
    }
}

/// Cells that a shape is covered by.
const CELLS_MAX: usize = 20;
/// The subtype of what a key has of a cell of a grid.
const CELL_SUBTYPE: u8 = 128;

/// What one key has of a field.
#[derive(Clone, Copy)]
enum Component<'d> {
    Cell(i64),
    GridCell([u8; 8]),
    Value(ValueView<'d>),
}

/// Writes the keys of `document` into `keys`, sorted and without duplicates.
pub(crate) fn expand(
    pattern: &KeyPattern,
    cells: &PlaceCells,
    document: &RawDocument,
    keys: &mut KeySet,
) -> Result<(), KeyError> {
    let mut fields = Vec::with_capacity(pattern.fields().len());
    let mut has_place = false;
    for (position, field) in pattern.fields().iter().enumerate() {
        let gathering =
            Gathering { path: &field.path, position, field_count: pattern.fields().len(), kind: field.kind };
        let mut values = Vec::new();
        gathering.in_document(document.as_bytes(), 0, keys, &mut values)?;
        let components = match field.kind {
            FieldKind::Sphere | FieldKind::Plane => {
                let found = gathering.cells(&values, cells)?;
                has_place |= !found.is_empty();
                if found.is_empty() { vec![Component::Value(ValueView::Null)] } else { found }
            }
            _ => values
                .into_iter()
                .map(|element| Component::Value(element.map_or(ValueView::Null, Found::view)))
                .collect(),
        };
        fields.push((field.direction, components));
    }
    if !has_place {
        return Ok(());
    }
    write_all(pattern, &fields, keys)?;
    keys.sort()?;
    Ok(())
}

/// A key for each choice of one component a field: the last field's change first.
fn write_all(
    pattern: &KeyPattern,
    fields: &[(Direction, Vec<Component<'_>>)],
    keys: &mut KeySet,
) -> Result<(), KeyError> {
    let mut choice = vec![0usize; fields.len()];
    loop {
        work::done(fields.len())?;
        let (out, type_bits) = keys.begin_key();
        for ((direction, components), chosen) in fields.iter().zip(&choice) {
            let bytes;
            let view = match components.get(*chosen) {
                Some(Component::Cell(number)) => ValueView::Int64(*number),
                Some(Component::GridCell(cell)) => {
                    bytes = *cell;
                    ValueView::Binary { subtype: CELL_SUBTYPE, bytes: &bytes }
                }
                Some(Component::Value(view)) => *view,
                None => ValueView::Null,
            };
            encode_view(out, type_bits, view, *direction, pattern.collator());
        }
        keys.finish_key();
        keys.check_limits()?;
        let next = fields.iter().zip(&choice).rposition(|((_, components), chosen)| chosen + 1 < components.len());
        let Some(next) = next else { return Ok(()) };
        for (position, chosen) in choice.iter_mut().enumerate().skip(next) {
            *chosen = if position == next { *chosen + 1 } else { 0 };
        }
    }
}

/// What a path leads to: a value, or an array that is empty.
#[derive(Clone, Copy)]
enum Found<'d> {
    Value(Element<'d>),
    Empty,
}

impl<'d> Found<'d> {
    fn view(self) -> ValueView<'d> {
        match self {
            Found::Value(element) => element.view(),
            Found::Empty => ValueView::Undefined,
        }
    }
}

/// The values of one field of the pattern.
struct Gathering<'p> {
    path: &'p FieldPath,
    position: usize,
    field_count: usize,
    kind: FieldKind,
}

impl Gathering<'_> {
    fn in_document<'d>(
        &self,
        stored: &'d [u8],
        next: usize,
        keys: &mut KeySet,
        values: &mut Vec<Option<Found<'d>>>,
    ) -> Result<(), KeyError> {
        work::search(stored)?;
        match elements_of_bytes(stored).find_named(self.path.name(next).as_bytes()) {
            Some(element) => self.at(element, next + 1, keys, values),
            None => {
                values.push(None);
                Ok(())
            }
        }
    }

    /// The component before `next` led to this element.
    fn at<'d>(
        &self,
        element: Element<'d>,
        next: usize,
        keys: &mut KeySet,
        values: &mut Vec<Option<Found<'d>>>,
    ) -> Result<(), KeyError> {
        let is_end = next == self.path.len();
        match element.element_type {
            ElementType::Array if is_end && self.is_pair(element) => values.push(Some(Found::Value(element))),
            ElementType::Array => return self.in_array(element, next, keys, values),
            _ if is_end => values.push(Some(Found::Value(element))),
            ElementType::EmbeddedDocument => return self.in_document(element.value_bytes(), next, keys, values),
            _ => values.push(None),
        }
        Ok(())
    }

    fn in_array<'d>(
        &self,
        array: Element<'d>,
        next: usize,
        keys: &mut KeySet,
        values: &mut Vec<Option<Found<'d>>>,
    ) -> Result<(), KeyError> {
        let stored = array.value_bytes();
        let is_end = next == self.path.len();
        work::search(stored)?;
        if let Some(position) = self.path.position(next).filter(|_| !is_end)
            && let Some(element) = elements_of_bytes(stored).nth(position)
        {
            return self.at(element, next + 1, keys, values);
        }
        keys.note_array(self.position, next - 1, self.field_count);
        let mut is_empty = true;
        for item in elements_of_bytes(stored) {
            work::step()?;
            is_empty = false;
            match item.element_type {
                _ if is_end => values.push(Some(Found::Value(item))),
                ElementType::EmbeddedDocument => self.in_document(item.value_bytes(), next, keys, values)?,
                _ => values.push(None),
            }
        }
        if is_empty {
            values.push(is_end.then_some(Found::Empty));
        }
        Ok(())
    }

    /// Of a place, an array that begins with a number is one place and not several.
    fn is_pair(&self, array: Element<'_>) -> bool {
        let is_place = matches!(self.kind, FieldKind::Sphere | FieldKind::Plane);
        let first = elements_of_bytes(array.value_bytes()).next();
        is_place && first.is_some_and(|first| Number::from_view(first.view()).is_some())
    }

    /// The cells of the places among the values; what is null is none.
    fn cells<'d>(&self, values: &[Option<Found<'d>>], cells: &PlaceCells) -> Result<Vec<Component<'d>>, KeyError> {
        let mut found = Vec::new();
        for value in values {
            work::step()?;
            let element = match value {
                Some(Found::Value(element)) if !element.is_null() => element,
                _ => continue,
            };
            match self.kind {
                FieldKind::Plane => found.push(Component::GridCell(grid_cell(element.value(), &cells.grid)?)),
                _ => found
                    .extend(sphere_cells(self.path, element.value(), cells.levels)?.into_iter().map(Component::Cell)),
            }
        }
        Ok(found)
    }
}

fn sphere_cells(path: &FieldPath, value: RawBsonRef<'_>, levels: CellLevels) -> Result<Vec<i64>, KeyError> {
    let refused = |reason: &str| KeyError::BadPlace { field: path.as_str().to_owned(), reason: reason.to_owned() };
    let location = parse_location(value, Check::Full).map_err(|error| match error {
        GeometryError::Invalid(reason) => refused(&reason),
        GeometryError::Interrupted(interruption) => interruption.into(),
    })?;
    let Some(shape) = location.shape else {
        let (x, y) = location.flat.map_or((0.0, 0.0), |point| (point.x, point.y));
        return Err(refused(&format!("longitude/latitude is out of bounds, lng: {x} lat: {y}")));
    };
    if shape.is_strict() {
        return Err(refused("a polygon whose winding counts can be asked for, but not stored in an index"));
    }
    if let Some(point) = shape.as_point() {
        return Ok(vec![Cell::of_point(point).number()]);
    }
    let cells = covering(Target::Shape(&shape), levels, CELLS_MAX)?;
    if cells.len() > geometry::CELLS_MAX {
        let reason = format!("it has more than {} cells of the coarsest level", geometry::CELLS_MAX);
        return Err(refused(&reason));
    }
    Ok(cells.into_iter().map(Cell::number).collect())
}

fn grid_cell(value: RawBsonRef<'_>, grid: &Grid) -> Result<[u8; 8], KeyError> {
    let refused = |code: u32, reason: &str| KeyError::BadPair { code, reason: reason.to_owned() };
    match value {
        RawBsonRef::Document(document) if is_geojson(document) => {
            return Err(refused(13026, "geo values must be 'legacy coordinate pairs' for 2d indexes"));
        }
        RawBsonRef::Document(_) | RawBsonRef::Array(_) => {}
        _ => return Err(refused(16804, "location object expected, location array not in correct format")),
    }
    let cell = parse_flat_point(value).map_err(|error| {
        refused(13026, &format!("geo values must be 'legacy coordinate pairs' for 2d indexes: {error}"))
    })?;
    let cell = grid.cell(cell).map_err(|error| refused(13027, &error.to_string()))?;
    Ok(cell.first_key().to_be_bytes())
}
