//! Sampled stacks, whatever they were read from: which functions were on the stack, how much it weighs, and when.

use std::collections::{BTreeMap, HashMap};

/// Position of a function's name in its profile.
pub(crate) type Frame = u32;

/// Samples of one program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    names: Vec<String>,
    numbers: HashMap<String, Frame>,
    pub(crate) samples: Vec<Sample>,
    /// What weights are: `samples`, `microseconds`, ...
    pub(crate) unit: String,
}

/// One stack.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// From the outermost function to the innermost.
    pub(crate) stack: Vec<Frame>,
    pub(crate) weight: u64,
    /// On the machine's monotonic clock, where it is known.
    pub(crate) at: Option<f64>,
}

/// Stacks merged by their common beginnings, as a flame graph draws them.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
}

/// A function in one place of the tree.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) frame: Option<Frame>,
    /// With what it calls.
    pub(crate) total: u64,
    /// Without.
    pub(crate) own: u64,
    pub(crate) children: BTreeMap<Frame, usize>,
}

impl Profile {
    pub(crate) fn new(unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..Self::default() }
    }

    /// The number of a function's name.
    pub(crate) fn frame(&mut self, name: &str) -> Frame {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as Frame;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The name of a function.
    pub(crate) fn name(&self, frame: Frame) -> &str {
        self.names.get(frame as usize).map_or("", String::as_str)
    }

    /// Adds a stack given by names.
    pub(crate) fn add<'n>(&mut self, names: impl Iterator<Item = &'n str>, weight: u64, at: Option<f64>) {
        let stack: Vec<Frame> = names.map(|name| self.frame(name)).collect();
        self.samples.push(Sample { stack, weight, at });
    }

    /// Adds the samples of another profile, without their times.
    pub(crate) fn extend(&mut self, other: &Self) {
        for sample in &other.samples {
            let stack: Vec<Frame> = sample.stack.iter().map(|frame| self.frame(other.name(*frame))).collect();
            self.samples.push(Sample { stack, weight: sample.weight, at: None });
        }
    }

    /// Sum of all weights.
    pub(crate) fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.weight).sum()
    }

    /// The part that lies in one of the windows of time; a sample without a time lies in none.
    pub(crate) fn cut(&self, windows: &[(f64, f64)]) -> Self {
        let inside = |at: f64| windows.iter().any(|(from, to)| (*from..*to).contains(&at));
        let mut cut = self.clone();
        cut.samples.retain(|sample| sample.at.is_some_and(inside));
        cut
    }

    /// First and last time of a sample.
    pub(crate) fn span(&self) -> Option<(f64, f64)> {
        let times = || self.samples.iter().filter_map(|sample| sample.at);
        let first = times().fold(f64::INFINITY, f64::min);
        let last = times().fold(f64::NEG_INFINITY, f64::max);
        (first <= last).then_some((first, last))
    }

    /// Folded stacks, one a line, equal ones added up.
    pub(crate) fn folded(&self) -> String {
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for sample in &self.samples {
            *lines.entry(self.joined(sample)).or_default() += sample.weight;
        }
        lines.into_iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
    }

    /// Folded stacks with their time to 0.1 s before them: what [`super::read`] reads back as a profile with times.
    pub(crate) fn timed(&self) -> String {
        let mut lines: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for sample in &self.samples {
            let tenth = (sample.at.unwrap_or(0.0) * 10.0) as u64;
            *lines.entry((tenth, self.joined(sample))).or_default() += sample.weight;
        }
        let mut text = format!("# plimsoll timed stacks: seconds, weight in {}, stack\n", self.unit);
        for ((tenth, stack), weight) in lines {
            text += &format!("{}.{}\t{weight}\t{stack}\n", tenth / 10, tenth % 10);
        }
        text
    }

    fn joined(&self, sample: &Sample) -> String {
        let names: Vec<&str> = sample.stack.iter().map(|frame| self.name(*frame)).collect();
        names.join(";")
    }

    /// Merges all stacks.
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree { nodes: vec![Node::default()] };
        for sample in &self.samples {
            let mut place = 0;
            tree.add(place, sample.weight);
            for &frame in &sample.stack {
                place = tree.child(place, frame);
                tree.add(place, sample.weight);
            }
            if let Some(node) = tree.nodes.get_mut(place) {
                node.own += sample.weight;
            }
        }
        tree
    }
}

impl Tree {
    fn add(&mut self, place: usize, weight: u64) {
        if let Some(node) = self.nodes.get_mut(place) {
            node.total += weight;
        }
    }

    fn child(&mut self, place: usize, frame: Frame) -> usize {
        let new = self.nodes.len();
        let Some(parent) = self.nodes.get_mut(place) else { return 0 };
        let child = *parent.children.entry(frame).or_insert(new);
        if child == new {
            self.nodes.push(Node { frame: Some(frame), ..Node::default() });
        }
        child
    }
}
