//! Plans that read one index entry for each value of a field (DISTINCT_SCAN), where a query says that this is enough.
//!
//! Called by `candidates`. The bounds must say all of the filter: a document that fails would stand for others that do not.

use std::cmp::Reverse;

use document::collation;

use crate::canonical_query::{CanonicalQuery, Missing, WhichDocument};
use crate::covered;
use crate::hint::ScanDirection;
use crate::index_assignment::Assignment;
use crate::interval::IntervalList;
use crate::plan::{Nulls, PlanNode, ScanKind};
use crate::predicate_bounds::Field;
use crate::ranking::assignment_rank;
use crate::sort_order;

/// The best of such plans, if there is one.
pub(crate) fn best(assignments: &[Assignment], query: &CanonicalQuery) -> Option<PlanNode> {
    query.distinct.as_ref()?;
    let plans = assignments.iter().filter_map(|assignment| Some((assignment, plan(assignment, query)?)));
    let rank = |assignment: &Assignment| (assignment_rank(assignment), Reverse(assignment.fields.len()));
    plans.max_by_key(|(assignment, _)| rank(assignment)).map(|(_, plan)| plan)
}

fn plan(assignment: &Assignment, query: &CanonicalQuery) -> Option<PlanNode> {
    let wanted = query.distinct.as_ref()?;
    let takes_all = query.skip == 0 && query.limit.is_none() && !query.return_key && !query.show_record_id;
    // Keys are different texts, of which a collation takes some for one.
    let tells_text = assignment.index.pattern().collator().is_none() && !collation::is_in_force();
    if !takes_all || !tells_text || !assignment.residual.is_empty() || !holds_all(assignment, query, wanted.missing) {
        return None;
    }
    let fields = assignment.pattern().fields();
    let position = fields.iter().position(|field| field.path == wanted.path)?;
    let leading = assignment.bounds.get(..position)?;
    if assignment.fields.get(position) != Some(&Field::Plain) || !leading.iter().all(IntervalList::is_points) {
        return None;
    }
    let direction = match (&query.sort, wanted.which) {
        (None, None) => ScanDirection::Forward,
        (None, Some(_)) => return None,
        (Some(sort), which) => {
            let direction = sort_order::direction_for(assignment, sort)?;
            match which {
                // The last one of all that are read is not the one wanted where a value is met several times.
                Some(WhichDocument::Last) if leading.iter().all(IntervalList::is_single_point) => direction.reversed(),
                Some(WhichDocument::Last) => return None,
                Some(WhichDocument::First) | None => direction,
            }
        }
    };
    if assignment.is_empty() {
        return Some(PlanNode::Eof);
    }
    let nulls = if wanted.missing == Missing::Null { Nulls::One } else { Nulls::Each };
    let scan = assignment.scan_for(ScanKind::Distinct { fields: position + 1, nulls }, direction);
    let covered = query.projection.as_ref().and_then(|projection| covered::needed_fields(assignment, projection));
    Some(match covered {
        Some(needed) => PlanNode::CoveredProjection { input: Box::new(scan), needed },
        None => PlanNode::Fetch { input: Box::new(scan), filter: None },
    })
}

/// Whether the index has every value that the query asks for. A sparse one has all documents with the field.
fn holds_all(assignment: &Assignment, query: &CanonicalQuery, missing: Missing) -> bool {
    let specification = assignment.index.specification();
    let has_field = missing == Missing::Nothing && specification.partial_filter.is_none();
    // One of places has those with a place alone.
    let has_field = has_field && assignment.expanded.is_none() && assignment.index.pattern().places().is_none();
    assignment.holds_all_matches(query.filter.root()) || has_field
}
