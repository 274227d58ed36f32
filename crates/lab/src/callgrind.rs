//! Reads the files of valgrind's callgrind: instructions of each function itself.
//!
//! A file is a list of costs by line, under `fn=` lines that say the function; names are written once and then referred to
//! by number. The line after a `calls=` line is the cost of the called function, and so not the caller's own.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::error::LabError;
use crate::profile::plain_name;

/// Instructions by function.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) total: u64,
    pub(crate) functions: BTreeMap<String, u64>,
}

pub(crate) fn read(path: &Path) -> Result<Counted, LabError> {
    let cannot = |reason: &str| LabError::Input { path: path.to_owned(), reason: reason.to_owned() };
    let text = fs::read_to_string(path).map_err(|error| cannot(&error.to_string()))?;
    let counted = parse(&text);
    if counted.total == 0 { Err(cannot("there are no costs in it: not a file of callgrind")) } else { Ok(counted) }
}

fn parse(text: &str) -> Counted {
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut counted = Counted::default();
    let mut function = String::new();
    let mut is_of_call = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = resolve(name, &mut names);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            // Only remembered: it may be the place where the name is written.
            resolve(name, &mut names);
        } else if line.starts_with("calls=") {
            is_of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_of_call) && cost > 0 {
                counted.total += cost;
                *counted.functions.entry(function.clone()).or_default() += cost;
            }
        }
    }
    counted
}

/// `(12) name` says what number 12 is, `(12)` refers to it.
fn resolve<'t>(text: &'t str, names: &mut HashMap<&'t str, String>) -> String {
    let Some((number, name)) = text.split_once(')') else { return plain_name(text) };
    let name = name.trim();
    if name.is_empty() {
        return names.get(number).cloned().unwrap_or_default();
    }
    // Callgrind marks recursion levels with an apostrophe and a number.
    let plain = plain_name(name.split('\'').next().unwrap_or(name));
    names.insert(number, plain.clone());
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_told_from_those_of_calls() {
        let text = "events: Ir\nfl=(1) a.c\nfn=(1) main\n16 400\n+3 20\ncfn=(2) work\ncalls=50 16\n16 4000\n* 5\n\nfn=(2)\n5 4000\n\
                    fn=(3) _ZN3one3two17h0123456789abcdefE\n1 7\ntotals: 4432\n";
        let counted = parse(text);
        let expected = [("main", 425), ("one::two", 7), ("work", 4000)];
        let found: Vec<(&str, u64)> = counted.functions.iter().map(|(name, cost)| (name.as_str(), *cost)).collect();
        assert_eq!(found, expected);
        assert_eq!(counted.total, 4432);
    }
}
