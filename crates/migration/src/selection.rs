//! Which namespaces are copied: `shop`, `shop.orders`, `shop.log*`. Called by `copy`.

/// Databases that every server has for itself.
const OWN_DATABASES: &[&str] = &["admin", "config", "local"];

/// What `--namespaces` says; all without it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection(Vec<String>);

impl Selection {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, String> {
        for pattern in patterns {
            let (before, star) =
                pattern.split_once('*').map_or((pattern.as_str(), false), |(before, _)| (before, true));
            if before.is_empty() || (star && !pattern.ends_with('*')) || pattern.matches('*').count() > 1 {
                return Err(format!("'{pattern}' is no DATABASE, DATABASE.COLLECTION or DATABASE.PREFIX*"));
            }
            if OWN_DATABASES.contains(&database_of(pattern)) {
                return Err(format!(
                    "'{pattern}': the databases admin, config and local belong to each server (users: --users)"
                ));
            }
        }
        Ok(Self(patterns.to_vec()))
    }

    /// Whether a database may have something to be copied.
    pub(crate) fn has_database(&self, name: &str) -> bool {
        !OWN_DATABASES.contains(&name)
            && (self.0.is_empty() || self.0.iter().any(|pattern| database_of(pattern) == name))
    }

    /// Whether a collection is copied.
    pub(crate) fn has(&self, database: &str, collection: &str) -> bool {
        let matches = |pattern: &String| match pattern.split_once('.') {
            None => pattern == database,
            Some((of, name)) if of == database => match name.strip_suffix('*') {
                Some(prefix) => collection.starts_with(prefix),
                None => name == collection,
            },
            Some(_) => false,
        };
        !OWN_DATABASES.contains(&database) && (self.0.is_empty() || self.0.iter().any(matches))
    }
}

fn database_of(pattern: &str) -> &str {
    pattern.split('.').next().unwrap_or(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_namespaces() {
        let patterns = ["shop", "crm.people", "logs.year2*"].map(str::to_owned);
        let selection = Selection::new(&patterns).unwrap();
        for (namespace, is_in) in [
            (("shop", "orders"), true),
            (("crm", "people"), true),
            (("crm", "people2"), false),
            (("logs", "year2024"), true),
            (("logs", "year1999"), false),
            (("shops", "orders"), false),
            (("admin", "x"), false),
        ] {
            assert_eq!(selection.has(namespace.0, namespace.1), is_in, "{namespace:?}");
        }
        assert!(selection.has_database("logs") && !selection.has_database("local"));
        assert!(Selection::default().has("any", "thing") && !Selection::default().has_database("config"));
        for wrong in ["", "*", "a.*b", "a.b**", "admin.system.users"] {
            assert!(Selection::new(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
