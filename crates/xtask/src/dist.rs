//! `cargo xtask dist`: the programs as they are shipped and measured, their debug information beside them.
//!
//! Called by people, and by `bench` and `sensitivity`, which measure what it builds. A program keeps its table of functions,
//! by which `plimsoll profile` names them; files and lines are in `NAME.debug`, where debuggers look for them by a link.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::driver_tests::target_folder;
use crate::{Outcome, step};

/// A program that is shipped.
struct Program {
    name: &'static str,
    package: &'static str,
    /// What it has beyond what a first build has: that takes minutes, and Perl.
    features: &'static [&'static str],
}

const PROGRAMS: [Program; 2] = [
    Program { name: "plimsoll", package: "server", features: &["kafka-tls"] },
    Program { name: "plimsoll-lab", package: "lab", features: &[] },
];

/// How the programs are linked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    /// With the machine's C library, as packages for its system are.
    Dynamically,
    /// With glibc within: they run on every Linux of the processor, also where there is nothing else.
    Statically,
}

/// Builds the programs and prints where they are.
///
/// # Errors
/// One cannot be built, or binutils' `objcopy` is missing.
pub fn run(root: &Path) -> Outcome {
    let folder = build(root, Linked::Dynamically)?;
    for Program { name, .. } in PROGRAMS {
        let (program, debug) = (folder.join(name), folder.join(format!("{name}.debug")));
        println!(
            "{}: {} MB, and {} MB in {}",
            program.display(),
            megabytes(&program)?,
            megabytes(&debug)?,
            debug.display()
        );
    }
    Ok(())
}

/// Builds the programs, copies each without its debug information, and gives the folder that they are in.
pub(crate) fn build(root: &Path, linked: Linked) -> Result<PathBuf, String> {
    let folder = if linked == Linked::Statically { "shipped-static" } else { "shipped" };
    let (built, shipped) = (target_folder(root).join("dist"), target_folder(root).join(folder));
    fs::create_dir_all(&shipped).map_err(|error| format!("{}: {error}", shipped.display()))?;
    for Program { name, package, features } in PROGRAMS {
        let mut command = step::cargo(&["rustc", "--profile", "dist", "--package", package, "--bin", name]);
        features.iter().for_each(|feature| {
            command.args(["--features", feature]);
        });
        if linked == Linked::Statically {
            // For the program alone: what it is made of is the same.
            command.args(["--", "-C", "target-feature=+crt-static"]);
        }
        step::run(command.current_dir(root))?;
        separate(&built.join(name), &shipped.join(name))?;
    }
    Ok(shipped)
}

/// Copies a program in two: what runs, and its debug information beside that.
fn separate(built: &Path, shipped: &Path) -> Outcome {
    let debug = shipped.with_extension("debug");
    step::run(Command::new("objcopy").arg("--only-keep-debug").arg(built).arg(&debug))?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    step::run(Command::new("objcopy").arg("--strip-debug").arg(link).arg(built).arg(shipped))
}

fn megabytes(path: &Path) -> Result<u64, String> {
    fs::metadata(path).map(|facts| facts.len() / 1_000_000).map_err(|error| format!("{}: {error}", path.display()))
}
