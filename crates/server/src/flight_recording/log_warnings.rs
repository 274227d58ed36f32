//! Warnings of the shared log that are told in words, which figures have no place for: that it is not set up as its promises need, and that it is not trimmed.
//!
//! Called by the recorder for each moment.

use bson::RawDocument;
use flight_recorder::patterns::{Finding, Severity};
use flight_recorder::value_at;

/// Where words are told, and what they are a sign of.
struct Told {
    path: &'static str,
    pattern: &'static str,
    severity: Severity,
    advice: &'static str,
}

const TOLD: &[Told] = &[
    Told {
        path: "plimsoll.replicaSet.log.complaints",
        pattern: "sharedLogSettings",
        severity: Severity::Severe,
        advice: "set it back: what the set has acknowledged may be lost otherwise, and a member that is started again does not serve",
    },
    Told {
        path: "plimsoll.replicaSet.log.keptBecause",
        pattern: "sharedLogNotTrimmed",
        severity: Severity::Warning,
        advice: "the log grows until that is mended, or use --log-window off and trim it with plimsoll log trim",
    },
];

/// What `status` says of the log; `before`: what was said of it a moment ago.
pub(super) fn findings(status: &RawDocument, now: i64, before: &[Finding]) -> Vec<Finding> {
    let finding = |told: &Told| {
        let texts = value_at(status, told.path)?.as_array()?;
        let texts: Vec<&str> = texts.into_iter().flatten().filter_map(|text| text.as_str()).collect();
        let what = texts.join("; ");
        let since = before.iter().find(|before| before.pattern == told.pattern).map_or(now, |before| before.from);
        (!what.is_empty()).then_some(Finding {
            pattern: told.pattern,
            severity: told.severity,
            from: since,
            to: now,
            what,
            advice: told.advice,
        })
    };
    TOLD.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn what_is_told_of_the_log_is_a_warning_by_name_and_since_when() {
        let list = |texts: &[&str]| bson::RawArrayBuf::from_iter(texts.iter().map(|&text| text.to_owned()));
        let status = |complaints: &[&str], kept: &[&str]| {
            rawdoc! { "plimsoll": { "replicaSet": { "log": { "complaints": list(complaints), "keptBecause": list(kept) } } } }
        };
        assert_eq!(findings(&rawdoc! {}, 1, &[]), []);
        assert_eq!(findings(&status(&[], &[]), 1, &[]), []);
        let first = findings(&status(&["retention.ms of the topic rs0 is 1"], &[]), 5, &[]);
        let later = findings(&status(&["retention.ms of the topic rs0 is 1", "two"], &["no copy"]), 9, &first);
        assert_eq!((later[0].from, later[0].to, later[1].from), (5, 9, 9));
        assert_eq!(later[0].what, "retention.ms of the topic rs0 is 1; two");
        assert_eq!((later[1].pattern, &*later[1].what), ("sharedLogNotTrimmed", "no copy"));
    }
}
