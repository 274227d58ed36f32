//! The differential flame graph: every path of either side is drawn as wide as the wider of its two costs; red grew, blue
//! shrank. So paths that vanished are seen as well as new ones, which a graph drawn by one side's widths hides.

use std::collections::BTreeMap;

use super::explain::cpu_per_unit;
use crate::error::LabError;
use crate::profile::flame;
use crate::profile::stacks::Profile;
use crate::result::RunResult;

/// Costs are drawn in billionths, so that rounding to whole numbers loses nothing.
const SCALE: f64 = 1000.0;

/// Draws it. Widths are nanoseconds of CPU for a unit of work where that is known, otherwise shares of the samples.
pub(crate) fn draw(a: (&Profile, &[RunResult]), b: (&Profile, &[RunResult]), title: &str) -> Result<String, LabError> {
    let per_unit = cpu_per_unit(a.1).zip(cpu_per_unit(b.1));
    let (cost_a, cost_b, unit) = match per_unit {
        Some((a, b)) => (a * SCALE, b * SCALE, "ns a unit of work"),
        None => (1e6, 1e6, "millionths of the samples"),
    };
    let subtitle = format!("drawn as wide as the wider side, in {unit}; red: B costs more, blue: B costs less");
    flame::draw_lines(&lines(a.0, cost_a, b.0, cost_b), title, &subtitle, unit)
}

/// `stack first second`: the second is the wider of the two, and the difference of the two is that of the costs.
fn lines(a: &Profile, cost_a: f64, b: &Profile, cost_b: f64) -> String {
    let mut stacks: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (profile, cost, is_b) in [(a, cost_a, false), (b, cost_b, true)] {
        let total = profile.total().max(1) as f64;
        for line in profile.folded().lines() {
            let Some((stack, weight)) = line.rsplit_once(' ') else { continue };
            let scaled = weight.parse::<f64>().unwrap_or(0.0) / total * cost;
            let entry = stacks.entry(stack.to_owned()).or_default();
            if is_b { entry.1 += scaled } else { entry.0 += scaled }
        }
    }
    let line = |(stack, (a, b)): (String, (f64, f64))| {
        let wide = a.max(b);
        format!("{stack} {:.0} {:.0}\n", (wide - (b - a)).max(0.0), wide)
    };
    stacks.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::read;

    #[test]
    fn vanished_and_new_paths_are_both_drawn() {
        let a = read::parse("main;old 50\nmain;same 50\n").unwrap();
        let b = read::parse("main;new 50\nmain;same 50\n").unwrap();
        assert_eq!(lines(&a, 100.0, &b, 100.0), "main;new 0 50\nmain;old 100 50\nmain;same 50 50\n");
        let drawn = draw((&a, &[]), (&b, &[]), "t").unwrap();
        for name in ["old", "new", "same"] {
            assert!(drawn.contains(&format!("<title>{name} (")), "{name} is not drawn");
        }
    }
}
