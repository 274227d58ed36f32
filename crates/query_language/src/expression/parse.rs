//! From BSON to the expression tree, with constant folding.
//!
//! A document whose first field begins with `$` is an operator, other documents and arrays are expressions of their
//! members, a string beginning with `$` is a path, all else is a literal.

use bson::raw::{CString, RawBsonRef, RawDocument, RawDocumentBuf};

use super::field_path::{FieldPath, check_field_name};
use super::node::{Base, Node};
use super::operator::{Arity, Form, NamedField, NamedRefusals, Operator, Wording};
use super::operators;
use super::value::{Value, type_name};
use super::variables::{EvaluationContext, ParseContext, Variables, check_variable_characters};
use crate::error::{ErrorKind, QueryError, Result};
use crate::watch;

/// Parses any expression.
pub(crate) fn parse_node(value: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    watch::step()?;
    match value {
        RawBsonRef::String(text) if text.starts_with('$') => parse_path(text, context),
        RawBsonRef::Document(document) => parse_document(document, context),
        RawBsonRef::Array(array) => {
            let mut items = Vec::new();
            for item in array {
                items.push(parse_node(item?, context)?);
            }
            fold(Node::Array(items), context)
        }
        literal => Ok(constant(literal)),
    }
}

/// A literal.
pub(crate) fn constant(value: RawBsonRef<'_>) -> Node {
    Node::Constant(Value::Borrowed(value).into_owned())
}

/// A document: an operator when its first field begins with `$`, otherwise a document of expressions.
fn parse_document(document: &RawDocument, context: &ParseContext) -> Result<Node> {
    if let Some(first) = document.iter().next() {
        let (name, value) = first?;
        if name.as_str().starts_with('$') {
            if document.iter().nth(1).is_some() {
                let shown = show(RawBsonRef::Document(document));
                let message = format!("an object representing an expression must have exactly one field: {shown}");
                return Err(QueryError::new(ErrorKind::Location(15983), message));
            }
            return parse_operator(name.as_str(), value, context);
        }
    }
    let mut fields = Vec::new();
    for element in document {
        let (name, value) = element?;
        check_output_name(name.as_str())?;
        fields.push((CString::from(name), parse_node(value, context)?));
    }
    fold(Node::Object(fields), context)
}

/// Refuses what may not be a field of a document expression.
fn check_output_name(name: &str) -> Result<()> {
    if name.contains('.') {
        let message = "FieldPath field names may not contain '.'. Consider using $getField or $setField.";
        return Err(QueryError::new(ErrorKind::Location(16412), message));
    }
    check_field_name(name)
}

/// Parses `{name: argument}`.
pub(crate) fn parse_operator(name: &str, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let Some(operator) = operators::find(name) else {
        let message = format!("Unrecognized expression '{name}'");
        return Err(QueryError::new(ErrorKind::InvalidPipelineOperator, message));
    };
    match operator.form {
        Form::Eager { arity, .. } | Form::Lazy { arity, .. } => {
            let arguments = parse_arguments(argument, context)?;
            check_arity(operator, arity, arguments.len())?;
            fold(Node::Positional { operator, arguments }, context)
        }
        Form::Named { .. } => parse_named(operator, argument, context),
        Form::Special(parse) => parse(operator, argument, context),
        Form::Refused => {
            Err(QueryError::new(ErrorKind::NotImplemented, format!("The {name} expression is not implemented")))
        }
    }
}

/// Positional arguments: the members of an array, or the one argument that is not an array.
pub(crate) fn parse_arguments(argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Vec<Node>> {
    match argument {
        RawBsonRef::Array(array) => array.into_iter().map(|item| parse_node(item?, context)).collect(),
        single => Ok(vec![parse_node(single, context)?]),
    }
}

fn check_arity(operator: &Operator, arity: Arity, given: usize) -> Result<()> {
    let name = operator.name;
    let (kind, message) = match arity {
        Arity::Exactly(wanted) if given != wanted => {
            (16020, format!("Expression {name} takes exactly {wanted} arguments. {given} were passed in."))
        }
        Arity::Single if given != 1 => (50723, format!("{name} requires a single argument, got {given}")),
        Arity::Between(least, most) if given < least || given > most => {
            let message = format!(
                "Expression {name} takes at least {least} arguments, and at most {most}, but {given} were passed in."
            );
            (28667, message)
        }
        _ => return Ok(()),
    };
    Err(QueryError::new(ErrorKind::Location(kind), message))
}

/// Parses a document of named arguments into the order of the registry entry.
fn parse_named(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let Form::Named { fields, refusals, .. } = operator.form else { return Err(operator.misplaced()) };
    let given = parse_fields(operator.name, argument, fields, refusals)?;
    let parse = |value: Option<RawBsonRef<'_>>| value.map(|value| parse_node(value, context)).transpose();
    let arguments = given.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
    fold(Node::Named { operator, arguments }, context)
}

/// Sorts the fields of a named argument document into the order of `fields`, refusing what is unknown or left out.
pub(crate) fn parse_fields<'d>(
    name: &str,
    argument: RawBsonRef<'d>,
    fields: &[NamedField],
    refusals: NamedRefusals,
) -> Result<Vec<Option<RawBsonRef<'d>>>> {
    let RawBsonRef::Document(document) = argument else {
        let found = type_name(argument.element_type());
        let message = match refusals.wording {
            Wording::Requires => format!("{name} requires an object as an argument, found: {found}"),
            Wording::OnlySupports => format!("{name} only supports an object as its argument"),
        };
        return Err(QueryError::new(refusals.not_an_object, message));
    };
    let mut arguments = vec![None; fields.len()];
    for element in document {
        let (field, value) = element?;
        let position = fields.iter().position(|known| field == known.name);
        let Some(slot) = position.and_then(|position| arguments.get_mut(position)) else {
            let message = match refusals.wording {
                Wording::Requires => format!("{name} found an unknown argument: {field}"),
                Wording::OnlySupports => format!("Unrecognized parameter to {name}: {field}"),
            };
            return Err(QueryError::new(refusals.unknown_field, message));
        };
        *slot = Some(value);
    }
    for (field, given) in fields.iter().zip(&arguments) {
        if let (Some(kind), None) = (field.required, given) {
            return Err(QueryError::new(kind, format!("Missing '{}' parameter to {name}", field.name)));
        }
    }
    Ok(arguments)
}

/// Parses a string that begins with `$`.
fn parse_path(text: &str, context: &ParseContext) -> Result<Node> {
    if text == "$" {
        return Err(QueryError::new(ErrorKind::Location(16872), "'$' by itself is not a valid FieldPath"));
    }
    let Some(variable) = text.strip_prefix("$$") else {
        let path = Some(FieldPath::parse(text.get(1..).unwrap_or_default())?);
        let base = match context.slot_of("CURRENT") {
            Some(slot) => Base::User { name: "CURRENT".to_owned(), slot },
            None => Base::Root,
        };
        return Ok(Node::Path { base, path });
    };
    let (name, rest) = match variable.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (variable, None),
    };
    let base = parse_variable(name, context)?;
    let path = rest.map(FieldPath::parse).transpose()?;
    if base == Base::Remove {
        return Ok(Node::Constant(Value::Missing));
    }
    Ok(Node::Path { base, path })
}

fn parse_variable(name: &str, context: &ParseContext) -> Result<Base> {
    if name.is_empty() {
        return Err(QueryError::new(ErrorKind::FailedToParse, "empty variable names are not allowed"));
    }
    if let Some(slot) = context.slot_of(name) {
        return Ok(Base::User { name: name.to_owned(), slot });
    }
    match name {
        "ROOT" | "CURRENT" => Ok(Base::Root),
        "NOW" => Ok(Base::Now),
        "CLUSTER_TIME" => Ok(Base::ClusterTime),
        "REMOVE" => Ok(Base::Remove),
        "DESCEND" | "PRUNE" | "KEEP" | "SEARCH_META" | "USER_ROLES" | "IS_MR" | "JS_SCOPE" => {
            let message = format!("The $${name} variable is not implemented");
            Err(QueryError::new(ErrorKind::NotImplemented, message))
        }
        _ => {
            check_variable_characters(name, "variable name")?;
            Err(QueryError::new(ErrorKind::Location(17276), format!("Use of undefined variable: {name}")))
        }
    }
}

/// Replaces a node whose children are all constant by its value.
///
/// A node that fails is kept: the error belongs to evaluation, where a branch not taken never raises it. One whose value is much larger
/// than what was said is kept as well: an expression is stored, compared, hashed and shown as a small thing.
///
/// # Errors
/// The command is to stop.
pub(crate) fn fold(node: Node, context: &ParseContext) -> Result<Node> {
    let (mut constant, mut bytes) = (true, 0);
    node.visit_children(&mut |child| match child.as_constant() {
        Some(value) => bytes += bytes_of(value),
        None => constant = false,
    });
    if !constant || matches!(node, Node::Special(_) | Node::Path { .. }) {
        return Ok(node);
    }
    let variables = Variables::new(bson::DateTime::from_millis(0), None, 0);
    let document = RawDocumentBuf::new();
    let folded = node.evaluate(&EvaluationContext::new(&document, &variables)).map(Value::into_owned);
    match folded {
        Ok(value) if context.may_grow(bytes_of(&value).saturating_sub(bytes)) => Ok(Node::Constant(value)),
        Err(error) if matches!(error.kind, ErrorKind::Interrupted(_)) => Err(error),
        _ => Ok(node),
    }
}

/// About how long a value is.
fn bytes_of(value: &Value<'_>) -> usize {
    match value.get() {
        Some(RawBsonRef::String(text)) => text.len(),
        Some(RawBsonRef::Document(document)) => document.as_bytes().len(),
        Some(RawBsonRef::Array(array)) => array.as_bytes().len(),
        Some(RawBsonRef::Binary(binary)) => binary.bytes.len(),
        _ => 0,
    }
}

/// A value as an error message shows it.
pub fn show(value: RawBsonRef<'_>) -> String {
    crate::filter::value_text::value(value)
}
