//! From what a scenario file says to templates. Mistakes are told with the generator they are in.

use super::{LabError, NumberKind, Sequences, Template};
use crate::random::Zipfian;
use crate::scenario::node::Node;
use crate::scenario::parameters::Parameters;
use bson::{Bson, DateTime, Document};
use std::sync::Arc;

/// Exponent of skewed generators when none is named; YCSB's.
const EXPONENT: f64 = 0.99;
/// More ranks would take long to prepare.
const RANKS_MAX: u64 = 100_000_000;
/// Longest text, binary or array of a generator.
const LENGTH_MAX: u64 = 16 << 20;

/// Builds templates with a scenario's parameters and a run's sequences.
pub(crate) struct Builder<'p> {
    pub(crate) parameters: &'p Parameters,
    pub(crate) sequences: &'p mut Sequences,
}

impl Builder<'_> {
    /// A template that makes documents.
    pub(crate) fn document(&mut self, node: &Node, what: &str) -> Result<Template, LabError> {
        let template = self.value(node).map_err(|error| within(what, &error))?;
        match &template {
            Template::Document(_) | Template::Constant(Bson::Document(_)) => Ok(template),
            _ => Err(LabError::Scenario(format!("{what}: must be a document, not {}", node.kind()))),
        }
    }

    /// A template that makes any value.
    pub(crate) fn value(&mut self, node: &Node) -> Result<Template, LabError> {
        let filled = self.parameters.fill(node)?;
        self.build(&filled)
    }

    /// A whole number of 0 or more.
    pub(crate) fn count(&mut self, node: Option<&Node>, default: u64, what: &str) -> Result<u64, LabError> {
        let number = self.number(node, default as f64, what)?;
        if number.fract() != 0.0 {
            return Err(LabError::Scenario(format!("{what}: must be a whole number, not {number}")));
        }
        Ok(number as u64)
    }

    /// A number of 0 or more.
    pub(crate) fn number(&mut self, node: Option<&Node>, default: f64, what: &str) -> Result<f64, LabError> {
        let Some(node) = node else { return Ok(default) };
        let number = match self.parameters.fill(node).map_err(|error| within(what, &error))? {
            Node::Integer(number) => number as f64,
            Node::Float(number) => number,
            other => return Err(LabError::Scenario(format!("{what}: must be a number, not {}", other.kind()))),
        };
        if number.is_finite() && number >= 0.0 {
            Ok(number)
        } else {
            Err(LabError::Scenario(format!("{what}: must be 0 or more, not {number}")))
        }
    }

    fn build(&mut self, node: &Node) -> Result<Template, LabError> {
        Ok(match node {
            Node::Null => Template::Constant(Bson::Null),
            Node::Boolean(value) => Template::Constant(Bson::Boolean(*value)),
            Node::Integer(value) => Template::Constant(super::integer(*value)),
            Node::Float(value) => Template::Constant(Bson::Double(*value)),
            Node::Text(text) => match text.strip_prefix('=') {
                Some(name) => self.generator(name, &Node::default())?,
                None => Template::Constant(Bson::String(text.clone())),
            },
            Node::Sequence(values) => {
                let built = values.iter().map(|value| self.build(value)).collect::<Result<Vec<_>, _>>()?;
                array_of(built)
            }
            Node::Mapping(fields) => {
                if let [(name, argument)] = &fields[..]
                    && let Some(name) = name.strip_prefix('=')
                {
                    return self.generator(name, argument);
                }
                if let Some((name, _)) = fields.iter().find(|(name, _)| name.starts_with('=')) {
                    let message = format!("{name:?}: a generator stands alone in its braces, without other fields");
                    return Err(LabError::Scenario(message));
                }
                let built = fields.iter().map(|(name, value)| Ok((name.clone(), self.build(value)?)));
                document_of(built.collect::<Result<Vec<_>, LabError>>()?)
            }
        })
    }

    fn generator(&mut self, name: &str, argument: &Node) -> Result<Template, LabError> {
        let known = self.known_generator(name, argument).map_err(|error| within(&format!("={name}"), &error))?;
        known.ok_or_else(|| {
            LabError::Scenario(format!(
                "there is no generator ={name}; there are =number =thread =round =sequence =random =fraction =zipfian \
                 =latest =text =bytes =choice =repeat =repeat_text =join =object_id =now =int32 =int64 =double =date \
                 =string =literal"
            ))
        })
    }

    fn known_generator(&mut self, name: &str, argument: &Node) -> Result<Option<Template>, LabError> {
        Ok(Some(match name {
            "number" => Template::Number,
            "thread" => Template::Thread,
            "round" => Template::Round,
            "object_id" => Template::ObjectId,
            "now" => {
                let seconds = signed(argument, "plus_seconds")?.unwrap_or(0.0);
                Template::Now { offset_milliseconds: (seconds * 1000.0) as i64 }
            }
            "sequence" => {
                let from = signed(argument, "from")?.unwrap_or(0.0) as i64;
                Template::Sequence(self.sequences.counter(&text_of(argument, "name")?, from))
            }
            "random" => {
                let (from, span) = range(argument)?;
                Template::Integer { from, span }
            }
            "fraction" => {
                let from = signed(argument, "from")?.unwrap_or(0.0);
                Template::Fraction { from, span: signed(argument, "to")?.unwrap_or(1.0) - from }
            }
            "zipfian" => {
                let (from, span) = range(argument)?;
                Template::Zipfian { from, ranks: ranks(span, argument)? }
            }
            "latest" => {
                let among = signed(argument, "among")?.unwrap_or(1000.0) as u64;
                let counter = self.sequences.counter(&text_of(argument, "sequence")?, 0);
                Template::Latest { counter, ranks: ranks(among, argument)? }
            }
            "text" => {
                let (shortest, longest) = lengths(argument, "length")?;
                Template::Text { shortest, longest }
            }
            "bytes" => {
                let (shortest, longest) = lengths(argument, "length")?;
                Template::Bytes { shortest, longest }
            }
            _ => return self.composed_generator(name, argument),
        }))
    }

    /// Generators made of others.
    fn composed_generator(&mut self, name: &str, argument: &Node) -> Result<Option<Template>, LabError> {
        Ok(Some(match name {
            "choice" | "join" => {
                let Node::Sequence(values) = argument else { return Err(wants("a list", argument)) };
                if values.is_empty() {
                    return Err(LabError::Scenario("the list is empty".to_owned()));
                }
                let values = values.iter().map(|value| self.build(value)).collect::<Result<_, _>>()?;
                if name == "choice" { Template::Choice(values) } else { Template::Joined(values) }
            }
            "repeat" => {
                let (shortest, longest) = lengths(argument, "count")?;
                let value = argument.field("value").ok_or_else(|| missing("value"))?;
                Template::Repeat { shortest, longest, value: Box::new(self.build(value)?) }
            }
            "repeat_text" => {
                let count = lengths(argument, "count")?.1 as usize;
                Template::Constant(Bson::String(text_of(argument, "text")?.repeat(count)))
            }
            "literal" => literal(argument),
            "int32" => self.converted(NumberKind::Int32, argument)?,
            "int64" => self.converted(NumberKind::Int64, argument)?,
            "double" => self.converted(NumberKind::Double, argument)?,
            "string" => self.converted(NumberKind::Text, argument)?,
            "date" => match argument {
                Node::Text(text) if !text.starts_with('=') => {
                    let parsed = DateTime::parse_rfc3339_str(text);
                    Template::Constant(Bson::DateTime(parsed.map_err(|error| LabError::Scenario(error.to_string()))?))
                }
                _ => self.converted(NumberKind::Date, argument)?,
            },
            _ => return Ok(None),
        }))
    }

    fn converted(&mut self, kind: NumberKind, argument: &Node) -> Result<Template, LabError> {
        Ok(match self.build(argument)? {
            Template::Constant(value) => Template::Constant(super::convert(kind, value)),
            value => Template::Converted { kind, value: Box::new(value) },
        })
    }
}

/// A message with where it belongs before it.
pub(crate) fn within(place: &str, error: &LabError) -> LabError {
    LabError::Scenario(format!("{place}: {error}"))
}

fn missing(field: &str) -> LabError {
    LabError::Scenario(format!("`{field}` is missing"))
}

fn wants(wanted: &str, found: &Node) -> LabError {
    LabError::Scenario(format!("must be {wanted}, not {}", found.kind()))
}

fn document_of(fields: Vec<(String, Template)>) -> Template {
    if fields.iter().all(|(_, value)| value.constant().is_some()) {
        let constant = |(name, value): (String, Template)| (name, value.constant().cloned().unwrap_or(Bson::Null));
        return Template::Constant(Bson::Document(fields.into_iter().map(constant).collect::<Document>()));
    }
    Template::Document(fields)
}

fn array_of(values: Vec<Template>) -> Template {
    if values.iter().all(|value| value.constant().is_some()) {
        let constants = values.iter().map(|value| value.constant().cloned().unwrap_or(Bson::Null));
        return Template::Constant(Bson::Array(constants.collect()));
    }
    Template::Array(values)
}

/// A value in which nothing is a generator.
fn literal(node: &Node) -> Template {
    match node {
        Node::Null => Template::Constant(Bson::Null),
        Node::Boolean(value) => Template::Constant(Bson::Boolean(*value)),
        Node::Integer(value) => Template::Constant(super::integer(*value)),
        Node::Float(value) => Template::Constant(Bson::Double(*value)),
        Node::Text(text) => Template::Constant(Bson::String(text.clone())),
        Node::Sequence(values) => array_of(values.iter().map(literal).collect()),
        Node::Mapping(fields) => {
            document_of(fields.iter().map(|(name, value)| (name.clone(), literal(value))).collect())
        }
    }
}

fn signed(argument: &Node, field: &str) -> Result<Option<f64>, LabError> {
    match argument.field(field) {
        None => Ok(None),
        Some(Node::Integer(number)) => Ok(Some(*number as f64)),
        Some(Node::Float(number)) => Ok(Some(*number)),
        Some(other) => Err(within(field, &wants("a number", other))),
    }
}

fn text_of(argument: &Node, field: &str) -> Result<String, LabError> {
    match (argument, argument.field(field)) {
        (Node::Text(text), _) | (_, Some(Node::Text(text))) => Ok(text.clone()),
        (_, Some(other)) => Err(within(field, &wants("text", other))),
        (_, None) => Err(missing(field)),
    }
}

/// `from` (0 when absent) up to, not including, `to`: the start and how many.
fn range(argument: &Node) -> Result<(i64, u64), LabError> {
    let from = signed(argument, "from")?.unwrap_or(0.0) as i64;
    let to = signed(argument, "to")?.ok_or_else(|| missing("to"))? as i64;
    match u64::try_from(to.saturating_sub(from)) {
        Ok(span) if span > 0 => Ok((from, span)),
        _ => Err(LabError::Scenario(format!("`to` ({to}) must be greater than `from` ({from})"))),
    }
}

/// A number, or `{from, to}` both included.
fn lengths(argument: &Node, field: &str) -> Result<(u64, u64), LabError> {
    let given = match argument {
        Node::Integer(_) => Some(argument),
        _ => argument.field(field),
    };
    let (shortest, longest) = match given {
        Some(Node::Integer(length)) => (*length, *length),
        Some(range @ Node::Mapping(_)) => {
            let bound = |name: &str| signed(range, name)?.ok_or_else(|| missing(name));
            (bound("from")? as i64, bound("to")? as i64)
        }
        Some(other) => return Err(within(field, &wants("a number or {from, to}", other))),
        None => return Err(missing(field)),
    };
    match (u64::try_from(shortest), u64::try_from(longest)) {
        (Ok(shortest), Ok(longest)) if shortest <= longest && longest <= LENGTH_MAX => Ok((shortest, longest)),
        _ => Err(LabError::Scenario(format!("{field}: {shortest} to {longest} is not a range of 0 to {LENGTH_MAX}"))),
    }
}

fn ranks(count: u64, argument: &Node) -> Result<Arc<Zipfian>, LabError> {
    let exponent = signed(argument, "exponent")?.unwrap_or(EXPONENT);
    if !(exponent > 0.0 && exponent < 1.0) {
        return Err(LabError::Scenario(format!("exponent {exponent} must lie between 0 and 1")));
    }
    if count > RANKS_MAX {
        return Err(LabError::Scenario(format!("{count} different values are more than {RANKS_MAX}")));
    }
    Ok(Arc::new(Zipfian::new(count, exponent)))
}
