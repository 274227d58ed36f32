//! A value of a scenario file as it was written: the shape of documents, filters and commands before generators are built.
//!
//! Mappings keep their order, because the order of a BSON document's fields means something. Text may hold `${parameter}`
//! expressions, which `parameters` fills in.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Sequence(Vec<Node>),
    Mapping(Vec<(String, Node)>),
}

impl Node {
    /// What kind of value it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Sequence(_) => "a list",
            Self::Mapping(_) => "a mapping",
        }
    }

    /// The value of a mapping's field.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        match self {
            Self::Mapping(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::Mapping(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        i64::try_from(value)
            .map(Node::Integer)
            .map_err(|_| E::custom(format!("{value} does not fit 64 bits with a sign")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Node::Sequence(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut fields: Vec<(String, Node)> = Vec::new();
        while let Some((name, value)) = access.next_entry::<String, Node>()? {
            if fields.iter().any(|(field, _)| *field == name) {
                return Err(A::Error::custom(format!("the field {name:?} is there twice")));
            }
            fields.push((name, value));
        }
        Ok(Node::Mapping(fields))
    }
}
