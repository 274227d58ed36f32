//! BSON as Extended JSON and back, nothing lost on the way: fields keep their order, numbers their type and value.
//!
//! Used for what browsers send and get. Text becomes raw BSON at once, and raw BSON text, so neither takes more memory than both have. Of the types that JSON
//! has not, the driver's library knows the notation.

use std::fmt::Write as _;

use bson::raw::CString;
use bson::{Bson, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, RawJavaScriptCodeWithScope};
use serde_json::{Number, Value};

/// Documents inside of documents.
const DEPTH_MAX: usize = 200;
/// First fields of objects that stand for something else.
const NOTATIONS: &[&str] = &[
    "$binary",
    "$date",
    "$dbPointer",
    "$maxKey",
    "$minKey",
    "$numberDecimal",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$oid",
    "$regularExpression",
    "$symbol",
    "$timestamp",
    "$undefined",
    "$uuid",
];

/// How much is said of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Numbers and dates as people read them.
    Relaxed,
    /// Each number with its type.
    Canonical,
}

/// The document that a text stands for.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn read(text: &str) -> Result<RawDocumentBuf, String> {
    let mut reader = Reader { text, position: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.position < text.len() {
        return Err(reader.wrong("something stands behind the document"));
    }
    match value {
        RawBson::Document(document) => Ok(document),
        _ => Err("an object is wanted".to_owned()),
    }
}

struct Reader<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> Reader<'t> {
    fn wrong(&self, what: &str) -> String {
        format!("{what}, at byte {}", self.position)
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn peek(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.rest().bytes().next().ok_or_else(|| self.wrong("the text ends too early"))
    }

    /// Takes a character if it comes next.
    fn takes(&mut self, wanted: u8) -> Result<bool, String> {
        let is_next = self.peek()? == wanted;
        self.position += usize::from(is_next);
        Ok(is_next)
    }

    fn take(&mut self, wanted: u8) -> Result<(), String> {
        if self.takes(wanted)? { Ok(()) } else { Err(self.wrong(&format!("'{}' is missing", char::from(wanted)))) }
    }

    fn value(&mut self, depth: usize) -> Result<RawBson, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("too deep"));
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(RawBson::String),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<RawBson, String> {
        for (word, value) in
            [("true", RawBson::Boolean(true)), ("false", RawBson::Boolean(false)), ("null", RawBson::Null)]
        {
            if self.rest().starts_with(word) {
                self.position += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("no value"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.peek()?;
        let rest = self.rest();
        let mut is_escaped = false;
        let end = rest.bytes().enumerate().skip(1).find(|(_, byte)| {
            let ends = *byte == b'"' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            ends
        });
        let (end, _) =
            end.filter(|_| rest.starts_with('"')).ok_or_else(|| self.wrong("no string, or it has no end"))?;
        let quoted = rest.get(..=end).unwrap_or_default();
        let string = serde_json::from_str(quoted).map_err(|error| self.wrong(&error.to_string()))?;
        self.position += quoted.len();
        Ok(string)
    }

    /// Whole numbers are as wide as they need to be; with a point or an exponent they are doubles.
    fn number(&mut self) -> Result<RawBson, String> {
        let rest = self.rest();
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let token = rest.get(..end).unwrap_or_default();
        // It knows what a number may look like; the library's value of a double may be its neighbour's.
        serde_json::from_str::<Number>(token).map_err(|_| self.wrong("no number"))?;
        self.position += end;
        let whole = if token.contains(['.', 'e', 'E']) { None } else { token.parse::<i64>().ok() };
        match whole {
            Some(whole) => Ok(i32::try_from(whole).map_or(RawBson::Int64(whole), RawBson::Int32)),
            None => token.parse().map(RawBson::Double).map_err(|_| self.wrong("no number")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<RawBson, String> {
        self.take(b'[')?;
        let mut array = RawArrayBuf::new();
        if !self.takes(b']')? {
            loop {
                array.push(self.value(depth + 1)?);
                if self.takes(b']')? {
                    break;
                }
                self.take(b',')?;
            }
        }
        Ok(RawBson::Array(array))
    }

    fn object(&mut self, depth: usize) -> Result<RawBson, String> {
        let begins = self.position;
        self.take(b'{')?;
        let mut document = RawDocumentBuf::new();
        if self.takes(b'}')? {
            return Ok(RawBson::Document(document));
        }
        let mut is_first = true;
        loop {
            let name = self.string()?;
            if std::mem::take(&mut is_first) && NOTATIONS.contains(&name.as_str()) {
                self.position = begins;
                return self.notation();
            }
            self.take(b':')?;
            let value = self.value(depth + 1)?;
            let name = CString::try_from(name).map_err(|_| self.wrong("a name has a character 0"))?;
            document.append(name, value);
            if self.takes(b'}')? {
                break;
            }
            self.take(b',')?;
        }
        Ok(code(document))
    }

    /// A value that JSON has no notation for.
    fn notation(&mut self) -> Result<RawBson, String> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let value = values.next().and_then(Result::ok).ok_or_else(|| self.wrong("no Extended JSON"))?;
        let length = values.byte_offset();
        let value = Bson::try_from(value).map_err(|error| self.wrong(&error.to_string()))?;
        let value = RawBson::try_from(value).map_err(|error| self.wrong(&error.to_string()))?;
        self.position += length;
        Ok(value)
    }
}

/// `{$code}` and `{$code, $scope}` stand for JavaScript.
fn code(document: RawDocumentBuf) -> RawBson {
    let fields: Vec<_> = document.iter().take(3).flatten().map(|(name, value)| (name.as_str(), value)).collect();
    let found = match fields.as_slice() {
        [("$code", RawBsonRef::String(code))] => Some(RawBson::JavaScriptCode((*code).to_owned())),
        [("$code", RawBsonRef::String(code)), ("$scope", RawBsonRef::Document(scope))] => {
            let (code, scope) = ((*code).to_owned(), (*scope).to_owned());
            Some(RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope { code, scope }))
        }
        _ => None,
    };
    found.unwrap_or(RawBson::Document(document))
}

/// The text of a document.
///
/// # Errors
/// It is malformed.
pub(super) fn write(document: &RawDocument, format: Format) -> Result<String, String> {
    let mut text = String::with_capacity(document.as_bytes().len() * 2);
    write_document(document, format, &mut text)?;
    Ok(text)
}

fn write_document(document: &RawDocument, format: Format, text: &mut String) -> Result<(), String> {
    text.push('{');
    for (position, field) in document.iter().enumerate() {
        let (name, value) = field.map_err(|error| error.to_string())?;
        if position > 0 {
            text.push(',');
        }
        write_string(name.as_str(), text);
        text.push(':');
        write_value(value, format, text)?;
    }
    text.push('}');
    Ok(())
}

fn write_array(array: &RawArray, format: Format, text: &mut String) -> Result<(), String> {
    text.push('[');
    for (position, value) in array.into_iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        write_value(value.map_err(|error| error.to_string())?, format, text)?;
    }
    text.push(']');
    Ok(())
}

fn write_string(string: &str, text: &mut String) {
    let _ = write!(text, "{}", Value::from(string));
}

fn write_value(value: RawBsonRef<'_>, format: Format, text: &mut String) -> Result<(), String> {
    match value {
        RawBsonRef::Document(document) => return write_document(document, format, text),
        RawBsonRef::Array(array) => return write_array(array, format, text),
        RawBsonRef::String(string) => write_string(string, text),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            text.push_str("{\"$code\":");
            write_string(code.code, text);
            text.push_str(",\"$scope\":");
            write_document(code.scope, format, text)?;
            text.push('}');
        }
        other => {
            let value = Bson::try_from(other).map_err(|error| error.to_string())?;
            let value = match format {
                Format::Relaxed => value.into_relaxed_extjson(),
                Format::Canonical => value.into_canonical_extjson(),
            };
            let _ = write!(text, "{value}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, DateTime, Decimal128, Regex, Timestamp, cstr, oid::ObjectId, rawdoc};
    use proptest::prelude::*;

    use super::*;

    fn of_all_types() -> RawDocumentBuf {
        rawdoc! {
            "z": 1, "a": { "z": 2_i64, "a": [true, null, 1.0, -0.0, f64::NAN, f64::INFINITY, {}, []] },
            "double": 0.1, "third": 1.0 / 3.0, "large": 1e300, "long": i64::MAX, "least": i64::MIN,
            "string": "\u{1}\"\\\u{2028}ü", "$gt": { "$regex": "^a", "$options": "i" },
            "oid": ObjectId::from_bytes([7; 12]),
            "date": DateTime::from_millis(1_700_000_000_123), "early": DateTime::from_millis(-1), "far": DateTime::from_millis(i64::MAX),
            "decimal": "1.10".parse::<Decimal128>().unwrap(),
            "binary": Binary { subtype: BinarySubtype::UserDefined(0x85), bytes: vec![0, 255] },
            "uuid": Binary { subtype: BinarySubtype::Uuid, bytes: vec![9; 16] },
            "regex": Regex { pattern: cstr!("a/b").to_owned(), options: cstr!("ix").to_owned() },
            "timestamp": Timestamp { time: u32::MAX, increment: 1 },
            "code": RawBson::JavaScriptCode("x".to_owned()),
            "scoped": RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope { code: "x".to_owned(), scope: rawdoc! { "z": 1, "a": 2.0 } }),
            "symbol": RawBson::Symbol("s".to_owned()), "undefined": RawBson::Undefined,
            "least key": RawBson::MinKey, "greatest key": RawBson::MaxKey,
        }
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let document = of_all_types();
        let text = write(&document, Format::Canonical).unwrap();
        assert!(text.starts_with(r#"{"z":{"$numberInt":"1"},"a":{"z":{"$numberLong":"2"}"#), "{text}");
        assert_eq!(read(&text).unwrap().as_bytes(), document.as_bytes(), "{text}");
        let relaxed = write(&document, Format::Relaxed).unwrap();
        assert!(relaxed.starts_with(r#"{"z":1,"a":{"z":2,"a":[true,null,1.0,"#), "{relaxed}");
        assert!(relaxed.contains(r#""date":{"$date":"2023-11-14T22:13:20.123Z"}"#), "{relaxed}");
    }

    #[test]
    fn numbers_are_what_they_look_like() {
        let read = read(r#" { "a" : 1 , "b":2147483648,"c":1.0,"d":1e2,"e":9223372036854775808, "f":-0.5} "#).unwrap();
        let expected = rawdoc! { "a": 1, "b": 2_147_483_648_i64, "c": 1.0, "d": 100.0, "e": 9_223_372_036_854_775_808.0, "f": -0.5 };
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_none_is_refused() {
        let deep = format!("{{\"a\":{}", "[".repeat(DEPTH_MAX + 1));
        let bad = [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":+1}",
            "{\"a\":[1,]}",
            "{\"a\":\"x}",
            "{\"a\":\"\\x\"}",
            "{\"a\\u0000\":1}",
            "{\"a\":tru}",
            "[]",
            "1",
            "{} {}",
            "{\"a\":{\"$oid\":\"7\"}}",
            "{\"a\":{\"$numberInt\":\"x\"}}",
            "{\"$oid\":\"000000000000000000000000\"}",
            &deep,
        ];
        for text in bad {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn doubles_keep_every_bit(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            for format in [Format::Relaxed, Format::Canonical] {
                let read = read(&write(&rawdoc! { "a": number }, format).unwrap()).unwrap();
                prop_assert_eq!(read.get_f64("a").unwrap().to_bits(), bits);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\":,0-9a-z$.\\\\ ü-]{0,40}") {
            let _ = read(&text);
        }
    }
}
