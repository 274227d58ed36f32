//! Cutting a collection into parts by `_id`. Called by `copy`.
//!
//! Parts are bounds of the index on `_id` (`min`, `max`), not filters: `$gte` sees values of one type only, bounds see all.

use bson::{Bson, doc};
use mongodb::Client;

use crate::catalog::Listed;
use crate::error::CopyError;

/// A collection with fewer documents is one part.
const PART_DOCUMENTS_MIN: u64 = 50_000;
/// Of each part so many documents are looked at to find its end.
const SAMPLES_EACH: u64 = 20;

/// Documents from one `_id` on and before another; `None`: without an end.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Part {
    pub(crate) from: Option<Bson>,
    pub(crate) to: Option<Bson>,
}

/// At most `parts_max` parts that together are the whole collection.
pub(crate) async fn parts(client: &Client, listed: &Listed, parts_max: usize) -> Result<Vec<Part>, CopyError> {
    let wanted = (listed.documents / PART_DOCUMENTS_MIN).min(parts_max as u64);
    if !listed.has_ranges() || wanted < 2 {
        return Ok(vec![Part::default()]);
    }
    let what = || CopyError::command(format!("look for ranges of {}", listed.namespace()));
    let pipeline = [
        doc! { "$sample": { "size": (wanted * SAMPLES_EACH) as i64 } },
        doc! { "$project": { "_id": 1 } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let collection = client.database(&listed.database).collection::<bson::Document>(&listed.name);
    let mut cursor = collection.aggregate(pipeline).await.map_err(what())?;
    let mut ids = Vec::new();
    while cursor.advance().await.map_err(what())? {
        ids.extend(cursor.deserialize_current().map_err(what())?.remove("_id"));
    }
    Ok(cut(&ids, wanted as usize))
}

/// Parts whose ends are evenly among sorted `ids`.
fn cut(ids: &[Bson], wanted: usize) -> Vec<Part> {
    let mut ends: Vec<Bson> = (1..wanted).filter_map(|part| ids.get(part * ids.len() / wanted).cloned()).collect();
    ends.dedup();
    let froms = std::iter::once(None).chain(ends.iter().cloned().map(Some));
    let tos = ends.iter().cloned().map(Some).chain(std::iter::once(None));
    froms.zip(tos).map(|(from, to)| Part { from, to }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let ids: Vec<Bson> = (0..100).map(Bson::Int32).collect();
        let parts = cut(&ids, 4);
        assert_eq!(parts.len(), 4);
        assert!(parts[0].from.is_none() && parts[3].to.is_none());
        assert!(parts.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].to.is_some()));
        assert_eq!(cut(&[], 4), [Part::default()]);
        assert_eq!(cut(&vec![Bson::Int32(7); 80], 4).len(), 2);
    }
}
