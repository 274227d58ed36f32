//! BSON as JavaScript has it: numbers, text, arrays, plain objects, and the types of MongoDB's shell for the rest.
//!
//! Of an object the engine is told which of its numbers were int32, so that they are when it is returned.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use document::{array_elements, elements, work};
use rquickjs::{Array, Ctx, Function, IntoJs, Object, Value};

use crate::engine::Failure;

type Result<T> = std::result::Result<T, Failure>;

pub(crate) struct ToScript<'js> {
    ctx: Ctx<'js>,
    make: Function<'js>,
    note_ints: Function<'js>,
}

impl<'js> ToScript<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Result<Self> {
        let globals = ctx.globals();
        Ok(ToScript { ctx: ctx.clone(), make: globals.get("__make")?, note_ints: globals.get("__noteInts")? })
    }

    pub(crate) fn value(&self, value: RawBsonRef<'_>) -> Result<Value<'js>> {
        work::step()?;
        let ctx = &self.ctx;
        Ok(match value {
            RawBsonRef::Null => Value::new_null(ctx.clone()),
            RawBsonRef::Undefined => Value::new_undefined(ctx.clone()),
            RawBsonRef::Boolean(truth) => Value::new_bool(ctx.clone(), truth),
            RawBsonRef::Int32(number) => Value::new_int(ctx.clone(), number),
            RawBsonRef::Double(number) => Value::new_float(ctx.clone(), number),
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => text.into_js(ctx)?,
            RawBsonRef::Document(document) => self.object(document)?,
            RawBsonRef::Array(array) => {
                let list = Array::new(ctx.clone())?;
                let mut ints = Vec::new();
                for (position, element) in array_elements(array).enumerate() {
                    if element.element_type == ElementType::Int32 {
                        ints.push(position);
                    }
                    list.set(position, self.value(element.value())?)?;
                }
                if !ints.is_empty() && ints.len() == list.len() {
                    self.note_ints.call::<_, ()>((list.clone(), ints.len() as f64))?;
                } else if !ints.is_empty() {
                    let names: Vec<String> = ints.iter().map(usize::to_string).collect();
                    self.note_ints.call::<_, ()>((list.clone(), names))?;
                }
                list.into_value()
            }
            other => self.special(other)?,
        })
    }

    fn object(&self, document: &RawDocument) -> Result<Value<'js>> {
        let object = Object::new(self.ctx.clone())?;
        let mut ints: Vec<&str> = Vec::new();
        for element in elements(document) {
            if element.element_type == ElementType::Int32 {
                ints.push(element.name());
            }
            let value = self.value(element.value())?;
            match element.name() {
                // Setting it would be another thing.
                name @ "__proto__" => {
                    let define: Function<'js> = self.ctx.globals().get("__define")?;
                    define.call::<_, ()>((object.clone(), name, value))?;
                }
                name => object.set(name, value)?,
            }
        }
        if !ints.is_empty() {
            self.note_ints.call::<_, ()>((object.clone(), ints))?;
        }
        Ok(object.into_value())
    }

    fn special(&self, value: RawBsonRef<'_>) -> Result<Value<'js>> {
        let make = &self.make;
        Ok(match value {
            RawBsonRef::Int64(number) => make.call(("long", number.to_string()))?,
            RawBsonRef::Decimal128(number) => make.call(("decimal", number.to_string()))?,
            RawBsonRef::DateTime(date) => make.call(("date", date.timestamp_millis() as f64))?,
            RawBsonRef::ObjectId(id) => make.call(("oid", id.to_hex()))?,
            RawBsonRef::Timestamp(time) => make.call(("timestamp", f64::from(time.time), f64::from(time.increment)))?,
            RawBsonRef::Binary(binary) => {
                make.call(("binary", i32::from(u8::from(binary.subtype)), STANDARD.encode(binary.bytes)))?
            }
            RawBsonRef::RegularExpression(regex) => {
                // JavaScript has no extended patterns.
                let flags: String = regex.options.as_str().chars().filter(|flag| "imsu".contains(*flag)).collect();
                make.call(("regex", regex.pattern.as_str(), flags))?
            }
            RawBsonRef::JavaScriptCode(code) => make.call(("code", code))?,
            RawBsonRef::JavaScriptCodeWithScope(code) => make.call(("code", code.code, self.object(code.scope)?))?,
            RawBsonRef::MinKey => make.call(("minKey",))?,
            RawBsonRef::MaxKey => make.call(("maxKey",))?,
            RawBsonRef::DbPointer(_) => Value::new_undefined(self.ctx.clone()),
            _ => Value::new_undefined(self.ctx.clone()),
        })
    }
}
