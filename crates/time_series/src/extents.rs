//! The smallest and largest value of each field of a bucket: `control.min` and `control.max`, by which buckets are skipped.
//!
//! A field is there if all its values are numbers, or all are dates, or all are documents, whose fields are then told of
//! in the same way. Its absence says nothing.

use std::cmp::Ordering;

use bson::raw::{CStr, CString};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{compare_values, elements, get_element};

/// Documents in one another whose fields are told of.
const LEVELS_MAX: usize = 16;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    fields: Vec<Extent>,
    /// Measurements have been left out: a field that is not here may have any values.
    is_sealed: bool,
}

#[derive(Debug)]
struct Extent {
    name: String,
    values: Values,
}

/// What the values of a field are.
#[derive(Debug)]
enum Values {
    /// From the smallest to the largest.
    Between(RawBson, RawBson),
    Documents(Extents),
    /// Of several types, or of one that has no extents.
    Any,
}

impl Extents {
    /// Those of a stored bucket.
    pub(crate) fn read(control: &RawDocument) -> Extents {
        let bounds = |name: &str| get_element(control, name).and_then(|bounds| bounds.value().as_document());
        match (bounds("min"), bounds("max")) {
            (Some(min), Some(max)) => Extents::between(min, max, 0),
            _ => Extents { fields: Vec::new(), is_sealed: true },
        }
    }

    fn between(min: &RawDocument, max: &RawDocument, level: usize) -> Extents {
        let mut fields = Vec::new();
        for low in elements(min) {
            let high = get_element(max, low.name()).map_or(RawBsonRef::Null, |high| high.value());
            let values = match (low.value(), high) {
                (RawBsonRef::Document(low), RawBsonRef::Document(high)) if level < LEVELS_MAX => {
                    Values::Documents(Extents::between(low, high, level + 1))
                }
                (low, high) if kind(low).is_some() && kind(low) == kind(high) => {
                    Values::Between(RawBson::from(low), RawBson::from(high))
                }
                _ => Values::Any,
            };
            fields.push(Extent { name: low.name().to_owned(), values });
        }
        for alone in elements(max).filter(|high| get_element(min, high.name()).is_none()) {
            fields.push(Extent { name: alone.name().to_owned(), values: Values::Any });
        }
        Extents { fields, is_sealed: true }
    }

    /// Takes in a measurement, but for the field that names its series.
    pub(crate) fn add(&mut self, measurement: &RawDocument, meta: Option<&str>) {
        self.add_document(measurement, meta, 0);
    }

    fn add_document(&mut self, document: &RawDocument, left_out: Option<&str>, level: usize) {
        for element in elements(document).filter(|element| Some(element.name()) != left_out) {
            match self.fields.iter_mut().find(|extent| extent.name == element.name()) {
                Some(extent) => extent.values.add(element.value(), level),
                None if self.is_sealed => {}
                None => {
                    let (name, values) = (element.name().to_owned(), Values::of(element.value(), level));
                    self.fields.push(Extent { name, values });
                }
            }
        }
    }

    /// Whether what they say is so where the others are exact.
    fn hold_for(&self, exact: &Extents) -> bool {
        self.fields.iter().all(|given| {
            let exact = exact.fields.iter().find(|exact| exact.name == given.name);
            exact.is_none_or(|exact| given.values.hold_for(&exact.values))
        })
    }

    /// `min` and `max`.
    pub(crate) fn to_documents(&self) -> (RawDocumentBuf, RawDocumentBuf) {
        let (mut min, mut max) = (RawDocumentBuf::new(), RawDocumentBuf::new());
        for extent in &self.fields {
            let Ok(name) = <&CStr>::try_from(extent.name.as_str()) else { continue };
            match &extent.values {
                Values::Between(low, high) => {
                    min.append(name, low.clone());
                    max.append(name, high.clone());
                }
                Values::Documents(inner) => {
                    let (low, high) = inner.to_documents();
                    min.append(name, low);
                    max.append(name, high);
                }
                Values::Any => {}
            }
        }
        (min, max)
    }
}

impl Values {
    fn hold_for(&self, exact: &Values) -> bool {
        match (self, exact) {
            (Values::Documents(given), Values::Documents(exact)) => given.hold_for(exact),
            (Values::Between(low, high), Values::Between(exact_low, exact_high)) => {
                let (low, high) = (low.as_raw_bson_ref(), high.as_raw_bson_ref());
                let (exact_low, exact_high) = (exact_low.as_raw_bson_ref(), exact_high.as_raw_bson_ref());
                kind(low) == kind(exact_low)
                    && compare_values(low, exact_low) != Ordering::Greater
                    && compare_values(high, exact_high) != Ordering::Less
            }
            _ => false,
        }
    }

    fn of(value: RawBsonRef<'_>, level: usize) -> Values {
        match value {
            RawBsonRef::Document(document) if level < LEVELS_MAX => {
                let mut inner = Extents::default();
                inner.add_document(document, None, level + 1);
                Values::Documents(inner)
            }
            value if kind(value).is_some() => Values::Between(RawBson::from(value), RawBson::from(value)),
            _ => Values::Any,
        }
    }

    fn add(&mut self, value: RawBsonRef<'_>, level: usize) {
        match (&mut *self, value) {
            (Values::Documents(inner), RawBsonRef::Document(document)) => inner.add_document(document, None, level + 1),
            (Values::Between(low, high), value)
                if kind(value).is_some_and(|own| kind(low.as_raw_bson_ref()) == Some(own)) =>
            {
                if compare_values(value, low.as_raw_bson_ref()) == Ordering::Less {
                    *low = RawBson::from(value);
                }
                if compare_values(value, high.as_raw_bson_ref()) == Ordering::Greater {
                    *high = RawBson::from(value);
                }
            }
            _ => *self = Values::Any,
        }
    }
}

/// The bounds as they are to be, where those that somebody else has given say what is not so of some field: other servers
/// keep them of values of several types, too, in an order of their own. What is said of the time stays.
pub(crate) fn corrected(
    control: &RawDocument,
    exact: &Extents,
    time: &str,
) -> Option<(RawDocumentBuf, RawDocumentBuf)> {
    if Extents::read(control).hold_for(exact) {
        return None;
    }
    let given = |name: &str| get_element(control, name).and_then(|bounds| bounds.value().as_document());
    let (min, max) = exact.to_documents();
    Some((with_time(&min, given("min"), time), with_time(&max, given("max"), time)))
}

fn with_time(exact: &RawDocument, given: Option<&RawDocument>, time: &str) -> RawDocumentBuf {
    let given = given.and_then(|given| get_element(given, time));
    let mut bounds = RawDocumentBuf::new();
    for element in elements(exact) {
        let value = given.filter(|_| element.name() == time).map_or(element.value(), |given| given.value());
        if let Ok(name) = CString::try_from(element.name()) {
            bounds.append(name, RawBson::from(value));
        }
    }
    bounds
}

/// Values that are compared with one another and with nothing else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Date,
}

/// What a value is; `None` for all that extents are not kept of.
pub(crate) fn kind(value: RawBsonRef<'_>) -> Option<Kind> {
    match value {
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) => Some(Kind::Number),
        RawBsonRef::Double(number) if !number.is_nan() => Some(Kind::Number),
        RawBsonRef::DateTime(_) => Some(Kind::Date),
        _ => None,
    }
}
