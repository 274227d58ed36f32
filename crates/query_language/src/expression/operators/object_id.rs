//! `$createObjectId`: an ObjectId that nobody else has, another one at each evaluation.

use bson::oid::ObjectId;

use super::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::special("$createObjectId", "A new ObjectId.", parse)];

#[derive(Debug)]
struct CreateObjectId;

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, _: &ParseContext) -> Result<Node> {
    match argument {
        RawBsonRef::Document(document) if document.is_empty() => Ok(Node::Special(Box::new(CreateObjectId))),
        _ => Err(QueryError::new(ErrorKind::FailedToParse, "$createObjectId does not accept arguments")),
    }
}

impl SpecialNode for CreateObjectId {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let variables = context.variables();
        let seconds = (variables.now().timestamp_millis() / 1000) as u32;
        // The time of the command, then 64 bits that no other evaluation has.
        let parts = seconds.to_be_bytes().into_iter().chain(variables.next_random().to_be_bytes());
        let mut bytes = [0; 12];
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        Ok(ObjectId::from_bytes(bytes).into())
    }

    fn visit_children(&self, _: &mut dyn FnMut(&Node)) {}

    fn is_volatile(&self) -> bool {
        true
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        single_field("$createObjectId", RawBson::Document(RawDocumentBuf::new()))
    }
}
