//! `$cond`: one of two values, as a list of three or as a document with `if`, `then` and `else`.

use crate::expression::operators::prelude::*;
use crate::expression::parse::{fold, parse_arguments, parse_fields};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::special("$cond", "The second argument when the first is true, otherwise the third.", parse)];

/// Both spellings become this positional node.
static LAZY: Operator = Operator::lazy("$cond", "", Arity::Exactly(3), evaluate);

const FIELDS: &[NamedField] = &[
    NamedField::required("if", ErrorKind::Location(17080)),
    NamedField::required("then", ErrorKind::Location(17081)),
    NamedField::required("else", ErrorKind::Location(17082)),
];

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let arguments = match argument {
        RawBsonRef::Document(_) => {
            let fields = parse_fields(operator.name, argument, FIELDS, NamedRefusals::only_supports(16020, 17083))?;
            let given = fields.into_iter().flatten();
            given.map(|field| parse_node(field, context)).collect::<Result<Vec<_>>>()?
        }
        list => parse_arguments(list, context)?,
    };
    if arguments.len() != 3 {
        let given = arguments.len();
        let message = format!("Expression $cond takes exactly 3 arguments. {given} were passed in.");
        return Err(numbered(16020, message));
    }
    Ok(decide(fold(Node::Positional { operator: &LAZY, arguments }, context)?))
}

/// A constant condition leaves only the branch it selects.
fn decide(node: Node) -> Node {
    let Node::Positional { operator, mut arguments } = node else { return node };
    match arguments.first().and_then(Node::as_constant).map(Value::is_truthy) {
        Some(true) if arguments.len() == 3 => arguments.swap_remove(1),
        Some(false) if arguments.len() == 3 => arguments.swap_remove(2),
        _ => Node::Positional { operator, arguments },
    }
}

fn evaluate<'a>(arguments: &'a [Node], context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let [condition, then, otherwise] = arguments else { return Err(LAZY.misplaced()) };
    match condition.evaluate(context)?.is_truthy() {
        true => then.evaluate(context),
        false => otherwise.evaluate(context),
    }
}
