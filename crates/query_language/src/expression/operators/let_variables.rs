//! `$let`: binds variables for one expression.

use smallvec::SmallVec;

use super::prelude::*;
use crate::expression::limits::check_bound;
use crate::expression::parse::parse_fields;
use crate::expression::variables::check_user_variable_name;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$let", "The value of an expression with variables bound.", parse)];

const FIELDS: &[NamedField] =
    &[NamedField::required("vars", ErrorKind::Location(16876)), NamedField::required("in", ErrorKind::Location(16877))];

#[derive(Debug)]
struct Let {
    bindings: Vec<Binding>,
    /// The slot of the first of them.
    first_slot: usize,
    body: Node,
}

#[derive(Debug)]
struct Binding {
    name: String,
    value: Node,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::only_supports(16874, 16875))?;
    let [Some(variables), Some(body)] = fields.as_slice() else { return Err(operator.misplaced()) };
    let RawBsonRef::Document(variables) = variables else {
        let found = crate::expression::value::type_name(variables.element_type());
        let message = format!("invalid parameter: expected an object (vars), found: {found}");
        return Err(numbered(10065, message));
    };
    let mut bindings = Vec::new();
    for element in *variables {
        work::step()?;
        let (name, value) = element?;
        let name = name.as_str();
        if name != "CURRENT" {
            check_user_variable_name(name)?;
        }
        bindings.push(Binding { name: name.to_owned(), value: parse_node(value, context)? });
    }
    let (inner, first_slot) = context.bind(bindings.iter().map(|binding| binding.name.as_str()));
    let body = parse_node(*body, &inner)?;
    if body.as_constant().is_some() {
        return Ok(body);
    }
    Ok(Node::Special(Box::new(Let { bindings, first_slot, body })))
}

impl SpecialNode for Let {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        work::done(self.bindings.len())?;
        let mut values: SmallVec<[Value<'a>; 2]> = SmallVec::new();
        for binding in &self.bindings {
            let value = binding.value.evaluate(context)?;
            check_bound(&value)?;
            values.push(value);
        }
        let bound: SmallVec<[Option<RawBsonRef<'_>>; 2]> = values.iter().map(Value::get).collect();
        // The scope lives on this stack, so the result is owned.
        let scope = Scope { parent: context.scope(), slot: self.first_slot, values: &bound };
        self.body.evaluate(&context.with_scope(&scope))?.copied()
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        self.bindings.iter().for_each(|binding| visit(&binding.value));
        visit(&self.body);
    }

    fn bound_slots(&self) -> Vec<usize> {
        (self.first_slot..self.first_slot + self.bindings.len()).collect()
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut variables = RawDocumentBuf::new();
        for binding in &self.bindings {
            variables.append(CString::try_from(binding.name.as_str())?, binding.value.to_bson()?);
        }
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("vars"), variables);
        inner.append(bson::raw::cstr!("in"), self.body.to_bson()?);
        single_field("$let", RawBson::Document(inner))
    }
}
