//! Whether index keys hold all that a query needs of its documents.

use query_language::projection::Projection;

use crate::index_assignment::Assignment;
use crate::predicate_bounds::Field;

/// The fields of the key pattern that the projection reads, if they are all it reads.
pub(crate) fn needed_fields(assignment: &Assignment, projection: &Projection) -> Option<Vec<usize>> {
    // The keys of an index with a collation do not tell text.
    if !assignment.residual.is_empty() || assignment.index.pattern().collator().is_some() {
        return None;
    }
    let fields = assignment.pattern().fields();
    let plain = fields.iter().zip(&assignment.fields).filter(|(_, kind)| **kind == Field::Plain);
    let paths: Vec<&str> = plain.map(|(field, _)| field.path.as_str()).collect();
    // Of a document with several keys each has the same value of a plain field, and the scan yields one.
    if !projection.is_covered_by(&paths) {
        return None;
    }
    let dependencies = projection.dependencies();
    let is_needed = |path: &str| dependencies.paths.contains(path);
    let needed: Vec<usize> =
        fields.iter().enumerate().filter(|(_, field)| is_needed(field.path.as_str())).map(|(index, _)| index).collect();
    // One path inside another would have to be put together from two values.
    let overlaps = needed.iter().any(|outer| {
        needed.iter().any(|inner| {
            outer != inner
                && matches!((fields.get(*outer), fields.get(*inner)), (Some(outer), Some(inner)) if outer.path.is_prefix_of(&inner.path))
        })
    });
    (!overlaps).then_some(needed)
}
