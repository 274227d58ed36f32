//! Which part of a crate may import from which: downward only, as `docs/architecture.md` has the layers of `commands`.
//!
//! A part is a module right below the crate's root, with all that is in its folder. Tests are free to look at the whole.

use super::Complaint;
use super::code_text::{before_tests, code_only, line_of, word_positions};
use crate::workspace::SourceFile;

/// A crate's parts, the lowest first.
struct Layers {
    crate_name: &'static str,
    parts: &'static [&'static str],
    /// Parts that stand beside the others: nobody imports from them and they import from nobody.
    apart: &'static [&'static str],
}

const LAYERED: &[Layers] = &[Layers {
    crate_name: "commands",
    parts: &["request", "state", "handlers", "registry", "dispatcher", "startup"],
    apart: &["inspect"],
}];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    LAYERED.iter().flat_map(|layers| complaints_of_crate(layers, files)).collect()
}

fn complaints_of_crate(layers: &Layers, files: &[SourceFile]) -> Vec<Complaint> {
    let folder = format!("crates/{}/src/", layers.crate_name);
    let in_crate = |file: &&SourceFile| file.path.starts_with(&folder) && file.is_rust();
    let root = files.iter().find(|file| file.path == format!("{folder}lib.rs"));
    let exports = root.map(|root| exports(&root.text)).unwrap_or_default();
    let mut found = Vec::new();
    for file in files.iter().filter(in_crate) {
        let inside = &file.path[folder.len()..];
        if inside == "lib.rs" || is_test(inside) {
            continue;
        }
        let part = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
        match layers.parts.iter().position(|known| *known == part) {
            Some(own) => found.extend(upward(layers, own, &exports, file)),
            None if layers.apart.contains(&part) => found.extend(upward(layers, 0, &exports, file)),
            None => found.push(Complaint::of_file(file, "is in no layer of its crate (tidy/layers.rs)")),
        }
    }
    found
}

fn is_test(inside: &str) -> bool {
    inside.ends_with("tests.rs") || inside == "test_server.rs"
}

/// What of a file imports from a part above its own.
fn upward(layers: &Layers, own: usize, exports: &[(String, String)], file: &SourceFile) -> Vec<Complaint> {
    let code = code_only(&file.text);
    let code = before_tests(&code);
    let mut found = Vec::new();
    for position in word_positions(code, "crate") {
        for name in first_names(&code[position + "crate".len()..]) {
            let part = exports.iter().find(|(item, _)| *item == name).map_or(name.as_str(), |(_, part)| part);
            let is_above = layers.parts.iter().position(|known| *known == part).is_some_and(|other| other > own);
            if is_above || (layers.apart.contains(&part) && !file.path.contains(&format!("/src/{part}"))) {
                let own = layers.parts[own];
                let message = format!("{own} must not import from {part}, which is above it (tidy/layers.rs)");
                found.push(Complaint::at(file, line_of(code, position), message));
            }
        }
    }
    found
}

/// The names right behind `crate::`: one, or those of a list in braces.
fn first_names(after: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let Some(path) = after.strip_prefix("::") else { return Vec::new() };
    let Some(list) = path.strip_prefix('{') else {
        return vec![path.chars().take_while(|c| is_name(*c)).collect()];
    };
    let (mut names, mut depth, mut current) = (Vec::new(), 0, String::new());
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut current)),
            _ if depth == 0 => current.push(c),
            _ => {}
        }
    }
    names.push(current);
    let first = |name: String| name.trim().chars().take_while(|c| is_name(*c)).collect::<String>();
    names.into_iter().map(first).filter(|name| !name.is_empty()).collect()
}

/// What the crate's root gives out again under a name of its own, and from which part.
fn exports(root: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for statement in code_only(root).split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let part: String = path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let items = path.rsplit_once("::").map_or("", |(_, items)| items);
        for item in items.split(['{', '}', ',']) {
            let name = item.rsplit(" as ").next().unwrap_or(item).trim();
            if !name.is_empty() {
                found.push((name.to_owned(), part.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let root =
            file("crates/commands/src/lib.rs", "pub use dispatcher::{Dispatcher, Other};\npub use request::A as B;\n");
        complaints(&[root, file(path, text)]).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn imports_go_downward_only() {
        let state = "crates/commands/src/state/context.rs";
        assert!(
            messages(state, "use crate::request::error::Result;\nuse crate::B;\nuse crate::state::x;\n").is_empty()
        );
        assert!(messages(state, "//! See crate::dispatcher.\n").is_empty());
        for upward in [
            "use crate::handlers::crud;",
            "use crate::Dispatcher;",
            "use crate::{B, registry};",
            "use crate::{request::{a, b}, handlers::c};",
            "fn f() { crate::registry::find() }",
            "use crate::inspect::x;",
        ] {
            assert_eq!(messages(state, upward).len(), 1, "{upward}");
        }
        let found = messages(state, "\nuse crate::handlers::crud;\n");
        assert!(found[0].starts_with("crates/commands/src/state/context.rs:2: state must not import from handlers"));
    }

    #[test]
    fn tests_see_the_whole_and_every_part_has_its_place() {
        let upward = "#[cfg(test)]\nmod tests {\n    use crate::Dispatcher;\n}\n";
        assert!(messages("crates/commands/src/state/context.rs", upward).is_empty());
        assert!(messages("crates/commands/src/handlers/schema/tests.rs", "use crate::Dispatcher;").is_empty());
        assert!(messages("crates/planner/src/anything.rs", "use crate::handlers::x;").is_empty());
        assert_eq!(messages("crates/commands/src/anything.rs", "").len(), 1);
    }
}
