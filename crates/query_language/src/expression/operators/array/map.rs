//! `$map`: an expression applied to every element of an array.

use crate::expression::limits::check_bound;
use crate::expression::operators::array_binding::ElementBinding;
use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;
use crate::watch;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$map", "The value of an expression for each element of an array.", parse)];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(16880)),
    NamedField::optional("as"),
    NamedField::required("in", ErrorKind::Location(16882)),
];

#[derive(Debug)]
struct Map {
    input: Node,
    element: ElementBinding,
    body: Node,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::only_supports(16878, 16879))?;
    let [Some(input), name, Some(body)] = fields.as_slice() else { return Err(operator.misplaced()) };
    let input = parse_node(*input, context)?;
    let (element, inner) = ElementBinding::parse(*name, context)?;
    let body = parse_node(*body, &inner)?;
    Ok(Node::Special(Box::new(Map { input, element, body })))
}

impl SpecialNode for Map {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let input = self.input.evaluate(context)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(array) = input.as_array() else {
            let found = input.type_name();
            return Err(numbered(16883, format!("input to $map must be an array not {found}")));
        };
        check_bound(&input)?;
        let mut mapped = BuiltArray::default();
        for element in array {
            watch::step()?;
            let element = [Some(element?)];
            let scope = self.element.scope(&element, context);
            mapped.push(self.body.evaluate(&context.with_scope(&scope))?.or_null())?;
            check_bytes(mapped.as_array().as_bytes().len())?;
        }
        Ok(mapped.into_array().into())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.input);
        visit(&self.body);
    }

    fn bound_slots(&self) -> Vec<usize> {
        vec![self.element.slot]
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("input"), self.input.to_bson()?);
        inner.append(bson::raw::cstr!("as"), self.element.name.as_str());
        inner.append(bson::raw::cstr!("in"), self.body.to_bson()?);
        single_field("$map", RawBson::Document(inner))
    }
}
