//! `plimsoll copy SOURCE TARGET`: the order of the whole. Called by the lab's binary.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bson::Bson;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mongodb::Client;
use mongodb::options::ClientOptions;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::catalog::{self, Kind, Listed};
use crate::error::CopyError;
use crate::ranges::parts;
use crate::renaming::Renaming;
use crate::report::Report;
use crate::selection::Selection;
use crate::state::{PartState, State};
use crate::transfer::{Done, Transfer};
use crate::{definitions, follow, users, verify};

/// How often the file of the state is written.
const SAVED_EACH: Duration = Duration::from_secs(3);
const ANSWER_WAIT: Duration = Duration::from_secs(15);
/// Not everything is on the other side.
const NOT_WHOLE: u8 = 3;

/// Options of `plimsoll copy`.
#[derive(Debug, Clone, Args)]
pub struct CopyArguments {
    /// Connection string of the server that is copied; it is only read
    source: String,
    /// Connection string of the server that takes it
    target: String,
    /// What is copied: DATABASE, DATABASE.COLLECTION or DATABASE.PREFIX*; may be repeated, or be a list with commas [default: everything but admin,
    /// config and local]
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// The name that the one namespace of --namespaces gets on the target: of a database, or DATABASE.COLLECTION
    #[arg(long = "as", value_name = "NAME", requires = "namespaces", conflicts_with = "follow")]
    renamed: Option<String>,
    /// Drop collections of the same names on the target first
    #[arg(long)]
    drop: bool,
    /// Copy users and roles, too
    #[arg(long)]
    users: bool,
    /// Go on with what changes on the source (a replica set) until Ctrl-C, or until --until-caught-up: then the target has all of it
    #[arg(long)]
    follow: bool,
    /// With --follow: end when the target has what the source had when the copy was through
    #[arg(long, requires = "follow")]
    until_caught_up: bool,
    /// Read both sides at the end and compare every document and index
    #[arg(long)]
    verify: bool,
    /// How many parts are copied at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    parallel: u32,
    /// The file that says how far the copy is: the same command goes on there after an interruption
    #[arg(long, value_name = "FILE", default_value = "plimsoll-copy.state")]
    state: PathBuf,
}

/// Runs `plimsoll copy`.
///
/// # Errors
/// A server cannot be reached, or a command fails: what is copied stays, and the same command goes on.
pub async fn run(arguments: CopyArguments) -> Result<ExitCode, CopyError> {
    let selection = Selection::new(&arguments.namespaces).map_err(CopyError::Refusal)?;
    let renaming = Renaming::new(&arguments.namespaces, arguments.renamed.as_deref()).map_err(CopyError::Refusal)?;
    let (source, from) = connect("SOURCE", &arguments.source, "plimsoll copy").await?;
    let (target, to) = connect("TARGET", &arguments.target, "plimsoll copy").await?;
    if from == to && renaming == Renaming::None {
        return Err(CopyError::Refusal("SOURCE and TARGET are the same server".to_owned()));
    }
    let renamed = arguments.renamed.as_ref().map_or_else(String::new, |name| format!(" as {name}"));
    let between = format!("{from} to {to}, {}{renamed}", arguments.namespaces.join(","));
    let mut state = State::open(&arguments.state, between)?;
    if state.is_resumed {
        eprintln!("going on with the copy that {} tells of", arguments.state.display());
    }
    let began = Instant::now();
    if arguments.follow && state.began.is_none() {
        state.began = Some(follow::now(&source).await?);
    }
    let mut report = Report::default();
    let all = list(&source, &selection, &renaming).await?;
    if all.is_empty() && !arguments.namespaces.is_empty() {
        return Err(CopyError::Refusal(format!("the source has nothing of {}", arguments.namespaces.join(", "))));
    }
    if from == to && all.iter().any(|listed| listed.target.namespace() == listed.namespace()) {
        return Err(CopyError::Refusal("SOURCE and TARGET are the same server, and --as is no other name".to_owned()));
    }
    let copied = copy_collections(&source, &target, &arguments, &mut state, &all, &mut report).await?;
    for listed in &copied {
        definitions::build_indexes(&target, listed, &mut report).await?;
    }
    for view in all.iter().filter(|listed| listed.kind == Kind::View) {
        definitions::create_view(&target, view, &mut report).await?;
    }
    if arguments.users {
        users::copy(&source, &target, &mut report).await?;
    }
    report.took = began.elapsed();
    if let (true, Some(began)) = (arguments.follow, state.began) {
        let is_asked = stop_on_interrupt();
        let stop = || arguments.until_caught_up || is_asked.load(Ordering::Relaxed);
        follow::run(&source, &target, &selection, began, stop, &mut report).await?;
    }
    if arguments.verify {
        let mut differences = Vec::new();
        for listed in list(&source, &selection, &renaming).await? {
            differences.extend(verify::compare(&source, &target, &listed).await?);
        }
        report.differences = Some(differences);
    }
    state.remove()?;
    print!("{}", report.in_text());
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(NOT_WHOLE) })
}

/// What is copied, with its names on the target.
async fn list(source: &Client, selection: &Selection, renaming: &Renaming) -> Result<Vec<Listed>, CopyError> {
    let mut all = catalog::list(source, selection).await?;
    all.iter_mut().for_each(|listed| renaming.apply(listed));
    Ok(all)
}

/// A client, and the hosts that it is of.
pub(crate) async fn connect(which: &'static str, uri: &str, program: &str) -> Result<(Client, String), CopyError> {
    let unreachable = |source| CopyError::Unreachable { which, source: Box::new(source) };
    let mut options = ClientOptions::parse(uri).await.map_err(unreachable)?;
    options.app_name.get_or_insert_with(|| program.to_owned());
    options.server_selection_timeout.get_or_insert(ANSWER_WAIT);
    let hosts = options.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let client = Client::with_options(options).map_err(unreachable)?;
    client.database("admin").run_command(bson::doc! { "ping": 1 }).await.map_err(unreachable)?;
    Ok((client, hosts))
}

/// Ctrl-C ends following in order: what is under way is applied, and the report told.
fn stop_on_interrupt() -> Arc<AtomicBool> {
    let is_asked = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_asked);
    eprintln!("following the source; Ctrl-C ends it when the target has caught up");
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            told.store(true, Ordering::Relaxed);
        }
    });
    is_asked
}

/// Makes the collections and copies their documents, several parts at once. Gives those that are there.
async fn copy_collections(
    source: &Client,
    target: &Client,
    arguments: &CopyArguments,
    state: &mut State,
    all: &[Listed],
    report: &mut Report,
) -> Result<Vec<Listed>, CopyError> {
    let mut copied = Vec::new();
    for listed in all.iter().filter(|listed| listed.kind != Kind::View) {
        if prepare(source, target, arguments, state, listed, report).await? {
            copied.push(listed.clone());
        }
    }
    state.save()?;
    let done = Arc::new(Done::default());
    let bar = progress(copied.iter().map(|listed| listed.documents).sum());
    let shared = Arc::new(Mutex::new(std::mem::replace(state, state.clone())));
    let outcome = copy_parts(source, target, arguments.parallel, &copied, &shared, &done, &bar).await;
    bar.finish_and_clear();
    *state = lock(&shared).clone();
    state.save()?;
    report.collections = copied.len() as u64;
    report.documents = done.documents.load(Ordering::Relaxed);
    report.bytes = done.bytes.load(Ordering::Relaxed);
    outcome.map(|()| copied)
}

/// Makes one collection on the target, and its parts in the state. Whether it is copied.
async fn prepare(
    source: &Client,
    target: &Client,
    arguments: &CopyArguments,
    state: &mut State,
    listed: &Listed,
    report: &mut Report,
) -> Result<bool, CopyError> {
    let namespace = listed.namespace();
    if let Some(known) = state.collections.get_mut(&namespace) {
        // What has an order of its own is begun again, unless it is complete.
        if !listed.has_ranges() && !known.iter().all(|part| part.is_done) {
            definitions::drop(target, listed).await?;
            known.iter_mut().for_each(|part| *part = PartState { last: None, ..part.clone() });
        }
        return definitions::create(target, listed, report).await;
    }
    if arguments.drop {
        definitions::drop(target, listed).await?;
    } else if !definitions::is_empty(target, listed).await? {
        return Err(CopyError::Refusal(format!(
            "the target has documents in {} already; --drop drops what it has",
            listed.target.namespace()
        )));
    }
    if !definitions::create(target, listed, report).await? {
        return Ok(false);
    }
    let parts = parts(source, listed, arguments.parallel as usize * 2).await?;
    let fresh = parts.into_iter().map(|part| PartState { part, last: None, is_done: false });
    state.collections.insert(namespace, fresh.collect());
    Ok(true)
}

/// All parts that are not done, so many at once. The first error ends all.
async fn copy_parts(
    source: &Client,
    target: &Client,
    parallel: u32,
    copied: &[Listed],
    shared: &Arc<Mutex<State>>,
    done: &Arc<Done>,
    bar: &ProgressBar,
) -> Result<(), CopyError> {
    let places = Arc::new(Semaphore::new(parallel as usize));
    let mut running: JoinSet<Result<(), CopyError>> = JoinSet::new();
    for listed in copied {
        let listed = Arc::new(listed.clone());
        let parts = lock(shared).collections.get(&listed.namespace()).cloned().unwrap_or_default();
        for (place, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_done) {
            let transfer = Transfer {
                source: source.clone(),
                target: target.clone(),
                listed: Arc::clone(&listed),
                part: part.part,
                after: part.last,
                done: Arc::clone(done),
            };
            let (shared, places) = (Arc::clone(shared), Arc::clone(&places));
            running.spawn(async move {
                let _place = places.acquire_owned().await;
                let namespace = transfer.listed.namespace();
                let set = |change: &dyn Fn(&mut PartState)| {
                    if let Some(part) =
                        lock(&shared).collections.get_mut(&namespace).and_then(|parts| parts.get_mut(place))
                    {
                        change(part);
                    }
                };
                transfer
                    .run(|last: Option<Bson>| {
                        if last.is_some() {
                            set(&|part| part.last.clone_from(&last))
                        }
                    })
                    .await?;
                set(&|part| part.is_done = true);
                Ok(())
            });
        }
    }
    let mut saving = tokio::time::interval(SAVED_EACH);
    loop {
        tokio::select! {
            ended = running.join_next() => match ended {
                None => return Ok(()),
                Some(Ok(outcome)) => outcome?,
                Some(Err(error)) => return Err(CopyError::Refusal(format!("a part of the copy died: {error}"))),
            },
            _ = saving.tick() => {
                bar.set_position(done.documents.load(Ordering::Relaxed));
                let state = lock(shared).clone();
                state.save()?;
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn progress(documents: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{bar:30} {percent:>3} %  {human_pos} of {human_len} documents, {per_sec}, {eta} left",
    );
    let bar = ProgressBar::new(documents);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
