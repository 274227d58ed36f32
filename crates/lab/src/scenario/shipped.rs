//! The scenarios that come with this program. To add one: a file in `crates/lab/scenarios`, and its line here.

use crate::error::LabError;

/// Names and texts.
pub(super) const SHIPPED: &[(&str, &str)] = &[
    ("aggregate", include_str!("../../scenarios/aggregate.yaml")),
    ("checkpoint-storm", include_str!("../../scenarios/checkpoint-storm.yaml")),
    ("connection-storm", include_str!("../../scenarios/connection-storm.yaml")),
    ("full-cache", include_str!("../../scenarios/full-cache.yaml")),
    ("huge-transaction", include_str!("../../scenarios/huge-transaction.yaml")),
    ("insert-many", include_str!("../../scenarios/insert-many.yaml")),
    ("point-mix", include_str!("../../scenarios/point-mix.yaml")),
    ("server-17561-bursts", include_str!("../../scenarios/server-17561-bursts.yaml")),
    ("server-17561-gridfs", include_str!("../../scenarios/server-17561-gridfs.yaml")),
    ("server-17561-growing", include_str!("../../scenarios/server-17561-growing.yaml")),
    ("server-17561-large", include_str!("../../scenarios/server-17561-large.yaml")),
    ("server-17561-powers", include_str!("../../scenarios/server-17561-powers.yaml")),
    ("server-17561-small", include_str!("../../scenarios/server-17561-small.yaml")),
    ("server-44991", include_str!("../../scenarios/server-44991.yaml")),
    ("ttl-storm", include_str!("../../scenarios/ttl-storm.yaml")),
    ("ycsb-a", include_str!("../../scenarios/ycsb-a.yaml")),
    ("ycsb-b", include_str!("../../scenarios/ycsb-b.yaml")),
    ("ycsb-c", include_str!("../../scenarios/ycsb-c.yaml")),
    ("ycsb-d", include_str!("../../scenarios/ycsb-d.yaml")),
    ("ycsb-e", include_str!("../../scenarios/ycsb-e.yaml")),
    ("ycsb-f", include_str!("../../scenarios/ycsb-f.yaml")),
];

/// The text of one.
pub(super) fn text(name: &str) -> Result<&'static str, LabError> {
    let found = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        LabError::Scenario(format!(
            "there is no scenario {name:?}; there are {}; or name a file ending in .yaml",
            names.join(", ")
        ))
    })
}
