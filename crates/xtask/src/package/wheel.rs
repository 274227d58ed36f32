//! The wheel for Python: the server, a class that starts it, fixtures for pytest. Called by `package`.

use std::path::PathBuf;
use std::process::Command;

use super::{Parts, SERVER, copy, glibc_needed, read, write};
use crate::driver_tests::install_python;
use crate::step;

const FILES: [&str; 4] = ["platform_tag.py", "README.md", "src/plimsoll/__init__.py", "src/plimsoll/pytest_plugin.py"];

pub(super) fn build(parts: &Parts<'_>) -> Result<PathBuf, String> {
    let (stage, source) = (parts.empty_stage()?, parts.source("python"));
    FILES.iter().try_for_each(|file| copy(&source.join(file), &stage.join(file)))?;
    let project = read(&source.join("pyproject.toml"))?;
    let version = format!("version = \"{}\"", parts.version);
    write(&stage.join("pyproject.toml"), project.replace("version = \"0.0.0\"", &version))?;
    copy(&parts.server(), &stage.join("src/plimsoll/bin").join(SERVER))?;
    let (major, minor) = glibc_needed(&parts.server())?;
    let platform = format!("manylinux_{major}_{minor}_{}", std::env::consts::ARCH);
    let mut command = Command::new(install_python(parts.root)?);
    command.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]);
    command.arg(&parts.finished).arg(stage).env("PLIMSOLL_WHEEL_PLATFORM", &platform);
    step::run(&mut command)?;
    Ok(parts.finished.join(format!("plimsoll-{}-py3-none-{platform}.whl", parts.version)))
}
