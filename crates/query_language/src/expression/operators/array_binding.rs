//! The element variable that `$map` and `$filter` bind: the name in `as`, or `this`.

use super::prelude::*;
use crate::expression::variables::check_user_variable_name;

/// The variable that stands for the element.
#[derive(Debug)]
pub(super) struct ElementBinding {
    pub(super) name: String,
    pub(super) slot: usize,
}

impl ElementBinding {
    /// Reads `as` and gives the context to parse the inner expression with.
    pub(super) fn parse(name: Option<RawBsonRef<'_>>, context: &ParseContext) -> Result<(Self, ParseContext)> {
        let name = match name {
            None => "this",
            Some(RawBsonRef::String(name)) => name,
            Some(other) => {
                let found = crate::expression::value::type_name(other.element_type());
                let message = format!("Expected 'as' to be a string, found: {found}");
                return Err(QueryError::new(ErrorKind::TypeMismatch, message));
            }
        };
        check_user_variable_name(name)?;
        let (inner, slot) = context.bind([name]);
        Ok((Self { name: name.to_owned(), slot }, inner))
    }

    /// The variable bound to one element.
    pub(super) fn scope<'a>(
        &self,
        element: &'a [Option<RawBsonRef<'a>>; 1],
        context: &EvaluationContext<'a>,
    ) -> Scope<'a> {
        Scope { parent: context.scope(), slot: self.slot, values: element }
    }
}
