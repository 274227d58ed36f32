//! Where the level of a series moved for good: the split that best divides it is sought again and again, and taken when a
//! shuffled series would hardly ever divide as well.

use crate::random::Random;

/// A level lasts at least so many runs.
const SHORTEST: usize = 3;
/// Shuffles that a split is tried against; it must beat all but one in two hundred.
const SHUFFLES: usize = 600;
const BEATEN_MAX: usize = SHUFFLES / 200;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChangePoint {
    /// First position of the new level.
    pub(super) position: usize,
    /// Median of the level before.
    pub(super) before: f64,
    pub(super) after: f64,
}

/// All changes, in order.
pub(super) fn find(values: &[f64]) -> Vec<ChangePoint> {
    let mut splits = Vec::new();
    divide(values, 0, &mut Random::new(11), &mut splits);
    splits.sort_unstable();
    let mut bounds = vec![0];
    bounds.extend(&splits);
    bounds.push(values.len());
    let level = |from: usize, to: usize| median(values.get(from..to).unwrap_or_default());
    let point = |bounds: &[usize]| match bounds {
        [from, position, to] => {
            Some(ChangePoint { position: *position, before: level(*from, *position), after: level(*position, *to) })
        }
        _ => None,
    };
    bounds.windows(3).filter_map(point).collect()
}

fn divide(values: &[f64], offset: usize, random: &mut Random, into: &mut Vec<usize>) {
    let Some((split, strength)) = best_split(&ranks(values)) else { return };
    let mut shuffled = ranks(values);
    let mut beaten = 0;
    for _ in 0..SHUFFLES {
        for position in (1..shuffled.len()).rev() {
            shuffled.swap(position, random.below(position as u64 + 1) as usize);
        }
        if best_split(&shuffled).is_some_and(|(_, of_chance)| of_chance >= strength) {
            beaten += 1;
        }
        if beaten > BEATEN_MAX {
            return;
        }
    }
    into.push(offset + split);
    let (left, right) = values.split_at(split);
    divide(left, offset, random, into);
    divide(right, offset + split, random, into);
}

/// The split whose sides differ most, by the rank sum's distance from its mean in standard deviations: one wild value
/// weighs no more than any other.
fn best_split(ranks: &[f64]) -> Option<(usize, f64)> {
    let count = ranks.len();
    let mut best: Option<(usize, f64)> = None;
    let mut sum: f64 = ranks.iter().take(SHORTEST.saturating_sub(1)).sum();
    for split in SHORTEST..=count.checked_sub(SHORTEST)? {
        sum += ranks.get(split - 1)?;
        let (left, right) = (split as f64, (count - split) as f64);
        let mean = left * (count as f64 + 1.0) / 2.0;
        let deviation = (left * right * (count as f64 + 1.0) / 12.0).sqrt();
        let strength = (sum - mean).abs() / deviation;
        if best.is_none_or(|(_, strongest)| strength > strongest) {
            best = Some((split, strength));
        }
    }
    best
}

/// Each value's place in the order of all, from 1; equal ones share.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let values = levels.iter().flat_map(|&(count, level)| std::iter::repeat_n(level, count));
        values.map(|level| level + 0.06 * (random.fraction() - 0.5)).collect()
    }

    #[test]
    fn levels_are_found_where_they_change() {
        let found = find(&noisy(&[(12, 1.0), (10, 0.9), (8, 1.1)], 4));
        let positions: Vec<usize> = found.iter().map(|point| point.position).collect();
        assert_eq!(positions, [12, 22]);
        assert!((found[0].before - 1.0).abs() < 0.03 && (found[0].after - 0.9).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn noise_and_single_odd_runs_are_no_change() {
        let false_alarms = (0..100).filter(|seed| !find(&noisy(&[(30, 1.0)], *seed)).is_empty()).count();
        assert!(false_alarms <= 3, "{false_alarms} of 100");
        let mut odd = noisy(&[(30, 1.0)], 2);
        odd[17] = 0.2;
        assert!(find(&odd).is_empty());
        assert!(find(&[1.0, 2.0]).is_empty() && find(&[]).is_empty());
    }
}
