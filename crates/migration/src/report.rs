//! What was carried over, and what could not be. Printed by `copy` at the end.

use std::time::Duration;

/// How many differences are listed.
const LISTED_MAX: usize = 20;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) collections: u64,
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) indexes: u64,
    pub(crate) views: u64,
    pub(crate) users: u64,
    pub(crate) roles: u64,
    /// Changes that were followed.
    pub(crate) changes: u64,
    pub(crate) took: Duration,
    /// What was not carried over, and why.
    left: Vec<(String, String)>,
    /// What `--verify` found; `None`: it was not asked.
    pub(crate) differences: Option<Vec<String>>,
}

impl Report {
    /// Something stays behind.
    pub(crate) fn left(&mut self, what: String, why: String) {
        self.left.push((what, why));
    }

    /// What stays behind, each with the reason.
    pub(crate) fn into_left(self) -> Vec<(String, String)> {
        self.left
    }

    /// Whether everything is on the other side.
    pub(crate) fn is_whole(&self) -> bool {
        self.left.is_empty() && self.differences.as_ref().is_none_or(Vec::is_empty)
    }

    pub(crate) fn in_text(&self) -> String {
        let seconds = self.took.as_secs_f64().max(0.001);
        let mebibytes = self.bytes as f64 / 1_048_576.0;
        let mut text = format!(
            "copied {} collections, {} documents, {mebibytes:.1} MiB in {seconds:.1} s ({:.0} documents/s, {:.1} MiB/s); {} indexes, {} views\n",
            self.collections,
            self.documents,
            self.documents as f64 / seconds,
            mebibytes / seconds,
            self.indexes,
            self.views
        );
        if self.users + self.roles > 0 {
            text += &format!("{} users, {} roles\n", self.users, self.roles);
        }
        if self.changes > 0 {
            text += &format!("followed {} changes\n", self.changes);
        }
        if !self.left.is_empty() {
            text += "not carried over:\n";
            self.left.iter().for_each(|(what, why)| text += &format!("  {what}: {why}\n"));
        }
        match &self.differences {
            None => {}
            Some(differences) if differences.is_empty() => text += "verified: both sides have the same\n",
            Some(differences) => {
                text += &format!("verified: {} differences\n", differences.len());
                differences.iter().take(LISTED_MAX).for_each(|difference| text += &format!("  {difference}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_behind_is_named() {
        let mut report = Report { documents: 10, differences: Some(Vec::new()), ..Report::default() };
        assert!(report.is_whole() && report.in_text().contains("both sides have the same"));
        report.left("shop.orders, index place_2dsphere".to_owned(), "not supported (67, CannotCreateIndex)".to_owned());
        assert!(!report.is_whole());
        assert!(report.in_text().contains("not carried over:\n  shop.orders, index place_2dsphere: not supported"));
    }
}
