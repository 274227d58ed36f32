//! `$switch`: the value of the first branch whose case is true.

use crate::expression::operators::prelude::*;
use crate::expression::value::type_name;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$switch", "The value of the first branch whose case is true, or the default.", parse)];

#[derive(Debug)]
struct Switch {
    branches: Vec<Branch>,
    default: Option<Node>,
}

#[derive(Debug)]
struct Branch {
    case: Node,
    then: Node,
}

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let RawBsonRef::Document(document) = argument else {
        let found = type_name(argument.element_type());
        return Err(numbered(40060, format!("$switch requires an object as an argument, found: {found}")));
    };
    let mut switch = Switch { branches: Vec::new(), default: None };
    for element in document {
        let (name, value) = element?;
        match name.as_str() {
            "branches" => switch.branches = parse_branches(value, context)?,
            "default" => switch.default = Some(parse_node(value, context)?),
            other => return Err(numbered(40067, format!("$switch found an unknown argument: {other}"))),
        }
    }
    if switch.branches.is_empty() {
        return Err(numbered(40068, "$switch requires at least one branch."));
    }
    Ok(Node::Special(Box::new(switch)))
}

fn parse_branches(value: RawBsonRef<'_>, context: &ParseContext) -> Result<Vec<Branch>> {
    let RawBsonRef::Array(array) = value else {
        let found = type_name(value.element_type());
        return Err(numbered(40061, format!("$switch expected an array for 'branches', found: {found}")));
    };
    array.into_iter().map(|branch| parse_branch(branch?, context)).collect()
}

fn parse_branch(value: RawBsonRef<'_>, context: &ParseContext) -> Result<Branch> {
    let RawBsonRef::Document(document) = value else {
        let found = type_name(value.element_type());
        return Err(numbered(40062, format!("$switch expected each branch to be an object, found: {found}")));
    };
    let (mut case, mut then) = (None, None);
    for element in document {
        let (name, value) = element?;
        match name.as_str() {
            "case" => case = Some(parse_node(value, context)?),
            "then" => then = Some(parse_node(value, context)?),
            other => {
                return Err(numbered(40063, format!("$switch found an unknown argument to a branch: {other}")));
            }
        }
    }
    let case = case.ok_or_else(|| numbered(40064, "$switch requires each branch have a 'case' expression"))?;
    let then = then.ok_or_else(|| numbered(40065, "$switch requires each branch have a 'then' expression."))?;
    Ok(Branch { case, then })
}

impl SpecialNode for Switch {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        work::done(self.branches.len())?;
        for branch in &self.branches {
            if branch.case.evaluate(context)?.is_truthy() {
                return branch.then.evaluate(context);
            }
        }
        match &self.default {
            Some(default) => default.evaluate(context),
            None => Err(numbered(
                40066,
                "$switch could not find a matching branch for an input, and no default was specified.",
            )),
        }
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        for branch in &self.branches {
            visit(&branch.case);
            visit(&branch.then);
        }
        self.default.iter().for_each(visit);
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut branches = RawArrayBuf::new();
        for branch in &self.branches {
            let mut shown = RawDocumentBuf::new();
            shown.append(bson::raw::cstr!("case"), branch.case.to_bson()?);
            shown.append(bson::raw::cstr!("then"), branch.then.to_bson()?);
            branches.push(shown);
        }
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("branches"), branches);
        if let Some(default) = &self.default {
            inner.append(bson::raw::cstr!("default"), default.to_bson()?);
        }
        single_field("$switch", RawBson::Document(inner))
    }
}
