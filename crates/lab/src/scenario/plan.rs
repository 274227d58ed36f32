//! A scenario ready to run: parameters filled in, templates built, every rule checked that can be checked without a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bson::{Bson, Document};
use mongodb::IndexModel;

use super::definition::{CollectionDefinition, Definition, GroupDefinition, IndexDefinition, PhaseDefinition};
use super::operation::{Operation, Step};
use super::parameters::Parameters;
use super::template::{Builder, Moment, Sequences, Template};
use crate::error::LabError;
use crate::random::Random;

/// Database when a scenario names none.
const DATABASE: &str = "plimsoll_bench";
/// Documents of one insertMany of a load.
const BATCH: u64 = 1000;
const THREADS_MAX: u64 = 10_000;
const COPIES_MAX: u64 = 10_000;

/// Everything the runner needs to know.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) database: String,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) collections: BTreeMap<String, Arc<PlannedCollection>>,
    pub(crate) phases: Vec<PlannedPhase>,
}

/// A collection and its copies.
#[derive(Debug)]
pub(crate) struct PlannedCollection {
    /// One, or `name_0`, `name_1`, ...
    pub(crate) names: Vec<String>,
    pub(crate) documents: u64,
    pub(crate) document: Option<Template>,
    pub(crate) indexes: Vec<IndexModel>,
    pub(crate) options: Document,
}

pub(crate) struct PlannedPhase {
    pub(crate) name: String,
    pub(crate) preparation: bool,
    /// Ends the phase; otherwise it ends with the last group that has an end of its own.
    pub(crate) seconds: Option<f64>,
    pub(crate) warm_up_seconds: f64,
    pub(crate) groups: Vec<Arc<Group>>,
}

/// One kind of clients.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) threads: u32,
    pub(crate) start_after_seconds: f64,
    pub(crate) operations_total: Option<u64>,
    pub(crate) rounds: Option<u32>,
    pub(crate) pace: Pace,
    pub(crate) on_error: OnError,
    pub(crate) work: Work,
}

/// When a client sends its next operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// As soon as the one before has ended, and this pause.
    Closed { think_seconds: f64 },
    /// At times that do not depend on what the server does.
    Open { rate: f64, arrival: Arrival },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Poisson,
    Even,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    Stop,
    Count,
}

pub(crate) enum Work {
    /// Collections to fill, each with the next document to insert.
    Load {
        targets: Vec<LoadTarget>,
        batch: u64,
    },
    Mix {
        steps: Vec<Step>,
        weight_total: u64,
    },
}

/// One copy to fill.
pub(crate) struct LoadTarget {
    pub(crate) collection: Arc<PlannedCollection>,
    pub(crate) copy: usize,
    pub(crate) next: AtomicU64,
}

impl Group {
    /// Whether it ends by itself.
    pub(crate) fn is_bounded(&self) -> bool {
        self.operations_total.is_some() || self.rounds.is_some() || matches!(self.work, Work::Load { .. })
    }
}

impl PlannedPhase {
    /// Documents that it will change, where that is known beforehand: that of loads.
    pub(crate) fn documents_expected(&self) -> Option<u64> {
        let of = |group: &Arc<Group>| match &group.work {
            Work::Load { targets, .. } => Some(targets.iter().map(|target| target.collection.documents).sum::<u64>()),
            Work::Mix { .. } => None,
        };
        self.groups.iter().map(of).sum()
    }

    /// Operations that it will do, where that is known.
    pub(crate) fn operations_expected(&self) -> Option<u64> {
        let of = |group: &Arc<Group>| match &group.work {
            Work::Load { .. } => None,
            Work::Mix { steps, .. } => group
                .operations_total
                .or(group.rounds.map(|rounds| u64::from(rounds) * steps.len() as u64 * u64::from(group.threads))),
        };
        self.groups.iter().map(of).sum()
    }
}

impl Plan {
    /// Checks a definition and builds what it describes.
    pub(crate) fn build(definition: &Definition, changes: &[(String, String)]) -> Result<Self, LabError> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character))
        };
        if !is_name(&definition.name) {
            let message = format!("name {:?}: only letters, digits, - and _ can be in it", definition.name);
            return Err(LabError::Scenario(message));
        }
        let parameters = Parameters::resolve(&definition.parameters, changes)?;
        let mut sequences = Sequences::default();
        let mut builder = Builder { parameters: &parameters, sequences: &mut sequences };
        let database = match &definition.database {
            Some(node) => text_of(&mut builder, node, "database")?,
            None => DATABASE.to_owned(),
        };
        let mut collections = BTreeMap::new();
        for (name, collection) in &definition.collections {
            let planned = plan_collection(&mut builder, name, collection)?;
            collections.insert(name.clone(), Arc::new(planned));
        }
        if definition.phases.is_empty() {
            return Err(LabError::Scenario("phases: there is none".to_owned()));
        }
        let mut phases = Vec::new();
        for (position, phase) in definition.phases.iter().enumerate() {
            let place = format!(
                "phase {}",
                if phase.name.is_empty() { (position + 1).to_string() } else { format!("{:?}", phase.name) }
            );
            let mut planner = PhasePlanner { builder: &mut builder, collections: &collections, place };
            phases.push(planner.phase(phase, position)?);
        }
        Ok(Self {
            name: definition.name.clone(),
            description: definition.description.trim().to_owned(),
            database,
            parameters: parameters.listed(),
            collections,
            phases,
        })
    }

    /// Names of all collections and copies that the scenario owns.
    pub(crate) fn collection_names(&self) -> Vec<String> {
        self.collections.values().flat_map(|collection| collection.names.iter().cloned()).collect()
    }
}

fn text_of(builder: &mut Builder<'_>, node: &super::node::Node, what: &str) -> Result<String, LabError> {
    match builder.value(node)? {
        Template::Constant(Bson::String(text)) => Ok(text),
        _ => Err(LabError::Scenario(format!("{what}: must be text"))),
    }
}

fn plan_collection(
    builder: &mut Builder<'_>,
    name: &str,
    definition: &CollectionDefinition,
) -> Result<PlannedCollection, LabError> {
    let place = format!("collection {name:?}");
    let copies = builder.count(definition.copies.as_ref(), 1, &format!("{place}: copies"))?;
    if !(1..=COPIES_MAX).contains(&copies) {
        return Err(LabError::Scenario(format!("{place}: copies: must lie between 1 and {COPIES_MAX}")));
    }
    let names = match (&definition.copies, copies) {
        (None, _) => vec![name.to_owned()],
        (Some(_), copies) => (0..copies).map(|copy| format!("{name}_{copy}")).collect(),
    };
    let documents = builder.count(definition.documents.as_ref(), 0, &format!("{place}: documents"))?;
    let document = match &definition.document {
        Some(node) => Some(builder.document(node, &format!("{place}: document"))?),
        None if documents > 0 => {
            return Err(LabError::Scenario(format!("{place}: `document` is missing: the shape of its documents")));
        }
        None => None,
    };
    let used = builder.count(definition.indexes_used.as_ref(), u64::MAX, &format!("{place}: indexes_used"))?;
    let used = usize::try_from(used).unwrap_or(usize::MAX);
    let indexes = definition.indexes.iter().take(used);
    let indexes = indexes.map(|index| plan_index(builder, index, &place)).collect::<Result<_, _>>()?;
    let options = match &definition.options {
        Some(node) => constant_document(builder, node, &format!("{place}: options"))?,
        None => Document::new(),
    };
    Ok(PlannedCollection { names, documents, document, indexes, options })
}

fn plan_index(builder: &mut Builder<'_>, index: &IndexDefinition, place: &str) -> Result<IndexModel, LabError> {
    let place = format!("{place}: indexes");
    let keys = constant_document(builder, &index.keys, &place)?;
    let options = match &index.options {
        Some(node) => {
            let document = constant_document(builder, node, &place)?;
            let parsed = bson::deserialize_from_document(document);
            Some(parsed.map_err(|error| LabError::Scenario(format!("{place}: {error}")))?)
        }
        None => None,
    };
    Ok(IndexModel::builder().keys(keys).options(options).build())
}

fn constant_document(builder: &mut Builder<'_>, node: &super::node::Node, what: &str) -> Result<Document, LabError> {
    let template = builder.document(node, what)?;
    let mut random = Random::new(0);
    Ok(template.make_document(&mut Moment { random: &mut random, number: 0, thread: 0, copy: 0, round: 0 }))
}

struct PhasePlanner<'b, 'p> {
    builder: &'b mut Builder<'p>,
    collections: &'b BTreeMap<String, Arc<PlannedCollection>>,
    place: String,
}

impl PhasePlanner<'_, '_> {
    fn phase(&mut self, phase: &PhaseDefinition, position: usize) -> Result<PlannedPhase, LabError> {
        let has_own = !phase.mix.is_empty() || phase.load.is_some();
        if has_own != phase.groups.is_empty() || (phase.load.is_some() && !phase.mix.is_empty()) {
            return Err(self.refuse("has exactly one of `load`, `mix` and `groups`"));
        }
        if !phase.groups.is_empty() && (phase.threads.is_some() || phase.rate.is_some() || phase.rounds.is_some()) {
            return Err(self.refuse("`threads`, `rate`, `rounds` belong into its `groups`"));
        }
        let mut groups = Vec::new();
        if let Some(load) = &phase.load {
            groups.push(Arc::new(self.load(phase, load)?));
        } else if phase.groups.is_empty() {
            groups.push(Arc::new(self.group(&only_group(phase), "")?));
        }
        for (number, group) in phase.groups.iter().enumerate() {
            let name = if group.name.is_empty() { format!("group {}", number + 1) } else { group.name.clone() };
            groups.push(Arc::new(self.group(group, &name)?));
        }
        let seconds = match &phase.seconds {
            Some(node) => Some(self.builder.number(Some(node), 0.0, &format!("{}: seconds", self.place))?),
            None => None,
        };
        if seconds.is_none() && !groups.iter().any(|group| group.is_bounded()) {
            return Err(self.refuse("never ends: give it `seconds`, or a group `operations_total` or `rounds`"));
        }
        let warm_up = format!("{}: warm_up_seconds", self.place);
        Ok(PlannedPhase {
            name: if phase.name.is_empty() { format!("phase-{}", position + 1) } else { phase.name.clone() },
            preparation: phase.preparation,
            seconds,
            warm_up_seconds: self.builder.number(phase.warm_up_seconds.as_ref(), 0.0, &warm_up)?,
            groups,
        })
    }

    fn load(&mut self, phase: &PhaseDefinition, names: &[String]) -> Result<Group, LabError> {
        let mut targets = Vec::new();
        for name in names {
            let collection = self.collection(name)?;
            if collection.document.is_none() {
                return Err(self.refuse(&format!("load: collection {name:?} has no `document`")));
            }
            targets.extend((0..collection.names.len()).map(|copy| LoadTarget {
                collection: Arc::clone(&collection),
                copy,
                next: AtomicU64::new(0),
            }));
        }
        let batch = self.builder.count(phase.batch.as_ref(), BATCH, &format!("{}: batch", self.place))?.max(1);
        let work = Work::Load { targets, batch };
        self.finish_group(&only_group(phase), "", work)
    }

    fn group(&mut self, group: &GroupDefinition, name: &str) -> Result<Group, LabError> {
        if group.mix.is_empty() {
            return Err(self.refuse(&format!("{name}: `mix` is empty")));
        }
        let mut steps = Vec::new();
        for definition in &group.mix {
            let collections = self.collections;
            let resolve = |name: &str| resolve_collection(collections, name);
            let step = Step::build(self.builder, &resolve, definition);
            steps.push(step.map_err(|error| super::template::within(&self.place, &error))?);
        }
        let weight_total = steps.iter().map(|step| step.weight).sum();
        if weight_total == 0 {
            return Err(self.refuse("all weights are 0"));
        }
        self.finish_group(group, name, Work::Mix { steps, weight_total })
    }

    fn finish_group(&mut self, group: &GroupDefinition, name: &str, work: Work) -> Result<Group, LabError> {
        let place = if name.is_empty() { self.place.clone() } else { format!("{}, {name}", self.place) };
        let builder = &mut *self.builder;
        let threads = builder.count(group.threads.as_ref(), 1, &format!("{place}: threads"))?;
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(LabError::Scenario(format!("{place}: threads: must lie between 1 and {THREADS_MAX}")));
        }
        let think_seconds = builder.number(group.think_seconds.as_ref(), 0.0, &format!("{place}: think_seconds"))?;
        let pace = match &group.rate {
            None if group.arrival.is_some() => {
                return Err(LabError::Scenario(format!("{place}: `arrival` needs a `rate`")));
            }
            None => Pace::Closed { think_seconds },
            Some(_) if group.think_seconds.is_some() => {
                return Err(LabError::Scenario(format!("{place}: `think_seconds` and `rate` exclude each other")));
            }
            Some(rate) => {
                let rate = builder.number(Some(rate), 0.0, &format!("{place}: rate"))?;
                if rate <= 0.0 {
                    return Err(LabError::Scenario(format!("{place}: rate: must be more than 0")));
                }
                Pace::Open { rate, arrival: arrival(group.arrival.as_deref(), &place)? }
            }
        };
        let on_error = match group.errors.as_deref() {
            None | Some("stop") => OnError::Stop,
            Some("count") => OnError::Count,
            Some(other) => {
                return Err(LabError::Scenario(format!("{place}: errors: `stop` or `count`, not {other:?}")));
            }
        };
        let bound = |builder: &mut Builder<'_>, node: &Option<super::node::Node>, what: &str| match node {
            Some(node) => builder.count(Some(node), 0, &format!("{place}: {what}")).map(Some),
            None => Ok(None),
        };
        let operations_total = bound(builder, &group.operations_total, "operations_total")?;
        let rounds = bound(builder, &group.rounds, "rounds")?;
        let start = format!("{place}: start_after_seconds");
        Ok(Group {
            name: name.to_owned(),
            threads: threads as u32,
            start_after_seconds: builder.number(group.start_after_seconds.as_ref(), 0.0, &start)?,
            operations_total,
            rounds: rounds.map(|rounds| u32::try_from(rounds).unwrap_or(u32::MAX)),
            pace,
            on_error,
            work,
        })
    }

    fn collection(&self, name: &str) -> Result<Arc<PlannedCollection>, LabError> {
        let planned = self.collections.get(name).cloned();
        planned.ok_or_else(|| self.refuse(&format!("there is no collection {name:?} under `collections`")))
    }

    fn refuse(&self, message: &str) -> LabError {
        LabError::Scenario(format!("{}: {message}", self.place))
    }
}

/// A collection that the scenario declares, or one of any name that it does not own.
fn resolve_collection(collections: &BTreeMap<String, Arc<PlannedCollection>>, name: &str) -> Arc<PlannedCollection> {
    collections.get(name).cloned().unwrap_or_else(|| {
        Arc::new(PlannedCollection {
            names: vec![name.to_owned()],
            documents: 0,
            document: None,
            indexes: Vec::new(),
            options: Document::new(),
        })
    })
}

/// The fields of a phase that describe its only group.
fn only_group(phase: &PhaseDefinition) -> GroupDefinition {
    GroupDefinition {
        name: String::new(),
        threads: phase.threads.clone(),
        start_after_seconds: None,
        operations_total: phase.operations_total.clone(),
        rounds: phase.rounds.clone(),
        rate: phase.rate.clone(),
        arrival: phase.arrival.clone(),
        think_seconds: phase.think_seconds.clone(),
        errors: phase.errors.clone(),
        mix: phase.mix.clone(),
    }
}

fn arrival(name: Option<&str>, place: &str) -> Result<Arrival, LabError> {
    match name {
        None | Some("poisson") => Ok(Arrival::Poisson),
        Some("even") => Ok(Arrival::Even),
        Some(other) => Err(LabError::Scenario(format!("{place}: arrival: `poisson` or `even`, not {other:?}"))),
    }
}

impl Step {
    /// Whether its operation changes documents, and how the server counts them.
    pub(crate) fn counted_as(&self) -> Option<&'static str> {
        match &self.operation {
            Operation::Insert(_) => Some("inserted"),
            Operation::Update(_) => Some("updated"),
            Operation::Delete(_) => Some("deleted"),
            _ => None,
        }
    }
}
