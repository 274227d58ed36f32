//! Names of databases and collections, and which of them are allowed.
//!
//! Called by the catalog and by `commands`, which gets a `Namespace` from `$db` and the command's first field. The rules
//! are those of MongoDB's manual, "Naming Restrictions", with the messages that drivers' tests match on.

use crate::error::{CollectionError, Result};

/// Longest `database.collection`, in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 255;
/// Longest database name, in bytes.
pub const DATABASE_NAME_BYTES_MAX: usize = 63;

/// A valid `database.collection`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    full: String,
    database_bytes: usize,
}

impl Namespace {
    /// A namespace from its two parts.
    ///
    /// # Errors
    /// `InvalidNamespace` when either part is not allowed as a name.
    pub fn new(database: &str, collection: &str) -> Result<Namespace> {
        check_database_name(database)?;
        check_collection_name(database, collection)?;
        Ok(Namespace { full: format!("{database}.{collection}"), database_bytes: database.len() })
    }

    /// A namespace from `database.collection`; the first dot separates.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn parse(full: &str) -> Result<Namespace> {
        match full.split_once('.') {
            Some((database, collection)) => Namespace::new(database, collection),
            None => Err(CollectionError::InvalidNamespace(format!("Invalid namespace specified '{full}'"))),
        }
    }

    /// What commands on a whole database read: `<database>.$cmd.aggregate`, of which there never is a collection.
    ///
    /// # Errors
    /// `InvalidNamespace` when the database's name is not allowed.
    pub fn of_database(database: &str) -> Result<Namespace> {
        check_database_name(database)?;
        Ok(Namespace { full: format!("{database}.$cmd.aggregate"), database_bytes: database.len() })
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        self.full.get(..self.database_bytes).unwrap_or_default()
    }

    /// The name of the collection inside its database.
    pub fn collection(&self) -> &str {
        self.full.get(self.database_bytes + 1..).unwrap_or_default()
    }

    /// `database.collection`.
    pub fn as_str(&self) -> &str {
        &self.full
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.full)
    }
}

/// Whether `name` may name a database.
///
/// # Errors
/// `InvalidNamespace`.
pub fn check_database_name(name: &str) -> Result<()> {
    let forbidden = |c: char| matches!(c, '/' | '\\' | '.' | ' ' | '"' | '$' | '\0');
    if name.is_empty() || name.len() > DATABASE_NAME_BYTES_MAX || name.contains(forbidden) {
        return Err(CollectionError::InvalidNamespace(format!("Invalid database name: '{name}'")));
    }
    Ok(())
}

fn check_collection_name(database: &str, name: &str) -> Result<()> {
    let full_bytes = database.len() + 1 + name.len();
    let allowed = !name.is_empty()
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains(['$', '\0'])
        && full_bytes <= NAMESPACE_BYTES_MAX;
    if allowed {
        return Ok(());
    }
    if full_bytes > NAMESPACE_BYTES_MAX {
        let message =
            format!("Fully qualified namespace is too long. Namespace: {database}.{name} Max: {NAMESPACE_BYTES_MAX}");
        return Err(CollectionError::InvalidNamespace(message));
    }
    Err(CollectionError::InvalidNamespace(format!("Invalid collection name: {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_again() {
        let namespace = Namespace::parse("shop.orders.2026").unwrap();
        assert_eq!((namespace.database(), namespace.collection()), ("shop", "orders.2026"));
        assert_eq!(namespace.as_str(), "shop.orders.2026");
    }

    #[test]
    fn bad_names_are_refused() {
        for (database, collection) in
            [("", "c"), ("a b", "c"), ("a$b", "c"), ("a", ""), ("a", ".c"), ("a", "c."), ("a", "c..d"), ("a", "$c")]
        {
            assert!(Namespace::new(database, collection).is_err(), "{database}.{collection}");
        }
        assert!(Namespace::new(&"d".repeat(64), "c").is_err());
        assert!(Namespace::new("d", &"c".repeat(253)).is_ok());
        assert!(Namespace::new("d", &"c".repeat(254)).is_err());
    }
}
