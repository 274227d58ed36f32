//! Variables: the command's (`let`, `NOW`, `CLUSTER_TIME`) and those that expressions bind (`$let`, `$map`...).
//!
//! Names become slots when an expression is parsed (`ParseContext`); evaluation looks a slot up, first in the
//! command's `Variables`, then in the chain of `Scope`s that the binding operators put on the stack.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{DateTime, Timestamp};

use super::field_path::FieldPath;
use super::limits::CONSTANT_GROWTH_MAX;
use super::metadata::Metadata;
use super::value::Value;
use crate::error::{ErrorKind, QueryError, Result};
use crate::rows::Row;

/// The variables of one command: its clock readings, its `let`, and the state of `$rand`.
///
/// `now` is read once a command so that `$$NOW` is the same everywhere in it.
#[derive(Debug)]
pub struct Variables {
    now: DateTime,
    cluster_time: Option<Timestamp>,
    defined: Vec<(String, Option<RawBson>)>,
    /// Their positions by name.
    slots: Arc<HashMap<String, usize>>,
    growth: Growth,
    random_state: AtomicU64,
}

impl Variables {
    /// Variables of a command that started at `now`; `random_seed` feeds `$rand` and `$sample`.
    pub fn new(now: DateTime, cluster_time: Option<Timestamp>, random_seed: u64) -> Self {
        let random_state = AtomicU64::new(random_seed);
        Self { now, cluster_time, defined: Vec::new(), slots: no_names(), growth: Growth::default(), random_state }
    }

    /// Adds a user variable (a field of the command's `let`); `None` is a missing value. Returns an error when the
    /// name is not one a user may define.
    pub fn define(&mut self, name: &str, value: Option<RawBson>) -> Result<()> {
        check_user_variable_name(name)?;
        match self.slots.get(name).and_then(|slot| self.defined.get_mut(*slot)) {
            Some((_, defined)) => *defined = value,
            None => {
                Arc::make_mut(&mut self.slots).insert(name.to_owned(), self.defined.len());
                self.defined.push((name.to_owned(), value));
            }
        }
        Ok(())
    }

    /// `$$NOW`.
    pub fn now(&self) -> DateTime {
        self.now
    }

    /// `$$CLUSTER_TIME`.
    pub fn cluster_time(&self) -> Option<Timestamp> {
        self.cluster_time
    }

    /// The user variables in slot order.
    pub fn defined(&self) -> impl Iterator<Item = (&str, Option<RawBsonRef<'_>>)> {
        self.defined.iter().map(|(name, value)| (name.as_str(), value.as_ref().map(RawBson::as_raw_bson_ref)))
    }

    /// The user variable in `slot`; `None` when the slot belongs to a scope.
    pub(crate) fn slot(&self, slot: usize) -> Option<Option<RawBsonRef<'_>>> {
        self.defined.get(slot).map(|(_, value)| value.as_ref().map(RawBson::as_raw_bson_ref))
    }

    /// The next 64 random bits (splitmix64), for `$rand` and `$sample`.
    pub fn next_random(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.random_state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl Clone for Variables {
    fn clone(&self) -> Self {
        Self {
            now: self.now,
            cluster_time: self.cluster_time,
            defined: self.defined.clone(),
            slots: Arc::clone(&self.slots),
            growth: Growth(Arc::new(AtomicUsize::new(self.growth.0.load(Ordering::Relaxed)))),
            random_state: AtomicU64::new(self.next_random()),
        }
    }
}

/// The names that an expression may refer to.
///
/// Parse with the context of the same `Variables` that evaluation will be given: slots are positions, first those of the command's
/// variables, then those of the operators around the expression. Names are found by tables, one for each operator that binds some.
#[derive(Debug, Clone)]
pub struct ParseContext {
    names: Arc<HashMap<String, usize>>,
    bound: Option<Arc<BoundNames>>,
    /// Slots taken, bound ones included.
    len: usize,
    growth: Growth,
}

/// The bytes by which the constants of a command's expressions are longer than what was said.
#[derive(Debug, Clone, Default)]
struct Growth(Arc<AtomicUsize>);

impl Default for ParseContext {
    fn default() -> Self {
        Self::new()
    }
}

/// A table without names, shared so that it costs nothing where there are none.
fn no_names() -> Arc<HashMap<String, usize>> {
    static EMPTY: LazyLock<Arc<HashMap<String, usize>>> = LazyLock::new(Arc::default);
    Arc::clone(&EMPTY)
}

/// The names that one operator binds, and those around it.
#[derive(Debug)]
struct BoundNames {
    parent: Option<Arc<BoundNames>>,
    names: HashMap<String, usize>,
}

impl ParseContext {
    /// No user variables.
    pub fn new() -> Self {
        Self { names: no_names(), bound: None, len: 0, growth: Growth::default() }
    }

    /// The variables of a command.
    pub fn for_variables(variables: &Variables) -> Self {
        let growth = variables.growth.clone();
        Self { names: Arc::clone(&variables.slots), bound: None, len: variables.defined.len(), growth }
    }

    /// This context and more names, in the slots from the one returned on. The names have been checked; of equal ones the last counts.
    pub(crate) fn bind<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> (ParseContext, usize) {
        let mut len = self.len;
        let mut bound = HashMap::new();
        for name in names {
            bound.insert(name.to_owned(), len);
            len += 1;
        }
        let bound = Some(Arc::new(BoundNames { parent: self.bound.clone(), names: bound }));
        (ParseContext { names: Arc::clone(&self.names), bound, len, growth: self.growth.clone() }, self.len)
    }

    /// Whether a constant may take the place of what was said though it is longer by so many bytes; they are then counted.
    pub(crate) fn may_grow(&self, bytes: usize) -> bool {
        let Growth(grown) = &self.growth;
        let after = |before: usize| before.checked_add(bytes).filter(|after| *after <= CONSTANT_GROWTH_MAX);
        bytes == 0 || grown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).is_ok()
    }

    /// The slot of a user variable, innermost first.
    pub(crate) fn slot_of(&self, name: &str) -> Option<usize> {
        let mut around = self.bound.as_deref();
        while let Some(bound) = around {
            if let Some(slot) = bound.names.get(name) {
                return Some(*slot);
            }
            around = bound.parent.as_deref();
        }
        self.names.get(name).copied()
    }
}

/// The variables bound by one operator, on the stack of the operator's evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) parent: Option<&'a Scope<'a>>,
    /// The slot of the first.
    pub(crate) slot: usize,
    pub(crate) values: &'a [Option<RawBsonRef<'a>>],
}

static EMPTY: LazyLock<RawDocumentBuf> = LazyLock::new(RawDocumentBuf::new);

/// Where fields are found.
#[derive(Debug, Clone, Copy)]
enum Root<'a> {
    Document(&'a RawDocument),
    Row(Row<'a>),
}

/// What an expression is evaluated against.
#[derive(Debug, Clone, Copy)]
pub struct EvaluationContext<'a> {
    root: Root<'a>,
    variables: &'a Variables,
    scope: Option<&'a Scope<'a>>,
    metadata: Option<&'a Metadata>,
}

impl<'a> EvaluationContext<'a> {
    /// Evaluation of a document (`$$ROOT`) with the variables of a command.
    pub fn new(root: &'a RawDocument, variables: &'a Variables) -> Self {
        Self { root: Root::Document(root), variables, scope: None, metadata: None }
    }

    /// Evaluation of a row, for expressions that read no more of a document than fields that the row has.
    pub(crate) fn of_row(row: Row<'a>, variables: &'a Variables) -> Self {
        Self { root: Root::Row(row), variables, scope: None, metadata: None }
    }

    /// The same, of a document of which this is known.
    #[must_use]
    pub fn with_metadata(self, metadata: &'a Metadata) -> Self {
        Self { metadata: Some(metadata), ..self }
    }

    pub(crate) fn metadata(&self) -> Option<&'a Metadata> {
        self.metadata
    }

    /// `$$ROOT`. A row has none: who reads whole documents is not given rows.
    pub fn root(&self) -> &'a RawDocument {
        match self.root {
            Root::Document(document) => document,
            Root::Row(_) => &EMPTY,
        }
    }

    /// What the document has at a path.
    pub(crate) fn field(&self, path: &FieldPath) -> Result<Value<'a>> {
        match self.root {
            Root::Document(document) => path.evaluate(document),
            Root::Row(row) => path.evaluate_in_row(row),
        }
    }

    /// The command's variables.
    pub fn variables(&self) -> &'a Variables {
        self.variables
    }

    /// The same with one more variable bound.
    pub(crate) fn with_scope(&self, scope: &'a Scope<'a>) -> Self {
        Self { scope: Some(scope), ..*self }
    }

    /// The innermost binding, to chain a `Scope` to.
    pub(crate) fn scope(&self) -> Option<&'a Scope<'a>> {
        self.scope
    }

    /// The value of the variable in `slot`, `None` when it is missing.
    pub(crate) fn lookup(&self, slot: usize) -> Option<RawBsonRef<'a>> {
        if let Some(value) = self.variables.slot(slot) {
            return value;
        }
        let mut scope = self.scope;
        while let Some(bound) = scope {
            if let Some(value) = slot.checked_sub(bound.slot).and_then(|position| bound.values.get(position)) {
                return *value;
            }
            scope = bound.parent;
        }
        None
    }
}

/// Refuses a name that is not the user's to define: it must begin with a lower-case letter or a non-ASCII character
/// and go on with letters, digits, `_` or non-ASCII characters.
pub(crate) fn check_user_variable_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(QueryError::new(ErrorKind::FailedToParse, "empty variable names are not allowed"));
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        let message = format!("'{name}' starts with an invalid character for a user variable name");
        return Err(QueryError::new(ErrorKind::FailedToParse, message));
    }
    check_variable_characters(name, "user variable name")
}

/// Refuses characters that no variable name may contain.
pub(crate) fn check_variable_characters(name: &str, what: &str) -> Result<()> {
    match name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_') {
        None => Ok(()),
        Some(bad) => {
            let message = format!("'{name}' contains an invalid character for a {what}: '{bad}'");
            Err(QueryError::new(ErrorKind::FailedToParse, message))
        }
    }
}
