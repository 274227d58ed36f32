//! A handler says what it uses: it takes parts of the server, or a narrow view, and not the command's whole context.
//!
//! Where the whole is still passed stands here, by file or folder. The list only shrinks: what needs it no longer is
//! itself a complaint.

use super::Complaint;
use super::code_text::{before_tests, code_only, line_of, word_positions};
use crate::workspace::SourceFile;

const HANDLERS: &str = "crates/commands/src/handlers/";

/// What has everything in it.
const WHOLE: &[&str] = &["Context", "ServerContext"];

/// Files and folders of handlers that still take the whole.
const WITH_THE_WHOLE: &[&str] = &[
    "apply_ops.rs",
    "apply_ops/definitions.rs",
    "apply_ops/documents.rs",
    "change_stream.rs",
    "change_stream/events.rs",
    "change_stream/follower.rs",
    "command.rs",
    "crud/",
    "diagnostics/connection_status.rs",
    "diagnostics/current_op.rs",
    "diagnostics/finished_operation.rs",
    "diagnostics/get_parameter.rs",
    "diagnostics/hello.rs",
    "diagnostics/kill_op.rs",
    "diagnostics/server_status.rs",
    "diagnostics/set_parameter.rs",
    "oplog_view.rs",
    "read_source.rs",
    "replication/append_oplog_note.rs",
    "schema.rs",
    "schema/capped.rs",
    "schema/coll_mod.rs",
    "schema/coll_stats.rs",
    "schema/create.rs",
    "schema/create_indexes.rs",
    "schema/data_size.rs",
    "schema/db_hash.rs",
    "schema/drop.rs",
    "schema/drop_database.rs",
    "schema/drop_indexes.rs",
    "schema/list_collections.rs",
    "schema/list_databases.rs",
    "schema/list_indexes.rs",
    "schema/re_index.rs",
    "schema/rename_collection.rs",
    "schema/ring_positions.rs",
    "security.rs",
    "security/",
    "sessions.rs",
    "sessions/kill_sessions.rs",
    "transactions/commit_transaction.rs",
    "views/define.rs",
    "views/read.rs",
];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let handlers: Vec<(&str, &SourceFile)> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(HANDLERS)?, file)))
        .filter(|(inside, _)| inside.ends_with(".rs") && !inside.ends_with("tests.rs"))
        .collect();
    let is_listed = |inside: &str| WITH_THE_WHOLE.iter().any(|entry| covers(entry, inside));
    let mut found: Vec<Complaint> = handlers
        .iter()
        .filter(|(inside, _)| !is_listed(inside))
        .filter_map(|(_, file)| {
            let (line, name) = first_whole(&file.text)?;
            Some(Complaint::at(file, line, format!("a handler takes parts or a narrow view, and not `{name}`")))
        })
        .collect();
    for entry in WITH_THE_WHOLE {
        let takes_whole =
            |(inside, file): &(&str, &SourceFile)| covers(entry, inside) && first_whole(&file.text).is_some();
        if !handlers.is_empty() && !handlers.iter().any(takes_whole) {
            let message = "no longer takes the whole: remove it from tidy/narrow_views.rs";
            found.push(Complaint { path: format!("{HANDLERS}{entry}"), line: 0, message: message.to_owned() });
        }
    }
    found
}

/// Whether an entry is a file, or the folder that the file is in.
fn covers(entry: &str, inside: &str) -> bool {
    entry == inside || (entry.ends_with('/') && inside.starts_with(entry))
}

/// Where a file first names the whole as a type, and which.
fn first_whole(text: &str) -> Option<(usize, &'static str)> {
    let code = code_only(text);
    let code = before_tests(&code);
    WHOLE.iter().find_map(|name| Some((line_of(code, word_positions(code, name).next()?), *name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_named_only_where_it_is_listed() {
        let file = |inside: &str, text: &str| SourceFile { path: format!("{HANDLERS}{inside}"), text: text.to_owned() };
        let messages = |files: &[SourceFile]| -> Vec<String> {
            complaints(files).iter().map(Complaint::to_string).filter(|text| !text.contains("no longer")).collect()
        };
        let whole = "\nuse crate::state::context::Context;\n";
        assert_eq!(messages(&[file("diagnostics/ping.rs", whole)]).len(), 1);
        assert!(
            messages(&[file("diagnostics/ping.rs", "//! Context\nfn f() { |context| context.server }\n")]).is_empty()
        );
        assert!(messages(&[file("crud/find.rs", whole), file("diagnostics/tests.rs", whole)]).is_empty());
    }

    #[test]
    fn the_list_only_shrinks() {
        let narrow = SourceFile { path: format!("{HANDLERS}command.rs"), text: "fn f() {}\n".to_owned() };
        let found: Vec<String> = complaints(&[narrow]).iter().map(Complaint::to_string).collect();
        assert!(found.iter().any(|text| text.starts_with("crates/commands/src/handlers/command.rs: no longer")));
    }
}
