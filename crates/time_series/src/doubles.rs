//! Columns of doubles: as decimal fractions where they are such, otherwise by what differs from the one before.
//!
//! What instruments give has a few decimal places: 21.37 is 2137 hundredths, a small whole number. Each value must come
//! back bit for bit, or the column is written the other way: neighbours' bits are alike at their beginning.

use crate::integers::{read_integers, write_integers};
use crate::packed::{read_packed, take, write_packed};

/// What values are multiplied by for so many decimal places. Exact, as the reader divides by the same.
const SCALES: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Whole numbers that doubles have all of.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// In place of a number of places: the bits that differ.
const BY_BITS: u8 = 0xff;
/// Values whose differing bits end at the same place.
const BLOCK: usize = 32;

/// Writes a list, whose count the reader knows.
pub(crate) fn write_doubles(out: &mut Vec<u8>, values: &[f64]) {
    let mut by_bits = vec![BY_BITS];
    write_bits(&mut by_bits, values);
    if let Some((places, whole)) = as_decimals(values) {
        let mut decimals = vec![places];
        write_integers(&mut decimals, &whole);
        if decimals.len() < by_bits.len() {
            by_bits = decimals;
        }
    }
    out.extend(by_bits);
}

/// Reads so many off the front.
pub(crate) fn read_doubles(bytes: &mut &[u8], count: usize) -> Option<Vec<f64>> {
    match take(bytes, 1)?.first().copied()? {
        BY_BITS => read_bits(bytes, count),
        places => {
            let scale = SCALES.get(usize::from(places))?;
            Some(read_integers(bytes, count)?.into_iter().map(|whole| whole as f64 / scale).collect())
        }
    }
}

/// All of them as whole numbers of so many decimal places.
fn as_decimals(values: &[f64]) -> Option<(u8, Vec<i64>)> {
    'places: for (places, scale) in SCALES.iter().enumerate() {
        let mut whole = Vec::with_capacity(values.len());
        for value in values {
            let scaled = (value * scale).round();
            if scaled.is_nan() || scaled.abs() > EXACT_MAX {
                return None;
            }
            if (scaled as i64 as f64 / scale).to_bits() != value.to_bits() {
                continue 'places;
            }
            whole.push(scaled as i64);
        }
        return Some((places as u8, whole));
    }
    None
}

/// For each block: how many of the last bits are the same in all, then the others.
fn write_bits(out: &mut Vec<u8>, values: &[f64]) {
    let mut before = 0u64;
    for block in values.chunks(BLOCK) {
        let differing: Vec<u64> =
            block.iter().map(|value| std::mem::replace(&mut before, value.to_bits()) ^ value.to_bits()).collect();
        let common = differing.iter().fold(0, |all, bits| all | bits).trailing_zeros().min(63);
        out.push(common as u8);
        write_packed(out, &differing.iter().map(|bits| bits >> common).collect::<Vec<_>>());
    }
}

fn read_bits(bytes: &mut &[u8], count: usize) -> Option<Vec<f64>> {
    let (mut values, mut before) = (Vec::new(), 0u64);
    while values.len() < count {
        let common = take(bytes, 1)?.first().copied()?;
        if common > 63 {
            return None;
        }
        for bits in read_packed(bytes, BLOCK.min(count - values.len()))? {
            before ^= bits << common;
            values.push(f64::from_bits(before));
        }
    }
    Some(values)
}
