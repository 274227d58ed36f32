//! The first bytes of components, in order. Every other file of the encoding refers to these.

use document::CanonicalType;

pub(crate) const MIN_KEY: u8 = 0x04;
pub(crate) const UNDEFINED: u8 = 0x08;
pub(crate) const NULL: u8 = 0x0C;
pub(crate) const NAN: u8 = 0x10;
/// Zero; positive numbers are above it by their code, negative ones below by the same code.
pub(crate) const ZERO: u8 = 0x5A;
pub(crate) const STRING: u8 = 0xA8;
pub(crate) const OBJECT: u8 = 0xAC;
pub(crate) const ARRAY: u8 = 0xB0;
pub(crate) const BINARY: u8 = 0xB4;
pub(crate) const OBJECT_ID: u8 = 0xB8;
pub(crate) const FALSE: u8 = 0xBC;
pub(crate) const TRUE: u8 = 0xBD;
pub(crate) const DATE: u8 = 0xC0;
pub(crate) const TIMESTAMP: u8 = 0xC4;
pub(crate) const REGULAR_EXPRESSION: u8 = 0xC8;
pub(crate) const DB_POINTER: u8 = 0xCC;
pub(crate) const CODE: u8 = 0xD0;
pub(crate) const CODE_WITH_SCOPE: u8 = 0xD4;
pub(crate) const MAX_KEY: u8 = 0xF0;

/// Ends text, names, objects and arrays.
pub(crate) const END: u8 = 0x00;
/// In text: what follows, less one, is the byte meant (00 or 01).
pub(crate) const ESCAPE: u8 = 0x01;
/// Above every first byte of a component and of a record id.
pub(crate) const AFTER_ALL: u8 = 0xFF;

// Codes of numbers: the distance of the first byte from `ZERO`.

/// Codes below this are twice the integer part plus one if there is a fraction: integers 0 to 31.
pub(crate) const DIRECT_CODES: u8 = 64;
/// This plus n: the same number follows in n bytes, 1 to 8.
pub(crate) const SIZED_CODES: u8 = DIRECT_CODES - 1;
/// Magnitudes of 2^63 and more.
pub(crate) const HUGE_CODE: u8 = 72;
pub(crate) const INFINITY_CODE: u8 = 73;

const _: () = assert!(ZERO - INFINITY_CODE == NAN + 1 && ZERO + INFINITY_CODE < STRING);

/// The deepest nesting met in a key: that of documents, plus the component itself.
pub(crate) const DEPTH_MAX: usize = document::DEPTH_MAX + 2;

/// The byte that stands before a field's name in an object, so that type brackets order before names: the lowest
/// first byte of the bracket.
pub(crate) fn bracket_byte(bracket: CanonicalType) -> u8 {
    match bracket {
        CanonicalType::MinKey => MIN_KEY,
        CanonicalType::Undefined => UNDEFINED,
        CanonicalType::Null => NULL,
        CanonicalType::Number => NAN,
        CanonicalType::String => STRING,
        CanonicalType::Object => OBJECT,
        CanonicalType::Array => ARRAY,
        CanonicalType::Binary => BINARY,
        CanonicalType::ObjectId => OBJECT_ID,
        CanonicalType::Boolean => FALSE,
        CanonicalType::Date => DATE,
        CanonicalType::Timestamp => TIMESTAMP,
        CanonicalType::RegularExpression => REGULAR_EXPRESSION,
        CanonicalType::DbPointer => DB_POINTER,
        CanonicalType::JavaScriptCode => CODE,
        CanonicalType::JavaScriptCodeWithScope => CODE_WITH_SCOPE,
        CanonicalType::MaxKey => MAX_KEY,
    }
}

/// The type bracket of components that start with `first`.
pub(crate) fn bracket_of(first: u8) -> Option<CanonicalType> {
    Some(match first {
        MIN_KEY => CanonicalType::MinKey,
        UNDEFINED => CanonicalType::Undefined,
        NULL => CanonicalType::Null,
        NAN..STRING => CanonicalType::Number,
        STRING => CanonicalType::String,
        OBJECT => CanonicalType::Object,
        ARRAY => CanonicalType::Array,
        BINARY => CanonicalType::Binary,
        OBJECT_ID => CanonicalType::ObjectId,
        FALSE | TRUE => CanonicalType::Boolean,
        DATE => CanonicalType::Date,
        TIMESTAMP => CanonicalType::Timestamp,
        REGULAR_EXPRESSION => CanonicalType::RegularExpression,
        DB_POINTER => CanonicalType::DbPointer,
        CODE => CanonicalType::JavaScriptCode,
        CODE_WITH_SCOPE => CanonicalType::JavaScriptCodeWithScope,
        MAX_KEY => CanonicalType::MaxKey,
        _ => return None,
    })
}
