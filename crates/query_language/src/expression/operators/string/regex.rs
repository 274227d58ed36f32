//! `$regexFind`, `$regexFindAll`, `$regexMatch`.
//!
//! A constant expression is compiled once, when it is parsed; one read from the document is compiled for each.

use std::ops::Range;

use bson::raw::cstr;

use crate::expression::operators::prelude::*;
use crate::expression::parse::parse_fields;
use crate::regular_expression::{MatchError, PatternError, PatternTranslation, RegularExpression};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::special("$regexFind", "The first match of a regular expression.", parse),
    Operator::special("$regexFindAll", "Every match of a regular expression.", parse),
    Operator::special("$regexMatch", "Whether a regular expression matches.", parse),
];

const FIELDS: &[NamedField] = &[
    NamedField::required("input", ErrorKind::Location(31022)),
    NamedField::required("regex", ErrorKind::Location(31023)),
    NamedField::optional("options"),
];

#[derive(Debug)]
struct RegexNode {
    operator: &'static Operator,
    input: Node,
    regex: Node,
    options: Option<Node>,
    /// The compiled expression when it is constant, `None` within when it is null.
    compiled: Option<Option<RegularExpression>>,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::requires(51103, 31024))?;
    let [Some(input), Some(regex), options] = fields.as_slice() else { return Err(operator.misplaced()) };
    let input = parse_node(*input, context)?;
    let regex = parse_node(*regex, context)?;
    let options = options.map(|options| parse_node(options, context)).transpose()?;
    let constant_options = options.as_ref().map_or(Some(&Value::NULL), Node::as_constant);
    let compiled = match (regex.as_constant(), constant_options) {
        (Some(regex), Some(options)) => Some(compile(operator, regex, options, PatternTranslation::MachineCode)?),
        _ => None,
    };
    Ok(Node::Special(Box::new(RegexNode { operator, input, regex, options, compiled })))
}

impl SpecialNode for RegexNode {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let input = self.input.evaluate(context)?;
        if !input.is_nullish() && input.as_str().is_none() {
            let text = "needs 'input' to be of type string";
            return Err(self.operator.error(ErrorKind::Location(51104), text));
        }
        let compiled_here;
        let regex = match &self.compiled {
            Some(compiled) => compiled,
            None => {
                let regex = self.regex.evaluate(context)?;
                let options = self.options.as_ref().map(|options| options.evaluate(context)).transpose()?;
                let options = options.unwrap_or_default();
                compiled_here = compile(self.operator, &regex, &options, PatternTranslation::None)?;
                &compiled_here
            }
        };
        let subject = input.as_str().zip(regex.as_ref());
        match self.operator.name {
            "$regexMatch" => self.is_match(subject),
            "$regexFind" => self.find(subject),
            _ => self.find_all(subject),
        }
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.input);
        visit(&self.regex);
        self.options.iter().for_each(visit);
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("input"), self.input.to_bson()?);
        inner.append(cstr!("regex"), self.regex.to_bson()?);
        if let Some(options) = &self.options {
            inner.append(cstr!("options"), options.to_bson()?);
        }
        single_field(self.operator.name, RawBson::Document(inner))
    }
}

/// Units of work that a match takes, beside what the search itself asks.
const MATCH_UNITS: usize = 64;

type Subject<'s> = Option<(&'s str, &'s RegularExpression)>;

impl RegexNode {
    fn is_match<'a>(&self, subject: Subject<'_>) -> Result<Value<'a>> {
        let Some((text, regex)) = subject else { return Ok(false.into()) };
        Ok(regex.is_match(text).map_err(|error| self.failed(error))?.into())
    }

    fn find<'a>(&self, subject: Subject<'_>) -> Result<Value<'a>> {
        let Some((text, regex)) = subject else { return Ok(Value::NULL) };
        let groups = regex.captures(text, 0).map_err(|error| self.failed(error))?;
        match groups.split_first() {
            Some((Some(whole), groups)) => Ok(describe(text, whole, groups, &mut Position::start(text))?.into()),
            _ => Ok(Value::NULL),
        }
    }

    /// Goes on behind each match, behind an empty one at the next character; not at the end of a text that is not empty.
    fn find_all<'a>(&self, subject: Subject<'_>) -> Result<Value<'a>> {
        let mut found = BuiltArray::default();
        let Some((text, regex)) = subject else { return Ok(found.into_array().into()) };
        let mut position = Position::start(text);
        let mut start = 0;
        loop {
            work::done(MATCH_UNITS)?;
            let groups = regex.captures(text, start).map_err(|error| self.failed(error))?;
            let Some((Some(whole), groups)) = groups.split_first() else { return Ok(found.into_array().into()) };
            found.push(RawBsonRef::Document(&describe(text, whole, groups, &mut position)?))?;
            check_bytes(found.as_array().as_bytes().len())?;
            start = match whole.is_empty() {
                true => {
                    whole.end + text.get(whole.end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
                }
                false => whole.end,
            };
            if start >= text.len() {
                return Ok(found.into_array().into());
            }
        }
    }

    /// A search came to no end.
    fn failed(&self, error: MatchError) -> QueryError {
        error.into_query_error(self.operator.name)
    }
}

/// The compiled expression; `None` when it is null.
fn compile(
    operator: &Operator,
    regex: &Value<'_>,
    options: &Value<'_>,
    translation: PatternTranslation,
) -> Result<Option<RegularExpression>> {
    if !options.is_nullish() && options.as_str().is_none() {
        return Err(operator.error(ErrorKind::Location(51106), "needs 'options' to be of type string"));
    }
    let options = options.as_str().unwrap_or("");
    let (pattern, options) = match regex.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => return Ok(None),
        Some(RawBsonRef::String(pattern)) => (pattern, options),
        Some(RawBsonRef::RegularExpression(regex)) if regex.options.is_empty() => (regex.pattern.as_str(), options),
        Some(RawBsonRef::RegularExpression(regex)) if options.is_empty() => {
            (regex.pattern.as_str(), regex.options.as_str())
        }
        Some(RawBsonRef::RegularExpression(_)) => {
            let text = "found regex option(s) specified in both 'regex' and 'option' fields";
            return Err(numbered(51107, format!("{}: {text}", operator.name)));
        }
        Some(_) => {
            return Err(operator.error(ErrorKind::Location(51105), "needs 'regex' to be of type string or regex"));
        }
    };
    RegularExpression::new(pattern, options, translation).map(Some).map_err(|error| refusal(operator, error))
}

fn refusal(operator: &Operator, error: PatternError) -> QueryError {
    let name = operator.name;
    match error {
        PatternError::NullByte => {
            numbered(51109, format!("{name}: regular expression cannot contain an embedded null byte"))
        }
        PatternError::Option('\0') => {
            numbered(51110, format!("{name}: regular expression options cannot contain an embedded null byte"))
        }
        PatternError::Option(letter) => numbered(51108, format!("{name} invalid flag in regex options: {letter}")),
        PatternError::TooLong => numbered(51111, format!("Invalid Regex in {name}: Regular expression is too long")),
        PatternError::Invalid(reason) => numbered(51111, format!("Invalid Regex in {name}: {reason}")),
    }
}

/// Counts code points as matches go along the text.
struct Position<'t> {
    text: &'t str,
    bytes: usize,
    code_points: usize,
}

impl<'t> Position<'t> {
    fn start(text: &'t str) -> Self {
        Self { text, bytes: 0, code_points: 0 }
    }

    /// The code points before a byte position, which is not before the last one asked for.
    fn advance(&mut self, bytes: usize) -> usize {
        self.code_points += self.text.get(self.bytes..bytes).map_or(0, |passed| passed.chars().count());
        self.bytes = bytes;
        self.code_points
    }
}

/// `{match, idx, captures}`, `idx` in code points.
fn describe(
    text: &str,
    whole: &Range<usize>,
    groups: &[Option<Range<usize>>],
    position: &mut Position<'_>,
) -> Result<RawDocumentBuf> {
    let part = |span: &Range<usize>| text.get(span.clone()).unwrap_or_default();
    let mut captures = BuiltArray::default();
    for group in groups {
        captures.push(group.as_ref().map_or(RawBsonRef::Null, |group| RawBsonRef::String(part(group))))?;
        // Each of thousands of groups may have all of the text.
        check_bytes(captures.as_array().as_bytes().len())?;
    }
    let index = RawBsonRef::Int32(position.advance(whole.start) as i32);
    let captures = RawBsonRef::Array(captures.as_array());
    let fields = [("match", RawBsonRef::String(part(whole))), ("idx", index), ("captures", captures)];
    growth::document_of(fields.into_iter())
}
