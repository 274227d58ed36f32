//! What a `$group` groups by: the value of an expression, with missing values as MongoDB counts them.
//!
//! Missing is grouped with null when the key is one value, and so when it is a document of one field. In a document of more
//! fields a missing one is left out, which is another group than null.

use bson::raw::{CString, RawBson, RawBsonRef};
use query_language::expression::{DependencySet, Expression, FieldPath, ParseContext};
use query_language::growth::before_copying;

use crate::error::{AggregationError, Result};
use crate::stage::stage_document;

/// The key of a `$group`.
#[derive(Debug)]
pub(super) struct GroupKey {
    expression: Expression,
    /// The name of the field that the value is wrapped in.
    field: Option<CString>,
}

impl GroupKey {
    pub(super) fn parse(value: RawBsonRef<'_>, context: &ParseContext) -> Result<Self> {
        let mut field = None;
        let mut inner = value;
        if let RawBsonRef::Document(document) = value {
            let fields = document.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
            let is_operator = fields.first().is_some_and(|(name, _)| name.as_str().starts_with('$'));
            if !is_operator && fields.iter().any(|(_, value)| is_inclusion(*value)) {
                return Err(AggregationError::numbered(17390, "$group does not support inclusion-style expressions"));
            }
            // Parsed whole first, which checks the name.
            let whole = Expression::parse(value, context)?;
            match fields.as_slice() {
                [(name, value)] if !is_operator => (field, inner) = (Some(CString::from(*name)), *value),
                _ => return Ok(Self { expression: whole, field: None }),
            }
        }
        Ok(Self { expression: Expression::parse(inner, context)?, field })
    }

    /// The expression whose values documents are grouped by, null where they are missing or undefined.
    pub(super) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The key as it is shown, for a value of the expression.
    pub(super) fn shown(&self, value: RawBsonRef<'_>) -> Result<RawBson> {
        Ok(match &self.field {
            None => value.into(),
            Some(field) => {
                before_copying(Some(value), 2)?;
                stage_document(field, value).into()
            }
        })
    }

    /// Whether it is shown as it is grouped by.
    pub(super) fn is_shown_bare(&self) -> bool {
        self.field.is_none()
    }

    /// Whether all documents have the same.
    pub(super) fn is_constant(&self) -> bool {
        self.expression.as_constant().is_some()
    }

    /// The field whose value it is, if it is one's.
    pub(super) fn as_field_path(&self) -> Option<&FieldPath> {
        self.expression.as_field_path()
    }

    pub(super) fn dependencies(&self, set: &mut DependencySet) {
        self.expression.dependencies(set);
    }

    pub(super) fn to_bson(&self) -> Result<RawBson> {
        let inner = self.expression.to_bson()?;
        Ok(match &self.field {
            None => inner,
            Some(field) => stage_document(field, inner).into(),
        })
    }
}

/// Whether a value would include or exclude a field of a projection.
fn is_inclusion(value: RawBsonRef<'_>) -> bool {
    use RawBsonRef as Ref;
    matches!(value, Ref::Boolean(_) | Ref::Int32(_) | Ref::Int64(_) | Ref::Double(_) | Ref::Decimal128(_))
}
