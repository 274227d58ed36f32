//! Whether an index scan yields documents in the order that a query asks for.
//!
//! Fields bound to a single value say nothing about order and may be passed over. Only fields on whose paths no document
//! has an array serve, and only an index of the query's collation: an array sorts by its least or greatest element,
//! whichever way the sort goes.

use index_key::Direction;
use query_language::expression::sort_pattern::SortPattern;

use crate::collation_agreement::Agreement;
use crate::hint::ScanDirection;
use crate::index_assignment::Assignment;
use crate::predicate_bounds::Field;

/// The direction in which the scan has the order; `None`: neither.
pub(crate) fn direction_for(assignment: &Assignment, sort: &SortPattern) -> Option<ScanDirection> {
    if sort.metadata().is_any() || !Agreement::of(&assignment.index).is_same {
        return None;
    }
    let mut wanted = sort.parts().iter().peekable();
    let mut direction = None;
    let fields = assignment.pattern().fields().iter().zip(&assignment.fields).zip(&assignment.bounds);
    for ((field, kind), list) in fields {
        let Some(part) = wanted.peek() else { break };
        if part.path.as_path() == &field.path && *kind == Field::Plain {
            let same = part.descending == (field.direction == Direction::Descending);
            let needed = if same { ScanDirection::Forward } else { ScanDirection::Backward };
            if direction.is_none_or(|direction| direction == needed) {
                direction = Some(needed);
                wanted.next();
                continue;
            }
        }
        if !list.is_single_point() {
            break;
        }
        // An equality that the sort names too is met in either direction.
        if part.path.as_path() == &field.path && *kind == Field::Plain {
            wanted.next();
        }
    }
    wanted.peek().is_none().then_some(direction.unwrap_or(ScanDirection::Forward))
}
