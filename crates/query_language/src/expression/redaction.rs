//! What `$redact` leaves of a document: an expression says of the document, and of those within it, whether they are kept, left out, or
//! looked into.
//!
//! Called by the stage in `aggregation`. `$$CURRENT` and plain paths are those of the document that is looked at; `$$ROOT` is the whole.
//! Source: MongoDB's manual, *$redact (aggregation)*.

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Element, array_elements, elements, work};

use super::variables::{ParseContext, Scope, Variables};
use super::{EvaluationContext, Expression, show_value};
use crate::error::{ErrorKind, QueryError, Result};

/// The variables that the expression has beside the command's, and what the last three of them are.
const NAMES: [&str; 4] = ["ROOT", "DESCEND", "PRUNE", "KEEP"];
const DESCEND: &str = "descend";
const PRUNE: &str = "prune";
const KEEP: &str = "keep";

/// A parsed argument of `$redact`.
#[derive(Debug)]
pub struct Redaction {
    expression: Expression,
    /// The slot of the first of its own variables.
    slot: usize,
}

/// What is the same for all levels of one document.
struct Levels<'a> {
    redaction: &'a Redaction,
    variables: &'a Variables,
    scope: &'a Scope<'a>,
}

impl Redaction {
    /// Parses the argument of `$redact`.
    ///
    /// # Errors
    /// Those of expressions.
    pub fn parse(value: RawBsonRef<'_>, context: &ParseContext) -> Result<Self> {
        let (bound, slot) = context.bind(NAMES);
        Ok(Self { expression: Expression::parse(value, &bound)?, slot })
    }

    /// What is left of a document, if anything.
    ///
    /// # Errors
    /// Those of the expression; 17053 when it gives something else than one of the three variables.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<Option<RawDocumentBuf>> {
        let text = |text| Some(RawBsonRef::String(text));
        let values = [Some(RawBsonRef::Document(document)), text(DESCEND), text(PRUNE), text(KEEP)];
        let scope = Scope { parent: None, slot: self.slot, values: &values };
        let levels = Levels { redaction: self, variables, scope: &scope };
        crate::before_allocating_if_large(document.as_bytes().len())?;
        let mut out = Vec::with_capacity(document.as_bytes().len());
        let is_left = levels.write(document, &mut out)?;
        Ok(if is_left { Some(RawDocumentBuf::from_bytes(out)?) } else { None })
    }

    /// The expression as the client could have written it, for explain.
    ///
    /// # Errors
    /// A name that cannot be shown.
    pub fn to_bson(&self) -> Result<RawBson> {
        self.expression.to_bson()
    }
}

impl Levels<'_> {
    /// Writes what is left of a document; `false`, and nothing written, when all of it is left out.
    fn write(&self, document: &RawDocument, out: &mut Vec<u8>) -> Result<bool> {
        let context = EvaluationContext::new(document, self.variables).with_scope(self.scope);
        let decision = self.redaction.expression.evaluate(&context)?;
        match decision.get() {
            Some(RawBsonRef::String(KEEP)) => {
                work::done(work::of_bytes(document.as_bytes().len()))?;
                out.extend_from_slice(document.as_bytes());
                Ok(true)
            }
            Some(RawBsonRef::String(PRUNE)) => Ok(false),
            Some(RawBsonRef::String(DESCEND)) => {
                self.write_members(elements(document), out)?;
                Ok(true)
            }
            other => {
                let shown = other.map_or_else(|| "missing".to_owned(), show_value);
                let message = format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and \
                     $$PRUNE, but returned {shown}"
                );
                Err(QueryError::new(ErrorKind::Location(17053), message))
            }
        }
    }

    /// Writes a document or array of these, each looked into.
    fn write_members<'a>(&self, members: impl Iterator<Item = Element<'a>>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        for member in members {
            self.write_member(&member, member.name_bytes(), out)?;
        }
        end_document(out, start);
        Ok(())
    }

    /// As [`Levels::write_members`], for an array, whose members are numbered anew.
    fn write_array<'a>(&self, members: impl Iterator<Item = Element<'a>>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut number = 0_usize;
        for member in members {
            number += usize::from(self.write_member(&member, number.to_string().as_bytes(), out)?);
        }
        end_document(out, start);
        Ok(())
    }

    /// Writes one member under a name, if it is left.
    fn write_member(&self, member: &Element<'_>, name: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        work::step()?;
        let start = out.len();
        out.push(member.element_type as u8);
        out.extend_from_slice(name);
        out.push(0);
        let is_left = match member.value() {
            RawBsonRef::Document(inner) => self.write(inner, out)?,
            RawBsonRef::Array(inner) => {
                self.write_array(array_elements(inner), out)?;
                true
            }
            _ => {
                out.extend_from_slice(member.value_bytes());
                true
            }
        };
        if !is_left {
            out.truncate(start);
        }
        Ok(is_left)
    }
}

/// Ends the document that begins at `start` with room for its length.
fn end_document(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let length = (out.len() - start) as i32;
    if let Some(header) = out.get_mut(start..start + 4) {
        header.copy_from_slice(&length.to_le_bytes());
    }
}
