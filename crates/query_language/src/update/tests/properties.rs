//! Random updates on random documents: results are valid BSON, `_id` stays, no-ops are reported, diffs reproduce the
//! change.

use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};
use proptest::prelude::*;

use super::*;

/// A document or operand as text, built of few names so that paths meet.
fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        (-3_i32..4).prop_map(|number| number.to_string()),
        (-3_i32..4).prop_map(|number| format!("NumberLong({number})")),
        (-3_i32..4).prop_map(|number| format!("{number}.0")),
        (-3_i32..4).prop_map(|number| format!("NumberDecimal('{number}')")),
        Just("NumberLong(9223372036854775807)".to_owned()),
        "[ab]{0,3}".prop_map(|text| format!("'{text}'")),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("MinKey".to_owned()),
        Just("/a/i".to_owned()),
        Just("Timestamp(0, 0)".to_owned()),
        Just("HexData(2, '01')".to_owned()),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        let array = prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", ")));
        prop_oneof![array, fields(inner).prop_map(|fields| format!("{{{fields}}}"))]
    })
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "0", "1", "10"])
}

fn fields(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec((name(), value), 0..5).prop_map(|mut fields| {
        let mut seen = Vec::new();
        fields.retain(|(name, _)| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
        let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("'{name}': {value}")).collect();
        fields.join(", ")
    })
}

fn document() -> impl Strategy<Value = RawDocumentBuf> {
    fields(value()).prop_map(|fields| parse(&format!("{{_id: 7, {fields}}}")))
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![6 => name(), 1 => Just("$[]"), 1 => Just("2")];
    let first = prop_oneof![12 => name(), 1 => Just("_id")];
    (first, prop::collection::vec(part, 0..3)).prop_map(|(first, rest)| {
        let mut path = first.to_owned();
        rest.iter().for_each(|part| path = format!("{path}.{part}"));
        path
    })
}

/// `$operator: {path: operand}`.
fn operator() -> impl Strategy<Value = String> {
    let number = (-3_i32..4).prop_map(|number| number.to_string());
    let list = prop::collection::vec(value(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))).boxed();
    prop_oneof![
        (path(), value()).prop_map(|(path, value)| format!("$set: {{'{path}': {value}}}")),
        path().prop_map(|path| format!("$unset: {{'{path}': 1}}")),
        (path(), number.clone()).prop_map(|(path, number)| format!("$inc: {{'{path}': {number}}}")),
        (path(), number).prop_map(|(path, number)| format!("$mul: {{'{path}': {number}}}")),
        (path(), value()).prop_map(|(path, value)| format!("$min: {{'{path}': {value}}}")),
        (path(), value()).prop_map(|(path, value)| format!("$max: {{'{path}': {value}}}")),
        (path(), path()).prop_map(|(from, to)| format!("$rename: {{'{from}': '{to}'}}")),
        (path(), list.clone(), -2_i32..3, -2_i32..3).prop_map(|(path, list, position, slice)| {
            format!("$push: {{'{path}': {{$each: {list}, $position: {position}, $slice: {slice}, $sort: 1}}}}")
        }),
        (path(), value()).prop_map(|(path, value)| format!("$push: {{'{path}': {value}}}")),
        (path(), list.clone()).prop_map(|(path, list)| format!("$addToSet: {{'{path}': {{$each: {list}}}}}")),
        (path(), list).prop_map(|(path, list)| format!("$pullAll: {{'{path}': {list}}}")),
        (path(), value()).prop_map(|(path, value)| format!("$pull: {{'{path}': {value}}}")),
        path().prop_map(|path| format!("$pop: {{'{path}': 1}}")),
        path().prop_map(|path| format!("$bit: {{'{path}': {{xor: 5}}}}")),
        path().prop_map(|path| format!("$currentDate: {{'{path}': true}}")),
    ]
}

/// The obvious way to set or remove a value at a path, on decoded documents. `Err` when the path leads nowhere.
pub(super) fn model(target: &mut Bson, path: &[&str], value: Option<&Bson>) -> std::result::Result<(), ()> {
    let Some((name, rest)) = path.split_first() else { return Ok(()) };
    match target {
        Bson::Document(fields) => match (fields.get_mut(name), value, rest.is_empty()) {
            (Some(child), _, false) => model(child, rest, value),
            (_, Some(value), true) => {
                fields.insert(*name, value.clone());
                Ok(())
            }
            (_, None, true) => {
                fields.remove(name);
                Ok(())
            }
            (None, Some(_), false) => {
                let mut child = Bson::Document(bson::Document::new());
                model(&mut child, rest, value)?;
                fields.insert(*name, child);
                Ok(())
            }
            (None, None, false) => Ok(()),
        },
        Bson::Array(items) => {
            let Ok(position) = name.parse::<usize>() else { return value.map_or(Ok(()), |_| Err(())) };
            if position >= items.len() {
                let Some(value) = value else { return Ok(()) };
                items.resize(position, Bson::Null);
                items.push(if rest.is_empty() { value.clone() } else { Bson::Document(bson::Document::new()) });
            }
            match (value, rest.is_empty()) {
                (_, false) => model(&mut items[position], rest, value),
                (value, true) => {
                    items[position] = value.cloned().unwrap_or(Bson::Null);
                    Ok(())
                }
            }
        }
        _ => value.map_or(Ok(()), |_| Err(())),
    }
}

/// Paths without positional parts, none a prefix of another.
fn separate_paths() -> impl Strategy<Value = Vec<String>> {
    let path = prop::collection::vec(name(), 1..4).prop_map(|parts| parts.join("."));
    prop::collection::vec(path, 1..5).prop_map(|mut paths| {
        let mut kept: Vec<String> = Vec::new();
        let within = |inner: &str, outer: &str| format!("{inner}.").starts_with(&format!("{outer}."));
        paths.retain(|path| {
            let separate = !kept.iter().any(|other| within(path, other) || within(other, path));
            kept.extend(separate.then(|| path.clone()));
            separate
        });
        paths
    })
}

fn id_of(document: &RawDocument) -> RawBson {
    document.get("_id").unwrap().unwrap().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn updates_keep_documents_valid(document in document(), operators in prop::collection::vec(operator(), 1..4)) {
        let update = parse(&format!("{{{}}}", operators.join(", ")));
        match apply_once(&update, &document) {
            Err(_) | Ok((UpdateOutcome::NoChange, _)) => {}
            Ok((UpdateOutcome::Changed { document: after, modified }, update)) => {
                check_valid(&after);
                prop_assert_ne!(after.as_bytes(), document.as_bytes());
                prop_assert_eq!(id_of(&after), id_of(&document));
                prop_assert_eq!(after.iter().next().unwrap().unwrap().0.as_str(), "_id");
                check_diff(&document, &after);
                let changed: Vec<&str> = ["a", "b", "c", "0", "1", "10"].into_iter()
                    .filter(|name| after.get(name).unwrap() != document.get(name).unwrap()).collect();
                for name in changed {
                    prop_assert!(update.may_modify(modified, name), "{} changed", name);
                }
            }
        }
    }

    #[test]
    fn setting_twice_changes_once(document in document(), path in path(), value in value()) {
        let update = parse(&format!("{{$set: {{'{path}': {value}}}}}"));
        if let Ok((UpdateOutcome::Changed { document: after, .. }, _)) = apply_once(&update, &document) {
            prop_assert_eq!(apply_once(&update, &after).unwrap().0, UpdateOutcome::NoChange);
        }
    }

    #[test]
    fn values_go_where_the_model_puts_them(
        document in document(), paths in separate_paths(), values in prop::collection::vec(value(), 5), unset in 0_usize..6,
    ) {
        let parts: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
        let mut steps: Vec<(&Vec<&str>, Option<&String>)> = parts.iter().zip(&values).enumerate()
            .map(|(at, (path, value))| (path, (at != unset).then_some(value))).collect();
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (path, value) in &steps {
            match value {
                Some(value) => set.push(format!("'{}': {value}", path.join("."))),
                None => removed.push(format!("'{}': 1", path.join("."))),
            }
        }
        let update = parse(&format!("{{$set: {{{}}}, $unset: {{{}}}}}", set.join(", "), removed.join(", ")));
        steps.sort_by_key(|(path, _)| path.iter().map(|name| name.parse::<u32>().map_or((1, 0, *name), |n| (0, n, *name))).collect::<Vec<_>>());
        let mut expected = Bson::Document(bson::Document::try_from(&*document).unwrap());
        let modelled = steps.iter().try_for_each(|(path, value)| {
            let value = value.map(|value| Bson::try_from(script_test::parse_value(value).unwrap()).unwrap());
            model(&mut expected, path, value.as_ref())
        });
        match (apply_once(&update, &document), modelled) {
            (Err(error), Err(())) => prop_assert_eq!(error.kind, ErrorKind::PathNotViable),
            (Ok((UpdateOutcome::NoChange, _)), Ok(())) => {
                prop_assert_eq!(Bson::Document(bson::Document::try_from(&*document).unwrap()), expected);
            }
            (Ok((UpdateOutcome::Changed { document: after, .. }, _)), Ok(())) => {
                prop_assert_eq!(Bson::Document(bson::Document::try_from(&*after).unwrap()), expected);
            }
            (outcome, modelled) => prop_assert!(false, "{:?} but the model says {:?}", outcome.map(|(outcome, _)| outcome), modelled),
        }
    }

    /// Damage in a document never panics. It should have been refused long before.
    #[test]
    fn damaged_documents_do_no_harm(
        document in document(), operators in prop::collection::vec(operator(), 1..3), at in any::<prop::sample::Index>(), byte: u8,
    ) {
        let mut bytes = document.clone().into_bytes();
        let at = 4 + at.index(bytes.len() - 5);
        bytes[at] = byte;
        let damaged = RawDocumentBuf::from_bytes(bytes).unwrap();
        let _ = apply_once(&parse(&format!("{{{}}}", operators.join(", "))), &damaged);
        let _ = apply_once(&parse("{z: 1}"), &damaged);
        for (before, after) in [(&document, &damaged), (&damaged, &document)] {
            let delta = diff(before, after, DiffForm::Paths).and_then(|delta| apply_diff(before, &delta).map(|_| delta));
            let _ = delta.and_then(|delta| delta.update_description(crate::update::diff::Disambiguation::Told));
        }
    }

    /// One operator on one field takes a shorter way than two; an operator that does nothing must not matter.
    #[test]
    fn the_short_way_ends_the_same(document in document(), operator in operator()) {
        let alone = apply_once(&parse(&format!("{{{operator}}}")), &document).map(|(outcome, _)| outcome);
        let both = apply_once(&parse(&format!("{{{operator}, $unset: {{nothing: 1}}}}")), &document).map(|(outcome, _)| outcome);
        if !operator.starts_with("$unset") {
            prop_assert_eq!(alone, both);
        }
    }

    #[test]
    fn replacements_keep_the_id(document in document(), fields in fields(value())) {
        let update = parse(&format!("{{{fields}}}"));
        if let (UpdateOutcome::Changed { document: after, .. }, _) = apply_once(&update, &document).unwrap() {
            check_valid(&after);
            prop_assert_eq!(id_of(&after), id_of(&document));
            check_diff(&document, &after);
        }
    }
}
