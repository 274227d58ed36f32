//! The repository as files: its root, and every text file that belongs to it.
//!
//! Called by all tasks. Build outputs and what `.gitignore` names are left out.

use std::fs;
use std::path::{Path, PathBuf};

/// What is not part of the repository, wherever it is; in a linked worktree `.git` is a file.
const IGNORED: &[&str] = &[".git", "target", "data", "node_modules", "__pycache__", ".venv", ".pytest_cache"];

/// A text file of the repository.
pub struct SourceFile {
    /// Its path from the root, with `/` between the parts.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl SourceFile {
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The root of the repository: two folders above this crate's manifest.
pub fn root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Every file of the repository that is UTF-8 text, sorted by path.
///
/// # Errors
/// A folder or file cannot be read.
pub fn text_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let describe = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(describe)? {
        let path = entry.map_err(describe)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !IGNORED.contains(&name.as_ref()) && !name.starts_with("target-") {
                collect(root, &path, files)?;
            }
        } else if name != "Cargo.lock" && !IGNORED.contains(&name.as_ref()) {
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if let Ok(text) = String::from_utf8(bytes) {
                let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                files.push(SourceFile { path: relative, text });
            }
        }
    }
    Ok(())
}
