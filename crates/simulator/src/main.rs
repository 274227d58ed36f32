//! The binary: `cargo run -p simulator -- --seed N` runs one seed again, `--seeds COUNT` many. See `docs/testing.md`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use platform::{Clock, Random, SystemClock, SystemRandom};
use simulator::{Failure, Mistake, Summary, Trouble, Wanted, run_seed, run_set_seed};

/// The slowest seeds take a few seconds; a machine that stands still for a while is no fault of theirs.
const SEED_TIME_MAX: Duration = Duration::from_secs(120);

/// Runs the whole store on a simulated disk, with faults, against a model.
#[derive(Parser)]
#[command(name = "simulator")]
struct Arguments {
    /// Run this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Run this many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them; drawn at random when left out
    #[arg(long)]
    from: Option<u64>,
    /// Trouble that every seed shall have: power-loss, errors, full-disk, bit-flips
    #[arg(long)]
    trouble: Option<String>,
    /// Whether every seed shall have an encrypted disk
    #[arg(long)]
    encrypted: bool,
    /// Whether every seed whose trouble allows it shall follow a shared log
    #[arg(long)]
    following: bool,
    /// A whole replica set: three stores over one log
    #[arg(long)]
    set: bool,
    /// Of a set: what is done wrongly on purpose, by its name in `set/mistakes.rs`
    #[arg(long, requires = "set", value_parser = parse_mistake)]
    mistake: Option<Mistake>,
    /// Threads, each with seeds of its own
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Run every seed twice, and compare the traces
    #[arg(long)]
    twice: bool,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
    /// Print every step
    #[arg(long, short)]
    verbose: bool,
}

fn parse_mistake(name: &str) -> Result<Mistake, String> {
    Mistake::parse(name).ok_or_else(|| format!("the mistakes are {:?}", Mistake::ALL))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let trouble = match arguments.trouble.as_deref().map(|name| (name, Trouble::parse(name))) {
        Some((name, None)) => {
            eprintln!("simulator: there is no trouble called '{name}'");
            return ExitCode::FAILURE;
        }
        Some((_, trouble)) => trouble,
        None => None,
    };
    let wanted = Wanted { trouble, is_encrypted: arguments.encrypted, follows_log: arguments.following };
    if !arguments.verbose {
        // The failure is printed with its seed below.
        std::panic::set_hook(Box::new(|panic| {
            if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full") {
                eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
            }
        }));
    }
    if let Some(seed) = arguments.seed {
        return run_one(seed, wanted, &arguments);
    }
    run_many(wanted, &arguments)
}

fn run_one(seed: u64, wanted: Wanted, arguments: &Arguments) -> ExitCode {
    match run_checked(seed, wanted, arguments) {
        Ok(summary) => {
            println!("seed {seed}: {summary:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            report(&failure, arguments);
            ExitCode::FAILURE
        }
    }
}

/// Runs a seed; ends the process when it does not come to an end, which on one thread is a wait for something that never happens.
fn run_checked(seed: u64, wanted: Wanted, arguments: &Arguments) -> Result<Summary, Box<Failure>> {
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let command = command_of(seed, arguments);
    let watch = platform::spawn_named("watch", move || {
        if end.recv_timeout(SEED_TIME_MAX) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            println!("seed {seed} FAILED: it does not end\nto see it again: {command}");
            std::process::exit(1);
        }
    });
    let result = run_watched(seed, wanted, arguments);
    drop(ended);
    if let Ok(watch) = watch {
        // It only waits.
        let _ = watch.join();
    }
    result
}

fn run_watched(seed: u64, wanted: Wanted, arguments: &Arguments) -> Result<Summary, Box<Failure>> {
    let run = |is_verbose| match arguments.set {
        true => run_set_seed(seed, arguments.mistake, is_verbose),
        false => run_seed(seed, wanted, is_verbose),
    };
    let summary = run(arguments.verbose)?;
    if arguments.twice {
        let again = run(false)?;
        if again.fingerprint != summary.fingerprint {
            let problem = "two runs of this seed differ".to_owned();
            return Err(Box::new(Failure { seed, problem, trace: String::new() }));
        }
    }
    Ok(summary)
}

fn report(failure: &Failure, arguments: &Arguments) {
    println!("{}seed {} FAILED: {}", failure.trace, failure.seed, failure.problem);
    println!("to see it again: {}", command_of(failure.seed, arguments));
}

fn command_of(seed: u64, arguments: &Arguments) -> String {
    let trouble = arguments.trouble.as_ref().map(|name| format!(" --trouble {name}")).unwrap_or_default();
    let encrypted = if arguments.encrypted { " --encrypted" } else { "" };
    let set = if arguments.set { " --set" } else { "" };
    let mistake = arguments.mistake.map(|mistake| format!(" --mistake {mistake:?}")).unwrap_or_default();
    format!("cargo run --profile simulation -p simulator -- --seed {seed}{trouble}{encrypted}{set}{mistake} --verbose")
}

/// What all runs have in common.
struct Totals {
    next: AtomicU64,
    end: u64,
    done: AtomicU64,
    failed: AtomicU64,
    sum: Mutex<Summary>,
}

fn run_many(wanted: Wanted, arguments: &Arguments) -> ExitCode {
    let clock = SystemClock::new();
    let from = arguments.from.unwrap_or_else(|| SystemRandom.next_u64() >> 32);
    println!("seeds {from} to {}", from + arguments.seeds);
    let totals = Totals {
        next: AtomicU64::new(from),
        end: from + arguments.seeds,
        done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        sum: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| run_share(&totals, wanted, arguments));
        }
    });
    let sum = totals.sum.lock().map(|sum| *sum).unwrap_or_default();
    let failed = totals.failed.into_inner();
    println!(
        "{} seeds in {:.1} s: {failed} failed; {} commits, {} restarts, {} faults, {} unacknowledged commits lost, {} terms led",
        totals.done.into_inner(),
        clock.monotonic().as_secs_f64(),
        sum.commits,
        sum.restarts,
        sum.faults,
        sum.lost,
        sum.terms
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_share(totals: &Totals, wanted: Wanted, arguments: &Arguments) {
    loop {
        let seed = totals.next.fetch_add(1, Ordering::Relaxed);
        let has_failed = totals.failed.load(Ordering::Relaxed) > 0;
        if seed >= totals.end || (has_failed && !arguments.keep_going) {
            return;
        }
        let result = run_checked(seed, wanted, arguments);
        totals.done.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(summary) => {
                if let Ok(mut sum) = totals.sum.lock() {
                    sum.commits += summary.commits;
                    sum.restarts += summary.restarts;
                    sum.faults += summary.faults;
                    sum.lost += summary.lost;
                    sum.terms += summary.terms;
                }
            }
            Err(failure) => {
                totals.failed.fetch_add(1, Ordering::Relaxed);
                report(&failure, arguments);
            }
        }
    }
}
