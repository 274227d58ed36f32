//! Parameters of a scenario: their defaults in the file, what `--set name=value` makes of them, and the `${...}` expressions
//! in which they are used: a parameter, a number, or several of them with `+ - * /` between, calculated from left to right (`${documents / 10}`).

use std::collections::BTreeMap;

use super::node::Node;
use crate::error::LabError;

/// Values by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    values: BTreeMap<String, Node>,
}

impl Parameters {
    /// The defaults with changes applied. A change must be of the default's kind.
    ///
    /// # Errors
    /// A change of a parameter that the scenario has not, or to a value of another kind.
    pub(crate) fn resolve(defaults: &BTreeMap<String, Node>, changes: &[(String, String)]) -> Result<Self, LabError> {
        let mut values = defaults.clone();
        for (name, node) in &values {
            if matches!(node, Node::Sequence(_) | Node::Mapping(_) | Node::Null) {
                return Err(refused(format!(
                    "parameter {name:?}: must be a number, text, true or false, not {}",
                    node.kind()
                )));
            }
        }
        for (name, text) in changes {
            let Some(value) = values.get_mut(name) else {
                let known = defaults.keys().cloned().collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                return Err(refused(format!("there is no parameter {name:?}; the scenario has: {known}")));
            };
            *value = parse_as(value, text)
                .ok_or_else(|| refused(format!("parameter {name:?} is {}, not {text:?}", value.kind())))?;
        }
        Ok(Self { values })
    }

    /// Names and values as text, for reports.
    pub(crate) fn listed(&self) -> BTreeMap<String, String> {
        self.values.iter().map(|(name, value)| (name.clone(), scalar_text(value))).collect()
    }

    /// A copy of a value in which all expressions have been filled in. Text that is one expression takes the kind of
    /// its value.
    pub(crate) fn fill(&self, node: &Node) -> Result<Node, LabError> {
        Ok(match node {
            Node::Text(text) => self.fill_text(text)?,
            Node::Sequence(values) => {
                Node::Sequence(values.iter().map(|value| self.fill(value)).collect::<Result<_, _>>()?)
            }
            Node::Mapping(fields) => {
                let filled =
                    fields.iter().map(|(name, value)| Ok((scalar_text(&self.fill_text(name)?), self.fill(value)?)));
                Node::Mapping(filled.collect::<Result<_, LabError>>()?)
            }
            other => other.clone(),
        })
    }

    fn fill_text(&self, text: &str) -> Result<Node, LabError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest.get(start..).and_then(|tail| tail.find('}')) else {
                return Err(refused(format!("{text:?}: ${{ without }}")));
            };
            let expression = rest.get(start + 2..start + length).unwrap_or_default();
            let value = self.evaluate(expression)?;
            let after = rest.get(start + length + 1..).unwrap_or_default();
            if filled.is_empty() && start == 0 && after.is_empty() {
                return Ok(value);
            }
            filled.push_str(rest.get(..start).unwrap_or_default());
            filled.push_str(&scalar_text(&value));
            rest = after;
        }
        filled.push_str(rest);
        Ok(Node::Text(filled))
    }

    fn evaluate(&self, expression: &str) -> Result<Node, LabError> {
        let words: Vec<&str> = expression.split_whitespace().collect();
        let [first, rest @ ..] = &words[..] else { return Err(refused("${} names nothing".to_owned())) };
        let mut result = self.operand(first)?;
        for step in rest.chunks(2) {
            let [operator, operand] = step else {
                return Err(refused(format!("${{{expression}}}: write a parameter, or `parameter / 10` with spaces")));
            };
            let calculated = calculate(&result, operator, &self.operand(operand)?);
            result = calculated.ok_or_else(|| refused(format!("cannot calculate ${{{expression}}}")))?;
        }
        Ok(result)
    }

    fn operand(&self, word: &str) -> Result<Node, LabError> {
        if let Some(value) = self.values.get(word) {
            return Ok(value.clone());
        }
        if let Ok(number) = word.parse() {
            return Ok(Node::Integer(number));
        }
        if let Ok(number) = word.parse() {
            return Ok(Node::Float(number));
        }
        Err(refused(format!("there is no parameter {word:?}")))
    }
}

fn refused(message: String) -> LabError {
    LabError::Scenario(message)
}

fn parse_as(like: &Node, text: &str) -> Option<Node> {
    match like {
        Node::Integer(_) => parse_count(text).map(Node::Integer),
        Node::Float(_) => text.parse().ok().map(Node::Float),
        Node::Boolean(_) => text.parse().ok().map(Node::Boolean),
        _ => Some(Node::Text(text.to_owned())),
    }
}

/// A whole number; `_` and `,` may group its digits.
fn parse_count(text: &str) -> Option<i64> {
    text.replace(['_', ','], "").parse().ok()
}

/// Whole where both are whole and the result is; division rounds down.
fn calculate(left: &Node, operator: &str, right: &Node) -> Option<Node> {
    if let (Node::Integer(left), Node::Integer(right)) = (left, right) {
        return match operator {
            "+" => left.checked_add(*right),
            "-" => left.checked_sub(*right),
            "*" => left.checked_mul(*right),
            "/" => left.checked_div(*right),
            _ => None,
        }
        .map(Node::Integer);
    }
    let number = |node: &Node| match node {
        Node::Integer(number) => Some(*number as f64),
        Node::Float(number) => Some(*number),
        _ => None,
    };
    let (left, right) = (number(left)?, number(right)?);
    let result = match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        _ => return None,
    };
    result.is_finite().then_some(Node::Float(result))
}

fn scalar_text(node: &Node) -> String {
    match node {
        Node::Boolean(value) => value.to_string(),
        Node::Integer(value) => value.to_string(),
        Node::Float(value) => value.to_string(),
        Node::Text(value) => value.clone(),
        Node::Null | Node::Sequence(_) | Node::Mapping(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(changes: &[(&str, &str)]) -> Result<Parameters, LabError> {
        let defaults = BTreeMap::from([
            ("documents".to_owned(), Node::Integer(1000)),
            ("share".to_owned(), Node::Float(0.5)),
            ("kind".to_owned(), Node::Text("int".to_owned())),
        ]);
        let changes: Vec<_> = changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Parameters::resolve(&defaults, &changes)
    }

    fn filled(text: &str) -> Result<Node, LabError> {
        parameters(&[("documents", "2_000")])?.fill(&Node::Text(text.to_owned()))
    }

    #[test]
    fn expressions_take_the_kind_of_their_value() {
        assert_eq!(filled("${documents}").unwrap(), Node::Integer(2000));
        assert_eq!(filled("${documents / 3}").unwrap(), Node::Integer(666));
        assert_eq!(filled("${documents * share}").unwrap(), Node::Float(1000.0));
        assert_eq!(filled("${documents * 3 / 4 - 1}").unwrap(), Node::Integer(1499));
        assert_eq!(filled("n${documents}_${kind}").unwrap(), Node::Text("n2000_int".to_owned()));
        assert_eq!(filled("plain").unwrap(), Node::Text("plain".to_owned()));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("${document}", "no parameter \"document\""),
            ("${documents", "without }"),
            ("${documents / 0}", "cannot calculate"),
            ("${documents * 2 /}", "with spaces"),
            ("${documents/2}", "no parameter \"documents/2\""),
        ] {
            let message = filled(text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        let message = parameters(&[("document", "3")]).unwrap_err().to_string();
        assert!(message.contains("documents, kind, share"), "{message}");
        assert!(parameters(&[("documents", "many")]).is_err());
    }
}
