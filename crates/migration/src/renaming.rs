//! Other names on the target: `--namespaces shop.orders --as shop.orders_old`, or `--namespaces shop --as shop_old`. Called by `copy`.

use crate::catalog::Listed;

/// See the module's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Renaming {
    /// All keep their names.
    #[default]
    None,
    /// All collections of the one database that is copied.
    Database(String),
    /// The one collection: its database and name.
    Collection(String, String),
}

impl Renaming {
    /// What `--as` says of what `--namespaces` names. An error is the reason.
    pub(crate) fn new(patterns: &[String], wanted: Option<&str>) -> Result<Renaming, String> {
        let Some(wanted) = wanted else { return Ok(Renaming::None) };
        let [pattern] = patterns else {
            return Err("--as is for one namespace: name it with --namespaces".to_owned());
        };
        match (pattern.split_once('.'), wanted.split_once('.')) {
            _ if pattern.contains('*') || wanted.contains('*') => Err("--as takes no stars".to_owned()),
            (None, None) if !wanted.is_empty() => Ok(Renaming::Database(wanted.to_owned())),
            (Some(_), Some((database, name))) if !database.is_empty() && !name.is_empty() => {
                Ok(Renaming::Collection(database.to_owned(), name.to_owned()))
            }
            _ => Err(format!(
                "'{wanted}' is no other name for {pattern}: both are DATABASE, or both DATABASE.COLLECTION"
            )),
        }
    }

    /// Gives a collection its name on the target.
    pub(crate) fn apply(&self, listed: &mut Listed) {
        match self {
            Renaming::None => {}
            Renaming::Database(database) => listed.target.database.clone_from(database),
            Renaming::Collection(database, name) => {
                listed.target.database.clone_from(database);
                listed.target.name.clone_from(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_gets_another_name_of_its_kind() {
        let of = |patterns: &[&str], wanted| {
            Renaming::new(&patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), wanted)
        };
        assert_eq!(of(&["shop", "crm"], None), Ok(Renaming::None));
        assert_eq!(of(&["shop"], Some("old")), Ok(Renaming::Database("old".to_owned())));
        let collection = Renaming::Collection("old".to_owned(), "orders.2025".to_owned());
        assert_eq!(of(&["shop.orders"], Some("old.orders.2025")), Ok(collection));
        for (patterns, wanted) in [
            (&["shop", "crm"][..], "old"),
            (&["shop.orders"], "old"),
            (&["shop"], "old.orders"),
            (&["shop.or*"], "a.b"),
            (&["shop"], ""),
        ] {
            assert!(of(patterns, Some(wanted)).is_err(), "{patterns:?} {wanted}");
        }
    }
}
