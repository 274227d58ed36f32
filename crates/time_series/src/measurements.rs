//! A bucket as the measurements in it, each as it was inserted.
//!
//! Reads Plimsoll's own layout and the first of MongoDB's, in which nothing is compressed (`uncompressed`).

use bson::raw::CString;
use bson::spec::ElementType;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Element, Limits, array_elements, elements, get_element, get_field, validate_document};

use crate::columns::{self, Rows};
use crate::extents::{self, Extents};
use crate::uncompressed::Uncompressed;
use crate::{BucketError, Fields, Result, damaged};

/// `control.version` of Plimsoll's own layout: MongoDB's are 1, 2 and 3.
pub const VERSION: i32 = 101;

/// The measurements of a bucket that are left.
pub struct Measurements {
    time: String,
    meta_field: Option<String>,
    /// The type and the bytes of what names the series.
    meta: Option<(u8, Vec<u8>)>,
    /// The fields that are wanted; `None` for all.
    wanted: Option<Vec<String>>,
    rows: Option<Rows>,
    uncompressed: Option<Uncompressed>,
    tail: std::vec::IntoIter<RawDocumentBuf>,
}

/// How a bucket is stored.
pub(crate) enum Layout {
    Own,
    Uncompressed,
}

/// How a bucket is stored.
pub(crate) fn layout_of(bucket: &RawDocument) -> Result<Layout> {
    let version = control(bucket).and_then(|control| get_field(control, "version"));
    let version = version.and_then(document::Number::from_bson).and_then(document::Number::to_i64_exact);
    match version {
        Some(own) if own == i64::from(VERSION) => Ok(Layout::Own),
        Some(1) => Ok(Layout::Uncompressed),
        Some(other) => Err(BucketError::NotImplemented(other)),
        None => damaged("it has no 'control.version'"),
    }
}

/// The field `control`.
pub(crate) fn control(bucket: &RawDocument) -> Option<&RawDocument> {
    get_field(bucket, "control").and_then(|control| control.as_document())
}

/// The earliest time that a bucket says it has, in milliseconds.
pub fn first_time(bucket: &RawDocument, fields: &Fields) -> Option<i64> {
    time_bound(bucket, "min", fields)
}

/// The latest time that a bucket says it has, in milliseconds.
pub fn last_time(bucket: &RawDocument, fields: &Fields) -> Option<i64> {
    time_bound(bucket, "max", fields)
}

fn time_bound(bucket: &RawDocument, bounds: &str, fields: &Fields) -> Option<i64> {
    match get_field(get_field(control(bucket)?, bounds)?.as_document()?, &fields.time)? {
        RawBsonRef::DateTime(time) => Some(time.timestamp_millis()),
        _ => None,
    }
}

/// The field `data`.
pub(crate) fn data(bucket: &RawDocument) -> Result<&RawDocument> {
    match get_field(bucket, "data").and_then(|data| data.as_document()) {
        Some(data) => Ok(data),
        None => damaged("it has no 'data'"),
    }
}

/// The columns of Plimsoll's own layout, if there are any yet.
pub(crate) fn columns_of(data: &RawDocument) -> Option<&[u8]> {
    get_field(data, "columns").and_then(|columns| match columns {
        RawBsonRef::Binary(binary) => Some(binary.bytes),
        _ => None,
    })
}

/// What is not in columns yet.
pub(crate) fn tail_of(data: &RawDocument) -> impl Iterator<Item = &RawDocument> {
    let tail = get_field(data, "tail").and_then(|tail| tail.as_array());
    tail.into_iter().flat_map(array_elements).filter_map(|item| item.value().as_document())
}

/// How many measurements a bucket has, without reading them where it says so.
///
/// # Errors
/// Those of [`Measurements::of`].
pub fn measurement_count(bucket: &RawDocument, fields: &Fields) -> Result<u64> {
    match layout_of(bucket)? {
        Layout::Own => {
            let data = data(bucket)?;
            let in_columns = columns_of(data).map_or(Ok(0), columns::count)?;
            Ok((in_columns + tail_of(data).count()) as u64)
        }
        Layout::Uncompressed => {
            let times = get_field(data(bucket)?, &fields.time).and_then(|times| times.as_document());
            Ok(times.map_or(0, |times| elements(times).count() as u64))
        }
    }
}

/// Looks whether a document that somebody else has made is a bucket, whole. Gives it with other bounds in `control` where
/// its own would have filters pass over measurements that match: other servers keep them by another rule.
///
/// # Errors
/// Those of [`Measurements::of`].
pub fn check(bucket: &RawDocument, fields: &Fields) -> Result<Option<RawDocumentBuf>> {
    if control(bucket).is_none() {
        return damaged("it has no 'control'");
    }
    if first_time(bucket, fields).and(last_time(bucket, fields)).is_none() {
        return damaged("its 'control' does not say from when to when it is");
    }
    if get_element(bucket, "_id").is_none_or(|id| id.element_type != ElementType::ObjectId) {
        return damaged("its '_id' is no ObjectId");
    }
    let mut measurements = Measurements::of(bucket, fields, None)?;
    let mut exact = Extents::default();
    while let Some(measurement) = measurements.next()? {
        exact.add(&measurement, fields.meta.as_deref());
        if validate_document(measurement.as_bytes(), &Limits::USER).is_err() {
            return damaged("a measurement is no document");
        }
        if get_element(&measurement, &fields.time).is_none_or(|time| time.element_type != ElementType::DateTime) {
            return damaged("a measurement has no time");
        }
    }
    let corrected = control(bucket).and_then(|control| extents::corrected(control, &exact, &fields.time));
    Ok(corrected.map(|(min, max)| with_bounds(bucket, &min, &max)))
}

/// The bucket with these bounds.
fn with_bounds(bucket: &RawDocument, min: &RawDocument, max: &RawDocument) -> RawDocumentBuf {
    let replaced = |document: &RawDocument, replace: &dyn Fn(&str) -> Option<RawBson>| {
        let mut copy = RawDocumentBuf::new();
        for element in elements(document) {
            let value = replace(element.name()).unwrap_or_else(|| RawBson::from(element.value()));
            // A name of a document has no NUL byte.
            if let Ok(name) = CString::try_from(element.name()) {
                copy.append(name, value);
            }
        }
        copy
    };
    let bounds = |name: &str| match name {
        "min" => Some(RawBson::Document(min.to_owned())),
        "max" => Some(RawBson::Document(max.to_owned())),
        _ => None,
    };
    replaced(bucket, &|name| {
        let control = control(bucket).filter(|_| name == "control")?;
        Some(RawBson::Document(replaced(control, &bounds)))
    })
}

impl Measurements {
    /// Opens a bucket; of each measurement the `wanted` fields are given, or all.
    ///
    /// # Errors
    /// `Damaged`, `NotImplemented`.
    pub fn of(bucket: &RawDocument, fields: &Fields, wanted: Option<&[String]>) -> Result<Measurements> {
        let meta = get_element(bucket, "meta").map(|meta| (meta.element_type as u8, meta.value_bytes().to_vec()));
        let mut opened = Measurements {
            time: fields.time.clone(),
            meta_field: fields.meta.clone(),
            meta,
            wanted: wanted.map(<[String]>::to_vec),
            rows: None,
            uncompressed: None,
            tail: Vec::new().into_iter(),
        };
        match layout_of(bucket)? {
            Layout::Own => {
                let data = data(bucket)?;
                let is_wanted = |name: &[u8]| opened.wants(name);
                opened.rows = columns_of(data).map(|columns| Rows::open(columns, &is_wanted)).transpose()?;
                opened.tail = tail_of(data).map(ToOwned::to_owned).collect::<Vec<_>>().into_iter();
            }
            Layout::Uncompressed => opened.uncompressed = Some(Uncompressed::open(data(bucket)?, &opened.time)?),
        }
        Ok(opened)
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        let in_columns = self.rows.as_ref().map_or(0, Rows::left);
        in_columns + self.tail.len() + self.uncompressed.as_ref().map_or(0, Uncompressed::left)
    }

    /// Bytes that are held for them.
    pub fn held_bytes(&self) -> usize {
        let tail: usize = self.tail.as_slice().iter().map(|document| document.as_bytes().len()).sum();
        tail + self.rows.as_ref().map_or(0, Rows::held_bytes)
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|field| field.as_bytes() == name))
    }

    /// The next one.
    ///
    /// # Errors
    /// `Damaged`.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let mut bytes = Vec::new();
        Ok(if self.write_next(&mut bytes)? { Some(finished(bytes)?) } else { None })
    }

    /// The next one, over what is in `bytes`; `false` at the end.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn write_next(&mut self, bytes: &mut Vec<u8>) -> Result<bool> {
        bytes.clear();
        bytes.extend_from_slice(&[0; 4]);
        let wanted = self.wanted.as_deref();
        let mut writer = Writer {
            bytes: &mut *bytes,
            meta_field: self.meta_field.as_deref(),
            meta: self.meta.as_ref(),
            placed: false,
        };
        let is_there = match (&mut self.rows, &mut self.uncompressed) {
            (Some(rows), _) if rows.left() > 0 => {
                // What is not wanted was not opened.
                rows.next(|name, tag, value| writer.write(name, tag, value))?
            }
            (_, Some(uncompressed)) => uncompressed.next(|name, tag, value| {
                if wanted.is_none_or(|wanted| wanted.iter().any(|field| field.as_bytes() == name)) {
                    writer.write(name, tag, value);
                }
            }),
            _ => match self.tail.next() {
                Some(document) => {
                    for element in elements(&document) {
                        if wanted.is_none_or(|wanted| wanted.iter().any(|field| field == element.name())) {
                            writer.element(element);
                        }
                    }
                    true
                }
                None => false,
            },
        };
        let is_meta_wanted = |field: &str| wanted.is_none_or(|wanted| wanted.iter().any(|wanted| wanted == field));
        if self.meta_field.as_deref().is_some_and(is_meta_wanted) {
            writer.finish();
        }
        bytes.push(0);
        let length = (bytes.len() as i32).to_le_bytes();
        bytes.splice(..4, length);
        Ok(is_there)
    }
}

fn finished(bytes: Vec<u8>) -> Result<RawDocumentBuf> {
    RawDocumentBuf::from_bytes(bytes).map_err(|error| BucketError::Damaged(error.to_string()))
}

/// Writes fields of a measurement, with what the bucket says of its series in its place.
struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    meta_field: Option<&'a str>,
    meta: Option<&'a (u8, Vec<u8>)>,
    placed: bool,
}

impl Writer<'_> {
    fn element(&mut self, element: Element<'_>) {
        self.write(element.name_bytes(), element.element_type as u8, element.value_bytes());
    }

    fn write(&mut self, name: &[u8], tag: u8, value: &[u8]) {
        if !self.placed && self.meta_field.is_some_and(|meta| meta.as_bytes() == name) {
            self.placed = true;
            // An update may have taken it away.
            if let Some((tag, value)) = self.meta {
                append(self.bytes, name, *tag, value);
            }
            return;
        }
        append(self.bytes, name, tag, value);
    }

    /// An update may have given the series a name.
    fn finish(&mut self) {
        if let (false, Some(name), Some((tag, value))) = (self.placed, self.meta_field, self.meta) {
            append(self.bytes, name.as_bytes(), *tag, value);
        }
    }
}

fn append(bytes: &mut Vec<u8>, name: &[u8], tag: u8, value: &[u8]) {
    bytes.push(tag);
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes.extend_from_slice(value);
}
