//! A handler says what it uses: it takes parts of the server, or a narrow view, and not the command's whole context.
//!
//! Where the whole is still passed stands here, file by file. The list only shrinks: what needs it no longer is
//! itself a complaint.

use super::Complaint;
use super::code_text::{before_tests, code_only, line_of, word_positions};
use crate::workspace::SourceFile;

const HANDLERS: &str = "crates/commands/src/handlers/";

/// What has everything in it.
const WHOLE: &[&str] = &["Context", "ServerContext"];

/// Files of handlers that still take the whole.
const WITH_THE_WHOLE: &[&str] = &[
    "apply_ops.rs",
    "apply_ops/definitions.rs",
    "apply_ops/documents.rs",
    "change_stream.rs",
    "command.rs",
    "crud/aggregate.rs",
    "crud/aggregate_command.rs",
    "crud/bulk_write.rs",
    "crud/count.rs",
    "crud/delete.rs",
    "crud/distinct.rs",
    "crud/ended_statement.rs",
    "crud/explain.rs",
    "crud/file_md5.rs",
    "crud/find.rs",
    "crud/find_and_modify.rs",
    "crud/get_more.rs",
    "crud/insert.rs",
    "crud/map_reduce.rs",
    "crud/measurement_deletes.rs",
    "crud/measurement_inserts.rs",
    "crud/merge_output.rs",
    "crud/opened_pipeline.rs",
    "crud/pipeline_host.rs",
    "crud/query_statistics.rs",
    "crud/replacing_output.rs",
    "crud/update.rs",
    "crud/write_statements.rs",
    "diagnostics/connection_status.rs",
    "diagnostics/current_op.rs",
    "diagnostics/finished_operation.rs",
    "diagnostics/get_parameter.rs",
    "diagnostics/hello.rs",
    "diagnostics/server_status.rs",
    "diagnostics/set_parameter.rs",
    "oplog_view.rs",
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
    "security/authenticate.rs",
    "security/log_in.rs",
    "sessions.rs",
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
    let is_listed = |inside: &str| WITH_THE_WHOLE.contains(&inside);
    let mut found: Vec<Complaint> = handlers
        .iter()
        .filter(|(inside, _)| !is_listed(inside))
        .filter_map(|(_, file)| {
            let (line, name) = first_whole(&file.text)?;
            Some(Complaint::at(file, line, format!("a handler takes parts or a narrow view, and not `{name}`")))
        })
        .collect();
    for entry in WITH_THE_WHOLE {
        let takes_whole = |(inside, file): &(&str, &SourceFile)| inside == entry && first_whole(&file.text).is_some();
        if !handlers.is_empty() && !handlers.iter().any(takes_whole) {
            let message = "no longer takes the whole: remove it from tidy/narrow_views.rs";
            found.push(Complaint { path: format!("{HANDLERS}{entry}"), line: 0, message: message.to_owned() });
        }
    }
    found
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
