//! The Debian package: programs, systemd unit, configuration, manual pages, completions. Called by `package`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LAB, Parts, SERVER, copy, failed, generate, glibc_needed, output, read, write};
use crate::{Outcome, step};

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub(super) fn build(parts: &Parts<'_>) -> Result<PathBuf, String> {
    let (stage, source) = (parts.empty_stage()?, parts.source("debian"));
    for program in [SERVER, LAB] {
        copy(&parts.programs.join(program), &stage.join("usr/bin").join(program))?;
    }
    copy(&source.join("plimsoll.toml"), &stage.join("etc/plimsoll.toml"))?;
    copy(&source.join("plimsoll.service"), &stage.join("usr/lib/systemd/system/plimsoll.service"))?;
    copy(&parts.root.join("LICENSE"), &stage.join("usr/share/doc/plimsoll/copyright"))?;
    generate(parts, &stage.join("usr"))?;
    let installed_kilobytes = size(stage)? / 1024;
    control(parts, stage, installed_kilobytes)?;
    let package = parts.finished.join(format!("plimsoll_{}_{}.deb", parts.version, architecture()?));
    permissions(stage)?;
    // One compressor that every dpkg reads, at a level that a test can wait for.
    let options = ["--root-owner-group", "-Zxz", "-z1", "--build"];
    step::run(Command::new("dpkg-deb").args(options).arg(stage).arg(&package))?;
    Ok(package)
}

fn control(parts: &Parts<'_>, stage: &Path, installed_kilobytes: u64) -> Outcome {
    let (source, into) = (parts.source("debian"), stage.join("DEBIAN"));
    let glibc = [SERVER, LAB].map(|program| glibc_needed(&parts.programs.join(program)));
    let [server, lab] = glibc;
    let (major, minor) = server?.max(lab?);
    let control = read(&source.join("control"))?
        .replace("@VERSION@", &parts.version)
        .replace("@ARCHITECTURE@", &architecture()?)
        .replace("@GLIBC@", &format!("{major}.{minor}"))
        .replace("@INSTALLED@", &installed_kilobytes.to_string());
    write(&into.join("control"), control)?;
    copy(&source.join("conffiles"), &into.join("conffiles"))?;
    SCRIPTS.iter().try_for_each(|script| copy(&source.join(script), &into.join(script)))
}

fn architecture() -> Result<String, String> {
    output(Command::new("dpkg").arg("--print-architecture")).map(|name| name.trim().to_owned())
}

/// Bytes of all files below.
fn size(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(failed(folder))?.flatten() {
        let path = entry.path();
        bytes += if path.is_dir() { size(&path)? } else { entry.metadata().map_err(failed(&path))?.len() };
    }
    Ok(bytes)
}

/// The same whatever the builder's are: programs and scripts can be run, everything can be read.
fn permissions(folder: &Path) -> Outcome {
    set_mode(folder, 0o755)?;
    for entry in fs::read_dir(folder).map_err(failed(folder))?.flatten() {
        let path = entry.path();
        let is_script = SCRIPTS.iter().any(|script| path.ends_with(Path::new("DEBIAN").join(script)));
        let is_program = path.parent().is_some_and(|parent| parent.ends_with("usr/bin"));
        match path.is_dir() {
            true => permissions(&path)?,
            false => set_mode(&path, if is_script || is_program { 0o755 } else { 0o644 })?,
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Outcome {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed(path))
}
