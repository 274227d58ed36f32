//! The operations of a mix: what each sends through the official driver, and what its reply must say.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, ClientSession, Collection, Database};

use super::plan::PlannedCollection;
use super::template::{Moment, Template};
use crate::error::LabError;

mod build;
mod transaction;

pub(crate) use transaction::TransactionOperation;

/// One operation of a mix.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) weight: u64,
    pub(crate) operation: Operation,
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum Operation {
    FindOne(FindOperation),
    Find(FindOperation),
    Insert(InsertOperation),
    Update(UpdateOperation),
    Delete(DeleteOperation),
    Aggregate(AggregateOperation),
    Command { database: Option<String>, command: Template },
    Transaction(TransactionOperation),
    Connect { keep: Duration },
    Pause { length: Duration },
}

#[derive(Debug)]
pub(crate) struct FindOperation {
    collection: Arc<PlannedCollection>,
    filter: Template,
    projection: Option<Template>,
    sort: Option<Template>,
    limit: Option<i64>,
    batch_size: Option<u32>,
    expect: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct InsertOperation {
    collection: Arc<PlannedCollection>,
    document: Template,
    documents: u64,
    many: bool,
    ordered: bool,
}

#[derive(Debug)]
pub(crate) struct UpdateOperation {
    collection: Arc<PlannedCollection>,
    filter: Template,
    update: Template,
    kind: UpdateKind,
    upsert: bool,
    expect: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpdateKind {
    One,
    Many,
    Replace,
}

#[derive(Debug)]
pub(crate) struct DeleteOperation {
    collection: Arc<PlannedCollection>,
    filter: Template,
    many: bool,
    expect: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct AggregateOperation {
    collection: Arc<PlannedCollection>,
    pipeline: Vec<Template>,
    allow_disk_use: Option<bool>,
    expect: Option<u64>,
}

/// What operations are sent with.
pub(crate) struct Sender<'c> {
    pub(crate) client: &'c Client,
    pub(crate) database: &'c Database,
    /// For new clients.
    pub(crate) options: &'c ClientOptions,
}

/// What an operation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Documents read or changed.
    pub(crate) documents: u64,
}

impl Sender<'_> {
    fn collection(&self, planned: &PlannedCollection, moment: &Moment<'_>) -> Collection<Document> {
        self.database.collection(collection_name(planned, moment))
    }
}

/// The copy that a thread works on.
fn collection_name<'p>(planned: &'p PlannedCollection, moment: &Moment<'_>) -> &'p str {
    let copy = moment.copy as usize % planned.names.len().max(1);
    planned.names.get(copy).map_or("", String::as_str)
}

impl Operation {
    /// How many copies the collection has that it works on.
    pub(crate) fn copies(&self) -> usize {
        match self {
            Self::FindOne(find) | Self::Find(find) => find.collection.names.len(),
            Self::Insert(insert) => insert.collection.names.len(),
            Self::Update(update) => update.collection.names.len(),
            Self::Delete(delete) => delete.collection.names.len(),
            Self::Aggregate(aggregate) => aggregate.collection.names.len(),
            Self::Transaction(transaction) => transaction.steps.iter().map(Self::copies).max().unwrap_or(1),
            Self::Command { .. } | Self::Connect { .. } | Self::Pause { .. } => 1,
        }
    }

    /// Sends it once.
    ///
    /// # Errors
    /// The driver's, or a reply that is not what the scenario expects.
    pub(crate) async fn execute(&self, sender: &Sender<'_>, moment: &mut Moment<'_>) -> Result<Done, LabError> {
        match self {
            Self::Find(find) => find.all(sender, moment).await,
            Self::Aggregate(aggregate) => aggregate.all(sender, moment).await,
            Self::Transaction(transaction) => transaction.execute(sender, moment).await,
            Self::Connect { keep } => connect(sender, *keep).await,
            Self::Pause { length } => {
                tokio::time::sleep(*length).await;
                Ok(Done::default())
            }
            _ => self.execute_in(sender, moment, None).await,
        }
    }

    /// Sends one of those that can be part of a transaction.
    async fn execute_in(
        &self,
        sender: &Sender<'_>,
        moment: &mut Moment<'_>,
        session: Option<&mut ClientSession>,
    ) -> Result<Done, LabError> {
        match self {
            Self::FindOne(find) => find.one(sender, moment, session).await,
            Self::Insert(insert) => insert.execute(sender, moment, session).await,
            Self::Update(update) => update.execute(sender, moment, session).await,
            Self::Delete(delete) => delete.execute(sender, moment, session).await,
            Self::Command { database, command } => {
                let command = command.make_document(moment);
                let name = command.keys().next().cloned().unwrap_or_default();
                let database = database.as_ref().map(|name| sender.client.database(name));
                run(database.as_ref().unwrap_or(sender.database), command, session, &name).await?;
                Ok(Done::default())
            }
            Self::Find(_) | Self::Aggregate(_) | Self::Transaction(_) | Self::Connect { .. } | Self::Pause { .. } => {
                Err(LabError::Scenario("cannot be part of a transaction".to_owned()))
            }
        }
    }
}

async fn run(
    database: &Database,
    command: Document,
    session: Option<&mut ClientSession>,
    name: &str,
) -> Result<Document, LabError> {
    let action = database.run_command(command);
    let reply = match session {
        Some(session) => action.session(session).await,
        None => action.await,
    };
    reply.map_err(LabError::command(name))
}

fn check(expect: Option<u64>, found: u64, what: &str) -> Result<(), LabError> {
    match expect {
        Some(expected) if expected != found => {
            Err(LabError::WrongReply(format!("{what}: {found} documents where the scenario expects {expected}")))
        }
        _ => Ok(()),
    }
}

impl FindOperation {
    /// One document by the plain command: the driver's cursor would cost a quarter of the client's time.
    async fn one(
        &self,
        sender: &Sender<'_>,
        moment: &mut Moment<'_>,
        session: Option<&mut ClientSession>,
    ) -> Result<Done, LabError> {
        let mut command = doc! {
            "find": collection_name(&self.collection, moment), "filter": self.filter.make_document(moment),
            "limit": 1, "singleBatch": true,
        };
        if let Some(projection) = &self.projection {
            command.insert("projection", projection.make(moment));
        }
        if let Some(sort) = &self.sort {
            command.insert("sort", sort.make(moment));
        }
        let reply = run(sender.database, command, session, "findOne").await?;
        let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let found = batch.map(|batch| batch.len() as u64);
        let found = found.map_err(|error| LabError::WrongReply(format!("findOne: {error}")))?;
        check(self.expect, found, "findOne")?;
        Ok(Done { documents: found })
    }

    async fn all(&self, sender: &Sender<'_>, moment: &mut Moment<'_>) -> Result<Done, LabError> {
        let collection = sender.collection(&self.collection, moment);
        let mut action = collection.find(self.filter.make_document(moment));
        if let Some(projection) = &self.projection {
            action = action.projection(projection.make_document(moment));
        }
        if let Some(sort) = &self.sort {
            action = action.sort(sort.make_document(moment));
        }
        if let Some(limit) = self.limit {
            action = action.limit(limit);
        }
        if let Some(batch_size) = self.batch_size {
            action = action.batch_size(batch_size);
        }
        let mut cursor = action.await.map_err(LabError::command("find"))?;
        let mut documents = 0;
        while cursor.advance().await.map_err(LabError::command("getMore of find"))? {
            documents += 1;
        }
        check(self.expect, documents, "find")?;
        Ok(Done { documents })
    }
}

impl InsertOperation {
    async fn execute(
        &self,
        sender: &Sender<'_>,
        moment: &mut Moment<'_>,
        session: Option<&mut ClientSession>,
    ) -> Result<Done, LabError> {
        let collection = sender.collection(&self.collection, moment);
        if !self.many {
            let action = collection.insert_one(self.document.make_document(moment));
            let done = match session {
                Some(session) => action.session(session).await,
                None => action.await,
            };
            done.map_err(LabError::command("insertOne"))?;
            return Ok(Done { documents: 1 });
        }
        let documents: Vec<Document> = (0..self.documents).map(|_| self.document.make_document(moment)).collect();
        let action = collection.insert_many(&documents).ordered(self.ordered);
        let done = match session {
            Some(session) => action.session(session).await,
            None => action.await,
        };
        let inserted = done.map_err(LabError::command("insertMany"))?.inserted_ids.len() as u64;
        check(Some(self.documents), inserted, "insertMany")?;
        Ok(Done { documents: inserted })
    }
}

impl UpdateOperation {
    async fn execute(
        &self,
        sender: &Sender<'_>,
        moment: &mut Moment<'_>,
        session: Option<&mut ClientSession>,
    ) -> Result<Done, LabError> {
        let collection = sender.collection(&self.collection, moment);
        let filter = self.filter.make_document(moment);
        let (done, name) = match self.kind {
            UpdateKind::Replace => {
                let mut action = collection.replace_one(filter, self.update.make_document(moment)).upsert(self.upsert);
                if let Some(session) = session {
                    action = action.session(session);
                }
                (action.await, "replaceOne")
            }
            kind => {
                let update = modifications(self.update.make(moment));
                let (mut action, name) = match kind {
                    UpdateKind::One => (collection.update_one(filter, update), "updateOne"),
                    _ => (collection.update_many(filter, update), "updateMany"),
                };
                action = action.upsert(self.upsert);
                if let Some(session) = session {
                    action = action.session(session);
                }
                (action.await, name)
            }
        };
        let done = done.map_err(LabError::command(name))?;
        check(self.expect, done.matched_count, name)?;
        Ok(Done { documents: done.modified_count + u64::from(done.upserted_id.is_some()) })
    }
}

fn modifications(update: Bson) -> mongodb::options::UpdateModifications {
    match update {
        Bson::Array(stages) => {
            let documents = stages.into_iter().filter_map(|stage| match stage {
                Bson::Document(stage) => Some(stage),
                _ => None,
            });
            mongodb::options::UpdateModifications::Pipeline(documents.collect())
        }
        Bson::Document(update) => update.into(),
        _ => Document::new().into(),
    }
}

impl DeleteOperation {
    async fn execute(
        &self,
        sender: &Sender<'_>,
        moment: &mut Moment<'_>,
        session: Option<&mut ClientSession>,
    ) -> Result<Done, LabError> {
        let collection = sender.collection(&self.collection, moment);
        let filter = self.filter.make_document(moment);
        let (mut action, name) = match self.many {
            true => (collection.delete_many(filter), "deleteMany"),
            false => (collection.delete_one(filter), "deleteOne"),
        };
        if let Some(session) = session {
            action = action.session(session);
        }
        let done = action.await.map_err(LabError::command(name))?;
        check(self.expect, done.deleted_count, name)?;
        Ok(Done { documents: done.deleted_count })
    }
}

impl AggregateOperation {
    async fn all(&self, sender: &Sender<'_>, moment: &mut Moment<'_>) -> Result<Done, LabError> {
        let collection = sender.collection(&self.collection, moment);
        let pipeline: Vec<Document> = self.pipeline.iter().map(|stage| stage.make_document(moment)).collect();
        let mut action = collection.aggregate(pipeline);
        if let Some(allowed) = self.allow_disk_use {
            action = action.allow_disk_use(allowed);
        }
        let mut cursor = action.await.map_err(LabError::command("aggregate"))?;
        let mut documents = 0;
        while cursor.advance().await.map_err(LabError::command("getMore of aggregate"))? {
            documents += 1;
        }
        check(self.expect, documents, "aggregate")?;
        Ok(Done { documents })
    }
}

/// A client of its own that connects, pings, stays a while, and goes.
async fn connect(sender: &Sender<'_>, keep: Duration) -> Result<Done, LabError> {
    let mut options = sender.options.clone();
    options.max_pool_size = Some(1);
    let client = Client::with_options(options).map_err(LabError::command("connect"))?;
    let database = client.database("admin");
    let pinged = database.run_command(doc! { "ping": 1 }).await;
    pinged.map_err(LabError::command("connect and ping"))?;
    tokio::time::sleep(keep).await;
    client.shutdown().immediate(true).await;
    Ok(Done::default())
}
