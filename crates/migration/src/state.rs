//! How far a copy is, in a file: the same command goes on where it was ended, whatever ended it.
//!
//! Written every few seconds behind another name, so that there is always a whole one. Documents that were inserted after the last writing are
//! inserted again and found to be there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bson::{Bson, Document, doc};

use crate::error::CopyError;
use crate::ranges::Part;

/// What is done of a part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartState {
    pub(crate) part: Part,
    /// All up to this `_id` have been inserted.
    pub(crate) last: Option<Bson>,
    pub(crate) is_done: bool,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(crate) struct State {
    path: PathBuf,
    /// Source and target without their secrets: another copy has another file.
    between: String,
    /// When the copy began, in the source's time: what is followed later begins here.
    pub(crate) began: Option<bson::Timestamp>,
    /// The collections by their names.
    pub(crate) collections: BTreeMap<String, Vec<PartState>>,
    /// Whether this is the going on of an earlier one.
    pub(crate) is_resumed: bool,
}

impl State {
    /// Reads the file, or begins.
    pub(crate) fn open(path: &Path, between: String) -> Result<Self, CopyError> {
        let wrong = |reason: String| CopyError::State { path: path.to_owned(), reason };
        let empty = |is_resumed| Self {
            path: path.to_owned(),
            between: between.clone(),
            began: None,
            collections: BTreeMap::new(),
            is_resumed,
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(empty(false)),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| wrong(format!("is no state of a copy: {error}")))?;
        let Ok(Bson::Document(stored)) = Bson::try_from(json) else {
            return Err(wrong("is no state of a copy".to_owned()));
        };
        if stored.get_str("between").ok() != Some(between.as_str()) {
            let other = stored.get_str("between").unwrap_or("something else");
            return Err(wrong(format!("is of a copy from {other}; --state names another file for this one")));
        }
        let mut state = empty(true);
        state.began = stored.get_timestamp("began").ok();
        for (namespace, parts) in stored.get_document("collections").ok().into_iter().flatten() {
            let parts = parts.as_array().into_iter().flatten().filter_map(Bson::as_document).map(part_of);
            state.collections.insert(namespace.clone(), parts.collect());
        }
        Ok(state)
    }

    /// Writes the file.
    pub(crate) fn save(&self) -> Result<(), CopyError> {
        let mut collections = Document::new();
        for (namespace, parts) in &self.collections {
            collections.insert(namespace, parts.iter().map(document_of).collect::<Vec<_>>());
        }
        let mut stored = doc! { "between": &self.between, "collections": collections };
        if let Some(began) = self.began {
            stored.insert("began", began);
        }
        let new = self.path.with_extension("new");
        let text = format!("{}\n", Bson::Document(stored).into_canonical_extjson());
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &self.path))
            .map_err(|error| CopyError::State { path: self.path.clone(), reason: error.to_string() })
    }

    /// The copy is complete: the file goes.
    pub(crate) fn remove(&self) -> Result<(), CopyError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(CopyError::State { path: self.path.clone(), reason: error.to_string() })
            }
            _ => Ok(()),
        }
    }
}

fn document_of(state: &PartState) -> Document {
    let mut stored = doc! { "isDone": state.is_done };
    for (name, value) in [("from", &state.part.from), ("to", &state.part.to), ("last", &state.last)] {
        if let Some(value) = value {
            stored.insert(name, value.clone());
        }
    }
    stored
}

fn part_of(stored: &Document) -> PartState {
    let value = |name: &str| stored.get(name).cloned();
    PartState {
        part: Part { from: value("from"), to: value("to") },
        last: value("last"),
        is_done: stored.get_bool("isDone").unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_comes_back_with_its_types() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy.state");
        let mut state = State::open(&path, "a to b".to_owned()).unwrap();
        assert!(!state.is_resumed);
        let part = PartState {
            part: Part { from: Some(Bson::Int64(5)), to: Some(Bson::ObjectId(bson::oid::ObjectId::new())) },
            last: Some(Bson::Int32(7)),
            is_done: false,
        };
        state.began = Some(bson::Timestamp { time: 9, increment: 2 });
        state.collections.insert("shop.orders".to_owned(), vec![part.clone()]);
        state.save().unwrap();
        let again = State::open(&path, "a to b".to_owned()).unwrap();
        assert!(again.is_resumed);
        assert_eq!((again.began, &again.collections["shop.orders"]), (state.began, &vec![part]));
        let other = State::open(&path, "a to c".to_owned()).unwrap_err().to_string();
        assert!(other.contains("is of a copy from a to b"), "{other}");
        again.remove().unwrap();
        again.remove().unwrap();
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "milk, bread").unwrap();
        assert!(State::open(&path, String::new()).unwrap_err().to_string().contains("is no state of a copy"));
    }
}
