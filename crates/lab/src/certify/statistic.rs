//! The few statistics that tests need of some phases.

/// The middle value; infinite when there is none, so that nothing is proved by nothing.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match (values.get(values.len() / 2), values.len().checked_sub(1).and_then(|last| values.get(last / 2))) {
        (Some(upper), Some(lower)) => f64::midpoint(*upper, *lower),
        _ => f64::INFINITY,
    }
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_infinite());
        assert_eq!(mean(&[]), None);
    }
}
