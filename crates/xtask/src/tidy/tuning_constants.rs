//! The numbers that pacing, cleaning, checkpoints, merging, admission and giving way go by do not become more.
//!
//! A number that belongs to another is computed from it and does not count: `const WINDOW: Duration = part(PATIENCE, 5)`.
//! Why each of the others is needed is said beside it and in `docs/decisions/0015`.

use super::Complaint;
use super::code_text::{before_tests, code_only};
use crate::workspace::SourceFile;

/// Where they are, by file or folder.
const PLACES: &[&str] = &[
    "crates/commands/src/state/admission.rs",
    "crates/commands/src/state/admission/",
    "crates/platform/src/work_budget.rs",
    "crates/storage_engine/src/background.rs",
    "crates/storage_engine/src/checkpoint.rs",
    "crates/storage_engine/src/cleaning_pace.rs",
    "crates/storage_engine/src/pacing.rs",
    "crates/storage_engine/src/page_cache/eviction.rs",
    "crates/storage_engine/src/page_cache/free_frames.rs",
    "crates/storage_engine/src/page_cache/merge_bounds.rs",
    "crates/storage_engine/src/page_cache/replacement.rs",
    "crates/storage_engine/src/page_store/checkpoint.rs",
    "crates/storage_engine/src/page_store/cleaning.rs",
    "crates/storage_engine/src/page_store/pin.rs",
    "crates/storage_engine/src/page_store/reclaim.rs",
    "crates/storage_engine/src/pressure_marks.rs",
    "crates/storage_engine/src/system_memory.rs",
    "crates/transaction/src/background.rs",
    "crates/transaction/src/checkpoint.rs",
    "crates/transaction/src/feed.rs",
    "crates/transaction/src/feed/",
    "crates/transaction/src/space.rs",
];
/// As many as there are: who takes one away lowers this.
const MOST: usize = 60;

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let covers = |place: &&str, path: &str| *place == path || (place.ends_with('/') && path.starts_with(*place));
    let counted = files.iter().filter(|file| PLACES.iter().any(|place| covers(place, &file.path)));
    let own: Vec<(&SourceFile, String)> =
        counted.flat_map(|file| own_numbers(&file.text).into_iter().map(move |name| (file, name))).collect();
    let Some((last, name)) = own.last().filter(|_| own.len() != MOST) else { return Vec::new() };
    let message = format!(
        "{} numbers of giving way where there may be {MOST} (this file has `{name}`): compute one from another, or change MOST in tidy/tuning_constants.rs and say why",
        own.len()
    );
    vec![Complaint::of_file(last, message)]
}

/// The constants of a file whose value is not computed from another's.
fn own_numbers(text: &str) -> Vec<String> {
    let code = code_only(text);
    let statements = before_tests(&code).split(';').filter_map(|statement| {
        let (_, constant) = statement.rsplit_once("const ")?;
        let (declared, value) = constant.split_once('=')?;
        let (name, _) = declared.split_once(':')?;
        let words = || value.split(|c: char| !is_of_name(c));
        let is_number = words().any(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        (is_constant(name.trim()) && is_number && !words().any(is_constant)).then(|| name.trim().to_owned())
    });
    statements.collect()
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Whether a word is the name of a constant of ours: in capitals, and longer than those of the types (`u64::MAX`).
fn is_constant(word: &str) -> bool {
    word.len() > 3
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_from_another_does_not_count() {
        let text = "/// One.\npub(crate) const PATIENCE: Duration = Duration::from_secs(1);\nconst WINDOW: Duration = part(PATIENCE, 5);\n\
            const LONGEST: u64 = u64::MAX;\nconst SHARES: Ramps = Ramps { dirty: ramp(0.9, 1.0) };\n#[cfg(test)]\nmod tests {\n    const OTHER: u64 = 1;\n}\n";
        assert_eq!(own_numbers(text), ["PATIENCE", "SHARES"]);
    }
}
