//! `$meta`: what is known of a document beside its fields, such as its score for a `$text` query.
//!
//! Source: the manual's page on `$meta`. Other things that MongoDB knows by such a name belong to what is not here, and
//! are refused by name.

use crate::expression::metadata::{Keyword, MetadataUse};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$meta", "What is known of a document beside its fields: its score, its distance.", parse)];

/// Names that belong to search and to other parts of MongoDB.
const NOT_IMPLEMENTED: [&str; 9] = [
    "indexKey",
    "randVal",
    "recordId",
    "searchHighlights",
    "searchScore",
    "searchScoreDetails",
    "searchSequenceToken",
    "sortKey",
    "vectorSearchScore",
];

/// Reads what is asked for.
///
/// # Errors
/// `NotImplemented`, 17308, 17307.
pub(crate) fn keyword_of(value: RawBsonRef<'_>) -> Result<Keyword> {
    let RawBsonRef::String(name) = value else {
        return Err(numbered(17307, "$meta only supports string arguments"));
    };
    match Keyword::named(name) {
        Some(keyword) => Ok(keyword),
        None if NOT_IMPLEMENTED.contains(&name) => {
            Err(QueryError::new(ErrorKind::NotImplemented, format!("$meta: \"{name}\" is not implemented")))
        }
        None => Err(numbered(17308, format!("Unsupported argument to $meta: {name}"))),
    }
}

#[derive(Debug)]
struct Known(Keyword);

fn parse(_: &'static Operator, argument: RawBsonRef<'_>, _: &ParseContext) -> Result<Node> {
    Ok(Node::Special(Box::new(Known(keyword_of(argument)?))))
}

impl SpecialNode for Known {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let value = context.metadata().and_then(|metadata| metadata.value(self.0));
        Ok(value.ok_or_else(|| self.0.not_available())?.into())
    }

    fn visit_children(&self, _: &mut dyn FnMut(&Node)) {}

    fn is_volatile(&self) -> bool {
        true
    }

    fn reads_metadata(&self) -> MetadataUse {
        self.0.reads()
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        single_field("$meta", RawBson::String(self.0.name().to_owned()))
    }
}
