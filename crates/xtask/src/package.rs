//! `cargo xtask package`: what people install, made from `packages/` and the built programs.
//!
//! Called by people, and by the driver tests, which install what comes out. One file for each kind of package.

mod archive;
mod debian;
mod npm;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::{self, Linked};
use crate::driver_tests::target_folder;
use crate::{Outcome, step};

const SERVER: &str = "plimsoll";
const LAB: &str = "plimsoll-lab";
/// Where each shell looks for completions, below `/usr`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/plimsoll"),
    ("zsh", "share/zsh/vendor-completions/_plimsoll"),
    ("fish", "share/fish/vendor_completions.d/plimsoll.fish"),
];

/// What all packages are made of.
struct Parts<'a> {
    root: &'a Path,
    /// The programs, without debug information.
    programs: PathBuf,
    /// Where packages are put together; empty for each.
    stage: PathBuf,
    /// Where they end up.
    finished: PathBuf,
    version: String,
}

/// Builds all packages and prints where they are; with `--static` the archive with static programs alone. `--programs DIR` takes those that are there.
///
/// # Errors
/// A program cannot be built, or what makes a package is missing.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let packages = match options {
        [] => build(root, &dist::build(root, Linked::Dynamically)?)?,
        ["--programs", folder] => build(root, Path::new(folder))?,
        ["--static"] => vec![build_static(root, &dist::build(root, Linked::Statically)?)?],
        ["--static", "--programs", folder] => vec![build_static(root, Path::new(folder))?],
        _ => return Err("cargo xtask package [--static] [--programs DIR]".to_owned()),
    };
    for package in packages {
        println!("{}: {} MB", package.display(), fs::metadata(&package).map_or(0, |facts| facts.len() / 1_000_000));
    }
    Ok(())
}

/// Builds all packages from the programs of a folder, and gives where each is.
pub(crate) fn build(root: &Path, programs: &Path) -> Result<Vec<PathBuf>, String> {
    let parts = Parts::prepare(root, programs, "packages")?;
    let packages = [debian::build(&parts)?, wheel::build(&parts)?, npm::build(&parts)?];
    remove(&parts.stage)?;
    Ok(packages.into())
}

/// Puts static programs into an archive, and gives where it is.
fn build_static(root: &Path, programs: &Path) -> Result<PathBuf, String> {
    let parts = Parts::prepare(root, programs, "packages-static")?;
    let package = archive::build(&parts)?;
    remove(&parts.stage)?;
    Ok(package)
}

impl<'a> Parts<'a> {
    /// From the programs of a folder, to end in a new folder of the target's.
    fn prepare(root: &'a Path, programs: &Path, finished: &str) -> Result<Self, String> {
        let finished = target_folder(root).join(finished);
        let stripped = finished.join("programs");
        renew(&finished)?;
        make(&stripped)?;
        for program in [SERVER, LAB] {
            let mut strip = Command::new("objcopy");
            step::run(strip.arg("--strip-all").arg(programs.join(program)).arg(stripped.join(program)))?;
        }
        let stage = finished.join("stage");
        Ok(Parts { root, programs: stripped, stage, finished, version: version(root)? })
    }

    /// An empty folder to put a package together in.
    fn empty_stage(&self) -> Result<&Path, String> {
        renew(&self.stage)?;
        Ok(&self.stage)
    }

    /// A folder of `packages/`.
    fn source(&self, name: &str) -> PathBuf {
        self.root.join("packages").join(name)
    }

    fn server(&self) -> PathBuf {
        self.programs.join(SERVER)
    }
}

/// The workspace's.
fn version(root: &Path) -> Result<String, String> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let manifest: toml::Table = toml::from_str(&manifest).map_err(|error| format!("Cargo.toml: {error}"))?;
    let version =
        manifest.get("workspace").and_then(|table| table.get("package")).and_then(|table| table.get("version"));
    version.and_then(toml::Value::as_str).map(str::to_owned).ok_or_else(|| "Cargo.toml: no version".to_owned())
}

/// What the program makes from its own definition: completions of each shell and manual pages, below a folder.
fn generate(parts: &Parts<'_>, into: &Path) -> Outcome {
    for (shell, place) in COMPLETIONS {
        write(&into.join(place), output(Command::new(parts.server()).args(["completions", shell]))?)?;
    }
    let pages = into.join("share/man/man1");
    make(&pages)?;
    step::run(Command::new(parts.server()).arg("manual-pages").arg(&pages))?;
    let written: Vec<PathBuf> =
        fs::read_dir(&pages).map_err(failed(&pages))?.flatten().map(|entry| entry.path()).collect();
    step::run(Command::new("gzip").args(["--best", "--no-name"]).args(written))
}

/// The newest version of glibc that a program asks for: it runs with that and every later one.
fn glibc_needed(program: &Path) -> Result<(u32, u32), String> {
    let listed = output(Command::new("objdump").arg("-T").arg(program))?;
    newest_glibc(&listed).ok_or_else(|| format!("{}: asks for no glibc", program.display()))
}

fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|letter: char| letter != '.' && !letter.is_ascii_digit()).next()?;
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    });
    versions.max()
}

/// What a program prints.
fn output(command: &mut Command) -> Result<String, String> {
    let ended = command.output().map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("{}: {said}", command.get_program().to_string_lossy()));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

fn make(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(failed(folder))
}

fn remove(folder: &Path) -> Outcome {
    if folder.exists() { fs::remove_dir_all(folder).map_err(failed(folder)) } else { Ok(()) }
}

fn renew(folder: &Path) -> Outcome {
    remove(folder)?;
    make(folder)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(failed(path))
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    path.parent().map_or(Ok(()), make)?;
    fs::write(path, content).map_err(failed(path))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    to.parent().map_or(Ok(()), make)?;
    fs::copy(from, to).map(drop).map_err(failed(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_counts() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) free\n0 DF *UND* 0 (GLIBC_2.34) stat\n0 DF *UND* 0 (GLIBC_2.9) x\n";
        assert_eq!(newest_glibc(symbols), Some((2, 34)));
        assert_eq!(newest_glibc("nothing"), None);
    }
}
