//! `$filter`: the elements of an array for which an expression is true.

use crate::expression::limits::check_bound;
use crate::expression::operators::array_binding::ElementBinding;
use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;
use crate::watch;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$filter", "The elements of an array for which an expression is true.", parse)];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(28648)),
    NamedField::optional("as"),
    NamedField::required("cond", ErrorKind::Location(28650)),
    NamedField::optional("limit"),
];

#[derive(Debug)]
struct Filter {
    input: Node,
    element: ElementBinding,
    condition: Node,
    limit: Option<Node>,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::only_supports(28646, 28647))?;
    let [Some(input), name, Some(condition), limit] = fields.as_slice() else { return Err(operator.misplaced()) };
    let input = parse_node(*input, context)?;
    let (element, inner) = ElementBinding::parse(*name, context)?;
    let condition = parse_node(*condition, &inner)?;
    let limit = limit.map(|limit| parse_node(limit, context)).transpose()?;
    Ok(Node::Special(Box::new(Filter { input, element, condition, limit })))
}

impl Filter {
    /// How many elements are wanted at most.
    fn limit(&self, context: &EvaluationContext<'_>) -> Result<usize> {
        let Some(limit) = &self.limit else { return Ok(usize::MAX) };
        let limit = limit.evaluate(context)?;
        if limit.is_nullish() {
            return Ok(usize::MAX);
        }
        let given = limit.or_null();
        match number::to_i32_exact(given) {
            Some(limit) if limit > 0 => Ok(limit as usize),
            Some(limit) => Err(numbered(327392, format!("$filter: limit must be greater than 0: {limit}"))),
            None => {
                let shown = show(given);
                let message = format!("$filter: limit must be represented as a 32-bit integral value: {shown}");
                Err(numbered(327391, message))
            }
        }
    }
}

impl SpecialNode for Filter {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let input = self.input.evaluate(context)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let found = input.type_name();
            return Err(numbered(28651, format!("input to $filter must be an array not {found}")));
        };
        check_bound(&input)?;
        let limit = self.limit(context)?;
        let mut kept = BuiltArray::default();
        let mut count = 0;
        for element in array {
            watch::step()?;
            let element = element?;
            let bound = [Some(element)];
            let scope = self.element.scope(&bound, context);
            if self.condition.evaluate(&context.with_scope(&scope))?.is_truthy() {
                kept.push(element)?;
                count += 1;
                if count == limit {
                    break;
                }
            }
        }
        Ok(kept.into_array().into())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.input);
        visit(&self.condition);
        self.limit.iter().for_each(visit);
    }

    fn bound_slots(&self) -> Vec<usize> {
        vec![self.element.slot]
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("input"), self.input.to_bson()?);
        inner.append(bson::raw::cstr!("as"), self.element.name.as_str());
        inner.append(bson::raw::cstr!("cond"), self.condition.to_bson()?);
        if let Some(limit) = &self.limit {
            inner.append(bson::raw::cstr!("limit"), limit.to_bson()?);
        }
        single_field("$filter", RawBson::Document(inner))
    }
}
