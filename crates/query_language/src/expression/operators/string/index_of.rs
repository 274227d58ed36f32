//! `$indexOfBytes` and `$indexOfCP`: where a string first appears in another, within optional bounds.

use crate::expression::operators::index_bounds::index_bound;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager(
        "$indexOfBytes",
        "The byte position of a string in another; -1 when absent.",
        Arity::Between(2, 4),
        of_bytes,
    ),
    Operator::eager(
        "$indexOfCP",
        "The code point position of a string in another; -1 when absent.",
        Arity::Between(2, 4),
        of_code_points,
    ),
];

/// The operands: text, what is looked for, and the bounds in the operator's unit.
struct Search<'v> {
    text: &'v str,
    wanted: &'v str,
    start: usize,
    end: Option<usize>,
}

fn search<'v>(operator: &Operator, arguments: &'v [Value<'_>], kinds: [u32; 2]) -> Result<Option<Search<'v>>> {
    let [text, wanted, bounds @ ..] = arguments else { return Err(operator.misplaced()) };
    if text.is_nullish() {
        return Ok(None);
    }
    let not_a_string = |kind, which: &str, value: &Value<'_>| {
        let text = format!("requires a string as the {which} argument, found: {}", value.type_name());
        operator.error(ErrorKind::Location(kind), text)
    };
    let [first_kind, second_kind] = kinds;
    let text = text.as_str().ok_or_else(|| not_a_string(first_kind, "first", text))?;
    let wanted = wanted.as_str().ok_or_else(|| not_a_string(second_kind, "second", wanted))?;
    let start = bounds.first().map(|bound| index_bound(operator, bound, "starting")).transpose()?.unwrap_or(0);
    let end = bounds.get(1).map(|bound| index_bound(operator, bound, "ending")).transpose()?;
    Ok(Some(Search { text, wanted, start, end }))
}

fn of_bytes<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(search) = search(operator, arguments, [40091, 40092])? else { return Ok(Value::NULL) };
    let end = search.end.map_or(search.text.len(), |end| end.min(search.text.len()));
    Ok(find_bytes(search.text, search.wanted, search.start, end).map_or(-1, |position| position as i32).into())
}

fn of_code_points<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(search) = search(operator, arguments, [40093, 40094])? else { return Ok(Value::NULL) };
    let boundary = |position: usize| match search.text.char_indices().nth(position) {
        Some((at, _)) => at,
        None => search.text.len(),
    };
    let length = search.text.chars().count();
    if search.start > length {
        return Ok((-1).into());
    }
    let end = search.end.map_or(search.text.len(), boundary);
    let found = find_bytes(search.text, search.wanted, boundary(search.start), end);
    let in_code_points = |at: usize| search.text.get(..at).map_or(-1, |before| before.chars().count() as i32);
    Ok(found.map_or(-1, in_code_points).into())
}

/// The first position from `start` on at which `wanted` lies before `end`.
fn find_bytes(text: &str, wanted: &str, start: usize, end: usize) -> Option<usize> {
    let range = text.as_bytes().get(start..end)?;
    if wanted.is_empty() {
        return Some(start);
    }
    memchr::memmem::find(range, wanted.as_bytes()).map(|at| start + at)
}
