//! The warning that a shared log is not set up as its promises need. It is told in words, which figures have no place for.
//!
//! Called by the recorder for each moment.

use bson::RawDocument;
use flight_recorder::patterns::{Finding, Severity};
use flight_recorder::value_at;

const COMPLAINTS: &str = "plimsoll.replicaSet.log.complaints";

/// What `status` says of the log's settings; `before`: what was said of them a moment ago.
pub(super) fn finding(status: &RawDocument, now: i64, before: Option<&Finding>) -> Option<Finding> {
    let complaints = value_at(status, COMPLAINTS)?.as_array()?;
    let texts: Vec<&str> = complaints.into_iter().flatten().filter_map(|text| text.as_str()).collect();
    let what = texts.join("; ");
    (!what.is_empty()).then(|| Finding {
        pattern: "sharedLogSettings",
        severity: Severity::Severe,
        from: before.map_or(now, |before| before.from),
        to: now,
        what,
        advice: "set it back: what the set has acknowledged may be lost otherwise, and a member that is started again does not serve",
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn what_the_log_lacks_is_told_by_name_and_since_when() {
        let status = |complaints: &[&str]| {
            let complaints: Vec<String> = complaints.iter().map(|&text| text.to_owned()).collect();
            rawdoc! { "plimsoll": { "replicaSet": { "log": { "complaints": bson::RawArrayBuf::from_iter(complaints) } } } }
        };
        assert_eq!(finding(&rawdoc! {}, 1, None), None);
        assert_eq!(finding(&status(&[]), 1, None), None);
        let first = finding(&status(&["retention.ms of the topic rs0 is 1"]), 5, None).unwrap();
        let later = finding(&status(&["retention.ms of the topic rs0 is 1", "two"]), 9, Some(&first)).unwrap();
        assert_eq!((later.from, later.to), (5, 9));
        assert_eq!(later.what, "retention.ms of the topic rs0 is 1; two");
    }
}
