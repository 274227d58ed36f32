//! What a registry entry is: an operator's name, its argument form and its behaviour.
//!
//! `operators` lists the entries in `OPERATORS`; `parse` and `node` are driven by them, and so is the generated
//! compatibility page.

use bson::raw::RawBsonRef;

use super::node::{NamedArguments, Node};
use super::value::Value;
use super::variables::{EvaluationContext, ParseContext};
use crate::error::{ErrorKind, QueryError, Result};

/// An expression operator.
#[derive(Debug)]
pub struct Operator {
    /// The name with its `$`.
    pub name: &'static str,
    /// One line for the documentation.
    pub summary: &'static str,
    pub(crate) form: Form,
}

/// How many positional arguments an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// Exactly one, with the refusal that conversions have.
    Single,
    /// Between the two, both included.
    Between(usize, usize),
    /// Any number, including none.
    Any,
}

/// Evaluates an operator whose arguments have all been evaluated; it may take them out of the slice.
pub(crate) type Apply = for<'a> fn(&'static Operator, &mut [Value<'a>]) -> Result<Value<'a>>;
/// Evaluates an operator that decides which arguments to evaluate.
pub(crate) type EvaluateLazily = for<'a> fn(&'a [Node], &EvaluationContext<'a>) -> Result<Value<'a>>;
/// Evaluates an operator with named arguments.
pub(crate) type EvaluateNamed = for<'a> fn(&NamedArguments<'a>, &EvaluationContext<'a>) -> Result<Value<'a>>;
/// Parses an operator with a grammar of its own.
pub(crate) type ParseSpecial = fn(&'static Operator, RawBsonRef<'_>, &ParseContext) -> Result<Node>;

/// The grammar of an operator's argument.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Positional, all evaluated first.
    Eager { arity: Arity, apply: Apply },
    /// Positional, evaluated when needed.
    Lazy { arity: Arity, evaluate: EvaluateLazily },
    /// A document of named arguments.
    Named { fields: &'static [NamedField], refusals: NamedRefusals, evaluate: EvaluateNamed },
    /// Its own.
    Special(ParseSpecial),
    /// Known to MongoDB, not implemented here.
    Refused,
}

/// A named argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedField {
    pub(crate) name: &'static str,
    /// The error kind when it is left out; `None` for an optional argument.
    pub(crate) required: Option<ErrorKind>,
}

impl NamedField {
    pub(crate) const fn optional(name: &'static str) -> Self {
        Self { name, required: None }
    }

    pub(crate) const fn required(name: &'static str, kind: ErrorKind) -> Self {
        Self { name, required: Some(kind) }
    }
}

/// The errors of a named argument list that is not as it should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedRefusals {
    pub(crate) not_an_object: ErrorKind,
    pub(crate) unknown_field: ErrorKind,
    pub(crate) wording: Wording,
}

/// MongoDB words the same refusals in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wording {
    /// "requires an object as an argument, found: int", "found an unknown argument: x".
    Requires,
    /// "only supports an object as its argument", "Unrecognized parameter to $map: x".
    OnlySupports,
}

impl NamedRefusals {
    /// The refusals of operators that have no numbers of their own.
    pub(crate) const FAILED_TO_PARSE: Self = Self {
        not_an_object: ErrorKind::FailedToParse,
        unknown_field: ErrorKind::FailedToParse,
        wording: Wording::Requires,
    };

    /// The numbered refusals of one operator.
    pub(crate) const fn requires(not_an_object: u32, unknown_field: u32) -> Self {
        Self {
            not_an_object: ErrorKind::Location(not_an_object),
            unknown_field: ErrorKind::Location(unknown_field),
            wording: Wording::Requires,
        }
    }

    /// The numbered refusals of one operator in the older wording.
    pub(crate) const fn only_supports(not_an_object: u32, unknown_field: u32) -> Self {
        Self { wording: Wording::OnlySupports, ..Self::requires(not_an_object, unknown_field) }
    }
}

impl Operator {
    pub(crate) const fn eager(name: &'static str, summary: &'static str, arity: Arity, apply: Apply) -> Self {
        Self { name, summary, form: Form::Eager { arity, apply } }
    }

    pub(crate) const fn lazy(
        name: &'static str,
        summary: &'static str,
        arity: Arity,
        evaluate: EvaluateLazily,
    ) -> Self {
        Self { name, summary, form: Form::Lazy { arity, evaluate } }
    }

    pub(crate) const fn named(
        name: &'static str,
        summary: &'static str,
        fields: &'static [NamedField],
        refusals: NamedRefusals,
        evaluate: EvaluateNamed,
    ) -> Self {
        Self { name, summary, form: Form::Named { fields, refusals, evaluate } }
    }

    pub(crate) const fn special(name: &'static str, summary: &'static str, parse: ParseSpecial) -> Self {
        Self { name, summary, form: Form::Special(parse) }
    }

    pub(crate) const fn refused(name: &'static str) -> Self {
        Self { name, summary: "not implemented", form: Form::Refused }
    }

    /// Whether the operator works here; the others are refused by name.
    pub fn is_implemented(&self) -> bool {
        !matches!(self.form, Form::Refused)
    }

    pub(crate) fn named_fields(&self) -> &'static [NamedField] {
        match self.form {
            Form::Named { fields, .. } => fields,
            _ => &[],
        }
    }

    /// A node holds an operator of another form: a mistake in the parser, reported instead of a panic.
    pub(crate) fn misplaced(&self) -> QueryError {
        QueryError::new(ErrorKind::BadValue, format!("{} was parsed into the wrong kind of node", self.name))
    }

    /// An error of evaluating this operator, `text` following its name.
    pub(crate) fn error(&self, kind: ErrorKind, text: impl std::fmt::Display) -> QueryError {
        QueryError::new(kind, format!("{} {text}", self.name))
    }
}
