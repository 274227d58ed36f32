//! Values of JavaScript as BSON. A number is a double, as MongoDB returns it, unless it is one of the shell's other
//! types, or has the place of an int32 in an object that came as BSON, and fits.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::raw::{CString, RawArrayBuf};
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, Decimal128, RawBson, RawDocumentBuf, Regex, Timestamp};
use document::{DEPTH_MAX, work};
use rquickjs::{Array, Ctx, Function, IntoJs, Object, Value};

use crate::engine::{Failure, MEMORY_BYTES_MAX};
use crate::session::ScriptError;

type Result<T> = std::result::Result<T, Failure>;

pub(crate) struct FromScript<'js> {
    parts: Function<'js>,
    ints: Function<'js>,
}

/// Which numbers of an object were int32.
enum Ints {
    None,
    /// The first so many elements of an array.
    Before(usize),
    Named(HashSet<String>),
}

impl Ints {
    fn has(&self, name: &str) -> bool {
        match self {
            Ints::None => false,
            Ints::Before(end) => name.parse::<usize>().is_ok_and(|position| position < *end),
            Ints::Named(names) => names.contains(name),
        }
    }

    fn has_position(&self, position: usize) -> bool {
        match self {
            Ints::None => false,
            Ints::Before(end) => position < *end,
            Ints::Named(names) => names.contains(&position.to_string()),
        }
    }
}

impl<'js> FromScript<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Result<Self> {
        Ok(FromScript { parts: ctx.globals().get("__parts")?, ints: ctx.globals().get("__ints")? })
    }

    pub(crate) fn value(&self, value: &Value<'js>) -> Result<RawBson> {
        self.at_depth(value, 0)
    }

    fn at_depth(&self, value: &Value<'js>, depth: usize) -> Result<RawBson> {
        work::step()?;
        if depth > DEPTH_MAX {
            return Err(invalid("the value that a script returned is too deep, or contains itself"));
        }
        if value.is_undefined() {
            return Ok(RawBson::Undefined);
        }
        if value.is_null() {
            return Ok(RawBson::Null);
        }
        if let Some(truth) = value.as_bool() {
            return Ok(RawBson::Boolean(truth));
        }
        if let Some(number) = value.as_number() {
            return Ok(RawBson::Double(number));
        }
        if let Some(text) = value.as_string() {
            return Ok(RawBson::String(text.to_string()?));
        }
        if let Some(list) = value.as_array() {
            return self.array(list, depth);
        }
        let Some(object) = value.as_object() else {
            return Err(invalid(&format!("a script returned a {}, which BSON does not have", value.type_name())));
        };
        let parts: Value<'js> = self.parts.call((object.clone(),))?;
        match parts.as_array() {
            Some(parts) => self.special(parts, depth),
            None => Ok(RawBson::Document(self.document(object, depth)?)),
        }
    }

    fn array(&self, list: &Array<'js>, depth: usize) -> Result<RawBson> {
        let mut array = RawArrayBuf::new();
        let ints = self.ints_of(list.clone())?;
        for position in 0..list.len() {
            let item: Value<'js> = list.get(position)?;
            array.push(match int_of(&item).filter(|_| ints.has_position(position)) {
                Some(int) => RawBson::Int32(int),
                None => self.at_depth(&item, depth + 1)?,
            });
            check_size(array.as_bytes().len())?;
        }
        Ok(RawBson::Array(array))
    }

    fn document(&self, object: &Object<'js>, depth: usize) -> Result<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        let ints = self.ints_of(object.clone())?;
        for field in object.props::<String, Value<'js>>() {
            let (name, value) = field?;
            let int = int_of(&value).filter(|_| ints.has(&name));
            let name = CString::try_from(name.as_str()).map_err(|_| invalid("a name of a field has a zero byte"))?;
            document.append(name, int.map_or_else(|| self.at_depth(&value, depth + 1), |int| Ok(RawBson::Int32(int)))?);
            check_size(document.as_bytes().len())?;
        }
        Ok(document)
    }

    fn ints_of(&self, object: impl IntoJs<'js>) -> Result<Ints> {
        let known: Value<'js> = self.ints.call((object,))?;
        if let Some(end) = known.as_number() {
            return Ok(Ints::Before(end as usize));
        }
        let Some(names) = known.as_array() else { return Ok(Ints::None) };
        let names = names.iter::<String>().collect::<rquickjs::Result<HashSet<_>>>()?;
        Ok(Ints::Named(names))
    }

    fn special(&self, parts: &Array<'js>, depth: usize) -> Result<RawBson> {
        let kind: String = parts.get(0)?;
        let number = |position: usize| -> Result<f64> { Ok(parts.get(position)?) };
        let text = |position: usize| -> Result<String> { Ok(parts.get(position)?) };
        Ok(match kind.as_str() {
            "date" => RawBson::DateTime(DateTime::from_millis(number(1)? as i64)),
            "oid" => RawBson::ObjectId(text(1)?.parse().map_err(|_| invalid("an ObjectId is not right"))?),
            "long" => RawBson::Int64(text(1)?.parse().map_err(|_| invalid("a NumberLong is not right"))?),
            "int" => RawBson::Int32(number(1)? as i32),
            "decimal" => {
                let number: Decimal128 = text(1)?.parse().map_err(|_| invalid("a NumberDecimal is not right"))?;
                RawBson::Decimal128(number)
            }
            "regex" => {
                let mut flags: Vec<char> = text(2)?.chars().filter(|flag| "imsu".contains(*flag)).collect();
                flags.sort_unstable();
                let pattern = CString::try_from(text(1)?).map_err(|_| invalid("a pattern has a zero byte"))?;
                let options = CString::try_from(flags.into_iter().collect::<String>())
                    .map_err(|_| invalid("the options of a pattern are not right"))?;
                RawBson::RegularExpression(Regex { pattern, options })
            }
            "timestamp" => RawBson::Timestamp(Timestamp { time: number(1)? as u32, increment: number(2)? as u32 }),
            "binary" => {
                let bytes = STANDARD.decode(text(2)?).map_err(|_| invalid("a BinData is no base64"))?;
                RawBson::Binary(Binary { subtype: BinarySubtype::from(number(1)? as u8), bytes })
            }
            "minKey" => RawBson::MinKey,
            "maxKey" => RawBson::MaxKey,
            "code" => RawBson::JavaScriptCode(text(1)?),
            "plain" => return self.at_depth(&parts.get::<Value<'js>>(1)?, depth + 1),
            other => return Err(invalid(&format!("a script returned a {other}, which is not implemented"))),
        })
    }
}

/// A number that an int32 can be.
fn int_of(value: &Value<'_>) -> Option<i32> {
    let number = value.as_number()?;
    let int = number as i32;
    (f64::from(int).to_bits() == number.to_bits()).then_some(int)
}

/// What a script returns is copied, so it may be as large as an engine.
fn check_size(bytes: usize) -> Result<()> {
    if bytes <= MEMORY_BYTES_MAX { Ok(()) } else { Err(ScriptError::Memory.into()) }
}

fn invalid(message: &str) -> Failure {
    ScriptError::Value(message.to_owned()).into()
}
