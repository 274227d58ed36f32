//! The fragmentation figure of SERVER-17561.
//!
//! Of positions in MiB in natural order, `d` are the differences between neighbours and `f = sqrt(sum of d^2 - (most negative d)^2)`: the jump back where the
//! collection wraps does not count. The figure is `f` of the natural order over `f` of the sorted order.

const MIB: f64 = (1 << 20) as f64;

/// The figure; `None` when there are too few documents to tell.
pub(crate) fn fragmentation(positions: &[u64]) -> Option<f64> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let (natural, sorted) = (roughness(positions), roughness(&sorted));
    (positions.len() > 2 && sorted > 0.0).then(|| natural / sorted)
}

fn roughness(positions: &[u64]) -> f64 {
    let jumps = positions.windows(2).map(|pair| (pair[1] as f64 - pair[0] as f64) / MIB);
    let (mut sum, mut most_negative) = (0.0, 0.0_f64);
    for jump in jumps {
        sum += jump * jump;
        most_negative = most_negative.min(jump);
    }
    (sum - most_negative * most_negative).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_layout_has_the_figure_one_wherever_it_wraps() {
        let linear: Vec<u64> = (0..1000).map(|number| number * 4096).collect();
        assert!((fragmentation(&linear).unwrap() - 1.0).abs() < 0.001);
        let mut wrapped = linear.clone();
        wrapped.rotate_left(300);
        assert!((fragmentation(&wrapped).unwrap() - 1.0).abs() < 0.01);
    }

    #[test]
    fn jumps_make_it_large() {
        let scattered: Vec<u64> = (0..1000_u64).map(|number| (number * 7919 % 1000) * 4096).collect();
        assert!(fragmentation(&scattered).unwrap() > 60.0);
        assert_eq!(fragmentation(&[1, 2]), None);
        // By hand: jumps of 2, -1, 2 MiB; without the most negative sqrt(8). Sorted: 1, 1, 1: sqrt(3).
        let few = [0, 2 << 20, 1 << 20, 3 << 20];
        assert!((fragmentation(&few).unwrap() - (8.0_f64 / 3.0).sqrt()).abs() < 1e-9);
    }
}
