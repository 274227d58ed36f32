//! When a follower claims the lead: a state machine that is told the time, and has none of its own.
//!
//! It claims when it has read to the end of the log and found nothing of the primary for `SILENCE`, and then for a while longer: the more it had to
//! read lately, and by chance, so that the best one claims first and two rarely at once. Time in which the log could not be reached does not count: then
//! it is not the primary that is missing. A successor that was named claims at once, the others wait for it.
//!
//! Nothing depends on this but how long there is no primary. Whoever claims, the rule decides.

use std::time::Duration;

use crate::reading::Effect;

/// How long nothing of the primary must be heard. Nobody claims sooner, so a primary that has been heard since then leads.
pub const SILENCE: Duration = Duration::from_secs(5);
/// By chance up to so much longer.
pub const CHANCE: Duration = Duration::from_millis(1_500);
/// For each mebibyte that it has just had to read.
const FOR_MEBIBYTE: Duration = Duration::from_millis(20);
/// More than this nobody waits longer for what it had to read.
const LAG_MAX: Duration = Duration::from_secs(3);
/// A look at the log that is older says nothing about now.
const LOOK_AGE_MAX: Duration = Duration::from_millis(1_000);

/// What a follower knows of the primary.
#[derive(Clone, Debug)]
pub struct Candidacy {
    node: u64,
    /// How long the log could be read to its end since something of the primary was found there.
    silent: Duration,
    /// When the end of the log was last seen.
    looked: Option<Duration>,
    /// For what it had to read until it last came to the end.
    lag: Duration,
    is_at_end: bool,
    /// A part of `CHANCE`, drawn anew for each silence.
    chance: Duration,
    /// This member was named, or another one.
    successor: Option<u64>,
}

impl Candidacy {
    /// Of a member that begins to follow.
    pub fn new(node: u64) -> Candidacy {
        Candidacy {
            node,
            silent: Duration::ZERO,
            looked: None,
            lag: Duration::ZERO,
            is_at_end: false,
            chance: Duration::ZERO,
            successor: None,
        }
    }

    /// A record was judged. `random` is any number.
    pub fn judged(&mut self, effect: &Effect<'_>, random: u64) {
        match effect {
            // What does not count is nothing of the primary.
            Effect::Foreign | Effect::Ignored(_) => return,
            Effect::Claimed { .. } | Effect::Restored { .. } => self.successor = None,
            Effect::Ended { successor, .. } => self.successor = *successor,
            Effect::Accepted { bytes, .. } => {
                let before = if self.is_at_end { Duration::ZERO } else { self.lag };
                let mebibytes = bytes.len() as f64 / f64::from(1 << 20);
                (self.lag, self.is_at_end) = ((before + FOR_MEBIBYTE.mul_f64(mebibytes)).min(LAG_MAX), false);
            }
            Effect::Alive => {}
        }
        self.silent = Duration::ZERO;
        self.chance = CHANCE.mul_f64(random as f64 / u64::MAX as f64);
    }

    /// The log was read to its end at `now`, a time that does not go back. Whether to claim.
    pub fn reached_end(&mut self, now: Duration) -> bool {
        self.is_at_end = true;
        let since = self.looked.replace(now).map_or(Duration::ZERO, |looked| now.saturating_sub(looked));
        // Between two looks that are far apart this process slept, or could not read.
        if since <= LOOK_AGE_MAX {
            self.silent += since;
        }
        if self.successor == Some(self.node) {
            return true;
        }
        self.silent >= SILENCE + self.lag + self.chance
    }

    /// The log could not be reached.
    pub fn unreachable(&mut self) {
        self.looked = None;
    }

    /// It follows again after a claim that did not count, or a lead that was lost.
    pub fn begin_again(&mut self) {
        *self = Candidacy::new(self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ignored, Leader};

    /// Looks ten times a second, from a time on, until it wants to claim or the end.
    fn claims_at(candidacy: &mut Candidacy, from: u64, seconds: u64) -> Option<u64> {
        (from * 10..(from + seconds) * 10).find(|tenth| candidacy.reached_end(Duration::from_millis(tenth * 100)))
    }

    #[test]
    fn silence_makes_a_candidate_and_heartbeats_make_none() {
        let mut candidacy = Candidacy::new(1);
        assert_eq!(claims_at(&mut candidacy, 0, 4), None);
        candidacy.judged(&Effect::Alive, 0);
        assert_eq!(claims_at(&mut candidacy, 4, 4), None);
        candidacy.judged(&Effect::Ignored(Ignored::PastTerm), 0);
        // The silence began at 3.9 s, with the look before the heartbeat.
        assert_eq!(claims_at(&mut candidacy, 8, 4), Some(89));
    }

    #[test]
    fn time_without_the_log_does_not_count() {
        let mut candidacy = Candidacy::new(1);
        assert_eq!(claims_at(&mut candidacy, 0, 4), None);
        candidacy.unreachable();
        assert_eq!(claims_at(&mut candidacy, 100, 1), None);
        // Nor does time in which this process was stopped.
        assert_eq!(claims_at(&mut candidacy, 500, 0), None);
        assert!(!candidacy.reached_end(Duration::from_secs(500)));
        assert!(claims_at(&mut candidacy, 500, 2).is_some());
    }

    #[test]
    fn what_was_read_before_the_end_was_last_reached_is_forgotten() {
        let mut candidacy = Candidacy::new(1);
        let piece = vec![0; 1 << 20];
        for second in 0..1_000 {
            candidacy.judged(&Effect::Accepted { position: 0, bytes: &piece, whole: 0 }, 0);
            assert_eq!(claims_at(&mut candidacy, second, 1), None);
        }
        assert_eq!(claims_at(&mut candidacy, 1_000, 20), Some(10_040));
    }

    #[test]
    fn who_is_behind_and_who_has_no_luck_waits_longer() {
        let wait = |bytes: usize, random| {
            let mut candidacy = Candidacy::new(1);
            candidacy.judged(&Effect::Accepted { position: 0, bytes: &vec![0; bytes], whole: 0 }, random);
            claims_at(&mut candidacy, 0, 20).unwrap()
        };
        assert_eq!(wait(1, 0), 51);
        assert_eq!(wait(10 << 20, 0), 52);
        assert_eq!(wait(1, u64::MAX), 66);
    }

    #[test]
    fn a_named_successor_claims_at_once_and_the_others_wait() {
        let ended = Effect::Ended { successor: Some(2), cut_at: 9 };
        let (mut named, mut other) = (Candidacy::new(2), Candidacy::new(1));
        named.judged(&ended, 0);
        other.judged(&ended, 0);
        assert_eq!(claims_at(&mut named, 0, 1), Some(0));
        assert_eq!(claims_at(&mut other, 0, 5), None);
        // It has not come.
        assert!(claims_at(&mut other, 5, 1).is_some());
        let leader = Leader { node: 1, incarnation: 1, address: String::new() };
        named.judged(&Effect::Claimed { term: 3, leader, cut_at: 9 }, 0);
        assert_eq!(claims_at(&mut named, 1, 4), None);
    }
}
