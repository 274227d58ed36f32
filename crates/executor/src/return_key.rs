//! RETURN_KEY: index keys instead of documents; empty documents where no index was used.

use bson::{RawDocument, RawDocumentBuf};
use index_key::decode_key;

use crate::error::Result;
use crate::stage::{BoxedStage, Context, KeyEntry, PlanStage, Step};
use crate::statistics::StageStatistics;

/// What the input is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputYields {
    /// An entry of an index, or a document without one.
    Entries,
    /// The key instead of its document: a sort has come in between.
    Keys,
}

/// The key of the index entry that a stage is on; empty when it is on none.
pub(crate) fn key_document(stage: &mut dyn PlanStage) -> Result<RawDocumentBuf> {
    match stage.key()? {
        Some(entry) => Ok(decode_key(entry.pattern, entry.key, entry.type_bits)?),
        None => Ok(RawDocumentBuf::new()),
    }
}

pub(crate) struct ReturnKey {
    input: BoxedStage,
    comes_as: InputYields,
    key: RawDocumentBuf,
    statistics: StageStatistics,
}

impl ReturnKey {
    pub(crate) fn new(input: BoxedStage, comes_as: InputYields) -> ReturnKey {
        ReturnKey { input, comes_as, key: RawDocumentBuf::new(), statistics: StageStatistics::default() }
    }
}

impl PlanStage for ReturnKey {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.statistics.works += 1;
        let step = self.input.next(context)?;
        if step == Step::Advanced {
            self.statistics.advanced += 1;
            self.key = match self.comes_as {
                InputYields::Entries => key_document(&mut *self.input)?,
                InputYields::Keys => self.input.document()?.to_owned(),
            };
        }
        self.statistics.is_at_end |= step == Step::End;
        Ok(step)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(&self.key)
    }

    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        // The key has become the document.
        Ok(None)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn input(&self) -> Option<&dyn PlanStage> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanStage> {
        Some(&mut *self.input)
    }
}
