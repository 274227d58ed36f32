//! A handler says what it uses: it takes parts of the server, or a narrow view, and not the command's whole context.
//!
//! Where the whole is passed stands here, file by file, with the reason. The list only shrinks: what needs it no longer
//! is itself a complaint. Views are made in `state`; one that shows the whole to who has it would be the whole under
//! another name.

use super::Complaint;
use super::code_text::{before_tests, code_only, line_of, word_positions};
use crate::workspace::SourceFile;

const HANDLERS: &str = "crates/commands/src/handlers/";
/// Where views are.
const STATE: &str = "crates/commands/src/state/";
/// Where the whole is.
const CONTEXT: &str = "crates/commands/src/state/context.rs";

/// What has everything in it.
const WHOLE: &[&str] = &["Context", "ServerContext"];

/// Files of handlers that take the whole, each because a view would be as wide.
const WITH_THE_WHOLE: &[&str] = &[
    // The type of all handlers: what a command is given, before it says what it uses.
    "command.rs",
    // A stage of a pipeline may ask for whatever a command may, for as long as the pipeline's cursor is open.
    "crud/pipeline_host.rs",
    // A section for every part of the server; what writes a section takes that part.
    "diagnostics/server_status.rs",
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
    found.extend(files.iter().filter(|file| file.path.starts_with(STATE) && file.path != CONTEXT).filter_map(|file| {
        let (line, name) = shown_whole(&file.text)?;
        Some(Complaint::at(file, line, format!("a view does not show `{name}` to who has it: make the field private")))
    }));
    found
}

/// Where a file first has a field with the whole in it that others see, and which.
fn shown_whole(text: &str) -> Option<(usize, &'static str)> {
    let code = code_only(text);
    let code = before_tests(&code);
    let mut fields = code.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with("pub") && line.contains(": ") && !line.contains("fn ")
    });
    fields.find_map(|(number, line)| {
        let name = WHOLE.iter().find(|name| word_positions(line, name).next().is_some())?;
        Some((number + 1, *name))
    })
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
        assert!(messages(&[file("crud/pipeline_host.rs", whole), file("diagnostics/tests.rs", whole)]).is_empty());
    }

    #[test]
    fn a_view_does_not_show_the_whole() {
        let file = |name: &str, field: &str| SourceFile {
            path: format!("{STATE}{name}"),
            text: format!("pub(crate) struct View<'a> {{\n    {field}\n}}\n"),
        };
        let found = |file: SourceFile| complaints(&[file]).iter().map(Complaint::to_string).collect::<Vec<_>>();
        let shown = "pub(crate) server: &'a ServerContext,";
        let complained = found(file("view.rs", shown));
        assert_eq!(complained.len(), 1);
        assert!(complained[0].starts_with("crates/commands/src/state/view.rs:2: a view"), "{complained:?}");
        assert!(found(file("view.rs", "server: &'a ServerContext,")).is_empty());
        assert!(found(file("context.rs", shown)).is_empty());
        assert!(found(file("view.rs", "pub(crate) fn of(server: &ServerContext) {}")).is_empty());
    }

    #[test]
    fn the_list_only_shrinks() {
        let narrow = SourceFile { path: format!("{HANDLERS}command.rs"), text: "fn f() {}\n".to_owned() };
        let found: Vec<String> = complaints(&[narrow]).iter().map(Complaint::to_string).collect();
        assert!(found.iter().any(|text| text.starts_with("crates/commands/src/handlers/command.rs: no longer")));
    }
}
