//! The cells of 2d indexes: a square of numbers, parted in four again and again.
//!
//! A cell is known by the bits of its column and of its row, in turns, the first of both the most significant. In a
//! key they are the upper bits of eight bytes.

use crate::error::{Result, invalid};
use crate::plane::{FlatPoint, Rectangle};

/// How a 2d index parts the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// The least number on either axis.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How often either axis is halved: 1 to 32.
    pub bits: u8,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid { min: -180.0, max: 180.0, bits: 26 }
    }
}

/// A cell of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridCell {
    level: u8,
    /// The corner, in units of the smallest cells that any grid may have.
    column: u32,
    row: u32,
}

/// Halvings of an axis in a key.
const KEY_BITS: u8 = 32;

impl Grid {
    /// All of it.
    pub fn bounds(&self) -> Rectangle {
        Rectangle { low: FlatPoint { x: self.min, y: self.min }, high: FlatPoint { x: self.max, y: self.max } }
    }

    /// The cell of a point.
    ///
    /// # Errors
    /// The point is outside of the grid.
    pub fn cell(&self, point: FlatPoint) -> Result<GridCell> {
        if !self.bounds().has(point) {
            return invalid(format!("point not in interval of [ {}, {} ]", self.min, self.max));
        }
        let unit = |at: f64| {
            let part = (at - self.min) / (self.max - self.min);
            let units = (part * f64::from(1u32 << (KEY_BITS - 1)) * 2.0).floor();
            // The greatest number is in the last cell.
            (units as u64).min(u64::from(u32::MAX)) as u32 & mask(self.bits)
        };
        Ok(GridCell { level: self.bits, column: unit(point.x), row: unit(point.y) })
    }

    /// Where a cell is.
    pub(crate) fn rectangle(&self, cell: GridCell) -> Rectangle {
        let side = self.max - self.min;
        let at = |unit: f64| self.min + side * (unit / (f64::from(1u32 << (KEY_BITS - 1)) * 2.0));
        let width = 2.0_f64.powi(i32::from(KEY_BITS - cell.level));
        let (column, row) = (f64::from(cell.column), f64::from(cell.row));
        let low = FlatPoint { x: at(column), y: at(row) };
        Rectangle { low, high: FlatPoint { x: at(column + width), y: at(row + width) } }
    }

    /// What numbers may be off by: those of a cell are rounded.
    pub(crate) fn slack(&self) -> f64 {
        self.min.abs().max(self.max.abs()).max(self.max - self.min) * 1e-14
    }
}

/// The upper bits.
fn mask(bits: u8) -> u32 {
    !(u32::MAX.checked_shr(u32::from(bits)).unwrap_or_default())
}

impl GridCell {
    /// The cell that is all of a grid.
    pub(crate) const WHOLE: GridCell = GridCell { level: 0, column: 0, row: 0 };

    /// How often it is parted.
    pub(crate) fn level(self) -> u8 {
        self.level
    }

    /// Its four quarters.
    pub(crate) fn children(self) -> [GridCell; 4] {
        let level = self.level + 1;
        let half = 1u32.checked_shl(u32::from(KEY_BITS.saturating_sub(level))).unwrap_or_default();
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(column, row)| GridCell {
            level,
            column: self.column | (column * half),
            row: self.row | (row * half),
        })
    }

    /// The first key of what is in it.
    pub fn first_key(self) -> u64 {
        spread(self.column) << 1 | spread(self.row)
    }

    /// The last one.
    pub fn last_key(self) -> u64 {
        self.first_key() | u64::MAX.checked_shr(2 * u32::from(self.level)).unwrap_or_default()
    }
}

/// The bits of a number with a zero before each.
fn spread(bits: u32) -> u64 {
    let steps = [(16, 0x0000_FFFF_0000_FFFF), (8, 0x00FF_00FF_00FF_00FF), (4, 0x0F0F_0F0F_0F0F_0F0F)];
    let last = [(2, 0x3333_3333_3333_3333), (1, 0x5555_5555_5555_5555)];
    steps.into_iter().chain(last).fold(u64::from(bits), |spread, (by, kept)| (spread | spread << by) & kept)
}
