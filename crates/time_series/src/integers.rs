//! Columns of whole numbers: as they are, by their differences, or by the differences of those, whichever is shortest.
//!
//! Times that come in equal steps have second differences of zero, counters first differences that are small.

use crate::packed::{read_packed, read_varint, take, unzigzag, write_packed, write_varint, zigzag};

/// How often differences may be taken.
const ORDER_MAX: usize = 2;

/// Writes a list of numbers, whose count the reader knows.
pub(crate) fn write_integers(out: &mut Vec<u8>, values: &[i64]) {
    let mut shortest: Option<Vec<u8>> = None;
    for order in 0..=ORDER_MAX {
        let mut written = vec![order as u8];
        let mut left = values.to_vec();
        for _ in 0..order {
            let Some(first) = left.first().copied() else { break };
            write_varint(&mut written, zigzag(first));
            left = left.iter().zip(left.iter().skip(1)).map(|(before, after)| after.wrapping_sub(*before)).collect();
        }
        let folded: Vec<u64> = left.into_iter().map(zigzag).collect();
        write_packed(&mut written, &folded);
        if shortest.as_ref().is_none_or(|best| written.len() < best.len()) {
            shortest = Some(written);
        }
    }
    out.extend(shortest.unwrap_or_default());
}

/// Reads so many numbers off the front.
pub(crate) fn read_integers(bytes: &mut &[u8], count: usize) -> Option<Vec<i64>> {
    let order = usize::from(take(bytes, 1)?.first().copied()?);
    if order > ORDER_MAX {
        return None;
    }
    let mut firsts = Vec::with_capacity(order);
    for _ in 0..order.min(count) {
        firsts.push(unzigzag(read_varint(bytes)?));
    }
    let left = read_packed(bytes, count.saturating_sub(order))?;
    let mut values: Vec<i64> = left.into_iter().map(unzigzag).collect();
    for first in firsts.into_iter().rev() {
        let mut sum = first;
        let mut summed = Vec::with_capacity(values.len() + 1);
        summed.push(sum);
        for difference in values {
            sum = sum.wrapping_add(difference);
            summed.push(sum);
        }
        values = summed;
    }
    Some(values)
}
