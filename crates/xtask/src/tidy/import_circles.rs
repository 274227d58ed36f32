//! No file of a folder imports from one that imports from it, however far around.
//!
//! A file may use what the root of its own folder has (`views.rs` for `views/read.rs`): the two are one thing. Tests
//! are free to look at the whole.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::code_text::{before_tests, code_only, word_positions};
use crate::workspace::SourceFile;

/// The folders in which there is none, below the source of a crate.
const WITHOUT_CIRCLES: &[(&str, &str)] = &[("commands", "handlers")];

/// The modules of a folder, by their paths from the crate's root, and what each imports of the others.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    WITHOUT_CIRCLES.iter().flat_map(|(crate_name, folder)| complaints_of_folder(crate_name, folder, files)).collect()
}

fn complaints_of_folder(crate_name: &str, folder: &str, files: &[SourceFile]) -> Vec<Complaint> {
    let source = format!("crates/{crate_name}/src/");
    let modules: BTreeMap<Vec<String>, &SourceFile> =
        files.iter().filter_map(|file| Some((module_of(file.path.strip_prefix(&source)?, folder)?, file))).collect();
    let imports: Imports =
        modules.iter().map(|(module, file)| (module.clone(), imports(module, file, &modules))).collect();
    let on_circles = modules.iter().filter_map(|(module, file)| Some((circle(module, &imports)?, *file)));
    on_circles
        .map(|(circle, file)| {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            Complaint::of_file(file, format!("imports from itself in a circle: {}", names.join(" -> ")))
        })
        .collect()
}

/// The module that a file is, if it belongs to the folder and is no test.
fn module_of(inside: &str, folder: &str) -> Option<Vec<String>> {
    let path = inside.strip_suffix(".rs")?;
    let module: Vec<String> = path.split('/').map(str::to_owned).collect();
    (module[0] == folder && !path.ends_with("tests")).then_some(module)
}

/// What a module imports from others, but for the roots of its own folders.
fn imports(
    module: &[String],
    file: &SourceFile,
    modules: &BTreeMap<Vec<String>, &SourceFile>,
) -> BTreeSet<Vec<String>> {
    let code = code_only(&file.text);
    let code = before_tests(&code);
    let mut found = BTreeSet::new();
    for (word, base) in [("crate", &[][..]), ("super", &module[..module.len() - 1]), ("self", module)] {
        for position in word_positions(code, word) {
            // The second word of `super::super` is read with the first.
            if code[..position].ends_with("::") {
                continue;
            }
            for path in paths(&code[position + word.len()..]) {
                let target = resolve(base, &path, |candidate| modules.contains_key(candidate));
                found.extend(target.filter(|target| !module.starts_with(target)));
            }
        }
    }
    found
}

/// The longest beginning of a path that is a module.
fn resolve(base: &[String], path: &[String], is_module: impl Fn(&[String]) -> bool) -> Option<Vec<String>> {
    let mut full = base.to_vec();
    for name in path {
        match name.as_str() {
            "super" => drop(full.pop()),
            name => full.push(name.to_owned()),
        }
    }
    while !full.is_empty() {
        if is_module(&full) {
            return Some(full);
        }
        full.pop();
    }
    None
}

/// The paths behind a word as `crate`: one, or several where there are braces.
fn paths(after: &str) -> Vec<Vec<String>> {
    let Some(after) = after.strip_prefix("::") else { return vec![Vec::new()] };
    let mut depth = 0_u32;
    let ends = |c: char| {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return true,
            '}' => depth -= 1,
            _ if depth > 0 || c.is_alphanumeric() || c == '_' || c == ':' => {}
            _ => return true,
        }
        false
    };
    let mut found = Vec::new();
    expand(&[], &after[..after.find(ends).unwrap_or(after.len())], &mut found);
    found
}

/// Adds the paths of `a::{b, c::d as e}`.
fn expand(prefix: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let (head, list) = match tree.split_once('{') {
        Some((head, list)) => (head, list.rsplit_once('}').map(|(list, _)| list)),
        None => (tree.split(" as ").next().unwrap_or(tree), None),
    };
    let names = head.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let path: Vec<String> = prefix.iter().cloned().chain(names).collect();
    let Some(list) = list else { return found.push(path) };
    let (mut depth, mut start) = (0_u32, 0);
    for (position, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&path, &list[start..position], found);
                start = position + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        expand(&path, &list[start..], found);
    }
}

/// The shortest way from a module back to itself.
fn circle(module: &Vec<String>, imports: &Imports) -> Option<Vec<Vec<String>>> {
    let mut seen = BTreeSet::new();
    let mut ways = vec![vec![module.clone()]];
    while !ways.is_empty() {
        let mut next = Vec::new();
        for way in &ways {
            for target in way.last().and_then(|last| imports.get(last)).into_iter().flatten() {
                let longer: Vec<Vec<String>> = way.iter().chain([target]).cloned().collect();
                if target == module {
                    return Some(longer);
                }
                if seen.insert(target.clone()) {
                    next.push(longer);
                }
            }
        }
        ways = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: format!("crates/commands/src/handlers{path}"),
            text: (*text).to_owned(),
        };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        complaints(&files).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn a_circle_is_named_at_each_of_its_files() {
        let find = ("/crud/find.rs", "use super::{count::{self, parse as read}, other};\n");
        let count = ("/crud/count.rs", "use crate::handlers::views::read::x;\n");
        let read = ("/views/read.rs", "fn f() { crate::handlers::crud::find::open() }\n");
        let found = messages(&[find, count, read]);
        assert_eq!(found.len(), 3, "{found:?}");
        let circle = "handlers::views::read -> handlers::crud::find -> handlers::crud::count -> handlers::views::read";
        assert!(found[2].ends_with(circle), "{found:?}");
        assert!(messages(&[find, count]).is_empty());
    }

    #[test]
    fn roots_of_folders_tests_and_words_in_comments_are_free() {
        let root = ("/views.rs", "pub(crate) mod read;\npub(crate) use read::x;\nfn f() { self::read::x() }\n");
        let read = ("/views/read.rs", "use super::View;\nuse crate::handlers::views;\n");
        assert!(messages(&[root, read]).is_empty());
        let tests = ("/crud/tests.rs", "use super::find;\n");
        let find =
            ("/crud/find.rs", "//! crate::handlers::crud::find\nuse super::tests;\nuse super::super::views::View;\n");
        assert!(messages(&[tests, find, root]).is_empty());
    }
}
