//! From the client's document to a tree, by the rules of `find`, `$project` or `$addFields`.

use bson::raw::CStr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Number, work};

use super::array_operators::{Slice, SliceSyntax};
use super::tree::{Field, Fields};
use super::{Mode, Projection, ProjectionKind};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::value::{is_truthy, type_name};
use crate::expression::{Expression, FieldPath, ParseContext};
use crate::filter::{Filter, FilterOptions, value_text};
use crate::path_budget::PathBudget;

pub(super) fn parse(source: &RawDocument, kind: ProjectionKind, context: &ParseContext) -> Result<Projection> {
    if source.is_empty() && kind == ProjectionKind::Aggregate {
        return failed(51272, "projection specification must have at least one field");
    }
    let mut parser = Parser {
        kind,
        context,
        fields: Fields::default(),
        mode: None,
        id: None,
        found: Found::default(),
        budget: PathBudget::default(),
    };
    for element in source.iter() {
        let (name, value) = element?;
        parser.field("", name.as_str(), value)?;
    }
    let mode = parser.final_mode();
    let Parser { mut fields, id, found, .. } = parser;
    let names_id = fields.find(b"_id").is_some();
    match (mode, id) {
        (Mode::Inclusion, None | Some(true)) if !names_id => fields.insert("_id", Field::Include)?,
        (Mode::Exclusion, Some(false)) => fields.insert("_id", Field::Exclude)?,
        _ => {}
    }
    let metadata = fields.metadata();
    Ok(Projection { mode, fields, source: source.to_owned(), has_position: found.position, metadata })
}

/// What the projection has that is decided by or decides something else.
#[derive(Default)]
struct Found {
    elem_match: bool,
    position: bool,
}

struct Parser<'c> {
    kind: ProjectionKind,
    context: &'c ParseContext,
    fields: Fields,
    /// Decided by the first field that includes or excludes.
    mode: Option<Mode>,
    /// Whether `_id` is asked for or refused.
    id: Option<bool>,
    found: Found,
    budget: PathBudget,
}

impl Parser<'_> {
    /// `{name: value}` below the path `prefix`.
    fn field(&mut self, prefix: &str, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        work::step()?;
        self.budget.add(prefix.len() + name.len())?;
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if self.kind == ProjectionKind::AddFields {
            return self.added_field(&path, value);
        }
        if let Some(array_path) = path.strip_suffix(".$") {
            return self.positional(array_path, value);
        }
        if path.split('.').skip(1).any(|component| component == "$") {
            return self.misplaced_position();
        }
        FieldPath::parse(&path)?;
        match value {
            RawBsonRef::Document(inner) => self.document(&path, name, inner),
            flag if Number::from_bson(flag).is_some() || matches!(flag, RawBsonRef::Boolean(_)) => {
                self.flag(&path, name, is_truthy(flag))
            }
            literal => {
                if self.mode == Some(Mode::Exclusion) {
                    let element = value_text::element(name, literal);
                    return failed(31310, format!("Cannot use an expression {element} in an exclusion projection"));
                }
                self.computed(&path, literal)
            }
        }
    }

    /// A number or a boolean: the field stays or goes.
    fn flag(&mut self, path: &str, name: &str, include: bool) -> Result<()> {
        if path == "_id" {
            self.id = Some(include);
            return Ok(());
        }
        match (self.mode, include) {
            (Some(Mode::Exclusion), true) => {
                failed(31253, format!("Cannot do inclusion on field {name} in exclusion projection"))
            }
            (Some(Mode::Inclusion), false) => {
                failed(31254, format!("Cannot do exclusion on field {name} in inclusion projection"))
            }
            (_, true) => {
                self.mode = Some(Mode::Inclusion);
                self.fields.insert(path, Field::Include)
            }
            (_, false) => {
                self.mode = Some(Mode::Exclusion);
                self.fields.insert(path, Field::Exclude)
            }
        }
    }

    /// A document: an operator of find, an expression, or a projection of the fields inside.
    fn document(&mut self, path: &str, name: &str, inner: &RawDocument) -> Result<()> {
        let Some(first) = inner.iter().next().transpose()? else {
            return failed(51270, format!("Invalid empty sub-projection: {name}"));
        };
        let (operator, argument) = (first.0.as_str(), first.1);
        if !operator.starts_with('$') {
            for element in inner.iter() {
                let (name, value) = element?;
                self.field(path, name.as_str(), value)?;
            }
            return Ok(());
        }
        match (self.kind, operator) {
            // It neither includes nor excludes others.
            (ProjectionKind::Find, "$meta") => {
                let expression = Expression::parse(RawBsonRef::Document(inner), self.context)?;
                self.fields.insert(path, Field::Computed(expression))
            }
            (ProjectionKind::Find, "$slice") => self.slice(path, inner, argument),
            (ProjectionKind::Find, "$elemMatch") => self.elem_match(path, argument),
            _ => self.expression(path, inner),
        }
    }

    fn expression(&mut self, path: &str, expression: &RawDocument) -> Result<()> {
        if self.mode == Some(Mode::Exclusion) {
            return failed(31252, "Cannot use expression other than $meta in exclusion projection");
        }
        self.computed(path, RawBsonRef::Document(expression)).map_err(|error| {
            match error.message.strip_prefix("Unrecognized expression ") {
                Some(name) if error.kind == ErrorKind::InvalidPipelineOperator => {
                    let message = format!("Unknown expression {}", name.trim_matches('\''));
                    QueryError::new(ErrorKind::Location(31325), message)
                }
                _ => error,
            }
        })
    }

    fn computed(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        let expression = Expression::parse(value, self.context)?;
        self.mode = Some(Mode::Inclusion);
        self.fields.insert(path, Field::Computed(expression))
    }

    /// A field of `$addFields`.
    fn added_field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        FieldPath::parse(path)?;
        if let RawBsonRef::Document(inner) = value
            && let Some(first) = inner.iter().next().transpose()?
            && !first.0.as_str().starts_with('$')
        {
            for element in inner.iter() {
                let (name, value) = element?;
                self.field(path, name.as_str(), value)?;
            }
            return Ok(());
        }
        let expression = Expression::parse(value, self.context)?;
        self.fields.insert(path, Field::Computed(expression))
    }

    /// `$slice` of find, or the expression of that name.
    fn slice(&mut self, path: &str, holder: &RawDocument, argument: RawBsonRef<'_>) -> Result<()> {
        let problem = match Slice::parse(argument)? {
            SliceSyntax::Find(slice) => return self.fields.insert(path, Field::Slice(slice)),
            SliceSyntax::Other(problem) => problem,
        };
        self.expression(path, holder).map_err(|error| {
            let given = value_text::document(holder);
            let message = format!(
                "Invalid $slice syntax. The given syntax {given} did not match the find() syntax because :: {problem} :: \
                 The given syntax did not match the expression $slice syntax. :: caused by :: {}",
                error.message
            );
            QueryError::new(error.kind, message)
        })
    }

    fn elem_match(&mut self, path: &str, condition: RawBsonRef<'_>) -> Result<()> {
        if !matches!(condition, RawBsonRef::Document(_)) {
            let found = type_name(condition.element_type());
            return failed(31274, format!("elemMatch: Invalid argument, object required, but got {found}"));
        }
        if self.found.position {
            return failed(31255, "Cannot specify positional operator and $elemMatch.");
        }
        if path.contains('.') {
            return failed(31275, "Cannot use $elemMatch projection on a nested field.");
        }
        let mut operator = RawDocumentBuf::new();
        operator.append(bson::raw::cstr!("$elemMatch"), condition);
        let mut filter = RawDocumentBuf::new();
        filter.append(<&CStr>::try_from(path)?, operator);
        let filter = Filter::parse(&filter, &FilterOptions::default())?;
        self.found.elem_match = true;
        self.fields.insert(path, Field::ElemMatch(filter))
    }

    /// `path.$`.
    fn positional(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        if self.kind == ProjectionKind::Aggregate {
            return failed(31324, "Cannot use positional projection in aggregation projection");
        }
        if path.split('.').any(|component| component == "$") {
            return self.misplaced_position();
        }
        if path.is_empty() {
            return failed(5392900, "positional projection needs the path of an array before '.$'");
        }
        FieldPath::parse(path)?;
        match value {
            RawBsonRef::Document(_) => {
                return failed(31271, "positional projection cannot be used with an expression or sub object");
            }
            flag if Number::from_bson(flag).is_some() || matches!(flag, RawBsonRef::Boolean(_)) => {
                if !is_truthy(flag) || self.mode == Some(Mode::Exclusion) {
                    return failed(31395, "positional projection cannot be used with exclusion");
                }
            }
            _ => return failed(31308, "positional projection cannot be used with a literal"),
        }
        if self.found.position {
            return failed(31276, "Cannot specify more than one positional projection per query.");
        }
        if self.found.elem_match {
            return failed(31256, "Cannot specify positional operator and $elemMatch.");
        }
        self.found.position = true;
        self.mode = Some(Mode::Inclusion);
        self.fields.insert(path, Field::Positional)
    }

    fn misplaced_position(&self) -> Result<()> {
        if self.kind == ProjectionKind::Aggregate {
            return failed(31324, "Cannot use positional projection in aggregation projection");
        }
        failed(
            31394,
            "As of 4.4, it's illegal to specify positional operator in the middle of a path.Positional projection may \
             only be used at the end, for example: a.b.$. If the query previously used a form like a.b.$.d, remove the \
             parts following the '$' and the results will be equivalent.",
        )
    }

    /// The mode once every field is known: array operators decide when no flag does, `$elemMatch` first.
    fn final_mode(&self) -> Mode {
        match (self.kind, self.mode, self.id) {
            (ProjectionKind::AddFields, ..) => Mode::AddFields,
            (_, Some(mode), _) => mode,
            _ if self.found.elem_match => Mode::Inclusion,
            (_, None, Some(true)) => Mode::Inclusion,
            _ => Mode::Exclusion,
        }
    }
}

fn failed<T>(code: u32, message: impl Into<String>) -> Result<T> {
    Err(QueryError::new(ErrorKind::Location(code), message))
}
