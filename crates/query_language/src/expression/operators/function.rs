//! `$function`: a function in JavaScript, called with what its arguments are for the document.
//!
//! Source: the manual's page on `$function`.

use javascript::{Function, Kind};

use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::special("$function", "What a function in JavaScript returns.", parse),
    Operator::special("$_internalJsEmit", "What a function in JavaScript emits, for mapReduce.", parse_emit),
];

const FIELDS: &[NamedField] = &[
    NamedField::required("body", ErrorKind::Location(4660801)),
    NamedField::required("args", ErrorKind::Location(4660802)),
    NamedField::required("lang", ErrorKind::Location(4660803)),
];

#[derive(Debug)]
struct Call {
    function: Function,
    arguments: Node,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::requires(4660800, 40415))?;
    let [Some(body), Some(arguments), Some(language)] = fields.as_slice() else { return Err(operator.misplaced()) };
    check_language(operator.name, *language)?;
    let function = function_of("body", *body)?;
    if !matches!(arguments, RawBsonRef::Array(_)) {
        return Err(numbered(4660804, "The args field must be of type array"));
    }
    let arguments = parse_node(*arguments, context)?;
    Ok(Node::Special(Box::new(Call { function, arguments })))
}

/// A `map` of mapReduce: what it emits as an array of `{k, v}`.
#[derive(Debug)]
struct Emit {
    function: Function,
    this: Node,
}

const EMIT_FIELDS: &[NamedField] = &[
    NamedField::required("eval", ErrorKind::Location(31222)),
    NamedField::required("this", ErrorKind::Location(31223)),
];

fn parse_emit(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, EMIT_FIELDS, NamedRefusals::requires(31221, 40415))?;
    let [Some(code), Some(this)] = fields.as_slice() else { return Err(operator.misplaced()) };
    let (function, this) = (function_of("eval", *code)?, parse_node(*this, context)?);
    Ok(Node::Special(Box::new(Emit { function, this })))
}

impl SpecialNode for Emit {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let this = self.this.evaluate(context)?;
        let mut list = BuiltArray::default();
        for (key, value) in self.function.emitted(this.or_null())? {
            work::step()?;
            let mut pair = RawDocumentBuf::new();
            pair.append(bson::raw::cstr!("k"), key);
            pair.append(bson::raw::cstr!("v"), value);
            list.push(RawBsonRef::Document(&pair))?;
        }
        Ok(list.into_array().into())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.this);
    }

    fn is_volatile(&self) -> bool {
        true
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("eval"), RawBson::JavaScriptCode(self.function.code().to_owned()));
        inner.append(bson::raw::cstr!("this"), self.this.to_bson()?);
        single_field("$_internalJsEmit", RawBson::Document(inner))
    }
}

/// The function that a field has, as text or as code.
pub(crate) fn function_of(field: &str, value: RawBsonRef<'_>) -> Result<Function> {
    match value {
        RawBsonRef::String(code) | RawBsonRef::JavaScriptCode(code) => Ok(Function::new(code, Kind::Function)?),
        _ => Err(numbered(4660805, format!("The {field} function must be of type string or code"))),
    }
}

/// There is one language.
pub(crate) fn check_language(operator: &str, language: RawBsonRef<'_>) -> Result<()> {
    match language {
        RawBsonRef::String("js") => Ok(()),
        _ => Err(numbered(31419, format!("{operator} only supports the language 'js'"))),
    }
}

/// Calls a function with the elements of an array.
pub(crate) fn call_with(function: &Function, arguments: RawBsonRef<'_>) -> Result<RawBson> {
    let list = match arguments {
        RawBsonRef::Array(array) => elements_of(array)?,
        other => vec![other],
    };
    Ok(function.call(RawBsonRef::Null, &list)?)
}

impl SpecialNode for Call {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let arguments = self.arguments.evaluate(context)?;
        Ok(call_with(&self.function, arguments.or_null())?.into())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.arguments);
    }

    /// A function need not be one in the sense of mathematics.
    fn is_volatile(&self) -> bool {
        true
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("body"), RawBson::JavaScriptCode(self.function.code().to_owned()));
        inner.append(bson::raw::cstr!("args"), self.arguments.to_bson()?);
        inner.append(bson::raw::cstr!("lang"), "js");
        single_field("$function", RawBson::Document(inner))
    }
}
