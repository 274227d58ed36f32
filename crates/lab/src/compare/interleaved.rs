//! Runs both sides in turn, ABBA ABBA ..., so that a machine that grows slower or faster meanwhile favours none.

use std::path::{Path, PathBuf};

use super::{CompareArguments, Side};
use crate::callgrind;
use crate::error::LabError;
use crate::launch::LaunchedServer;
use crate::output::OutputDirectory;
use crate::result::{InstructionCount, RunResult};
use crate::scenario::{RunOptions, Scenario, run as run_scenario};

/// What a side is.
enum Subject {
    Address(String),
    Program(PathBuf),
}

pub(super) async fn run(arguments: &CompareArguments, directory: &Path) -> Result<(Side, Side), LabError> {
    let subjects = [subject(&arguments.a, arguments)?, subject(&arguments.b, arguments)?];
    let changes = arguments.changes.iter().map(|change| {
        let (name, value) =
            change.split_once('=').ok_or_else(|| LabError::Unsupported(format!("--set {change}: write NAME=VALUE")))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    let changes = changes.collect::<Result<Vec<_>, LabError>>()?;
    let mut failure = None;
    'rounds: for round in 0..arguments.rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let scenario = Scenario::find(&arguments.scenario, &changes)?;
            let name = ["a", "b"][side];
            let output = directory.join(name).join(format!("run-{:02}", round + 1));
            eprintln!("round {} of {}, {}", round + 1, arguments.rounds, name.to_uppercase());
            let result = run_once(&subjects[side], &scenario, arguments, &output).await?;
            if !result.complete {
                // What is there is compared, with a remark; a dead server would only fail again.
                failure = result.failure;
                break 'rounds;
            }
        }
    }
    if let Some(failure) = failure {
        eprintln!("no further rounds: {failure}");
    }
    let side = |name: &str, named: &str| {
        let mut side = super::read_side(&directory.join(name).display().to_string())?;
        named.clone_into(&mut side.named);
        Ok::<_, LabError>(side)
    };
    Ok((side("a", &arguments.a)?, side("b", &arguments.b)?))
}

fn subject(named: &str, arguments: &CompareArguments) -> Result<Subject, LabError> {
    if named.starts_with("mongodb://") {
        if arguments.instructions {
            let message = "--instructions counts those of programs that it starts; name two server programs";
            return Err(LabError::Unsupported(message.to_owned()));
        }
        return Ok(Subject::Address(named.to_owned()));
    }
    let path = PathBuf::from(named);
    if path.is_file() {
        return Ok(Subject::Program(path));
    }
    let message = format!(
        "{named:?} is not a result directory, a mongodb:// address or a server program; both sides must be of the same kind"
    );
    Err(LabError::Unsupported(message))
}

async fn run_once(
    subject: &Subject,
    scenario: &Scenario,
    arguments: &CompareArguments,
    output: &Path,
) -> Result<RunResult, LabError> {
    let options = |uri: &str, pid: Option<u32>| RunOptions {
        pid,
        output: Some(output.to_owned()),
        progress: true,
        profile: arguments.profile && !arguments.instructions,
        // The same documents and keys on both sides, and in every round.
        seed: 1,
        ..RunOptions::new(uri)
    };
    let binary = match subject {
        Subject::Address(uri) => return Ok(run_scenario(scenario, options(uri, None)).await?.result),
        Subject::Program(binary) => binary,
    };
    let directory = OutputDirectory::create_at(output)?;
    let server = LaunchedServer::start(binary, &arguments.command, output, arguments.instructions).await?;
    let mut result = run_scenario(scenario, options(&server.uri, Some(server.pid()))).await?.result;
    if let Some(file) = server.stop()? {
        let counted = callgrind::read(&file)?;
        result.instructions = Some(InstructionCount {
            counted_by: "callgrind".to_owned(),
            instructions: counted.total,
            operations: result.phases.iter().map(|phase| phase.operations.max(phase.documents)).sum(),
            functions: counted.functions,
        });
        // Seconds under callgrind mean nothing.
        result.phases.iter_mut().for_each(|phase| phase.preparation = true);
        directory.write_result(&result)?;
    }
    Ok(result)
}
