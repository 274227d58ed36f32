//! The package for Node: the server, and a class that starts it. Called by `package`.

use std::path::PathBuf;
use std::process::Command;

use super::{Parts, SERVER, copy, read, write};
use crate::step;

const FILES: [&str; 3] = ["README.md", "index.d.ts", "index.js"];

pub(super) fn build(parts: &Parts<'_>) -> Result<PathBuf, String> {
    let (stage, source) = (parts.empty_stage()?, parts.source("npm"));
    FILES.iter().try_for_each(|file| copy(&source.join(file), &stage.join(file)))?;
    let manifest = read(&source.join("package.json"))?;
    let version = format!("\"version\": \"{}\"", parts.version);
    // A package with a program in it is for the machines that run it.
    let machine = format!("{version},\n  \"os\": [\"linux\"],\n  \"cpu\": [\"{}\"]", node_processor());
    write(&stage.join("package.json"), manifest.replace("\"version\": \"0.0.0\"", &machine))?;
    copy(&parts.server(), &stage.join("bin").join(SERVER))?;
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", "--pack-destination"]).arg(&parts.finished).current_dir(stage);
    step::run(&mut command)?;
    Ok(parts.finished.join(format!("plimsoll-{}.tgz", parts.version)))
}

/// This machine's processor, as Node calls it.
fn node_processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}
