//! `$reduce`: folds an array into one value, with `$$value` the value so far and `$$this` the element.

use crate::expression::limits::check_bound;
use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;
use crate::watch;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$reduce", "An expression applied over an array, carrying a value along.", parse)];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(40077)),
    NamedField::required("initialValue", ErrorKind::Location(40078)),
    NamedField::required("in", ErrorKind::Location(40079)),
];

#[derive(Debug)]
struct Reduce {
    input: Node,
    initial: Node,
    body: Node,
    /// The slot of `value`; `this` has the next.
    first_slot: usize,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::requires(40075, 40076))?;
    let [Some(input), Some(initial), Some(body)] = fields.as_slice() else { return Err(operator.misplaced()) };
    let (inner, first_slot) = context.bind(["value", "this"]);
    Ok(Node::Special(Box::new(Reduce {
        input: parse_node(*input, context)?,
        initial: parse_node(*initial, context)?,
        body: parse_node(*body, &inner)?,
        first_slot,
    })))
}

impl SpecialNode for Reduce {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let input = self.input.evaluate(context)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let found = input.type_name();
            return Err(numbered(40080, format!("$reduce requires that 'input' be an array, found: {found}")));
        };
        check_bound(&input)?;
        let mut value = self.initial.evaluate(context)?;
        check_bound(&value)?;
        for element in array {
            watch::step()?;
            let bound = [value.get(), Some(element?)];
            let scope = Scope { parent: context.scope(), slot: self.first_slot, values: &bound };
            let next = self.body.evaluate(&context.with_scope(&scope))?.copied()?;
            check_bound(&next)?;
            value = next;
        }
        Ok(value)
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.input);
        visit(&self.initial);
        visit(&self.body);
    }

    fn bound_slots(&self) -> Vec<usize> {
        vec![self.first_slot, self.first_slot + 1]
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("input"), self.input.to_bson()?);
        inner.append(bson::raw::cstr!("initialValue"), self.initial.to_bson()?);
        inner.append(bson::raw::cstr!("in"), self.body.to_bson()?);
        single_field("$reduce", RawBson::Document(inner))
    }
}
