//! `$zip`: transposes arrays, so that the first elements come together, then the second.

use crate::expression::operators::prelude::*;
use crate::expression::parse::{parse_arguments, parse_fields};
use crate::expression::value::type_name;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$zip", "Arrays of the elements at the same position of several arrays.", parse)];

const FIELDS: &[NamedField] = &[
    NamedField::required("inputs", ErrorKind::Location(34465)),
    NamedField::optional("useLongestLength"),
    NamedField::optional("defaults"),
];

#[derive(Debug)]
struct Zip {
    inputs: Vec<Node>,
    defaults: Vec<Node>,
    longest: bool,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::requires(34460, 34464))?;
    let [Some(inputs), longest, defaults] = fields.as_slice() else { return Err(operator.misplaced()) };
    let inputs = expressions(*inputs, "inputs", 34461, context)?;
    let defaults = defaults.map(|defaults| expressions(defaults, "defaults", 34462, context)).transpose()?;
    let longest = match longest {
        None => false,
        Some(RawBsonRef::Boolean(longest)) => *longest,
        Some(other) => {
            let found = type_name(other.element_type());
            return Err(numbered(34463, format!("useLongestLength must be a bool, found {found}")));
        }
    };
    if inputs.is_empty() {
        return Err(numbered(34465, "$zip requires at least one input array"));
    }
    if let Some(defaults) = &defaults {
        if !longest {
            return Err(numbered(34466, "cannot specify defaults unless useLongestLength is true"));
        }
        if defaults.len() != inputs.len() {
            return Err(numbered(34467, "defaults and inputs must have the same length"));
        }
    }
    Ok(Node::Special(Box::new(Zip { inputs, defaults: defaults.unwrap_or_default(), longest })))
}

fn expressions(value: RawBsonRef<'_>, field: &str, kind: u32, context: &ParseContext) -> Result<Vec<Node>> {
    match value {
        RawBsonRef::Array(_) => parse_arguments(value, context),
        other => {
            let found = type_name(other.element_type());
            Err(numbered(kind, format!("{field} must be an array of expressions, found {found}")))
        }
    }
}

impl SpecialNode for Zip {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let mut values = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let value = input.evaluate(context)?;
            if value.is_nullish() {
                return Ok(Value::NULL);
            }
            values.push(value);
        }
        let mut columns = Vec::with_capacity(values.len());
        for value in &values {
            let Some(array) = value.as_array() else {
                let shown = show(value.or_null());
                return Err(numbered(34468, format!("$zip found a non-array expression in input: {shown}")));
            };
            columns.push(elements_of(array)?);
        }
        let lengths = columns.iter().map(Vec::len);
        let rows = if self.longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
        let defaults = self.defaults.iter().map(|node| node.evaluate(context)).collect::<Result<Vec<_>>>()?;
        let mut zipped = BuiltArray::default();
        for row in 0..rows {
            let mut tuple = BuiltArray::default();
            for (position, column) in columns.iter().enumerate() {
                work::step()?;
                let default = || defaults.get(position).map_or(RawBsonRef::Null, Value::or_null);
                tuple.push(column.get(row).copied().unwrap_or_else(default))?;
            }
            zipped.push(RawBsonRef::Array(tuple.as_array()))?;
            check_bytes(zipped.as_array().as_bytes().len())?;
        }
        Ok(zipped.into_array().into())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        self.inputs.iter().chain(&self.defaults).for_each(visit);
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("inputs"), crate::expression::node::nodes_to_bson(&self.inputs)?);
        inner.append(bson::raw::cstr!("useLongestLength"), self.longest);
        if !self.defaults.is_empty() {
            inner.append(bson::raw::cstr!("defaults"), crate::expression::node::nodes_to_bson(&self.defaults)?);
        }
        single_field("$zip", RawBson::Document(inner))
    }
}
