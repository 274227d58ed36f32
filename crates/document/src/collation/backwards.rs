//! The option `backwards`, which ICU4X has only as a property of a locale: accents are compared from the end of the
//! text.
//!
//! The property is a bit of the locale's metadata, so the data is asked for as always and that bit is set or cleared.
//! The layout of that data may change with a minor version, which is why the manifest pins one; a test compares texts.

use icu_collator::options::CollatorOptions;
use icu_collator::provider::{
    Baked, CollationDiacriticsV1, CollationJamoV1, CollationMetadata, CollationMetadataV1, CollationReorderingV1,
    CollationRootV1, CollationSpecialPrimariesV1, CollationTailoringV1,
};
use icu_collator::{Collator, CollatorPreferences};
use icu_normalizer::provider::{Baked as NormalizerBaked, NormalizerNfdDataV1, NormalizerNfdTablesV1};
use icu_provider::{DataError, DataPayload, DataProvider, DataRequest, DataResponse};

/// The bit of a locale's metadata.
const BACKWARDS_BIT: u32 = 1 << 7;

/// A collator with the direction of the secondary level given.
pub(super) fn collator_with_direction(
    preferences: CollatorPreferences,
    options: CollatorOptions,
    backwards: bool,
) -> Result<Collator, DataError> {
    Collator::try_new_unstable(&Changed { backwards }, preferences, options)
}

/// The compiled data with another direction.
struct Changed {
    backwards: bool,
}

impl DataProvider<CollationMetadataV1> for Changed {
    fn load(&self, request: DataRequest) -> Result<DataResponse<CollationMetadataV1>, DataError> {
        let response: DataResponse<CollationMetadataV1> = Baked.load(request)?;
        let bits = response.payload.get().bits & !BACKWARDS_BIT;
        let bits = if self.backwards { bits | BACKWARDS_BIT } else { bits };
        let payload = DataPayload::from_owned(CollationMetadata { bits });
        Ok(DataResponse { metadata: response.metadata, payload })
    }
}

macro_rules! unchanged {
    ($provider:expr; $($marker:ty),*) => {$(
        impl DataProvider<$marker> for Changed {
            fn load(&self, request: DataRequest) -> Result<DataResponse<$marker>, DataError> {
                $provider.load(request)
            }
        }
    )*};
}

unchanged!(Baked; CollationDiacriticsV1, CollationJamoV1, CollationReorderingV1, CollationRootV1);
unchanged!(Baked; CollationSpecialPrimariesV1, CollationTailoringV1);
unchanged!(NormalizerBaked; NormalizerNfdDataV1, NormalizerNfdTablesV1);
