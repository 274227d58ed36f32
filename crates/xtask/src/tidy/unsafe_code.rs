//! Where `unsafe` may stand. Each of these files opens with why it needs it.

use super::Complaint;
use super::code_text::{code_only, line_of, word_positions};
use crate::workspace::SourceFile;

const FILES: &[&str] = &[
    "benchmarks/engines/plimsoll/src/interface.rs",
    "crates/javascript/src/bounded_memory.rs",
    "crates/kafka_log/src/topic_identity.rs",
    "crates/platform/src/schedule.rs",
    "crates/platform/src/write_back.rs",
    "crates/query_language/src/regular_expression/pcre.rs",
    "crates/server/src/allocator.rs",
    "crates/storage_engine/src/frame_arena.rs",
    "crates/storage_engine/src/frame_arena/frame_words.rs",
];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = code_only(&file.text);
        let mut positions = word_positions(&code, "unsafe").peekable();
        if FILES.contains(&file.path.as_str()) {
            if positions.peek().is_none() {
                found.push(Complaint::of_file(file, "has no `unsafe` any more: take it out of tidy/unsafe_code.rs"));
            }
        } else {
            let message = "`unsafe` is only for the files named in tidy/unsafe_code.rs";
            found.extend(positions.map(|position| Complaint::at(file, line_of(&code, position), message)));
        }
    }
    found
}
