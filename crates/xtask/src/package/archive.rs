//! The archive with static programs: they run on every Linux of the processor, without anything else. Called by `package`.

use std::path::PathBuf;
use std::process::Command;

use super::{LAB, Parts, SERVER, copy, generate, output};
use crate::step;

pub(super) fn build(parts: &Parts<'_>) -> Result<PathBuf, String> {
    let name = format!("plimsoll-{}-{}-linux-static", parts.version, std::env::consts::ARCH);
    let stage = parts.empty_stage()?;
    let folder = stage.join(&name);
    for program in [SERVER, LAB] {
        let from = parts.programs.join(program);
        let headers = output(Command::new("objdump").arg("-p").arg(&from))?;
        if headers.contains("NEEDED") || headers.contains("INTERP") {
            return Err(format!("{} is not static", from.display()));
        }
        copy(&from, &folder.join("bin").join(program))?;
    }
    copy(&parts.root.join("LICENSE"), &folder.join("LICENSE"))?;
    generate(parts, &folder)?;
    let package = parts.finished.join(format!("{name}.tar.gz"));
    let options = ["--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"];
    step::run(Command::new("tar").args(options).arg(&package).arg("--directory").arg(stage).arg(&name))?;
    Ok(package)
}
