//! Random updates with `$` against a plain model of what the filter's match has to do with positions.
//!
//! The model lists, for each condition, the values that its path offers in order, each with the position in the outermost
//! array that was searched for it, and takes the first that the condition accepts.

use std::cmp::Ordering;

use bson::Bson;
use proptest::prelude::*;

use super::properties::model;
use super::*;

/// One condition of a filter: on which path, and what it asks of a value.
#[derive(Debug, Clone)]
struct Condition {
    path: String,
    test: Test,
}

/// What is asked of a number; in the order in which a filter's conditions are tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    Equal(i32),
    GreaterOrEqual(i32),
    In(i32, i32),
    Exists,
    /// Some element of an array is at least this.
    Element(i32),
}

impl Condition {
    fn text(&self) -> String {
        let path = &self.path;
        match &self.test {
            Test::Equal(number) => format!("{{'{path}': {number}}}"),
            Test::GreaterOrEqual(number) => format!("{{'{path}': {{$gte: {number}}}}}"),
            Test::In(first, second) => format!("{{'{path}': {{$in: [{first}, {second}]}}}}"),
            Test::Exists => format!("{{'{path}': {{$exists: true}}}}"),
            Test::Element(number) => format!("{{'{path}': {{$elemMatch: {{$gte: {number}}}}}}}"),
        }
    }

    /// Filters try leaves by kind, then path, then comparison; equal ones in the client's order.
    fn compare(&self, other: &Self) -> Ordering {
        let kind = |test: &Test| match test {
            Test::Equal(_) | Test::GreaterOrEqual(_) => 0,
            Test::In(..) => 1,
            Test::Exists => 2,
            Test::Element(_) => 3,
        };
        let minor = |test: &Test| matches!(test, Test::GreaterOrEqual(_));
        let key = |condition: &Self| (kind(&condition.test), condition.path.clone(), minor(&condition.test));
        key(self).cmp(&key(other))
    }

    /// Whether the document satisfies the condition, and at which position.
    fn find(&self, document: &Bson) -> Option<Option<usize>> {
        let path: Vec<&str> = self.path.split('.').collect();
        let expand = !matches!(self.test, Test::Exists | Test::Element(_));
        let mut offered = Vec::new();
        offer_fields(document, &path, expand, None, &mut offered);
        offered.into_iter().find_map(|(value, position)| {
            let number = value.and_then(Bson::as_i32);
            let accepted = match self.test {
                Test::Equal(wanted) => number == Some(wanted),
                Test::GreaterOrEqual(least) => number.is_some_and(|number| number >= least),
                Test::In(first, second) => number == Some(first) || number == Some(second),
                Test::Exists => value.is_some(),
                Test::Element(least) => {
                    let items = value?.as_array()?;
                    let found = items.iter().position(|item| item.as_i32().is_some_and(|number| number >= least))?;
                    return Some(position.or(Some(found)));
                }
            };
            accepted.then_some(position)
        })
    }
}

type Offered<'a> = Vec<(Option<&'a Bson>, Option<usize>)>;

/// What a path offers from a value whose fields are meant.
fn offer_fields<'a>(holder: &'a Bson, path: &[&str], expand: bool, outer: Option<usize>, offered: &mut Offered<'a>) {
    let Some(document) = holder.as_document() else { return offered.push((None, outer)) };
    match document.get(path[0]) {
        None => offered.push((None, outer)),
        Some(value) if path.len() == 1 => {
            if let (Some(items), true) = (value.as_array(), expand) {
                offered.extend(items.iter().enumerate().map(|(at, item)| (Some(item), outer.or(Some(at)))));
            }
            offered.push((Some(value), outer));
        }
        Some(Bson::Array(items)) => offer_items(items, &path[1..], expand, outer, offered),
        Some(value) => offer_fields(value, &path[1..], expand, outer, offered),
    }
}

/// What a path offers from an array in the middle of it: each document's, and what stands at the position that it names.
fn offer_items<'a>(items: &'a [Bson], path: &[&str], expand: bool, outer: Option<usize>, offered: &mut Offered<'a>) {
    for (at, item) in items.iter().enumerate() {
        if item.as_document().is_some() {
            offer_fields(item, path, expand, outer.or(Some(at)), offered);
        }
        if path[0] == at.to_string() {
            match item {
                item if path.len() == 1 => offered.push((Some(item), outer)),
                Bson::Array(inner) => offer_items(inner, &path[1..], expand, outer, offered),
                Bson::Document(_) => offer_fields(item, &path[1..], expand, outer, offered),
                _ => {}
            }
        }
    }
}

fn number() -> impl Strategy<Value = i32> {
    0_i32..3
}

/// Small documents of arrays in documents in arrays, so that matches are frequent.
fn document_text() -> impl Strategy<Value = String> {
    let value = number().prop_map(|number| number.to_string()).prop_recursive(4, 24, 4, |inner| {
        let array = prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", ")));
        let field = (prop::sample::select(vec!["b", "0", "1"]), inner.clone());
        let document = field.prop_map(|(name, value)| format!("{{'{name}': {value}}}"));
        prop_oneof![3 => array, 2 => document, 1 => inner]
    });
    (value.clone(), value).prop_map(|(a, b)| format!("{{_id: 7, a: {a}, b: {b}}}"))
}

fn path_text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["b", "0", "1"]);
    (prop::sample::select(vec!["a", "b"]), prop::collection::vec(part, 0..4))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect::<Vec<_>>().join("."))
}

fn condition() -> impl Strategy<Value = Condition> {
    let test = prop_oneof![
        3 => number().prop_map(Test::Equal),
        2 => number().prop_map(Test::GreaterOrEqual),
        1 => (0_i32..2).prop_map(|number| Test::In(number, 2)),
        1 => Just(Test::Exists),
        1 => number().prop_map(Test::Element),
    ];
    (path_text(), test).prop_map(|(path, test)| Condition { path, test })
}

/// Applies an update to a document as far as the filter matches it.
fn apply_matching(filter: &str, update: &str, document: &RawDocument) -> Option<Result<UpdateOutcome>> {
    let variables = variables();
    let filter = Filter::parse(&parse(filter), &FilterOptions::new(Arc::clone(&variables))).unwrap();
    let mut details = MatchDetails::new();
    if !filter.matches_with(document, &mut details).unwrap() {
        return None;
    }
    let options = UpdateOptions { multiplicity: Multiplicity::One, variables: Arc::clone(&variables) };
    let update = Update::parse(UpdateSource::Document(&parse(update)), &[], &options).unwrap();
    let clock = FixedClock::default();
    let match_position = details.array_position();
    let context = UpdateContext {
        match_position,
        purpose: UpdatePurpose::Modify,
        clock: &clock,
        empty_timestamps: EmptyTimestamps::Replace,
        variables: &variables,
    };
    Some(update.apply(document, &context))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn positions_are_where_the_model_finds_them(
        document in document_text(), conditions in prop::collection::vec(condition(), 1..4), path in path_text(), below in any::<bool>(),
    ) {
        let document = parse(&document);
        let before = Bson::Document(bson::Document::try_from(&*document).unwrap());
        let mut tried = conditions.clone();
        tried.sort_by(Condition::compare);
        let found: Option<Vec<_>> = tried.iter().map(|condition| condition.find(&before)).collect();
        let position = found.as_ref().and_then(|found| found.iter().rev().find_map(|position| *position));

        let filter = conditions.iter().map(Condition::text).collect::<Vec<_>>().join(", ");
        let below = if below { ".b" } else { "" };
        let update = format!("{{$set: {{'{path}.${below}': 99}}}}");
        let outcome = apply_matching(&format!("{{$and: [{filter}]}}"), &update, &document);
        prop_assert_eq!(outcome.is_some(), found.is_some(), "the filter's match");
        let (Some(outcome), Some(_)) = (outcome, found) else { return Ok(()) };

        let mut after = before.clone();
        let place = position.map(|position| format!("{path}.{position}{below}"));
        let modelled = place.as_ref().map(|place| model(&mut after, &place.split('.').collect::<Vec<_>>(), Some(&Bson::Int32(99))));
        match (outcome, modelled) {
            (Err(error), None) => prop_assert!(matches!(error.kind, ErrorKind::BadValue | ErrorKind::PathNotViable), "{}", error),
            (Err(error), Some(Err(()))) => prop_assert_eq!(error.kind, ErrorKind::PathNotViable),
            (Ok(UpdateOutcome::NoChange), Some(Ok(()))) => prop_assert_eq!(after, before),
            (Ok(UpdateOutcome::Changed { document: changed, .. }), Some(Ok(()))) => {
                prop_assert_eq!(Bson::Document(bson::Document::try_from(&*changed).unwrap()), after);
            }
            (outcome, modelled) => prop_assert!(false, "{:?} but the model says {:?} at {:?}", outcome, modelled, place),
        }
    }
}
