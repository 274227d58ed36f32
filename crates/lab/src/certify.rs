//! `plimsoll certify`: are the guarantees kept? Runs the test of each against any server, prints a line each, writes a report.
//!
//! `guarantee` lists them, `rig` is the server and the data, `judgement` what is said of one. Each test is a file of its own:
//! it runs scenarios of `scenarios/certify` and looks at the server beside them. What cannot be tested from outside is said
//! to be not judged, with what proves it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::error::LabError;
use crate::output::{OutputDirectory, default_directory, print, time_now};
use crate::result::Machine;
use crate::target::TargetDescription;

mod checkpoints;
mod concurrency;
mod definitions;
mod delete_storm;
mod diagnostics;
mod failover;
mod guarantee;
mod held_snapshot;
mod history;
mod huge_transaction;
mod idle_snapshot;
mod index_build;
pub(crate) mod judgement;
mod key_shapes;
mod many_collections;
mod memory;
mod memory_group;
mod new_member;
mod overload;
mod probe;
mod raw_client;
mod refusals;
mod replica_set;
mod rig;
mod set_members;
mod slow_member;
mod statistic;
mod storm;
mod visibility;

use guarantee::{GUARANTEES, ORDER, Test};
use judgement::{Judgement, Verdict};
use rig::Rig;

/// A guarantee is broken.
const EXIT_BROKEN: u8 = 3;

/// Options of `plimsoll certify`.
#[derive(Debug, Clone, Args)]
pub struct CertifyArguments {
    /// Connection string of the server to certify; its database `plimsoll_certify` is dropped. Without it, the `plimsoll`
    /// beside this program is started for the purpose
    #[arg(long, value_name = "URI")]
    target: Option<String>,
    /// Only these guarantees, as G2,G5
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_guarantee)]
    only: Vec<&'static str>,
    /// Part of the full rig and counts: the cache of the server that is started, the data, the length of phases
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = parse_scale)]
    scale: f64,
    /// Length of each measured phase [default: 60 x the scale, at least 8]
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Cache of the server in MiB: of the one that is started, or of one that does not say it [default: 512 x the scale]
    #[arg(long, value_name = "MIB")]
    cache_mib: Option<u64>,
    /// What the server may use in all, in MiB, where it does not say it itself
    #[arg(long, value_name = "MIB")]
    memory_mib: Option<u64>,
    /// Program to start in place of it
    #[arg(long, value_name = "PROGRAM", conflicts_with = "target")]
    server: Option<PathBuf>,
    /// Further options of the server that is started
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true, conflicts_with = "target")]
    server_options: String,
    /// Threads of the load generator [default: as many as processors]
    #[arg(long, value_name = "N")]
    lanes: Option<usize>,
    /// Directory for the report, the judgements and all runs [default: bench-results/certify-TIME]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// What a certification found; `certify.json`, and the raw data of its report.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Certificate {
    pub(crate) started_at: String,
    pub(crate) target: TargetDescription,
    pub(crate) machine: Machine,
    pub(crate) scale: f64,
    pub(crate) seconds: f64,
    pub(crate) cache_bytes: Option<f64>,
    pub(crate) memory_bytes: Option<f64>,
    pub(crate) documents: u64,
    pub(crate) shortcomings: Vec<String>,
    /// The largest part of the machine that other work took during a run.
    pub(crate) others_share_of_machine: f64,
    /// The largest part of the machine that its host took during a run.
    pub(crate) stolen_share_of_machine: f64,
    pub(crate) judgements: Vec<Judged>,
}

/// A judgement with its verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
}

fn parse_guarantee(text: &str) -> Result<&'static str, String> {
    let found = GUARANTEES.iter().find(|guarantee| guarantee.number.eq_ignore_ascii_case(text.trim()));
    found.map(|guarantee| guarantee.number).ok_or_else(|| {
        let numbers: Vec<&str> = GUARANTEES.iter().map(|guarantee| guarantee.number).collect();
        format!("there is no guarantee {text} here; there are {}", numbers.join(", "))
    })
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "write a number, as 0.1".to_owned())?;
    if scale > 0.0 && scale <= 10.0 { Ok(scale) } else { Err("must be above 0 and at most 10".to_owned()) }
}

/// Runs `plimsoll certify`. Success means that no guarantee that was judged is broken; code 3 that one is.
///
/// # Errors
/// The server cannot be started or reached, a name that is none, results that cannot be written.
pub async fn run(arguments: CertifyArguments) -> Result<ExitCode, LabError> {
    let directory = arguments.output.clone().unwrap_or_else(|| default_directory("certify"));
    let output = OutputDirectory::create_at(&directory)?;
    let mut rig = Rig::prepare(&arguments, &directory).await?;
    print(&format!("{}\n", introduction(&rig)));
    let mut certificate = Certificate {
        started_at: time_now(),
        target: rig.description.clone(),
        machine: Machine::this(),
        scale: rig.scale,
        seconds: rig.seconds,
        cache_bytes: rig.cache_bytes,
        memory_bytes: rig.memory_bytes,
        documents: rig.documents,
        shortcomings: rig.shortcomings(),
        others_share_of_machine: 0.0,
        stolen_share_of_machine: 0.0,
        judgements: Vec::new(),
    };
    let is_wanted = |number: &str| arguments.only.is_empty() || arguments.only.contains(&number);
    for test in ORDER {
        let numbers: Vec<&'static str> = of_test(*test).filter(|number| is_wanted(number)).collect();
        if numbers.is_empty() {
            continue;
        }
        for judgement in judge(*test, &numbers, &mut rig).await? {
            if is_wanted(judgement.guarantee) {
                print(&line(&judgement));
                certificate.add(judgement);
            }
        }
        // What was found so far stays, whatever ends the rest.
        certificate.write(&output)?;
    }
    rig.clean_up().await?;
    print(&format!("{}\nreport: {}\n", certificate.summary(), output.path("report.html").display()));
    Ok(if certificate.count(Verdict::Fail) > 0 { ExitCode::from(EXIT_BROKEN) } else { ExitCode::SUCCESS })
}

fn of_test(test: Test) -> impl Iterator<Item = &'static str> {
    GUARANTEES.iter().filter(move |guarantee| guarantee.test == test).map(|guarantee| guarantee.number)
}

/// Runs a test. One that breaks off fails what it was to judge.
async fn judge(test: Test, numbers: &[&'static str], rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    eprintln!("testing {}", numbers.join(", "));
    let outcome = match test {
        Test::Overload => overload::judge(rig, numbers).await,
        Test::Definitions => definitions::judge(rig).await,
        Test::Checkpoints => checkpoints::judge(rig).await,
        Test::IdleSnapshot => idle_snapshot::judge(rig).await,
        Test::Visibility => visibility::judge(rig).await,
        Test::Concurrency => concurrency::judge(rig).await,
        Test::Diagnostics => diagnostics::judge(rig).await,
        Test::Elsewhere => Ok(numbers
            .iter()
            .map(|number| Judgement::not_judged(number, guarantee::proved_elsewhere(number)))
            .collect()),
        Test::History => history::judge(rig).await,
        Test::HugeTransaction => huge_transaction::judge(rig).await,
        Test::Memory => memory::judge(rig).await,
        Test::IndexBuild => index_build::judge(rig).await,
        Test::DeleteStorm => delete_storm::judge(rig, numbers).await,
        Test::KeyShapes => key_shapes::judge(rig).await,
        Test::ManyCollections => many_collections::judge(rig).await,
        Test::ReplicaSet => replica_set::judge(rig, numbers).await,
    };
    match outcome {
        Ok(judgements) => Ok(judgements),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(error) => Ok(numbers
            .iter()
            .map(|number| {
                let mut judgement = Judgement::of(number);
                judgement.breaks(format!("the test broke off: {error}"));
                judgement
            })
            .collect()),
    }
}

fn introduction(rig: &Rig) -> String {
    let mebibytes =
        |bytes: Option<f64>| bytes.map_or("unknown".to_owned(), |bytes| format!("{:.0} MiB", bytes / 1_048_576.0));
    format!(
        "{}: cache {}, memory {}, {} documents of 1 KB, phases of {:.0} s, scale {}",
        rig.description.in_one_line(),
        mebibytes(rig.cache_bytes),
        mebibytes(rig.memory_bytes),
        rig.documents,
        rig.seconds,
        rig.scale
    )
}

fn line(judgement: &Judgement) -> String {
    format!(
        "{:<4} {:<5} {}: {}\n",
        judgement.guarantee,
        judgement.verdict().word(),
        judgement.title,
        judgement.in_one_line()
    )
}

impl Certificate {
    fn add(&mut self, judgement: Judgement) {
        for evidence in &judgement.evidence {
            let overhead = &evidence.phase.overhead;
            self.others_share_of_machine = self.others_share_of_machine.max(overhead.others_share_of_machine);
            self.stolen_share_of_machine = self.stolen_share_of_machine.max(overhead.stolen_share_of_machine);
        }
        self.judgements.push(Judged { verdict: judgement.verdict(), judgement });
        let place =
            |judged: &Judged| GUARANTEES.iter().position(|guarantee| guarantee.number == judged.judgement.guarantee);
        self.judgements.sort_by_key(place);
    }

    /// For tests of the report.
    #[cfg(test)]
    pub(crate) fn of_tests(judgements: Vec<Judgement>) -> Self {
        let mut certificate = Self::default();
        judgements.into_iter().for_each(|judgement| certificate.add(judgement));
        certificate
    }

    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.judgements.iter().filter(|judged| judged.verdict == verdict).count()
    }

    /// In one sentence.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!(
            "{} passed, {} held (part of the test left out), {} FAILED, {} not judged",
            self.count(Verdict::Pass),
            self.count(Verdict::Held),
            self.count(Verdict::Fail),
            self.count(Verdict::NotJudged)
        );
        if self.others_share_of_machine > 0.1 {
            text += &format!(
                "; other work took up to {:.0} % of the machine meanwhile, so times are uncertain",
                self.others_share_of_machine * 100.0
            );
        }
        if self.stolen_share_of_machine > 0.01 {
            text += &format!(
                "; the machine's host took up to {:.0} % of it meanwhile",
                self.stolen_share_of_machine * 100.0
            );
        }
        text
    }

    fn write(&self, output: &OutputDirectory) -> Result<(), LabError> {
        output.write_json("certify.json", self)?;
        output.write("report.html", &crate::report::certificate(self))
    }
}
