//! A bucket that is being filled: measurements are added to it, and it becomes a document again.
//!
//! The newest measurements stand in a short *tail* as they are; when it is full they go into the columns with the others.
//! So a single insert writes little more than itself, and columns are made anew once for many.

use bson::oid::ObjectId;
use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, cstr};
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, RawDocument, RawDocumentBuf};
use document::{Element, append_element_bytes, document_id, elements, get_element, get_field};

use crate::columns::encode;
use crate::extents::Extents;
use crate::measurements::{Layout, Measurements, VERSION, columns_of, control, data, layout_of, tail_of};
use crate::{BucketError, Fields, Result, damaged};

/// Most measurements of a bucket.
pub const MEASUREMENTS_MAX: usize = 1_000;
/// Most bytes of a bucket's measurements as documents, unless it has one alone.
pub const BUCKET_BYTES_MAX: usize = 125 << 10;
/// Measurements that wait to be put into columns.
const TAIL_MAX: usize = 32;
/// Of those that are user-defined.
const SUBTYPE: BinarySubtype = BinarySubtype::UserDefined(0x80);

/// See the module's head.
pub struct BucketBuilder<'f> {
    fields: &'f Fields,
    id: ObjectId,
    /// An element `meta`, with which the document is made.
    meta: Option<RawDocumentBuf>,
    columns: Option<Vec<u8>>,
    in_columns: usize,
    tail: Vec<RawDocumentBuf>,
    bytes: usize,
    extents: Extents,
}

impl<'f> BucketBuilder<'f> {
    /// An empty bucket of a series.
    pub fn new(fields: &'f Fields, id: ObjectId, meta: Option<Element<'_>>) -> Self {
        let meta = meta.map(|meta| single(cstr!("meta"), RawBson::from(meta.value())));
        let (columns, extents) = (None, Extents::default());
        Self { fields, id, meta, columns, in_columns: 0, tail: Vec::new(), bytes: 0, extents }
    }

    /// A stored bucket. One in another layout is filled no further.
    ///
    /// # Errors
    /// `Damaged`, `NotImplemented`.
    pub fn read(bucket: &RawDocument, fields: &'f Fields) -> Result<Self> {
        let (Layout::Own, Some(control)) = (layout_of(bucket)?, control(bucket)) else {
            return damaged("it is in a layout that is not written");
        };
        let Some(RawBsonRef::ObjectId(id)) = document_id(bucket) else { return damaged("its '_id' is no ObjectId") };
        let data = data(bucket)?;
        let columns = columns_of(data).map(<[u8]>::to_vec);
        let in_columns = columns.as_deref().map_or(Ok(0), crate::columns::count)?;
        let bytes = get_field(control, "bytes").and_then(|bytes| bytes.as_i32()).unwrap_or(i32::MAX);
        Ok(Self {
            fields,
            id,
            meta: get_element(bucket, "meta").map(|meta| single(cstr!("meta"), RawBson::from(meta.value()))),
            columns,
            in_columns,
            tail: tail_of(data).map(ToOwned::to_owned).collect(),
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            extents: Extents::read(control),
        })
    }

    /// How many measurements it has.
    pub fn count(&self) -> usize {
        self.in_columns + self.tail.len()
    }

    /// Whether a measurement of so many bytes may be added.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.count() == 0 || (self.count() < MEASUREMENTS_MAX && self.bytes.saturating_add(bytes) <= BUCKET_BYTES_MAX)
    }

    /// Whether the series is the one that `meta` names.
    pub fn is_of(&self, meta: Option<Element<'_>>) -> bool {
        let own = self.meta.as_ref().and_then(|own| elements(own).next());
        match (own, meta) {
            (Some(own), Some(meta)) => own.element_type == meta.element_type && own.value_bytes() == meta.value_bytes(),
            (own, meta) => own.is_none() && meta.is_none(),
        }
    }

    /// Adds a measurement.
    ///
    /// # Errors
    /// `Damaged` for what is no document.
    pub fn push(&mut self, measurement: &RawDocument) -> Result<()> {
        self.extents.add(measurement, self.fields.meta.as_deref());
        self.bytes = self.bytes.saturating_add(measurement.as_bytes().len());
        self.tail.push(without_meta(measurement, self.fields.meta.as_deref())?);
        Ok(())
    }

    /// Adds those of the first measurements that it has room for, and says how many.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn fill(&mut self, measurements: &[&RawDocument]) -> Result<usize> {
        let before = self.count();
        for measurement in measurements {
            if !self.has_room(measurement.as_bytes().len()) {
                break;
            }
            self.push(measurement)?;
        }
        Ok(self.count() - before)
    }

    /// The bucket as a document.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn finish(mut self) -> Result<RawDocumentBuf> {
        // One more of the usual size would not fit.
        let is_full = !self.has_room(self.bytes / self.count().max(1));
        if self.tail.len() >= TAIL_MAX || (is_full && !self.tail.is_empty()) {
            self.put_into_columns()?;
        }
        let (min, max) = self.extents.to_documents();
        let mut control = RawDocumentBuf::new();
        control.append(cstr!("version"), VERSION);
        control.append(cstr!("min"), min);
        control.append(cstr!("max"), max);
        control.append(cstr!("count"), self.count() as i32);
        control.append(cstr!("bytes"), i32::try_from(self.bytes).unwrap_or(i32::MAX));
        if is_full {
            control.append(cstr!("closed"), true);
        }
        let mut data = RawDocumentBuf::new();
        if let Some(bytes) = self.columns {
            data.append(cstr!("columns"), RawBson::Binary(Binary { subtype: SUBTYPE, bytes }));
        }
        if !self.tail.is_empty() {
            data.append(cstr!("tail"), self.tail.into_iter().map(RawBson::Document).collect::<RawArrayBuf>());
        }
        let mut bucket = RawDocumentBuf::new();
        bucket.append(cstr!("_id"), self.id);
        bucket.append(cstr!("control"), control);
        if let Some(meta) = self.meta.as_ref().and_then(|meta| elements(meta).next()) {
            bucket.append(cstr!("meta"), RawBson::from(meta.value()));
        }
        bucket.append(cstr!("data"), data);
        Ok(bucket)
    }

    /// All measurements by columns, with extents of all fields.
    fn put_into_columns(&mut self) -> Result<()> {
        let mut all = Vec::with_capacity(self.count());
        if let Some(columns) = &self.columns {
            let mut rows = crate::columns::Rows::open(columns, &|_| true)?;
            loop {
                let mut bytes = vec![0; 4];
                let is_there = rows.next(|name, tag, value| {
                    bytes.push(tag);
                    bytes.extend_from_slice(name);
                    bytes.push(0);
                    bytes.extend_from_slice(value);
                })?;
                if !is_there {
                    break;
                }
                all.push(document_of(bytes)?);
            }
        }
        all.append(&mut self.tail);
        let mut extents = Extents::default();
        all.iter().for_each(|measurement| extents.add(measurement, self.fields.meta.as_deref()));
        self.extents = extents;
        self.in_columns = all.len();
        self.columns = Some(encode(&all.iter().map(|measurement| &**measurement).collect::<Vec<_>>()));
        Ok(())
    }
}

/// The measurement with null in the place of what names its series, which the bucket says once.
fn without_meta(measurement: &RawDocument, meta: Option<&str>) -> Result<RawDocumentBuf> {
    let mut bytes = vec![0; 4];
    let mut is_left_out = false;
    for element in elements(measurement) {
        if !is_left_out && Some(element.name()) == meta {
            is_left_out = true;
            bytes.push(ElementType::Null as u8);
            bytes.extend_from_slice(element.name_bytes());
            bytes.push(0);
        } else {
            append_element_bytes(&mut bytes, element);
        }
    }
    document_of(bytes)
}

/// The document of these elements, of which the first four bytes are room for the length.
fn document_of(mut bytes: Vec<u8>) -> Result<RawDocumentBuf> {
    bytes.push(0);
    let length = (bytes.len() as i32).to_le_bytes();
    bytes.splice(..4, length);
    RawDocumentBuf::from_bytes(bytes).map_err(|error| BucketError::Damaged(error.to_string()))
}

fn single(name: &bson::raw::CStr, value: RawBson) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(name, value);
    document
}

/// The bucket with another name of its series, or none.
///
/// # Errors
/// `Damaged`.
pub fn with_meta(bucket: &RawDocument, meta: Option<RawBsonRef<'_>>) -> Result<RawDocumentBuf> {
    let mut bytes = vec![0; 4];
    for element in elements(bucket).filter(|element| element.name() != "meta") {
        if let (Some(meta), "data") = (meta, element.name()) {
            let meta = single(cstr!("meta"), RawBson::from(meta));
            elements(&meta).for_each(|meta| append_element_bytes(&mut bytes, meta));
        }
        append_element_bytes(&mut bytes, element);
    }
    document_of(bytes)
}

/// What is left of a bucket without some of its measurements.
impl BucketBuilder<'_> {
    /// The bucket with the measurements that `keep` wants, `None` when it wants none, and how many it did not want.
    ///
    /// # Errors
    /// `Damaged`, `NotImplemented`; those of `keep`.
    pub fn retain<E: From<BucketError>>(
        bucket: &RawDocument,
        fields: &Fields,
        mut keep: impl FnMut(&RawDocument) -> std::result::Result<bool, E>,
    ) -> std::result::Result<(Option<RawDocumentBuf>, u64), E> {
        let Some(RawBsonRef::ObjectId(id)) = document_id(bucket) else {
            return Ok(damaged("its '_id' is no ObjectId")?);
        };
        let mut left = BucketBuilder::new(fields, id, get_element(bucket, "meta"));
        let (mut measurements, mut removed) = (Measurements::of(bucket, fields, None)?, 0);
        while let Some(measurement) = measurements.next()? {
            if keep(&measurement)? { left.push(&measurement)? } else { removed += 1 }
        }
        if left.count() == 0 {
            return Ok((None, removed));
        }
        // It may have grown beyond what is written: as one of another server's.
        left.put_into_columns()?;
        Ok((Some(left.finish()?), removed))
    }
}
