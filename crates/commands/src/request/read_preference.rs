//! `$readPreference`: which members of a set a client reads from.
//!
//! Read by `arguments`. There is one member, which is the primary and as fresh as can be, so every preference ends there; but it has to be one. `role` looks
//! at the mode where the member is no primary.

use bson::RawBsonRef;
use document::{Number, array_elements, elements};

use crate::request::error::{CommandError, Result};
use crate::request::field::Field;

/// The least staleness that can be asked for: below it the times that members tell of each other are not exact enough.
const STALENESS_SECONDS_MIN: f64 = 90.0;
const MODES: [&str; 5] = ["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"];

/// Refuses what is no read preference.
///
/// # Errors
/// BadValue, MaxStalenessOutOfRange, InvalidOptions, and those of wrong types.
pub(crate) fn check(field: Field<'_>) -> Result<()> {
    let (mut mode, mut has_tags, mut staleness, mut is_hedged) = ("primary", false, 0.0, false);
    for field in field.fields_of("$readPreference")? {
        match field.name() {
            "mode" => mode = field.string()?.unwrap_or(mode),
            "tags" => has_tags = has_tag(field)?,
            "maxStalenessSeconds" | "hedge" if field.is_null() => {}
            "maxStalenessSeconds" => staleness = seconds(field)?,
            "hedge" => is_hedged = is_enabled(field)?,
            "isPretargeted" => drop(field.boolean()?),
            _ => return Err(field.unknown()),
        }
    }
    if !MODES.contains(&mode) {
        let message = format!("Enumeration value '{mode}' for field '$readPreference.mode' is not a valid value.");
        return Err(CommandError::bad_value(message));
    }
    if staleness > 0.0 && staleness < STALENESS_SECONDS_MIN {
        let message = format!("maxStalenessSeconds value can not be less than {STALENESS_SECONDS_MIN}");
        return Err(CommandError::named("MaxStalenessOutOfRange", message));
    }
    if mode != "primary" {
        return Ok(());
    }
    if has_tags {
        return Err(CommandError::bad_value("Only empty tags are allowed with primary read preference"));
    }
    if staleness > 0.0 {
        return Err(CommandError::bad_value("mode 'primary' does not allow for 'maxStalenessSeconds'"));
    }
    if is_hedged {
        let message = "cannot enable hedging for readPreference mode \"primary\"";
        return Err(CommandError::named("InvalidOptions", message));
    }
    Ok(())
}

/// Whether any set of tags says something.
fn has_tag(field: Field<'_>) -> Result<bool> {
    let mut found = false;
    for set in field.array()?.into_iter().flat_map(array_elements) {
        let set = Field::of("$readPreference.tags", set).required(Field::document)?;
        for tag in elements(set) {
            Field::of("$readPreference.tags", tag).string()?;
            found = true;
        }
    }
    Ok(found)
}

fn seconds(field: Field<'_>) -> Result<f64> {
    let number = Number::from_bson(field.value()).ok_or_else(|| field.wrong_type("a number"))?.to_f64();
    if number < 0.0 {
        return Err(CommandError::bad_value("maxStalenessSeconds must be a non-negative integer"));
    }
    Ok(number)
}

fn is_enabled(field: Field<'_>) -> Result<bool> {
    // Without a word it is enabled.
    match document::get_field(field.required(Field::document)?, "enabled") {
        Some(RawBsonRef::Boolean(value)) => Ok(value),
        Some(_) => Err(field.wrong_type("a document with a boolean 'enabled'")),
        None => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[test]
    fn preferences_that_cannot_be_are_refused() {
        let code = |preference: RawDocumentBuf| {
            let command = rawdoc! {"$readPreference": preference};
            let element = elements(&command).next().unwrap();
            check(Field::of("find", element)).map_or_else(|error| error.code, |()| 0)
        };
        assert_eq!(code(rawdoc! {"mode": "nearest", "tags": [{"dc": "east"}, {}], "maxStalenessSeconds": 90}), 0);
        assert_eq!(code(rawdoc! {"mode": "primary", "tags": [{}]}), 0);
        assert_eq!(code(rawdoc! {"mode": "secondary", "maxStalenessSeconds": 0}), 0);
        assert_eq!(code(rawdoc! {"mode": "secondary", "maxStalenessSeconds": 1}), 160);
        assert_eq!(code(rawdoc! {"mode": "secondary", "maxStalenessSeconds": 89.9}), 160);
        assert_eq!(code(rawdoc! {"mode": "secondary", "maxStalenessSeconds": -1}), 2);
        assert_eq!(code(rawdoc! {"mode": "primary", "maxStalenessSeconds": 100}), 2);
        assert_eq!(code(rawdoc! {"mode": "primary", "tags": [{"dc": "east"}]}), 2);
        assert_eq!(code(rawdoc! {"mode": "first"}), 2);
        assert_eq!(code(rawdoc! {"mode": "primary", "hedge": {}}), 72);
        assert_eq!(code(rawdoc! {"mode": "nearest", "hedge": {"enabled": true}}), 0);
        assert_eq!(code(rawdoc! {"mode": 5}), 14);
        assert_eq!(code(rawdoc! {"mode": "nearest", "maxStaleness": 5}), 40415);
    }
}
