//! `$sortArray`: the elements of an array in the order of a sort pattern, or of their own when `sortBy` is a direction.

use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;
use crate::expression::sort_pattern::SortPattern;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$sortArray", "The elements of an array in an order.", parse)];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(2942502)),
    NamedField::required("sortBy", ErrorKind::Location(2942503)),
];

#[derive(Debug)]
struct SortArray {
    input: Node,
    sort_by: RawBson,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Whole { descending: bool },
    Pattern(SortPattern),
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::requires(2942500, 2942501))?;
    let [Some(input), Some(sort_by)] = fields.as_slice() else { return Err(operator.misplaced()) };
    let order = match *sort_by {
        RawBsonRef::Document(pattern) => Order::Pattern(SortPattern::parse(pattern).map_err(renumbered)?),
        direction => match number::to_i32_exact(direction) {
            Some(1) => Order::Whole { descending: false },
            Some(-1) => Order::Whole { descending: true },
            _ => {
                let message = format!("Invalid sort direction {}", show(direction));
                return Err(numbered(if number::is_number(direction) { 2942506 } else { 2942507 }, message));
            }
        },
    };
    let input = parse_node(*input, context)?;
    Ok(Node::Special(Box::new(SortArray { input, sort_by: (*sort_by).into(), order })))
}

/// A direction that is none has another number than in the stage `$sort`.
fn renumbered(error: QueryError) -> QueryError {
    match error.kind {
        ErrorKind::Location(15974 | 15975) => numbered(2942505, error.message),
        _ => error,
    }
}

impl SpecialNode for SortArray {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let input = self.input.evaluate(context)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let found = input.type_name();
            let message = format!("The input argument to $sortArray must be an array, but was of type: {found}");
            return Err(numbered(2942504, message));
        };
        let mut elements = elements_of(array)?;
        match &self.order {
            Order::Whole { descending } => work::sort_by(&mut elements, |left, right| {
                let ordering = compare(Some(*left), Some(*right));
                if *descending { ordering.reverse() } else { ordering }
            })?,
            Order::Pattern(pattern) => {
                let keyed = elements.into_iter().map(|element| Ok((pattern.key_of_value(element)?, element)));
                let mut keyed = keyed.collect::<Result<Vec<_>>>()?;
                work::sort_by(&mut keyed, |(left, _), (right, _)| pattern.compare(left, right))?;
                elements = keyed.into_iter().map(|(_, element)| element).collect();
            }
        }
        Ok(array_of(elements)?.into())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.input);
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("input"), self.input.to_bson()?);
        inner.append(bson::raw::cstr!("sortBy"), self.sort_by.clone());
        single_field("$sortArray", RawBson::Document(inner))
    }
}
