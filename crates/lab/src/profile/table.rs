//! The top-frames table of the founding reports: for each function its share by itself, with what it calls, and in the one
//! place of the flame graph where it is largest (the figure that a reader sees when pointing at the frame).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::stacks::{Frame, Profile, Tree};

/// One function.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct FrameShare {
    /// Its name.
    pub(crate) name: String,
    /// Weight of the samples in which it was innermost.
    pub(crate) own: u64,
    /// Weight of the samples in which it was anywhere; recursion counts once.
    pub(crate) total: u64,
    /// Weight of the largest of its places in the flame graph.
    pub(crate) largest: u64,
    /// `own` of the profile, in percent.
    pub(crate) own_percent: f64,
    /// `total` of the profile, in percent.
    pub(crate) total_percent: f64,
    /// `largest` of the profile, in percent.
    pub(crate) largest_percent: f64,
}

/// By what a table is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SortBy {
    /// The function itself
    #[value(name = "self")]
    Own,
    /// With what it calls
    Total,
    /// The one place of the flame graph where it is largest
    #[value(name = "frame")]
    Largest,
}

/// All functions of a profile, by name.
pub(crate) fn shares(profile: &Profile) -> BTreeMap<String, FrameShare> {
    let tree = profile.tree();
    let mut own_total_largest: BTreeMap<Frame, (u64, u64, u64)> = BTreeMap::new();
    let mut path = BTreeSet::new();
    visit(&tree, 0, &mut path, &mut own_total_largest);
    let all = profile.total().max(1) as f64;
    let share = |(frame, (own, total, largest)): (Frame, (u64, u64, u64))| {
        let name = profile.name(frame).to_owned();
        let percent = |weight: u64| weight as f64 / all * 100.0;
        let share = FrameShare {
            name: name.clone(),
            own,
            total,
            largest,
            own_percent: percent(own),
            total_percent: percent(total),
            largest_percent: percent(largest),
        };
        (name, share)
    };
    own_total_largest.into_iter().map(share).collect()
}

/// Recursion here is as deep as the deepest stack, which its reader bounds.
fn visit(tree: &Tree, place: usize, path: &mut BTreeSet<Frame>, into: &mut BTreeMap<Frame, (u64, u64, u64)>) {
    let Some(node) = tree.nodes.get(place) else { return };
    let is_first = node.frame.is_some_and(|frame| path.insert(frame));
    if let Some(frame) = node.frame {
        let (own, total, largest) = into.entry(frame).or_default();
        *own += node.own;
        *total += if is_first { node.total } else { 0 };
        *largest = (*largest).max(node.total);
    }
    for &child in node.children.values() {
        visit(tree, child, path, into);
    }
    if let (true, Some(frame)) = (is_first, node.frame) {
        path.remove(&frame);
    }
}

/// The first functions of a profile.
pub(crate) fn top(profile: &Profile, sort: SortBy, count: usize) -> Vec<FrameShare> {
    let mut rows: Vec<FrameShare> = shares(profile).into_values().collect();
    let key = |row: &FrameShare| match sort {
        SortBy::Own => row.own,
        SortBy::Total => row.total,
        SortBy::Largest => row.largest,
    };
    rows.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(count);
    rows
}

/// A table of several profiles side by side: every function that is among the first of any of them.
pub(crate) fn side_by_side(profiles: &[(String, Profile)], sort: SortBy, count: usize) -> String {
    let mut names: Vec<String> = Vec::new();
    for (_, profile) in profiles {
        for row in top(profile, sort, count) {
            if !names.contains(&row.name) {
                names.push(row.name);
            }
        }
    }
    let shares: Vec<BTreeMap<String, FrameShare>> = profiles.iter().map(|(_, profile)| shares(profile)).collect();
    let highest = |name: &String| {
        let key = |row: &FrameShare| match sort {
            SortBy::Own => row.own_percent,
            SortBy::Total => row.total_percent,
            SortBy::Largest => row.largest_percent,
        };
        shares.iter().filter_map(|shares| shares.get(name)).map(key).fold(0.0, f64::max)
    };
    names.sort_by(|a, b| highest(b).total_cmp(&highest(a)));
    let by = match sort {
        SortBy::Own => "by themselves (self)",
        SortBy::Total => "with what they call (total)",
        SortBy::Largest => "in the one place of the flame graph where they are largest (frame)",
    };
    let mut text = format!("The first {count} functions {by}\n");
    for (title, profile) in profiles {
        text += &format!("{title}: {} {}\n", crate::chart::grouped(profile.total() as f64), profile.unit);
    }
    if profiles.len() > 1 {
        text += &format!(
            "\n{}\n",
            profiles.iter().map(|(title, _)| format!("{:>26}", tail(title, 24))).collect::<String>()
        );
    }
    let columns = format!("{:>8}{:>9}{:>9}", "self %", "total %", "frame %");
    text += &format!("{}  function\n", columns.repeat(profiles.len()));
    for name in &names {
        for shares in &shares {
            let row = shares.get(name).cloned().unwrap_or_default();
            text += &format!("{:>8.2}{:>9.2}{:>9.2}", row.own_percent, row.total_percent, row.largest_percent);
        }
        text += &format!("  {name}\n");
    }
    text
}

/// The end of a text that is too long: paths differ there.
fn tail(text: &str, length: usize) -> String {
    let skip = text.chars().count().saturating_sub(length);
    text.chars().skip(skip).collect()
}
