//! The parsed tree of an expression and its evaluation.
//!
//! Built by `parse`; the operators' own behaviour is in `operators`, reached through the registry entry in the node.

use std::collections::HashSet;
use std::fmt;

use bson::raw::{CString, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf};
use document::work;
use smallvec::SmallVec;

use super::dependencies::DependencySet;
use super::field_path::FieldPath;
use super::limits::{check_bytes, checked};
use super::metadata::MetadataUse;
use super::operator::{Form, Operator};
use super::value::Value;
use super::variables::EvaluationContext;
use crate::error::{ErrorKind, QueryError, Result};
use crate::growth::{self, BuiltArray};

/// One node of the tree.
#[derive(Debug)]
pub(crate) enum Node {
    /// A literal or a folded subtree.
    Constant(Value<'static>),
    /// `$a.b` or `$$variable.a.b`.
    Path { base: Base, path: Option<FieldPath> },
    /// A document of expressions, in order.
    Object(Vec<(CString, Node)>),
    /// An array of expressions.
    Array(Vec<Node>),
    /// An operator with positional arguments.
    Positional { operator: &'static Operator, arguments: Vec<Node> },
    /// An operator with named arguments, in the order of its registry entry.
    Named { operator: &'static Operator, arguments: Vec<Option<Node>> },
    /// An operator with a tree of its own.
    Special(Box<dyn SpecialNode>),
}

/// Where a path starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    Root,
    Now,
    ClusterTime,
    Remove,
    User { name: String, slot: usize },
}

/// An operator whose arguments are not plain expressions: it binds variables, branches, or is not deterministic.
pub(crate) trait SpecialNode: fmt::Debug + Send + Sync {
    /// The value for a document.
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>>;
    /// Shows every argument expression to `visit`.
    fn visit_children(&self, visit: &mut dyn FnMut(&Node));
    /// The slots of the variables this node binds for its arguments.
    fn bound_slots(&self) -> Vec<usize> {
        Vec::new()
    }
    /// Whether evaluating twice may give two results.
    fn is_volatile(&self) -> bool {
        false
    }
    /// What it reads of what is known of a document beside its fields.
    fn reads_metadata(&self) -> MetadataUse {
        MetadataUse::default()
    }
    /// The node as the client could have written it.
    fn to_bson(&self) -> Result<RawDocumentBuf>;
}

impl Node {
    /// The value for a document.
    pub(crate) fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        match self {
            Node::Constant(value) => Ok(value.get().into()),
            Node::Path { base, path } => evaluate_path(base, path.as_ref(), context),
            Node::Object(fields) => {
                let mut document = RawDocumentBuf::new();
                for (name, node) in fields {
                    let value = node.evaluate(context)?;
                    work::done(value.copied_units())?;
                    // The buffer may double.
                    growth::before_copying(value.get(), 2)?;
                    value.append_to(&mut document, name);
                    check_bytes(document.as_bytes().len())?;
                }
                Ok(document.into())
            }
            Node::Array(items) => {
                let mut array = BuiltArray::default();
                for item in items {
                    let value = item.evaluate(context)?;
                    work::done(value.copied_units())?;
                    array.push(value.or_null())?;
                    check_bytes(array.as_array().as_bytes().len())?;
                }
                Ok(array.into_array().into())
            }
            Node::Positional { operator, arguments } => {
                // Arguments that are constants or paths count nothing themselves.
                work::done(arguments.len())?;
                evaluate_positional(operator, arguments, context)
            }
            Node::Named { operator, arguments } => match operator.form {
                Form::Named { evaluate, .. } => {
                    checked(evaluate(&NamedArguments { operator, nodes: arguments }, context)?)
                }
                _ => Err(operator.misplaced()),
            },
            Node::Special(node) => {
                work::step()?;
                checked(node.evaluate(context)?)
            }
        }
    }

    /// The value when it does not depend on the document or on variables.
    pub(crate) fn as_constant(&self) -> Option<&Value<'static>> {
        match self {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The path when it is just a field path of the document.
    pub(crate) fn as_field_path(&self) -> Option<&FieldPath> {
        match self {
            Node::Path { base: Base::Root, path } => path.as_ref(),
            _ => None,
        }
    }

    /// Shows every direct child to `visit`.
    pub(crate) fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        match self {
            Node::Constant(_) | Node::Path { .. } => {}
            Node::Object(fields) => fields.iter().for_each(|(_, node)| visit(node)),
            Node::Array(nodes) | Node::Positional { arguments: nodes, .. } => nodes.iter().for_each(visit),
            Node::Named { arguments, .. } => arguments.iter().flatten().for_each(visit),
            Node::Special(node) => node.visit_children(visit),
        }
    }

    /// Adds what the tree reads, leaving out variables in `bound`.
    pub(crate) fn dependencies(&self, set: &mut DependencySet, bound: &mut HashSet<usize>) {
        match self {
            Node::Path { base: Base::Root, path: Some(path) } => set.add_path(path.as_str()),
            Node::Path { base: Base::Root, path: None } => set.whole_document = true,
            Node::Path { base: Base::User { name, slot }, .. } if !bound.contains(slot) => {
                set.variables.insert(name.clone());
            }
            _ => {}
        }
        let mut added = Vec::new();
        if let Node::Special(node) = self {
            set.volatile |= node.is_volatile();
            set.metadata = set.metadata | node.reads_metadata();
            added = node.bound_slots();
            added.retain(|slot| bound.insert(*slot));
        }
        self.visit_children(&mut |child| child.dependencies(set, bound));
        added.iter().for_each(|slot| {
            bound.remove(slot);
        });
    }

    /// The tree as the client could have written it, constants wrapped where they could be read as expressions.
    pub(crate) fn to_bson(&self) -> Result<RawBson> {
        Ok(match self {
            Node::Constant(value) => RawBson::Document(single_field("$const", value.or_null().into())?),
            Node::Path { base, path } => RawBson::String(path_text(base, path.as_ref())),
            Node::Object(fields) => {
                let mut document = RawDocumentBuf::new();
                for (name, node) in fields {
                    document.append(name, node.to_bson()?);
                }
                RawBson::Document(document)
            }
            Node::Array(nodes) => RawBson::Array(nodes_to_bson(nodes)?),
            Node::Positional { operator, arguments } => {
                RawBson::Document(single_field(operator.name, RawBson::Array(nodes_to_bson(arguments)?))?)
            }
            Node::Named { operator, arguments } => {
                let mut inner = RawDocumentBuf::new();
                for (field, node) in operator.named_fields().iter().zip(arguments) {
                    if let Some(node) = node {
                        inner.append(CString::try_from(field.name)?, node.to_bson()?);
                    }
                }
                RawBson::Document(single_field(operator.name, RawBson::Document(inner))?)
            }
            Node::Special(node) => RawBson::Document(node.to_bson()?),
        })
    }
}

/// The arguments of an operator that takes them by name; evaluated when asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedArguments<'a> {
    pub(crate) operator: &'static Operator,
    nodes: &'a [Option<Node>],
}

impl<'a> NamedArguments<'a> {
    /// The argument at a position of the registry entry's field list; `None` when the client left it out.
    pub(crate) fn get(&self, position: usize, context: &EvaluationContext<'a>) -> Result<Option<Value<'a>>> {
        match self.nodes.get(position) {
            Some(Some(node)) => {
                let value = node.evaluate(context)?;
                if let Some(units) = value.units_if_large() {
                    work::done(units)?;
                }
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }

    /// The argument, missing when left out.
    pub(crate) fn value(&self, position: usize, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        Ok(self.get(position, context)?.unwrap_or_default())
    }

    /// Whether the client gave the argument.
    pub(crate) fn is_given(&self, position: usize) -> bool {
        matches!(self.nodes.get(position), Some(Some(_)))
    }
}

fn evaluate_path<'a>(base: &Base, path: Option<&FieldPath>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let value = match (base, path) {
        (Base::Root, Some(path)) => {
            let found = context.field(path)?;
            work::done(0)?;
            return Ok(found);
        }
        (Base::Root, None) => Some(RawBsonRef::Document(context.root())),
        (Base::Now, _) => Some(RawBsonRef::DateTime(context.variables().now())),
        (Base::ClusterTime, _) => match context.variables().cluster_time() {
            Some(time) => Some(RawBsonRef::Timestamp(time)),
            None => {
                let message = "Builtin variable '$$CLUSTER_TIME' is not available";
                return Err(QueryError::new(ErrorKind::Location(51144), message));
            }
        },
        (Base::Remove, _) => None,
        (Base::User { slot, .. }, _) => context.lookup(*slot),
    };
    match (value, path) {
        (Some(value), Some(path)) => {
            let found = path.evaluate_value(value)?;
            // It has counted what it passed over. Nothing else asks between the arguments of an operator.
            work::done(0)?;
            Ok(found)
        }
        (value, _) => Ok(value.into()),
    }
}

fn evaluate_positional<'a>(
    operator: &'static Operator,
    arguments: &'a [Node],
    context: &EvaluationContext<'a>,
) -> Result<Value<'a>> {
    match operator.form {
        Form::Eager { apply, .. } => {
            let mut values: SmallVec<[Value<'a>; 3]> = SmallVec::with_capacity(arguments.len());
            for argument in arguments {
                let value = argument.evaluate(context)?;
                // Most operators pass over their arguments once, whatever they are.
                if let Some(units) = value.units_if_large() {
                    work::done(units)?;
                }
                values.push(value);
            }
            checked(apply(operator, &mut values)?)
        }
        Form::Lazy { evaluate, .. } => evaluate(arguments, context),
        _ => Err(operator.misplaced()),
    }
}

fn path_text(base: &Base, path: Option<&FieldPath>) -> String {
    let name = match base {
        Base::Root => match path {
            Some(path) => return format!("${}", path.as_str()),
            None => "ROOT",
        },
        Base::Now => "NOW",
        Base::ClusterTime => "CLUSTER_TIME",
        Base::Remove => "REMOVE",
        Base::User { name, .. } => name,
    };
    match path {
        Some(path) => format!("$${name}.{}", path.as_str()),
        None => format!("$${name}"),
    }
}

/// A document of one field.
pub(crate) fn single_field(name: &str, value: RawBson) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(CString::try_from(name)?, value);
    Ok(document)
}

/// The argument list as the client could have written it.
pub(crate) fn nodes_to_bson(nodes: &[Node]) -> Result<RawArrayBuf> {
    let mut array = RawArrayBuf::new();
    for node in nodes {
        array.push(node.to_bson()?);
    }
    Ok(array)
}
