//! The documents of `$geoNear`: a query with `$near` by an index of places, each with its distance.
//!
//! Called by `pipeline_host`. Without a key the only index that can serve says where the places are.

use std::collections::BTreeSet;
use std::sync::Arc;

use aggregation::{NearQuery, NearSource, Neighbour};
use collection::Namespace;
use executor::{QueryExecutor, QueryServices, Target};
use index_key::FieldKind;
use query_language::filter::NearCenter;
use transaction::ReadView;

use super::query_arguments::host_error;
use super::query_arguments::{OwnedInterrupt, query};
use crate::request::error::{CommandError, Result};

/// What `$geoNear` reads.
pub(super) struct Neighbours {
    executor: QueryExecutor,
    interrupt: OwnedInterrupt,
}

impl Neighbours {
    pub(super) fn open(
        services: &QueryServices,
        view: ReadView,
        target: Target,
        near: &NearQuery,
        interrupt: OwnedInterrupt,
    ) -> Result<Self> {
        let key = match &near.key {
            Some(key) => key.clone(),
            None => only_key(&view, &target, near)?,
        };
        let mut query = query(Some(&near.filter(&key)), &near.variables)?;
        query.passes_metadata.nearness = true;
        let executor = QueryExecutor::new(services, view, target, Arc::new(query), &interrupt)?;
        Ok(Self { executor, interrupt })
    }
}

impl NearSource for Neighbours {
    fn next(&mut self) -> aggregation::Result<Option<Neighbour>> {
        let row = self.executor.next(&self.interrupt).map_err(|error| host_error(error.into()))?;
        Ok(row.map(|row| Neighbour { document: row.document.to_owned(), metadata: row.metadata }))
    }
}

/// Refuses a pipeline that is on a database.
pub(super) fn check_is_collection(namespace: &Namespace) -> Result<()> {
    if namespace.collection() != "$cmd.aggregate" {
        return Ok(());
    }
    let message = "{aggregate: 1} is not valid for '$geoNear'; a collection is required.";
    Err(CommandError::named("InvalidNamespace", message))
}

/// What is said where no index has places.
pub(super) fn no_index(namespace: &Namespace) -> CommandError {
    let message = "$geoNear requires a 2d or 2dsphere index, but none were found";
    CommandError::named("IndexNotFound", format!("{message} on {}", namespace.as_str()))
}

/// The path of the only index that can serve; any path of a collection that does not exist.
fn only_key(view: &ReadView, target: &Target, near: &NearQuery) -> Result<String> {
    let Some(collection) = &target.collection else { return Ok("key".to_owned()) };
    let asked = query(Some(&near.filter("key")), &near.variables)?;
    let center = asked.filter.near().map(|leaf| leaf.near().center);
    let kinds: &[FieldKind] = match center {
        Some(NearCenter::Metres(_)) | None => &[FieldKind::Sphere],
        Some(NearCenter::Plane(_)) => &[FieldKind::Plane],
        // Where there are both, the older kind is taken.
        Some(NearCenter::Radians(..)) => &[FieldKind::Plane, FieldKind::Sphere],
    };
    let indexes: Vec<_> = collection.indexes().ready_at(view.timestamp()).filter(|index| !index.is_hidden()).collect();
    for kind in kinds {
        let fields = indexes.iter().flat_map(|index| index.pattern().fields());
        let paths: BTreeSet<&str> =
            fields.filter(|field| field.kind == *kind).map(|field| field.path.as_str()).collect();
        let mut paths = paths.into_iter();
        match (paths.next(), paths.next()) {
            (Some(only), None) => return Ok(only.to_owned()),
            (Some(_), Some(_)) => {
                let name = if *kind == FieldKind::Plane { "2d" } else { "2dsphere" };
                let message = format!(
                    "There is more than one {name} index on {}; unsure which to use for $geoNear",
                    target.namespace.as_str()
                );
                return Err(CommandError::named("IndexNotFound", message));
            }
            _ => {}
        }
    }
    Err(no_index(&target.namespace))
}
