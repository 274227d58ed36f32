//! What a scenario file may say, field by field. Unknown fields are refused with the line they stand on.
//!
//! Built from YAML by `scenario`; `plan` turns it into what the runner runs. `docs/scenarios.md` is the manual of these
//! structures.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::node::Node;

/// A scenario file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    /// Letters, digits, `-` and `_`; names the result directory.
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    /// What `--set name=value` may change, with defaults.
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Node>,
    /// Database of all collections.
    #[serde(default)]
    pub(crate) database: Option<Node>,
    #[serde(default)]
    pub(crate) collections: BTreeMap<String, CollectionDefinition>,
    pub(crate) phases: Vec<PhaseDefinition>,
}

/// A collection that the scenario owns: dropped before the run, created and, by a `load`, filled.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CollectionDefinition {
    /// More than one: `name_0`, `name_1`, ...
    pub(crate) copies: Option<Node>,
    /// How many documents a load inserts into each copy.
    pub(crate) documents: Option<Node>,
    /// The shape of its documents.
    pub(crate) document: Option<Node>,
    pub(crate) indexes: Vec<IndexDefinition>,
    /// How many of the indexes to make; all when absent.
    pub(crate) indexes_used: Option<Node>,
    /// Options of `create`, such as `capped` and `size`.
    pub(crate) options: Option<Node>,
}

/// An index, made before the load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexDefinition {
    pub(crate) keys: Node,
    /// As `createIndexes` takes them: `unique`, `expireAfterSeconds`, ...
    #[serde(default)]
    pub(crate) options: Option<Node>,
}

/// One phase; phases run one after the other.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PhaseDefinition {
    pub(crate) name: String,
    /// Prepares the next phase and is not compared.
    pub(crate) preparation: bool,
    /// Collections to fill with their documents.
    pub(crate) load: Option<Vec<String>>,
    /// Documents of one insertMany of a load.
    pub(crate) batch: Option<Node>,
    /// Several kinds of clients at once; otherwise the fields below describe the only kind.
    pub(crate) groups: Vec<GroupDefinition>,
    pub(crate) threads: Option<Node>,
    pub(crate) seconds: Option<Node>,
    pub(crate) warm_up_seconds: Option<Node>,
    pub(crate) operations_total: Option<Node>,
    pub(crate) rounds: Option<Node>,
    pub(crate) rate: Option<Node>,
    pub(crate) arrival: Option<String>,
    pub(crate) think_seconds: Option<Node>,
    pub(crate) errors: Option<String>,
    pub(crate) mix: Vec<StepDefinition>,
}

/// One kind of clients of a phase.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GroupDefinition {
    pub(crate) name: String,
    /// Clients, each with one operation at a time.
    pub(crate) threads: Option<Node>,
    /// Starts this much after the phase.
    pub(crate) start_after_seconds: Option<Node>,
    /// Each client ends after so many operations of all clients.
    pub(crate) operations_total: Option<Node>,
    /// Each client goes so many times through the whole mix, in order.
    pub(crate) rounds: Option<Node>,
    /// Open loop: operations a second of all clients, whether or not earlier ones have ended.
    pub(crate) rate: Option<Node>,
    /// Of an open loop: `poisson` (default) or `even`.
    pub(crate) arrival: Option<String>,
    /// Closed loop: pause of a client between operations.
    pub(crate) think_seconds: Option<Node>,
    /// `stop` (default): the first failed operation ends the run. `count`: failures are counted.
    pub(crate) errors: Option<String>,
    pub(crate) mix: Vec<StepDefinition>,
}

/// One operation of a mix: exactly one of the operations, and how often.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StepDefinition {
    /// For reports; the operation's own name when absent.
    pub(crate) name: Option<String>,
    /// Share in the mix, against the other weights; 1 when absent.
    pub(crate) weight: Option<Node>,
    #[serde(rename = "findOne")]
    pub(crate) find_one: Option<FindDefinition>,
    pub(crate) find: Option<FindDefinition>,
    #[serde(rename = "insertOne")]
    pub(crate) insert_one: Option<InsertDefinition>,
    #[serde(rename = "insertMany")]
    pub(crate) insert_many: Option<InsertDefinition>,
    #[serde(rename = "updateOne")]
    pub(crate) update_one: Option<UpdateDefinition>,
    #[serde(rename = "updateMany")]
    pub(crate) update_many: Option<UpdateDefinition>,
    #[serde(rename = "replaceOne")]
    pub(crate) replace_one: Option<UpdateDefinition>,
    #[serde(rename = "deleteOne")]
    pub(crate) delete_one: Option<DeleteDefinition>,
    #[serde(rename = "deleteMany")]
    pub(crate) delete_many: Option<DeleteDefinition>,
    pub(crate) aggregate: Option<AggregateDefinition>,
    pub(crate) command: Option<CommandDefinition>,
    pub(crate) transaction: Option<TransactionDefinition>,
    pub(crate) connect: Option<ConnectDefinition>,
    pub(crate) pause: Option<PauseDefinition>,
}

/// `findOne` and `find`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FindDefinition {
    pub(crate) collection: String,
    pub(crate) filter: Node,
    pub(crate) projection: Option<Node>,
    pub(crate) sort: Option<Node>,
    pub(crate) limit: Option<Node>,
    /// Documents of one reply; all replies are read to the end.
    pub(crate) batch_size: Option<Node>,
    /// How many documents it must give; anything else ends the run.
    pub(crate) expect: Option<Node>,
}

/// `insertOne` and `insertMany`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InsertDefinition {
    pub(crate) collection: String,
    /// The collection's own shape when absent.
    pub(crate) document: Option<Node>,
    /// Of `insertMany`.
    pub(crate) documents: Option<Node>,
    /// Of `insertMany`: `true` when absent.
    pub(crate) ordered: Option<bool>,
}

/// `updateOne`, `updateMany`, `replaceOne`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UpdateDefinition {
    pub(crate) collection: String,
    pub(crate) filter: Node,
    /// Operators or a pipeline; of `replaceOne` the whole document.
    pub(crate) update: Node,
    pub(crate) upsert: bool,
    /// How many documents it must match.
    pub(crate) expect: Option<Node>,
}

/// `deleteOne` and `deleteMany`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DeleteDefinition {
    pub(crate) collection: String,
    pub(crate) filter: Node,
    pub(crate) expect: Option<Node>,
}

/// `aggregate`; all replies are read to the end.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AggregateDefinition {
    pub(crate) collection: String,
    pub(crate) pipeline: Vec<Node>,
    pub(crate) allow_disk_use: Option<bool>,
    pub(crate) expect: Option<Node>,
}

/// Any command.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CommandDefinition {
    pub(crate) database: Option<String>,
    pub(crate) command: Node,
}

/// Operations in a transaction, committed at the end; a conflict is tried again, as the driver's convenient API does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TransactionDefinition {
    /// How often the steps are repeated inside the transaction.
    pub(crate) repeat: Option<Node>,
    pub(crate) steps: Vec<StepDefinition>,
}

/// A new client: connects, sends `ping`, and goes.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConnectDefinition {
    /// How long the connection is kept.
    pub(crate) keep_seconds: f64,
}

/// Waiting.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PauseDefinition {
    pub(crate) seconds: Option<Node>,
}
