//! `timeseries` of `create`: which field is the time, which one names the series, and how long a bucket spans.
//!
//! Called by `options`, which keeps it with the collection of buckets (`system.buckets.NAME`), and by `collMod`.
//! What a bucket is: the crate `time_series`.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocumentBuf};
use document::Number;

use crate::error::{CollectionError, Result};
use crate::options::wrong_type;

/// Longest span of a bucket: a year of 365 days.
const SPAN_SECONDS_MAX: i64 = 31_536_000;

/// How far measurements of one series are usually apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    /// Buckets of an hour.
    Seconds,
    /// Buckets of a day.
    Minutes,
    /// Buckets of 30 days.
    Hours,
}

impl Granularity {
    fn parse(field: &str, value: RawBsonRef<'_>) -> Result<Granularity> {
        match value {
            RawBsonRef::String("seconds") => Ok(Granularity::Seconds),
            RawBsonRef::String("minutes") => Ok(Granularity::Minutes),
            RawBsonRef::String("hours") => Ok(Granularity::Hours),
            RawBsonRef::String(other) => Err(CollectionError::BadValue(format!(
                "Enumeration value '{other}' for field '{field}' is not a valid value."
            ))),
            _ => Err(wrong_type(field, value, "string")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Granularity::Seconds => "seconds",
            Granularity::Minutes => "minutes",
            Granularity::Hours => "hours",
        }
    }

    fn span_seconds(self) -> i64 {
        match self {
            Granularity::Seconds => 3_600,
            Granularity::Minutes => 86_400,
            Granularity::Hours => 2_592_000,
        }
    }
}

/// How time is cut into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucketing {
    /// By a name.
    Granularity(Granularity),
    /// By a number of seconds.
    Seconds(i64),
}

/// Options of a time-series collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesOptions {
    /// The field with the time of a measurement.
    pub time_field: String,
    /// The field that names the series, if there is one.
    pub meta_field: Option<String>,
    /// How time is cut into buckets.
    pub bucketing: Bucketing,
}

/// What a command says of bucketing.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    granularity: Option<Granularity>,
    max_span: Option<i64>,
    rounding: Option<i64>,
}

impl TimeSeriesOptions {
    /// Reads the option.
    ///
    /// # Errors
    /// `TypeMismatch`, `MissingField`, `UnknownField`, `BadValue`, `OutOfBounds`, `InvalidOptions`.
    pub fn parse(value: RawBsonRef<'_>) -> Result<TimeSeriesOptions> {
        const FIELD: &str = "create.timeseries";
        let RawBsonRef::Document(given) = value else { return Err(wrong_type(FIELD, value, "object")) };
        let (mut time_field, mut meta_field, mut asked) = (None, None, Asked::default());
        for element in document::elements(given) {
            match (element.name(), element.value()) {
                ("timeField", RawBsonRef::String(name)) => time_field = Some(name.to_owned()),
                ("timeField", value) => return Err(wrong_type("create.timeseries.timeField", value, "string")),
                ("metaField", RawBsonRef::Null | RawBsonRef::Undefined) => {}
                ("metaField", RawBsonRef::String(name)) => meta_field = Some(name.to_owned()),
                ("metaField", value) => return Err(wrong_type("create.timeseries.metaField", value, "string")),
                (name, value) if asked.take(FIELD, name, value)? => {}
                (name, _) => return Err(CollectionError::UnknownField { owner: FIELD, field: name.to_owned() }),
            }
        }
        let time_field = time_field.ok_or(CollectionError::MissingField("create.timeseries.timeField"))?;
        check_field("timeField", &time_field)?;
        if let Some(meta_field) = &meta_field {
            check_field("metaField", meta_field)?;
            if meta_field == "_id" {
                return invalid("The field '_id' cannot be the 'metaField' of a time-series collection");
            }
            if *meta_field == time_field {
                return invalid("'timeField' and 'metaField' cannot be the same field");
            }
        }
        Ok(TimeSeriesOptions { time_field, meta_field, bucketing: asked.bucketing()? })
    }

    /// The same with what `collMod` asks for: buckets may only become longer.
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn changed(&self, value: RawBsonRef<'_>) -> Result<TimeSeriesOptions> {
        const FIELD: &str = "collMod.timeseries";
        let RawBsonRef::Document(given) = value else { return Err(wrong_type(FIELD, value, "object")) };
        let mut asked = Asked::default();
        for element in document::elements(given) {
            if !asked.take(FIELD, element.name(), element.value())? {
                return Err(CollectionError::UnknownField { owner: FIELD, field: element.name().to_owned() });
            }
        }
        let changed = TimeSeriesOptions { bucketing: asked.bucketing()?, ..self.clone() };
        if changed.span_seconds() < self.span_seconds() {
            return invalid("Invalid transition for timeseries.granularity. Buckets can only become longer");
        }
        Ok(changed)
    }

    /// How long a bucket spans.
    pub fn span_seconds(&self) -> i64 {
        match self.bucketing {
            Bucketing::Granularity(granularity) => granularity.span_seconds(),
            Bucketing::Seconds(seconds) => seconds,
        }
    }

    /// As `listCollections` shows it and the catalog keeps it.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("timeField"), self.time_field.as_str());
        if let Some(meta_field) = &self.meta_field {
            document.append(cstr!("metaField"), meta_field.as_str());
        }
        // A year at most, so it fits.
        let span = i32::try_from(self.span_seconds()).unwrap_or(i32::MAX);
        match self.bucketing {
            Bucketing::Granularity(granularity) => {
                document.append(cstr!("granularity"), granularity.name());
                document.append(cstr!("bucketMaxSpanSeconds"), span);
            }
            Bucketing::Seconds(_) => {
                document.append(cstr!("bucketMaxSpanSeconds"), span);
                document.append(cstr!("bucketRoundingSeconds"), span);
            }
        }
        document
    }
}

impl Asked {
    /// `false`: it is another field.
    fn take(&mut self, owner: &str, name: &str, value: RawBsonRef<'_>) -> Result<bool> {
        let is_null = matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
        match name {
            "granularity" | "bucketMaxSpanSeconds" | "bucketRoundingSeconds" if is_null => {}
            "granularity" => self.granularity = Some(Granularity::parse(&format!("{owner}.{name}"), value)?),
            "bucketMaxSpanSeconds" => self.max_span = Some(seconds(&format!("{owner}.{name}"), value)?),
            "bucketRoundingSeconds" => self.rounding = Some(seconds(&format!("{owner}.{name}"), value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bucketing(self) -> Result<Bucketing> {
        let granularity = match (self.granularity, self.max_span, self.rounding) {
            (None, Some(max_span), Some(rounding)) if max_span == rounding => return Ok(Bucketing::Seconds(max_span)),
            (None, None, None) => Granularity::Seconds,
            (None, ..) => {
                return invalid(
                    "'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be given together and be equal",
                );
            }
            (Some(granularity), ..) => granularity,
        };
        // What `listCollections` shows can be given back; the rounding of a granularity is not shown.
        if self.max_span.is_some_and(|max_span| max_span != granularity.span_seconds()) || self.rounding.is_some() {
            let message = format!(
                "'bucketMaxSpanSeconds' is {} where the granularity is '{}'; to choose it, leave 'granularity' out",
                granularity.span_seconds(),
                granularity.name()
            );
            return Err(CollectionError::InvalidOptions(message));
        }
        Ok(Bucketing::Granularity(granularity))
    }
}

fn seconds(field: &str, value: RawBsonRef<'_>) -> Result<i64> {
    let Some(number) = Number::from_bson(value).and_then(Number::to_i64_exact) else {
        return Err(wrong_type(field, value, "int"));
    };
    if (1..=SPAN_SECONDS_MAX).contains(&number) {
        return Ok(number);
    }
    let bound = if number < 1 { ">= 1".to_owned() } else { format!("<= {SPAN_SECONDS_MAX}") };
    Err(CollectionError::OutOfBounds(format!("BSON field '{field}' value must be {bound}, actual value '{number}'")))
}

/// It is a field of the document itself.
fn check_field(option: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['.', '\0']) || name.starts_with('$') {
        return invalid(&format!("The '{option}' option must be the name of a top-level field"));
    }
    Ok(())
}

fn invalid<T>(message: &str) -> Result<T> {
    Err(CollectionError::InvalidOptions(message.to_owned()))
}
