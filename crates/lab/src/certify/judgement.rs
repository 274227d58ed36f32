//! What a test says of a guarantee: figures with their bounds, and from them the verdict.
//!
//! A guarantee has passed only when its whole test ran on its rig and every figure lies in its bound. Where a part was left
//! out, or the rig was smaller, the most that can be said is that it *held*.

use serde::{Serialize, Serializer};

use super::statistic::median;
use crate::chart::grouped;
use crate::latency::LatencySummary;
use crate::result::PhaseResult;

/// What is said of a guarantee in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The whole test ran, and every figure lies in its bound.
    Pass,
    /// Every figure lies in its bound, but not the whole test ran.
    Held,
    Fail,
    /// Nothing of it was tested.
    #[serde(rename = "not judged")]
    NotJudged,
}

/// Where a figure must lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    /// For reading only.
    Shown,
}

/// One figure of a test.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) bound: Bound,
    pub(crate) holds: bool,
}

/// A phase of a run with what it was for: the report draws it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Evidence {
    pub(crate) caption: String,
    pub(crate) phase: PhaseResult,
}

/// The outcome of a guarantee's test.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Judgement {
    /// `G2`
    pub(crate) guarantee: &'static str,
    pub(crate) title: &'static str,
    pub(crate) figures: Vec<Figure>,
    /// Failures that have no figure, in words.
    pub(crate) broken: Vec<String>,
    /// Parts of the test that were not done, and why.
    pub(crate) left_out: Vec<String>,
    /// Why nothing was judged; then there are no figures.
    pub(crate) not_judged: Option<String>,
    /// What a reader should know of the figures.
    pub(crate) remarks: Vec<String>,
    pub(crate) evidence: Vec<Evidence>,
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::Below(bound) => value < bound,
            Self::AtLeast(bound) => value >= bound,
            Self::Shown => true,
        }
    }

    /// `<= 250 ms`; nothing for what is only shown.
    pub(crate) fn in_words(self, unit: &str) -> String {
        let (sign, bound) = match self {
            Self::AtMost(bound) => ("<=", bound),
            Self::Below(bound) => ("<", bound),
            Self::AtLeast(bound) => (">=", bound),
            Self::Shown => return String::new(),
        };
        format!("{sign} {}", with_unit(bound, unit))
    }

    /// How much of the bound is used: more than 1 is beyond it.
    fn use_of(self, value: f64) -> f64 {
        match self {
            Self::AtMost(bound) | Self::Below(bound) if bound > 0.0 => value / bound,
            Self::AtMost(_) | Self::Below(_) => value,
            Self::AtLeast(bound) => bound / value.max(1e-9),
            Self::Shown => 0.0,
        }
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.in_words(""))
    }
}

impl Figure {
    /// `p99 12 ms (< 250 ms)`
    pub(crate) fn in_words(&self) -> String {
        let figure = format!("{} {}", self.what, with_unit(self.value, &self.unit));
        match self.bound {
            Bound::Shown => figure,
            bound => format!("{figure} ({})", bound.in_words(&self.unit)),
        }
    }
}

/// `0.25`, `12 ms`, `3 %`
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let value = if value.is_finite() { grouped(value) } else { "without end".to_owned() };
    format!("{value} {unit}").trim_end().to_owned()
}

impl Judgement {
    pub(crate) fn of(guarantee: &'static str) -> Self {
        Self { guarantee, title: super::guarantee::title(guarantee), ..Self::default() }
    }

    pub(crate) fn not_judged(guarantee: &'static str, because: &str) -> Self {
        Self { not_judged: Some(because.to_owned()), ..Self::of(guarantee) }
    }

    /// Adds a figure and judges it.
    pub(crate) fn figure(&mut self, what: &str, value: f64, unit: &str, bound: Bound) -> &mut Self {
        let (what, unit, holds) = (what.to_owned(), unit.to_owned(), bound.holds(value));
        self.figures.push(Figure { what, value, unit, bound, holds });
        self
    }

    /// Adds a failure that is no figure.
    pub(crate) fn breaks(&mut self, how: impl Into<String>) -> &mut Self {
        self.broken.push(how.into());
        self
    }

    /// Adds a part of the test that was not done.
    pub(crate) fn leaves_out(&mut self, what: impl Into<String>) -> &mut Self {
        self.left_out.push(what.into());
        self
    }

    pub(crate) fn remark(&mut self, remark: impl Into<String>) -> &mut Self {
        self.remarks.push(remark.into());
        self
    }

    /// Says that the phases' latencies are those of [`PhaseResult::undisturbed_latency`], where that makes a difference.
    pub(crate) fn leaves_out_stolen_time<'p>(&mut self, phases: impl Iterator<Item = &'p PhaseResult>) -> &mut Self {
        let (mut left_out, mut all, mut share) = (0, 0, 0.0_f64);
        for phase in phases {
            all += phase.latency_microseconds.count;
            left_out += phase.latency_microseconds.count - phase.undisturbed_latency().count;
            share = share.max(phase.overhead.stolen_share_of_machine);
        }
        if share > 0.0 {
            self.remark(format!(
                "The host of this virtual machine took up to {:.1} % of the processors' time. The {left_out} of {all} operations during which it took some \
                 are left out, in phases where they are fewer than the others: they do not tell what the server does with a machine of its own.",
                share * 100.0
            ));
        }
        self
    }

    /// The latencies of these phases leave out what their clients' own threads waited for a processor, where that could be counted: says so, and shows
    /// p99s with it, each the median of some phases.
    pub(crate) fn leaves_out_own_waits(&mut self, shown: &[(&str, &[PhaseResult])]) -> &mut Self {
        fn with_waits(phase: &PhaseResult) -> &LatencySummary {
            &phase.overhead.latency_with_own_waits_microseconds
        }
        if shown.iter().any(|(_, phases)| phases.iter().any(|phase| with_waits(phase).count == 0)) {
            return self;
        }
        for (what, phases) in shown {
            let p99 = median(phases.iter().map(|phase| with_waits(phase).p99 / 1e3));
            self.figure(what, p99, "ms", Bound::Shown);
        }
        self.remark(
            "What these clients' own threads wait for a processor, when an operation is due and when its answer has come, is \
             left out: they stand for other machines. Each client has a thread of its own, so that this is known.",
        );
        self
    }

    pub(crate) fn evidence(&mut self, caption: &str, phase: &PhaseResult) -> &mut Self {
        // Its histograms are in the run's own result; here they would only weigh.
        let mut phase = phase.clone();
        phase.steps.iter_mut().for_each(|step| step.histogram.clear());
        self.evidence.push(Evidence { caption: caption.to_owned(), phase });
        self
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let is_judged = self.figures.iter().any(|figure| figure.bound != Bound::Shown) || !self.broken.is_empty();
        if !self.broken.is_empty() || self.figures.iter().any(|figure| !figure.holds) {
            Verdict::Fail
        } else if self.not_judged.is_some() || !is_judged {
            Verdict::NotJudged
        } else if !self.left_out.is_empty() {
            Verdict::Held
        } else {
            Verdict::Pass
        }
    }

    /// What the line of the guarantee says after its verdict: what is worst, then how much more there is.
    pub(crate) fn in_one_line(&self) -> String {
        if let Some(because) = self.not_judged.as_ref().filter(|_| self.verdict() == Verdict::NotJudged) {
            return format!("not judged, because {because}");
        }
        let mut judged: Vec<&Figure> = self.figures.iter().filter(|figure| figure.bound != Bound::Shown).collect();
        let rank = |figure: &Figure| (figure.holds, figure.bound.use_of(figure.value));
        judged.sort_by(|left, right| {
            let ((left_holds, left_use), (right_holds, right_use)) = (rank(left), rank(right));
            left_holds.cmp(&right_holds).then(right_use.total_cmp(&left_use))
        });
        let failed = judged.iter().filter(|figure| !figure.holds).count();
        // What is broken stands first; a figure that holds is shown only where nothing is.
        let shown = if self.broken.is_empty() { failed.clamp(1, 3) } else { failed.min(3) };
        let mut said: Vec<String> = self.broken.clone();
        said.extend(judged.iter().take(shown).map(|figure| figure.in_words()));
        let mut line = said.join("; ");
        let more = judged.len().saturating_sub(shown);
        if more > 0 {
            line += &format!(" and {more} more figure{}", if more == 1 { "" } else { "s" });
        }
        if self.verdict() == Verdict::Held {
            line += &format!(" [left out: {}]", self.left_out.join("; "));
        }
        line
    }
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Held => "held",
            Self::Fail => "FAIL",
            Self::NotJudged => "-",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_no_better_than_what_was_tested() {
        let mut judgement = Judgement::of("G2");
        assert_eq!(judgement.verdict(), Verdict::NotJudged);
        judgement.figure("shown", 5.0, "ms", Bound::Shown);
        assert_eq!(judgement.verdict(), Verdict::NotJudged);
        judgement.figure("p99", 100.0, "ms", Bound::Below(250.0));
        assert_eq!(judgement.verdict(), Verdict::Pass);
        judgement.leaves_out("a smaller rig");
        assert_eq!(judgement.verdict(), Verdict::Held);
        assert_eq!(judgement.in_one_line(), "p99 100 ms (< 250 ms) [left out: a smaller rig]");
        judgement.figure("goodput", 0.5, "", Bound::AtLeast(0.9));
        assert_eq!(judgement.verdict(), Verdict::Fail);
        assert!(judgement.in_one_line().starts_with("goodput 0.5 (>= 0.9) and 1 more figure"));
    }

    #[test]
    fn what_breaks_fails_without_a_figure_and_what_is_not_judged_says_why() {
        assert_eq!(Judgement::of("G4").breaks("no refusal was seen").verdict(), Verdict::Fail);
        let unjudged = Judgement::not_judged("G20", "it needs a disk that fails");
        assert_eq!(unjudged.verdict(), Verdict::NotJudged);
        assert_eq!(unjudged.in_one_line(), "not judged, because it needs a disk that fails");
    }

    #[test]
    fn bounds_hold_at_their_edges() {
        for (bound, value, holds) in [
            (Bound::AtMost(2.0), 2.0, true),
            (Bound::Below(2.0), 2.0, false),
            (Bound::AtLeast(2.0), 2.0, true),
            (Bound::AtLeast(2.0), f64::NAN, false),
            (Bound::AtMost(2.0), f64::INFINITY, false),
        ] {
            assert_eq!(bound.holds(value), holds, "{bound:?} {value}");
        }
    }
}
