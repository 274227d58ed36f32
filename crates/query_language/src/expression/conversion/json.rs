//! Texts in JSON as arrays and objects, and vectors of binary data as arrays: `$toArray`, `$toObject`.
//!
//! Source: the manual's pages on these operators. Nothing of Extended JSON is understood. Of fields with one name the
//! last value counts, in the place of the first.

use std::collections::HashMap;

use bson::raw::{RawBson, RawBsonRef};
use bson::spec::ElementType;
use document::{DEPTH_MAX, work};

use super::{failure, type_name, unsupported};
use crate::error::Result;
use crate::expression::value::Value;
use crate::growth::{self, BuiltArray};
use crate::memory_limit::before_allocating_if_large;

/// A text as what it says, which must be of the target's type.
pub(super) fn from_text<'a>(text: &str, target: ElementType) -> Result<Value<'a>> {
    let mut reader = Reader { text, rest: text, levels: 0 };
    let value = reader.value()?;
    if !reader.skip_space().is_empty() {
        return reader.invalid("unexpected text behind the value");
    }
    match &value {
        RawBson::Array(_) if target == ElementType::Array => Ok(Value::Owned(value)),
        RawBson::Document(_) if target == ElementType::EmbeddedDocument => Ok(Value::Owned(value)),
        RawBson::Array(_) | RawBson::Document(_) => {
            Err(failure(format!("Input doesn't match expected type '{}'", type_name(target))))
        }
        _ => reader.invalid("unexpected standalone value"),
    }
}

/// The subtype of vectors, and what their elements are.
const VECTOR_SUBTYPE: u8 = 9;
const INT8: u8 = 0x03;
const FLOAT32: u8 = 0x27;
const PACKED_BIT: u8 = 0x10;

/// A vector as an array. Its first two bytes are what its elements are, and how many of the last byte's bits are none.
pub(super) fn from_vector<'a>(value: RawBsonRef<'_>) -> Result<Value<'a>> {
    let RawBsonRef::Binary(binary) = value else { return Err(unsupported(value, ElementType::Array)) };
    let is_vector = u8::from(binary.subtype) == VECTOR_SUBTYPE;
    let (true, Some(([kind, padding], elements))) = (is_vector, binary.bytes.split_first_chunk()) else {
        return Err(failure("Only binData vectors (subtype 9) can be converted to an array".to_owned()));
    };
    let damaged = || failure("The binData vector is not well formed".to_owned());
    let mut list = BuiltArray::default();
    match (*kind, *padding) {
        (INT8, 0) => {
            for byte in elements {
                work::step()?;
                list.push(RawBsonRef::Int32(i32::from(i8::from_le_bytes([*byte]))))?;
            }
        }
        (FLOAT32, 0) => {
            let (floats, rest) = elements.as_chunks();
            if !rest.is_empty() {
                return Err(damaged());
            }
            for float in floats {
                work::step()?;
                list.push(RawBsonRef::Double(f64::from(f32::from_le_bytes(*float))))?;
            }
        }
        (PACKED_BIT, 0..8) if !elements.is_empty() || *padding == 0 => {
            let count = 8 * elements.len() - usize::from(*padding);
            let bits = elements.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
            for bit in bits.take(count) {
                work::step()?;
                list.push(RawBsonRef::Boolean(bit))?;
            }
        }
        _ => return Err(damaged()),
    }
    Ok(list.into_array().into())
}

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    levels: usize,
}

impl<'t> Reader<'t> {
    fn invalid<T>(&self, problem: &str) -> Result<T> {
        let place = self.text.len() - self.rest.len();
        Err(failure(format!("Input doesn't represent valid JSON: {problem} at byte {place}")))
    }

    fn skip_space(&mut self) -> &'t str {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest
    }

    /// Passes over a character behind white space, if it is the next.
    fn takes(&mut self, character: char) -> bool {
        let after = self.skip_space().strip_prefix(character);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn value(&mut self) -> Result<RawBson> {
        work::step()?;
        let rest = self.skip_space();
        match rest.bytes().next() {
            Some(b'{') => self.within(Self::object),
            Some(b'[') => self.within(Self::array),
            Some(b'"') => Ok(RawBson::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, value) in
                    [("true", RawBson::Boolean(true)), ("false", RawBson::Boolean(false)), ("null", RawBson::Null)]
                {
                    if let Some(after) = rest.strip_prefix(word) {
                        self.rest = after;
                        return Ok(value);
                    }
                }
                self.invalid("a value is expected")
            }
        }
    }

    fn within(&mut self, read: fn(&mut Self) -> Result<RawBson>) -> Result<RawBson> {
        self.levels += 1;
        if self.levels > DEPTH_MAX {
            return self.invalid("too many levels");
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        let value = read(self);
        self.levels -= 1;
        value
    }

    fn array(&mut self) -> Result<RawBson> {
        let mut list = BuiltArray::default();
        if self.takes(']') {
            return Ok(RawBson::Array(list.into_array()));
        }
        loop {
            list.push(self.value()?.as_raw_bson_ref())?;
            if self.takes(']') {
                return Ok(RawBson::Array(list.into_array()));
            }
            if !self.takes(',') {
                return self.invalid("a comma or a closing bracket is expected");
            }
        }
    }

    fn object(&mut self) -> Result<RawBson> {
        let mut fields: Vec<(String, RawBson)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        if !self.takes('}') {
            loop {
                let (name, value) = self.field()?;
                match places.get(&name).and_then(|place| fields.get_mut(*place)) {
                    Some((_, known)) => *known = value,
                    None => {
                        // The table may double.
                        before_allocating_if_large(2 * places.len() * size_of::<(String, usize)>() + name.len())?;
                        places.insert(name.clone(), fields.len());
                        growth::push(&mut fields, (name, value))?;
                    }
                }
                if self.takes('}') {
                    break;
                }
                if !self.takes(',') {
                    return self.invalid("a comma or a closing brace is expected");
                }
            }
        }
        let built = fields.iter().map(|(name, value)| (name.as_str(), value.as_raw_bson_ref()));
        Ok(RawBson::Document(growth::document_of(built)?))
    }

    fn field(&mut self) -> Result<(String, RawBson)> {
        if !self.skip_space().starts_with('"') {
            return self.invalid("a field's name is expected");
        }
        let name = self.string()?;
        if name.contains('\0') {
            return self.invalid("illegal embedded null byte");
        }
        if !self.takes(':') {
            return self.invalid("a colon is expected");
        }
        Ok((name, self.value()?))
    }

    /// From its quotation mark on.
    fn string(&mut self) -> Result<String> {
        self.rest = self.rest.get(1..).unwrap_or_default();
        let mut string = String::new();
        loop {
            let end = self.rest.find(|character: char| matches!(character, '"' | '\\' | '\0'..='\x1F'));
            let Some(end) = end else { return self.invalid("a string does not end") };
            let (plain, after) = self.rest.split_at(end);
            work::done(work::of_bytes(plain.len()))?;
            before_allocating_if_large(2 * (string.len() + plain.len()))?;
            string.push_str(plain);
            self.rest = after;
            if let Some(after) = after.strip_prefix('"') {
                self.rest = after;
                return Ok(string);
            }
            match after.strip_prefix('\\') {
                Some(after) => {
                    self.rest = after;
                    string.push(self.escaped()?);
                }
                None => return self.invalid("a control character is in a string"),
            }
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let Some(escape) = self.rest.chars().next() else { return self.invalid("a string does not end") };
        self.rest = self.rest.get(escape.len_utf8()..).unwrap_or_default();
        Ok(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\x08',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.code_unit()?;
                let units = match (first, self.rest.strip_prefix("\\u")) {
                    (0xD800..=0xDBFF, Some(after)) => {
                        self.rest = after;
                        [first, self.code_unit()?]
                    }
                    _ => [first, 0],
                };
                let used = if (0xD800..=0xDBFF).contains(&first) { 2 } else { 1 };
                match char::decode_utf16(units.into_iter().take(used)).next() {
                    Some(Ok(character)) => character,
                    _ => return self.invalid("half of a surrogate pair"),
                }
            }
            _ => return self.invalid("an unknown escape"),
        })
    }

    fn code_unit(&mut self) -> Result<u16> {
        let digits = self.rest.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            Some(unit) => {
                self.rest = self.rest.get(4..).unwrap_or_default();
                Ok(unit)
            }
            None => self.invalid("four hexadecimal digits are expected"),
        }
    }

    fn number(&mut self) -> Result<RawBson> {
        let end = self.rest.find(|character: char| !matches!(character, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let (number, after) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        work::done(work::of_bytes(number.len()))?;
        if !is_number(number) {
            return self.invalid("a number is not well formed");
        }
        self.rest = after;
        if !number.contains(['.', 'e', 'E']) {
            if let Ok(number) = number.parse::<i32>() {
                return Ok(RawBson::Int32(number));
            }
            if let Ok(number) = number.parse::<i64>() {
                return Ok(RawBson::Int64(number));
            }
        }
        match number.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(RawBson::Double(number)),
            _ => self.invalid("a number is out of range"),
        }
    }
}

/// As JSON has numbers: without leading zeros, and with digits on both sides of a point.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent_digits = exponent.map(|exponent| exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
    digits(whole) && !has_leading_zero && fraction.is_none_or(digits) && exponent_digits.is_none_or(digits)
}
