//! The table of what must be noticed: rules and members that are wrong in one place.
//!
//! `Model` has the mistakes of the rule, `Member` those around it. None of this is in the product.

/// A wrong rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Ranges of former terms count.
    PastTermsCount,
    /// Claims of former terms count, too: the term falls back.
    OldClaimsCount,
    /// Half an entry is not forgotten at a claim.
    HalfIsKept,
    /// A claim takes away what a whole entry is, too.
    ClaimForgetsWhole,
    /// What stands behind a gap counts.
    GapsCount,
    /// Repeats count.
    RepeatsCount,
    /// Of a range that overlaps all bytes count.
    OverlapsCountTwice,
    /// The end of a range is taken for the end of an entry.
    RangesAreWhole,
    /// A reader that goes on does not read the beginning of half an entry again.
    HalfIsNotReadAgain,
}

pub(super) const RULE_MISTAKES: &[Mistake] = &[
    Mistake::PastTermsCount,
    Mistake::OldClaimsCount,
    Mistake::HalfIsKept,
    Mistake::ClaimForgetsWhole,
    Mistake::GapsCount,
    Mistake::RepeatsCount,
    Mistake::OverlapsCountTwice,
    Mistake::RangesAreWhole,
    Mistake::HalfIsNotReadAgain,
];

/// A member that handles the rule wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberMistake {
    /// Tells clients of what the log has answered.
    BelievesAnswers,
    /// Judges a record that was answered, though there are others before it that were not read.
    SkipsWhatOthersAppended,
    /// Goes on with its old term after its own restart.
    GoesOnAfterRestart,
    /// Takes its former life's claim for its own.
    HasOneLife,
    /// Keeps entries that did not count when somebody else has claimed.
    KeepsItsTail,
    /// Goes on from the place of the log where it was, with an older checkpoint.
    ForgetsToReadAgain,
    /// Now and then gets other bytes than the log has. The product's checks notice it in time.
    Misreads,
}

pub(super) const MEMBER_MISTAKES: &[MemberMistake] = &[
    MemberMistake::BelievesAnswers,
    MemberMistake::SkipsWhatOthersAppended,
    MemberMistake::GoesOnAfterRestart,
    MemberMistake::HasOneLife,
    MemberMistake::KeepsItsTail,
    MemberMistake::ForgetsToReadAgain,
    MemberMistake::Misreads,
];
