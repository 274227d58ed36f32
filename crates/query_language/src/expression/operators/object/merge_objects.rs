//! `$mergeObjects`: the fields of several documents in one, later values replacing earlier ones in place.

use crate::expression::document_writer::DocumentWriter;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$mergeObjects", "The fields of several documents in one.", Arity::Any, merge)];

fn merge<'a>(_: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut writer = DocumentWriter::new();
    for argument in arguments.iter() {
        if argument.is_nullish() {
            continue;
        }
        let Some(document) = argument.as_document() else {
            let found = argument.type_name();
            let message = format!(
                "$mergeObjects requires object inputs, but input {} is of type {found}",
                show(argument.or_null())
            );
            return Err(numbered(40400, message));
        };
        writer.merge(document)?;
    }
    Ok(writer.finish()?.into())
}
