//! The options of 2dsphere and 2d indexes.
//!
//! ```text
//! 2dsphere   2dsphereIndexVersion 2 or 3, coarsestIndexedLevel and finestIndexedLevel 0 to 30
//! 2d         bits 1 to 32, min and max
//! ```
//!
//! Source: the manual's pages on these indexes. Called by `index_specification` for each option, and once all are read.

use bson::raw::{CStr, cstr};
use bson::{RawBsonRef, RawDocumentBuf};
use document::Number;
use geometry::{CellLevels, Grid, LEVEL_MAX};
use index_key::{FieldKind, KeyPattern, PlaceCells};

use crate::error::{CollectionError, Result};
use crate::options::wrong_type;

/// The version of 2dsphere indexes that is made when none is asked for.
const SPHERE_VERSION: i32 = 3;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PlaceOptions {
    version: Option<i32>,
    coarsest: Option<i32>,
    finest: Option<i32>,
    bits: Option<i32>,
    min: Option<f64>,
    max: Option<f64>,
}

impl PlaceOptions {
    /// The options that there are.
    pub(super) const NAMES: [&str; 6] =
        ["2dsphereIndexVersion", "coarsestIndexedLevel", "finestIndexedLevel", "bits", "min", "max"];

    /// Reads one of them.
    ///
    /// # Errors
    /// `TypeMismatch` where no number is given; `CannotCreateIndex` where none that will do is.
    pub(super) fn set(&mut self, option: &str, value: RawBsonRef<'_>, pattern: &KeyPattern) -> Result<()> {
        let kind = if matches!(option, "bits" | "min" | "max") { FieldKind::Plane } else { FieldKind::Sphere };
        if !pattern.has_kind(kind) {
            let name = if kind == FieldKind::Plane { "2d" } else { "2dsphere" };
            return refused(format!("The field '{option}' is only allowed in a {name} index"));
        }
        let Some(number) = Number::from_bson(value) else { return Err(wrong_type(option, value, "number")) };
        let whole = number.to_i64_truncated().and_then(|whole| i32::try_from(whole).ok());
        match (option, whole) {
            ("min", _) => self.min = Some(number.to_f64()),
            ("max", _) => self.max = Some(number.to_f64()),
            ("2dsphereIndexVersion", Some(version @ 2..=3)) => self.version = Some(version),
            ("2dsphereIndexVersion", Some(1)) => {
                let message = "2dsphereIndexVersion 1 is not implemented: 2 and 3 are".to_owned();
                return Err(CollectionError::NotImplemented(message));
            }
            ("2dsphereIndexVersion", _) => {
                return refused(format!(
                    "unsupported geo index version {{ 2dsphereIndexVersion : {} }}, only support versions: [1,2,3]",
                    number.to_f64()
                ));
            }
            ("coarsestIndexedLevel", Some(level)) if is_level(level) => self.coarsest = Some(level),
            ("finestIndexedLevel", Some(level)) if is_level(level) => self.finest = Some(level),
            ("bits", Some(bits @ 1..=32)) => self.bits = Some(bits),
            ("bits", _) => return refused("bits in geo index must be between 1 and 32"),
            _ => return refused(format!("{option} must be between 0 and {LEVEL_MAX}")),
        }
        Ok(())
    }

    /// The pattern with the cells that these options ask for.
    ///
    /// # Errors
    /// `CannotCreateIndex` for limits that are the wrong way round.
    pub(super) fn applied_to(&self, pattern: KeyPattern) -> Result<KeyPattern> {
        let Some(defaults) = pattern.places().copied() else { return Ok(pattern) };
        let level = |given: Option<i32>, default| given.and_then(|level| u8::try_from(level).ok()).unwrap_or(default);
        let levels = CellLevels {
            coarsest: level(self.coarsest, defaults.levels.coarsest),
            finest: level(self.finest, defaults.levels.finest.max(level(self.coarsest, 0))),
        };
        if levels.coarsest > levels.finest {
            return refused("finestIndexedLevel must be >= coarsestIndexedLevel");
        }
        let grid = Grid {
            min: self.min.unwrap_or(defaults.grid.min),
            max: self.max.unwrap_or(defaults.grid.max),
            bits: level(self.bits, defaults.grid.bits),
        };
        if !(grid.min < grid.max && (grid.max - grid.min).is_finite()) {
            return refused("region for geo index is empty: 'min' must be less than 'max', and both finite");
        }
        Ok(pattern.with_places(PlaceCells { levels, grid }))
    }

    /// As `listIndexes` shows them.
    pub(super) fn append(&self, pattern: &KeyPattern, document: &mut RawDocumentBuf) {
        if pattern.has_kind(FieldKind::Sphere) {
            document.append(cstr!("2dsphereIndexVersion"), self.version.unwrap_or(SPHERE_VERSION));
        }
        let whole: [(&CStr, Option<i32>); 3] = [
            (cstr!("coarsestIndexedLevel"), self.coarsest),
            (cstr!("finestIndexedLevel"), self.finest),
            (cstr!("bits"), self.bits),
        ];
        for (name, value) in whole {
            if let Some(value) = value {
                document.append(name, value);
            }
        }
        for (name, value) in [(cstr!("min"), self.min), (cstr!("max"), self.max)] {
            if let Some(value) = value {
                document.append(name, value);
            }
        }
    }
}

fn is_level(level: i32) -> bool {
    (0..=i32::from(LEVEL_MAX)).contains(&level)
}

fn refused<T>(message: impl Into<String>) -> Result<T> {
    Err(CollectionError::CannotCreateIndex(message.into()))
}
