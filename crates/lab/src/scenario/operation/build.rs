//! From an operation as a scenario file writes it to one that can be sent.

use std::sync::Arc;
use std::time::Duration;

use super::{
    AggregateOperation, DeleteOperation, FindOperation, InsertOperation, Operation, PlannedCollection, Step, Template,
    TransactionOperation, UpdateKind, UpdateOperation,
};
use crate::error::LabError;
use crate::scenario::definition::{
    AggregateDefinition, DeleteDefinition, FindDefinition, InsertDefinition, StepDefinition, UpdateDefinition,
};
use crate::scenario::node::Node;
use crate::scenario::template::{Builder, within};

/// Documents of one insertMany at most; what servers allow.
const INSERT_MAX: u64 = 100_000;

/// Finds a collection by the name in the file.
type Resolve<'r> = &'r dyn Fn(&str) -> Arc<PlannedCollection>;

impl Step {
    pub(crate) fn build(
        builder: &mut Builder<'_>,
        resolve: Resolve<'_>,
        definition: &StepDefinition,
    ) -> Result<Self, LabError> {
        let mut found = operations(definition);
        let (Some(kind), None) = (found.next(), found.next()) else {
            let message = "each entry of a mix has exactly one operation: findOne find insertOne insertMany updateOne \
                           updateMany replaceOne deleteOne deleteMany aggregate command transaction connect pause";
            return Err(LabError::Scenario(message.to_owned()));
        };
        drop(found);
        let name = definition.name.clone().unwrap_or_else(|| kind.to_owned());
        let weight = builder.count(definition.weight.as_ref(), 1, &format!("{name}: weight"))?;
        let operation = build(builder, resolve, definition, kind).map_err(|error| within(&name, &error))?;
        Ok(Self { name, weight, operation })
    }
}

/// The operations that an entry has.
fn operations(step: &StepDefinition) -> impl Iterator<Item = &'static str> {
    let all = [
        (step.find_one.is_some(), "findOne"),
        (step.find.is_some(), "find"),
        (step.insert_one.is_some(), "insertOne"),
        (step.insert_many.is_some(), "insertMany"),
        (step.update_one.is_some(), "updateOne"),
        (step.update_many.is_some(), "updateMany"),
        (step.replace_one.is_some(), "replaceOne"),
        (step.delete_one.is_some(), "deleteOne"),
        (step.delete_many.is_some(), "deleteMany"),
        (step.aggregate.is_some(), "aggregate"),
        (step.command.is_some(), "command"),
        (step.transaction.is_some(), "transaction"),
        (step.connect.is_some(), "connect"),
        (step.pause.is_some(), "pause"),
    ];
    all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)
}

fn build(
    builder: &mut Builder<'_>,
    resolve: Resolve<'_>,
    step: &StepDefinition,
    kind: &str,
) -> Result<Operation, LabError> {
    if let Some(definition) = step.find_one.as_ref().or(step.find.as_ref()) {
        let find = find(builder, resolve, definition)?;
        return Ok(if kind == "findOne" { Operation::FindOne(find) } else { Operation::Find(find) });
    }
    if let Some(definition) = step.insert_one.as_ref().or(step.insert_many.as_ref()) {
        return insert(builder, resolve, definition, kind == "insertMany").map(Operation::Insert);
    }
    for (definition, kind) in [
        (&step.update_one, UpdateKind::One),
        (&step.update_many, UpdateKind::Many),
        (&step.replace_one, UpdateKind::Replace),
    ] {
        if let Some(definition) = definition {
            return update(builder, resolve, definition, kind).map(Operation::Update);
        }
    }
    if let Some(definition) = step.delete_one.as_ref().or(step.delete_many.as_ref()) {
        return delete(builder, resolve, definition, kind == "deleteMany").map(Operation::Delete);
    }
    if let Some(definition) = &step.aggregate {
        return aggregate(builder, resolve, definition).map(Operation::Aggregate);
    }
    if let Some(definition) = &step.command {
        let command = builder.document(&definition.command, "command")?;
        return Ok(Operation::Command { database: definition.database.clone(), command });
    }
    if let Some(definition) = &step.connect {
        let keep = Duration::try_from_secs_f64(definition.keep_seconds);
        let keep = keep.map_err(|error| LabError::Scenario(format!("keep_seconds: {error}")))?;
        return Ok(Operation::Connect { keep });
    }
    if let Some(definition) = &step.pause {
        let seconds = builder.number(definition.seconds.as_ref(), 1.0, "seconds")?;
        return Ok(Operation::Pause { length: Duration::from_secs_f64(seconds) });
    }
    transaction(builder, resolve, step)
}

fn transaction(builder: &mut Builder<'_>, resolve: Resolve<'_>, step: &StepDefinition) -> Result<Operation, LabError> {
    let Some(definition) = &step.transaction else {
        return Err(LabError::Scenario("an operation without a definition".to_owned()));
    };
    let mut steps = Vec::new();
    for inner in &definition.steps {
        let step = Step::build(builder, resolve, inner)?;
        match &step.operation {
            Operation::Find(_)
            | Operation::Aggregate(_)
            | Operation::Transaction(_)
            | Operation::Connect { .. }
            | Operation::Pause { .. } => {
                return Err(LabError::Scenario(format!("{} cannot be part of a transaction", step.name)));
            }
            _ => steps.push(step.operation),
        }
    }
    if steps.is_empty() {
        return Err(LabError::Scenario("`steps` is empty".to_owned()));
    }
    let repeat = builder.count(definition.repeat.as_ref(), 1, "repeat")?;
    Ok(Operation::Transaction(TransactionOperation { repeat, steps }))
}

fn collection(resolve: Resolve<'_>, name: &str) -> Result<Arc<PlannedCollection>, LabError> {
    if name.is_empty() {
        return Err(LabError::Scenario("`collection` is missing".to_owned()));
    }
    Ok(resolve(name))
}

fn optional(builder: &mut Builder<'_>, node: Option<&Node>, what: &str) -> Result<Option<Template>, LabError> {
    node.map(|node| builder.document(node, what)).transpose()
}

fn expected(builder: &mut Builder<'_>, node: Option<&Node>) -> Result<Option<u64>, LabError> {
    node.map(|node| builder.count(Some(node), 0, "expect")).transpose()
}

fn find(
    builder: &mut Builder<'_>,
    resolve: Resolve<'_>,
    definition: &FindDefinition,
) -> Result<FindOperation, LabError> {
    let count = |builder: &mut Builder<'_>, node: &Option<Node>, what: &str| match node {
        Some(node) => builder.count(Some(node), 0, what).map(Some),
        None => Ok(None),
    };
    Ok(FindOperation {
        collection: collection(resolve, &definition.collection)?,
        filter: builder.document(&definition.filter, "filter")?,
        projection: optional(builder, definition.projection.as_ref(), "projection")?,
        sort: optional(builder, definition.sort.as_ref(), "sort")?,
        limit: count(builder, &definition.limit, "limit")?.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        batch_size: count(builder, &definition.batch_size, "batch_size")?
            .map(|size| u32::try_from(size).unwrap_or(u32::MAX)),
        expect: expected(builder, definition.expect.as_ref())?,
    })
}

fn insert(
    builder: &mut Builder<'_>,
    resolve: Resolve<'_>,
    definition: &InsertDefinition,
    many: bool,
) -> Result<InsertOperation, LabError> {
    let collection = collection(resolve, &definition.collection)?;
    let document = match &definition.document {
        Some(node) => builder.document(node, "document")?,
        None => {
            let own = collection.document.clone();
            own.ok_or_else(|| LabError::Scenario("`document` is missing, and the collection has none".to_owned()))?
        }
    };
    if !many && definition.documents.is_some() {
        return Err(LabError::Scenario("`documents` belongs to insertMany".to_owned()));
    }
    let documents = builder.count(definition.documents.as_ref(), 1, "documents")?;
    if !(1..=INSERT_MAX).contains(&documents) {
        return Err(LabError::Scenario(format!("documents: must lie between 1 and {INSERT_MAX}")));
    }
    Ok(InsertOperation { collection, document, documents, many, ordered: definition.ordered.unwrap_or(true) })
}

fn update(
    builder: &mut Builder<'_>,
    resolve: Resolve<'_>,
    definition: &UpdateDefinition,
    kind: UpdateKind,
) -> Result<UpdateOperation, LabError> {
    let update = match (&definition.update, kind) {
        (Node::Sequence(_), UpdateKind::One | UpdateKind::Many) => builder.value(&definition.update)?,
        (node, _) => builder.document(node, "update")?,
    };
    Ok(UpdateOperation {
        collection: collection(resolve, &definition.collection)?,
        filter: builder.document(&definition.filter, "filter")?,
        update,
        kind,
        upsert: definition.upsert,
        expect: expected(builder, definition.expect.as_ref())?,
    })
}

fn delete(
    builder: &mut Builder<'_>,
    resolve: Resolve<'_>,
    definition: &DeleteDefinition,
    many: bool,
) -> Result<DeleteOperation, LabError> {
    Ok(DeleteOperation {
        collection: collection(resolve, &definition.collection)?,
        filter: builder.document(&definition.filter, "filter")?,
        many,
        expect: expected(builder, definition.expect.as_ref())?,
    })
}

fn aggregate(
    builder: &mut Builder<'_>,
    resolve: Resolve<'_>,
    definition: &AggregateDefinition,
) -> Result<AggregateOperation, LabError> {
    let stages = definition.pipeline.iter().map(|stage| builder.document(stage, "pipeline"));
    Ok(AggregateOperation {
        collection: collection(resolve, &definition.collection)?,
        pipeline: stages.collect::<Result<_, _>>()?,
        allow_disk_use: definition.allow_disk_use,
        expect: expected(builder, definition.expect.as_ref())?,
    })
}
