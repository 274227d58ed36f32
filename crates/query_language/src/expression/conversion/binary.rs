//! Conversions from and to binary data: texts in several formats, and numbers in either order of bytes.
//!
//! Called by `conversion` for `$convert`, and by `$toUUID`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bson::raw::{RawBson, RawBsonRef};
use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, Uuid};

use super::{NO_ON_ERROR, failure, unsupported};
use crate::error::Result;
use crate::expression::value::Value;

/// How text stands for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

impl Format {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Format::Auto,
            "base64" => Format::Base64,
            "base64url" => Format::Base64Url,
            "hex" => Format::Hex,
            "utf8" => Format::Utf8,
            "uuid" => Format::Uuid,
            _ => return None,
        })
    }
}

/// Which byte of a number is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ByteOrder {
    #[default]
    Little,
    Big,
}

/// What a conversion from or to binary data is told beside the type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BinaryOptions {
    pub(crate) subtype: BinarySubtype,
    pub(crate) format: Option<Format>,
    pub(crate) order: ByteOrder,
}

impl Default for BinaryOptions {
    fn default() -> Self {
        Self { subtype: BinarySubtype::Generic, format: None, order: ByteOrder::Little }
    }
}

/// A value as binary data.
pub(super) fn to_binary<'a>(value: RawBsonRef<'a>, options: &BinaryOptions) -> Result<Value<'a>> {
    let ordered = |mut bytes: Vec<u8>| {
        if options.order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    };
    let bytes = match value {
        RawBsonRef::Binary(binary) if binary.subtype == options.subtype => return Ok(Value::Borrowed(value)),
        RawBsonRef::Binary(_) => {
            let message = "Conversions between different binData subtypes are not supported";
            return Err(failure(message.to_owned()));
        }
        RawBsonRef::String(text) => from_text(text, options)?,
        RawBsonRef::Int32(number) => ordered(number.to_le_bytes().to_vec()),
        RawBsonRef::Int64(number) => ordered(number.to_le_bytes().to_vec()),
        RawBsonRef::Double(number) => ordered(number.to_le_bytes().to_vec()),
        _ => return Err(unsupported(value, ElementType::Binary)),
    };
    Ok(Value::Owned(RawBson::Binary(Binary { subtype: options.subtype, bytes })))
}

fn from_text(text: &str, options: &BinaryOptions) -> Result<Vec<u8>> {
    let format = options.format.ok_or_else(format_missing)?;
    if format == Format::Uuid && options.subtype != BinarySubtype::Uuid {
        let message = "Only the UUID subtype (4) is allowed with the UUID format";
        return Err(failure(message.to_owned()));
    }
    let bytes = match format {
        Format::Base64 => STANDARD.decode(text).ok(),
        Format::Base64Url => URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok(),
        Format::Hex => hex::decode(text).ok(),
        Format::Utf8 => Some(text.as_bytes().to_vec()),
        Format::Uuid => (text.len() == 36).then(|| Uuid::parse_str(text).ok()).flatten().map(|id| id.bytes().to_vec()),
        // Of a text nobody knows what it is, unless it is to be a UUID.
        Format::Auto if options.subtype == BinarySubtype::Uuid => {
            let id = (text.len() == 36).then(|| Uuid::parse_str(text).ok()).flatten();
            id.map(|id| id.bytes().to_vec())
        }
        Format::Auto => STANDARD.decode(text).ok(),
    };
    bytes.ok_or_else(|| {
        let name = format!("{format:?}").to_lowercase();
        failure(format!("Input string is not a valid {name} string {NO_ON_ERROR}"))
    })
}

fn format_missing() -> crate::error::QueryError {
    failure(format!("Format must be specified when converting from 'binData' to 'string' {NO_ON_ERROR}"))
}

/// Binary data as a text.
pub(super) fn to_text(value: RawBsonRef<'_>, options: &BinaryOptions) -> Result<String> {
    let RawBsonRef::Binary(binary) = value else { return Err(unsupported(value, ElementType::String)) };
    let is_uuid = binary.subtype == BinarySubtype::Uuid && binary.bytes.len() == 16;
    match options.format.ok_or_else(format_missing)? {
        Format::Auto if is_uuid => uuid_text(binary.bytes),
        Format::Uuid if is_uuid => uuid_text(binary.bytes),
        Format::Uuid => Err(failure("Only the UUID subtype (4) is allowed with the UUID format".to_owned())),
        Format::Base64 | Format::Auto => Ok(STANDARD.encode(binary.bytes)),
        Format::Base64Url => Ok(URL_SAFE_NO_PAD.encode(binary.bytes)),
        Format::Hex => Ok(hex::encode_upper(binary.bytes)),
        Format::Utf8 => {
            let text = std::str::from_utf8(binary.bytes);
            text.map(str::to_owned).map_err(|_| failure(format!("Invalid UTF-8 {NO_ON_ERROR}")))
        }
    }
}

fn uuid_text(bytes: &[u8]) -> Result<String> {
    let bytes = <[u8; 16]>::try_from(bytes);
    bytes.map(|bytes| Uuid::from_bytes(bytes).to_string()).map_err(|_| failure("a UUID has 16 bytes".to_owned()))
}

/// Binary data as a number of one of the types that have a fixed number of bytes.
pub(super) fn to_number<'a>(value: RawBsonRef<'_>, target: ElementType, order: ByteOrder) -> Result<Value<'a>> {
    let RawBsonRef::Binary(binary) = value else { return Err(unsupported(value, target)) };
    let mut bytes = binary.bytes.to_vec();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    let number: Option<Value<'a>> = match (target, bytes.as_slice()) {
        (ElementType::Double, &[a, b, c, d]) => Some(f64::from(f32::from_le_bytes([a, b, c, d])).into()),
        (ElementType::Double, bytes) => <[u8; 8]>::try_from(bytes).ok().map(|bytes| f64::from_le_bytes(bytes).into()),
        (ElementType::Int32, bytes) if bytes.len() <= 4 => integer(bytes).map(|number| (number as i32).into()),
        (ElementType::Int64, bytes) => integer(bytes).map(Value::from),
        _ => None,
    };
    number.ok_or_else(|| {
        let name = document::type_name(target);
        failure(format!("Failed to convert '{} bytes' to {name} because of invalid length", bytes.len()))
    })
}

/// A signed integer of 1, 2, 4 or 8 bytes.
fn integer(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a] => Some(i64::from(a as i8)),
        [a, b] => Some(i64::from(i16::from_le_bytes([a, b]))),
        [a, b, c, d] => Some(i64::from(i32::from_le_bytes([a, b, c, d]))),
        _ => <[u8; 8]>::try_from(bytes).ok().map(i64::from_le_bytes),
    }
}
