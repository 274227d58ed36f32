//! RETURN_KEY: index keys instead of documents; empty documents where no index was used.

use bson::{RawDocument, RawDocumentBuf};
use collection::RecordId;
use index_key::decode_key;
use transaction::ReadView;

use crate::error::Result;
use crate::stage::{BoxedStage, Context, PlanStage, Step};
use crate::statistics::StageStatistics;

pub(crate) struct ReturnKey {
    input: BoxedStage,
    key: RawDocumentBuf,
    statistics: StageStatistics,
}

impl ReturnKey {
    pub(crate) fn new(input: BoxedStage) -> ReturnKey {
        ReturnKey { input, key: RawDocumentBuf::new(), statistics: StageStatistics::default() }
    }
}

impl PlanStage for ReturnKey {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.statistics.works += 1;
        let step = self.input.next(context)?;
        if step == Step::Advanced {
            self.statistics.advanced += 1;
            self.key = match self.input.key()? {
                Some(entry) => decode_key(entry.pattern, entry.key, entry.type_bits)?,
                None => RawDocumentBuf::new(),
            };
        }
        self.statistics.is_at_end |= step == Step::End;
        Ok(step)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(&self.key)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.input.record_id()
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.input.reseat(view)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        vec![&*self.input]
    }
}
