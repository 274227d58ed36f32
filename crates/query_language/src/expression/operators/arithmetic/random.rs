//! `$rand`: a double from 0 to before 1, different at each evaluation.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::special("$rand", "A random double from 0 to before 1.", parse)];

#[derive(Debug)]
struct Rand;

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, _: &ParseContext) -> Result<Node> {
    let empty = match argument {
        RawBsonRef::Document(document) => document.is_empty(),
        RawBsonRef::Array(array) => array.is_empty(),
        _ => false,
    };
    if !empty {
        return Err(numbered(3040501, "$rand does not currently accept arguments"));
    }
    Ok(Node::Special(Box::new(Rand)))
}

impl SpecialNode for Rand {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        // The 53 bits that a double's mantissa holds.
        let bits = context.variables().next_random() >> 11;
        Ok((bits as f64 / (1_u64 << 53) as f64).into())
    }

    fn visit_children(&self, _: &mut dyn FnMut(&Node)) {}

    fn is_volatile(&self) -> bool {
        true
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        single_field("$rand", RawBson::Document(RawDocumentBuf::new()))
    }
}
