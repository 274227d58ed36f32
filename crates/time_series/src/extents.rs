//! The smallest and largest value of each field of a bucket: `control.min` and `control.max`, by which buckets are skipped.
//!
//! A field is there if all its values are numbers, or all are dates. Its absence says nothing.

use std::cmp::Ordering;

use bson::raw::CStr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Element, compare_values, elements, get_element};

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
    /// `None`: it has values of other types.
    range: Option<(RawBson, RawBson)>,
}

impl Extents {
    /// Those of a stored bucket.
    pub(crate) fn read(control: &RawDocument) -> Extents {
        let bounds = |name: &str| get_element(control, name).and_then(|bounds| bounds.value().as_document());
        let (Some(min), Some(max)) = (bounds("min"), bounds("max")) else {
            return Extents { fields: Vec::new(), is_sealed: true };
        };
        let extent = |low: Element<'_>| {
            let high = get_element(max, low.name())?;
            let range = (kind(low.value()).is_some() && kind(low.value()) == kind(high.value()))
                .then(|| (RawBson::from(low.value()), RawBson::from(high.value())));
            Some(Extent { name: low.name().to_owned(), range })
        };
        Extents { fields: elements(min).filter_map(extent).collect(), is_sealed: true }
    }

    /// Takes in a measurement, but for the field that names its series.
    pub(crate) fn add(&mut self, measurement: &RawDocument, meta: Option<&str>) {
        for element in elements(measurement).filter(|element| Some(element.name()) != meta) {
            match self.fields.iter_mut().find(|extent| extent.name == element.name()) {
                Some(extent) => extent.add(element.value()),
                None if self.is_sealed => {}
                None => {
                    let range =
                        kind(element.value()).map(|_| (RawBson::from(element.value()), RawBson::from(element.value())));
                    self.fields.push(Extent { name: element.name().to_owned(), range });
                }
            }
        }
    }

    /// `min` and `max`.
    pub(crate) fn to_documents(&self) -> (RawDocumentBuf, RawDocumentBuf) {
        let (mut min, mut max) = (RawDocumentBuf::new(), RawDocumentBuf::new());
        for extent in &self.fields {
            let (Some((low, high)), Ok(name)) = (&extent.range, <&CStr>::try_from(extent.name.as_str())) else {
                continue;
            };
            min.append(name, low.clone());
            max.append(name, high.clone());
        }
        (min, max)
    }
}

impl Extent {
    fn add(&mut self, value: RawBsonRef<'_>) {
        let Some((low, high)) = &mut self.range else { return };
        if kind(value).is_none() || kind(value) != kind(low.as_raw_bson_ref()) {
            self.range = None;
            return;
        }
        if compare_values(value, low.as_raw_bson_ref()) == Ordering::Less {
            *low = RawBson::from(value);
        }
        if compare_values(value, high.as_raw_bson_ref()) == Ordering::Greater {
            *high = RawBson::from(value);
        }
    }
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
