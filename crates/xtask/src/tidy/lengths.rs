//! How long a function and a file may be: what fits a screen, and what fits a head.

use super::Complaint;
use super::allowances::Allowances;
use super::code_text::{code_only, line_of, word_positions};
use crate::workspace::SourceFile;

/// Lines of a function that are not blank, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a file.
const FILE_LINES_MAX: usize = 600;

/// A function with a body.
struct Function<'s> {
    name: &'s str,
    line: usize,
    lines: usize,
}

pub(super) fn complaints(files: &[SourceFile]) -> Result<Vec<Complaint>, String> {
    let mut allowances = Allowances::read(files)?;
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX && !allowances.permits(&file.path, lines) {
            found.push(Complaint::of_file(file, format!("{lines} lines; a file has at most {FILE_LINES_MAX}")));
        }
        let code = code_only(&file.text);
        for function in functions(&code, &file.text) {
            let subject = format!("{}::{}", file.path, function.name);
            if function.lines > FUNCTION_LINES_MAX && !allowances.permits(&subject, function.lines) {
                let message = format!(
                    "{} has {} lines; a function has at most {FUNCTION_LINES_MAX}",
                    function.name, function.lines
                );
                found.push(Complaint::at(file, function.line, message));
            }
        }
    }
    found.extend(allowances.complaints_of_unneeded());
    Ok(found)
}

fn functions<'s>(code: &'s str, source: &str) -> Vec<Function<'s>> {
    word_positions(code, "fn").filter_map(|position| function_at(code, source, position)).collect()
}

fn function_at<'s>(code: &'s str, source: &str, position: usize) -> Option<Function<'s>> {
    let after = code[position + 2..].trim_start();
    let name_length = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    if name_length == 0 {
        return None;
    }
    let end = body_end(code, position)?;
    let lines = source.get(position..end)?.lines().filter(|line| !line.trim().is_empty()).count();
    Some(Function { name: &after[..name_length], line: line_of(code, position), lines })
}

/// Where the body of the function at `position` ends; `None` for a declaration without one.
fn body_end(code: &str, position: usize) -> Option<usize> {
    let (mut parentheses, mut braces) = (0, 0);
    for (offset, byte) in code.as_bytes().iter().enumerate().skip(position) {
        match byte {
            b'(' | b'[' => parentheses += 1,
            b')' | b']' => parentheses -= 1,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces == 0 && parentheses == 0 {
                    return Some(offset + 1);
                }
            }
            b';' if parentheses == 0 && braces == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_signature_to_brace() {
        let source = "fn a(x: [u8; 2]) -> u8 {\n\n    \"{\";\n    1\n}\n\ntrait T { fn b(&self); }\nfn c() {}\n";
        let code = code_only(source);
        let found = functions(&code, source);
        let facts: Vec<_> = found.iter().map(|function| (function.name, function.line, function.lines)).collect();
        assert_eq!(facts, [("a", 1, 4), ("c", 8, 1)]);
    }
}
