//! Values as a person writes them: shell syntax and extended JSON, read to BSON with types and field order kept.
//!
//! Keys may be bare or quoted; duplicate keys are kept. `5` is an int32 (or an int64 when it does not fit), `5.0` and
//! `5e0` doubles; also `NaN`, `Infinity`, `undefined`, `/pattern/options`, and the calls `NumberInt NumberLong
//! NumberDouble NumberDecimal ObjectId ISODate Date Timestamp BinData HexData UUID MinKey MaxKey Code Symbol`. Objects that are
//! extended JSON (`{"$oid": "..."}`, `{"$date": ...}`, `{"$numberLong": "5"}`, ...) become the value they stand for.

mod call;
mod extended_json;

use bson::raw::CStr;
use bson::{RawArrayBuf, RawBson, RawDocumentBuf, Regex};

/// Why a text is no value, with the place.
pub type Problem = String;

/// Reads one document.
pub fn parse_document(text: &str) -> Result<RawDocumentBuf, Problem> {
    match parse_value(text)? {
        RawBson::Document(document) => Ok(document),
        other => Err(format!("not a document: {other:?}")),
    }
}

/// Reads one value; nothing may follow it.
pub fn parse_value(text: &str) -> Result<RawBson, Problem> {
    let mut values = parse_values(text)?;
    match (values.pop(), values.is_empty()) {
        (Some(value), true) => Ok(value),
        _ => Err("one value is wanted".to_owned()),
    }
}

/// Reads the values in a text, one after another.
pub fn parse_values(text: &str) -> Result<Vec<RawBson>, Problem> {
    let mut reader = Reader { text, at: 0 };
    let mut values = Vec::new();
    while reader.peek().is_some() {
        values.push(reader.value()?);
    }
    Ok(values)
}

pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn problem<T>(&self, what: &str) -> Result<T, Problem> {
        let around: String = self.text.get(self.at..).unwrap_or("").chars().take(30).collect();
        Err(format!("{what} at `{around}`"))
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// The next character that is not white space, which stays unread.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    /// Whether the next character is `wanted`; read if so.
    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn require(&mut self, wanted: char) -> Result<(), Problem> {
        if self.take(wanted) { Ok(()) } else { self.problem(&format!("expected `{wanted}`")) }
    }

    pub(crate) fn value(&mut self) -> Result<RawBson, Problem> {
        match self.peek() {
            Some('{') => extended_json::convert(self.document()?),
            Some('[') => self.array(),
            Some('"' | '\'') => Ok(RawBson::String(self.string()?)),
            Some('/') => self.regex(),
            Some(first) if first.is_ascii_digit() || matches!(first, '-' | '+' | '.') => self.number(),
            Some(first) if first.is_ascii_alphabetic() => {
                let word = self.word();
                call::read(self, &word)
            }
            _ => self.problem("expected a value"),
        }
    }

    fn document(&mut self) -> Result<RawDocumentBuf, Problem> {
        let mut document = RawDocumentBuf::new();
        self.require('{')?;
        while !self.take('}') {
            let key = match self.peek() {
                Some('"' | '\'') => self.string()?,
                _ => self.word(),
            };
            self.require(':')?;
            let value = self.value()?;
            append(&mut document, &key, value)?;
            if !self.take(',') && self.peek() != Some('}') {
                return self.problem("expected `,` or `}`");
            }
        }
        Ok(document)
    }

    fn array(&mut self) -> Result<RawBson, Problem> {
        let mut array = RawArrayBuf::new();
        self.require('[')?;
        while !self.take(']') {
            array.push(self.value()?);
            if !self.take(',') && self.peek() != Some(']') {
                return self.problem("expected `,` or `]`");
            }
        }
        Ok(RawBson::Array(array))
    }

    /// Letters, digits, `_`, `$` and `.`: a bare key or the name of a constant or call.
    fn word(&mut self) -> String {
        let _ = self.peek();
        let is_part = |each: char| each.is_alphanumeric() || matches!(each, '_' | '$' | '.');
        let word: String = self.rest().chars().take_while(|each| is_part(*each)).collect();
        self.at += word.len();
        word
    }

    pub(crate) fn string(&mut self) -> Result<String, Problem> {
        let Some(quote) = self.peek() else { return self.problem("expected a string") };
        let mut out = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((offset, each)) = characters.next() {
            if each == quote {
                self.at += offset + 1;
                return Ok(out);
            }
            if each != '\\' {
                out.push(each);
                continue;
            }
            match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('b') => out.push('\u{8}'),
                Some('f') => out.push('\u{c}'),
                Some('u') => {
                    let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    out.push(code.ok_or_else(|| format!("bad escape \\u{digits}"))?);
                }
                Some(other) => out.push(other),
                None => break,
            }
        }
        self.problem("string without end")
    }

    fn regex(&mut self) -> Result<RawBson, Problem> {
        let (mut pattern, mut end, mut escaped) = (String::new(), None, false);
        for (offset, each) in self.rest().char_indices().skip(1) {
            if each == '/' && !escaped {
                end = Some(offset + 1);
                break;
            }
            // An escaped slash is the slash itself; every other escape belongs to the pattern.
            if each == '/' {
                pattern.pop();
            }
            pattern.push(each);
            escaped = each == '\\' && !escaped;
        }
        let Some(end) = end else { return self.problem("regular expression without end") };
        self.at += end;
        let options: String = self.rest().chars().take_while(char::is_ascii_lowercase).collect();
        self.at += options.len();
        let (pattern, options) = (cstring(&pattern)?, cstring(&options)?);
        Ok(RawBson::RegularExpression(Regex { pattern: pattern.into(), options: options.into() }))
    }

    fn number(&mut self) -> Result<RawBson, Problem> {
        let is_part = |each: char| each.is_ascii_alphanumeric() || matches!(each, '-' | '+' | '.');
        let text: String = self.rest().chars().take_while(|each| is_part(*each)).collect();
        let number = match text.as_str() {
            "-Infinity" => RawBson::Double(f64::NEG_INFINITY),
            _ => match (text.parse::<i32>(), text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(small), _, _) => RawBson::Int32(small),
                (_, Ok(large), _) => RawBson::Int64(large),
                (_, _, Ok(double)) => RawBson::Double(double),
                _ => return self.problem("bad number"),
            },
        };
        self.at += text.len();
        Ok(number)
    }

    /// Whether an opening parenthesis follows; read if so.
    pub(crate) fn open(&mut self) -> bool {
        self.take('(')
    }

    /// The rest of a call's arguments and the closing parenthesis.
    pub(crate) fn arguments(&mut self) -> Result<Vec<RawBson>, Problem> {
        let mut arguments = Vec::new();
        while !self.take(')') {
            arguments.push(self.value()?);
            if !self.take(',') && self.peek() != Some(')') {
                return self.problem("expected `,` or `)`");
            }
        }
        Ok(arguments)
    }
}

pub(crate) fn append(document: &mut RawDocumentBuf, key: &str, value: RawBson) -> Result<(), Problem> {
    document.append(cstring(key)?, value);
    Ok(())
}

pub(crate) fn cstring(text: &str) -> Result<&CStr, Problem> {
    text.try_into().map_err(|_| format!("zero byte in {text:?}"))
}

#[cfg(test)]
mod tests;
