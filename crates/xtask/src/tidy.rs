//! The rules of the repository that no compiler checks.
//!
//! Called by `cargo xtask tidy`, by `cargo xtask check`, and by this crate's test `tidy`, so that `cargo test` holds them
//! too. Each rule is a file of its own: a function from the repository's files to complaints.

mod allowances;
mod code_text;
mod crate_edges;
mod document_names;
mod file_format;
mod headers;
mod import_circles;
mod layers;
mod lengths;
mod limits;
mod machine_paths;
mod names;
mod narrow_views;
mod prose;
mod reachability;
mod tuning_constants;
mod unsafe_code;

use std::path::Path;

use crate::Outcome;
use crate::workspace::{self, SourceFile};

/// Something that breaks a rule.
pub(crate) struct Complaint {
    path: String,
    /// Counted from 1; 0 for the whole file.
    line: usize,
    message: String,
}

impl Complaint {
    fn of_file(file: &SourceFile, message: impl Into<String>) -> Complaint {
        Complaint { path: file.path.clone(), line: 0, message: message.into() }
    }

    fn at(file: &SourceFile, line: usize, message: impl Into<String>) -> Complaint {
        Complaint { path: file.path.clone(), line, message: message.into() }
    }
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.path, self.message),
            line => write!(formatter, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Applies all rules and prints what breaks them.
///
/// # Errors
/// How many complaints there are; or a file cannot be read.
pub fn run(root: &Path) -> Outcome {
    let complaints = complaints(root)?;
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => {
            println!("tidy: nothing to complain about");
            Ok(())
        }
        count => Err(format!("tidy: {count} complaints")),
    }
}

/// Applies all rules; each complaint is a line for a person.
///
/// # Errors
/// A file of the repository cannot be read.
pub fn complaints(root: &Path) -> Result<Vec<String>, String> {
    let files = workspace::text_files(root)?;
    let mut found = crate_edges::complaints(&files)?;
    found.extend(layers::complaints(&files));
    found.extend(import_circles::complaints(&files));
    found.extend(narrow_views::complaints(&files));
    found.extend(lengths::complaints(&files)?);
    found.extend(limits::complaints(&files));
    found.extend(headers::complaints(&files));
    found.extend(names::complaints(&files));
    found.extend(machine_paths::complaints(&files));
    found.extend(unsafe_code::complaints(&files));
    found.extend(reachability::complaints(&files));
    found.extend(tuning_constants::complaints(&files));
    found.extend(prose::complaints(&files));
    found.extend(document_names::complaints(&files));
    found.extend(file_format::complaints(&files));
    Ok(found.iter().map(Complaint::to_string).collect())
}
