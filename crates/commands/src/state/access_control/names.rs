//! The name of a user or of a role: a name in a database.

use bson::{RawBsonRef, RawDocument};

use crate::DocumentWriter;
use crate::request::arguments::{Field, required};
use crate::request::error::{CommandError, Result};

/// A name in a database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QualifiedName {
    pub(crate) database: String,
    pub(crate) name: String,
}

pub(crate) type UserName = QualifiedName;
pub(crate) type RoleName = QualifiedName;

impl QualifiedName {
    pub(crate) fn new(name: &str, database: &str) -> Self {
        Self { database: database.to_owned(), name: name.to_owned() }
    }

    /// The `_id` of its document.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// From `{<field>: name, db: database}`, or a name of `database`. `field` is "user" or "role".
    pub(crate) fn read(owner: &str, field: &str, value: RawBsonRef<'_>, database: &str) -> Result<Self> {
        match value {
            RawBsonRef::String(name) => Ok(Self::new(name, database)),
            RawBsonRef::Document(document) => Self::of_document(owner, field, document),
            _ => Err(CommandError::bad_value(format!("{owner}: a {field} must be a string or an object"))),
        }
    }

    fn of_document(owner: &str, field: &str, document: &RawDocument) -> Result<Self> {
        let (mut name, mut database) = (None, None);
        for element in document::elements(document) {
            let part = Field::of(owner, element);
            match part.name() {
                found if found == field => name = part.string()?,
                "db" => database = part.string()?,
                _ => return Err(part.unknown()),
            }
        }
        let name = required(name, &format!("{owner}.{field}"))?;
        Ok(Self::new(name, required(database, &format!("{owner}.db"))?))
    }

    /// Writes the two fields.
    pub(crate) fn write(&self, field: &str, document: &mut DocumentWriter<'_>) {
        document.string(field, &self.name);
        document.string("db", &self.database);
    }
}

/// `name@database`, as messages have it.
impl std::fmt::Display for QualifiedName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}@{}", self.name, self.database)
    }
}

/// The roles of an array.
pub(crate) fn read_roles(owner: &str, array: &bson::RawArray, database: &str) -> Result<Vec<RoleName>> {
    let mut roles = Vec::new();
    for element in document::array_elements(array) {
        let role = RoleName::read(owner, "role", element.value(), database)?;
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    Ok(roles)
}

/// Writes roles as an array.
pub(crate) fn write_roles(name: &str, roles: &[RoleName], document: &mut DocumentWriter<'_>) {
    document.array(name, |list| {
        roles.iter().for_each(|role| list.push_document(|document| role.write("role", document)));
    });
}
