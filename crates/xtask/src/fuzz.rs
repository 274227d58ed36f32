//! `cargo xtask fuzz`: the targets of `fuzz/`, each for a while.
//!
//! Called by people and by longer runs. cargo-fuzz needs a nightly compiler, but only for its sanitizers, which programs without `unsafe` code of their own hardly
//! need: the counters that lead libFuzzer to new code are an LLVM pass that any compiler has. So this builds the targets itself.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, driver_tests, step};

/// How long a target runs unless told otherwise.
const SECONDS: &str = "300";
/// What one input may take of time and memory before it counts as found.
const INPUT_SECONDS_MAX: u32 = 20;
const MEMORY_MIB_MAX: u32 = 2048;
/// Room for a few commands, or for a frame that is compressed.
const INPUT_BYTES_MAX: u32 = 8192;

/// Inputs of random bytes to begin with where nothing was found yet: from a byte or two the fuzzer would grow them for hours.
const BEGINNINGS: usize = 64;

/// The counters, and the comparisons by which it finds constants. Not for build scripts: those do not link with libFuzzer.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=yes",
    "-Coverflow-checks=yes",
    "-Cdebuginfo=1",
];

/// Builds the targets and runs the named one, or each, for so many seconds.
///
/// # Errors
/// Something was found: the file that libFuzzer names repeats it. Or the targets cannot be built.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let (mut wanted, mut seconds) = (None, SECONDS);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match *word {
            "--seconds" => seconds = words.next().ok_or("--seconds needs a number")?,
            name => wanted = Some(name),
        }
    }
    let seconds: u32 = seconds.parse().map_err(|_| format!("--seconds needs a number, not {seconds}"))?;
    let targets = targets(root)?;
    if let Some(name) = wanted.filter(|name| targets.iter().all(|target| target != name)) {
        return Err(format!("no target {name}; there are: {}", targets.join(", ")));
    }
    let programs = build(root)?;
    let chosen = targets.iter().filter(|target| wanted.is_none_or(|name| name == *target));
    let failed: Vec<String> = chosen.filter_map(|target| run_target(root, &programs, target, seconds).err()).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// The names of the files in `fuzz/fuzz_targets`.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = entries.flatten().filter_map(|entry| entry.path().file_stem().map(std::ffi::OsStr::to_owned));
    let mut targets: Vec<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    targets.sort();
    Ok(targets)
}

/// The folder of the built programs.
fn build(root: &Path) -> Result<PathBuf, String> {
    let host = step::host()?;
    let folder = driver_tests::target_folder(root).join("fuzz");
    let mut command = step::cargo(&["build", "--release", "--bins", "--manifest-path", "fuzz/Cargo.toml"]);
    command.args(["--target", &host]).arg("--target-dir").arg(&folder).current_dir(root);
    command.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    step::run(&mut command)?;
    Ok(folder.join(host).join("release"))
}

/// Begins with the corpus that is kept in the repository; what it finds interesting goes beside the build.
fn run_target(root: &Path, programs: &Path, target: &str, seconds: u32) -> Outcome {
    let found = programs.join(format!("corpus-{target}"));
    std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    begin(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    let mut command = Command::new(programs.join(target));
    command.arg(&found).current_dir(root);
    let kept = root.join("fuzz/corpus").join(target);
    if kept.is_dir() {
        command.arg(kept);
    }
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_SECONDS_MAX}"));
    command
        .arg("-len_control=0")
        .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-artifact_prefix={}/", found.display()));
    step::run(&mut command)
}

/// Gives a folder without inputs some of all lengths.
fn begin(folder: &Path) -> std::io::Result<()> {
    if std::fs::read_dir(folder)?.next().is_some() {
        return Ok(());
    }
    let mut random = std::fs::File::open("/dev/urandom")?;
    for number in 1..=BEGINNINGS {
        let mut bytes = vec![0; number * INPUT_BYTES_MAX as usize / BEGINNINGS / 2];
        random.read_exact(&mut bytes)?;
        std::fs::write(folder.join(format!("beginning-{number}")), bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn targets_are_those_of_the_folder_and_others_are_refused() {
        let root = workspace::root();
        assert_eq!(
            targets(&root).as_deref(),
            Ok(&["commands", "frames", "sasl", "subjects", "users_and_roles"].map(str::to_owned)[..])
        );
        assert!(run(&root, &["nothing"]).is_err_and(|message| message.contains("commands, frames, sasl")));
        assert!(run(&root, &["frames", "--seconds", "x"]).is_err());
    }
}
