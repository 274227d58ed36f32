//! Reading both sides and comparing them: every document, byte for byte, the indexes and the options. Called by `copy`.
//!
//! It is exact only while nobody writes: of a source in use it finds what changed meanwhile.

use bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{FindOptions, Hint};
use mongodb::{Client, Cursor};

use crate::catalog::{Kind, Listed, indexes};
use crate::definitions::comparable;
use crate::error::CopyError;
use crate::transfer::id_of;

const READ_DOCUMENTS: u32 = 5_000;
/// Of one collection so many differences are told.
const DIFFERENCES_MAX: usize = 10;

/// The differences of one collection, in words.
pub(crate) async fn compare(source: &Client, target: &Client, listed: &Listed) -> Result<Vec<String>, CopyError> {
    let mut found = Vec::new();
    if listed.kind == Kind::View {
        return Ok(found);
    }
    let namespace = listed.namespace();
    let what = || CopyError::command(format!("compare {namespace}"));
    let (mut left, mut right) = (
        open(source, listed, &listed.database, &listed.name).await?,
        open(target, listed, &listed.target.database, &listed.target.name).await?,
    );
    let (mut has_left, mut has_right) = (left.advance().await.map_err(what())?, right.advance().await.map_err(what())?);
    while (has_left || has_right) && found.len() < DIFFERENCES_MAX {
        let (mut steps_left, mut steps_right) = (has_left, has_right);
        match (has_left, has_right) {
            (true, true) if left.current().as_bytes() == right.current().as_bytes() => {}
            (true, true) => {
                let (one, other) = (shown_id(&left), shown_id(&right));
                if one == other {
                    found.push(format!("{namespace}: the document with _id {one} differs"));
                } else {
                    // Which of them the other side lacks is told by which comes first; the order of all types is the server's.
                    let is_missing = exists(target, listed, &left).await?;
                    (steps_left, steps_right) = (!is_missing, is_missing);
                    let (id, side) =
                        if is_missing { (other, "only the target has") } else { (one, "the target lacks") };
                    found.push(format!("{namespace}: {side} the document with _id {id}"));
                }
            }
            (true, false) => {
                found.push(format!("{namespace}: the target lacks the document with _id {}", shown_id(&left)))
            }
            (false, _) => {
                found.push(format!("{namespace}: only the target has the document with _id {}", shown_id(&right)))
            }
        }
        if steps_left {
            has_left = left.advance().await.map_err(what())?;
        }
        if steps_right {
            has_right = right.advance().await.map_err(what())?;
        }
    }
    let of = |indexes: Vec<Document>| {
        let mut all: Vec<_> = indexes.iter().map(comparable).collect();
        all.sort_by(|left, right| left.0.cmp(&right.0));
        all
    };
    let (here, there) =
        (of(listed.indexes.clone()), of(indexes(target, &listed.target.database, &listed.target.name).await?));
    for (name, options) in &here {
        match there.iter().find(|(other, _)| other == name) {
            None => found.push(format!("{namespace}: the target lacks the index {name}")),
            Some((_, others)) if others != options => {
                found.push(format!("{namespace}: the index {name} has other options"))
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

async fn open(
    client: &Client,
    listed: &Listed,
    database: &str,
    name: &str,
) -> Result<Cursor<RawDocumentBuf>, CopyError> {
    let mut options = FindOptions::builder().batch_size(READ_DOCUMENTS).no_cursor_timeout(true).build();
    match listed.kind {
        Kind::Capped => options.hint = Some(Hint::Keys(doc! { "$natural": 1 })),
        Kind::TimeSeries => options.sort = Some(time_order(listed)),
        _ => options.sort = Some(doc! { "_id": 1 }),
    }
    options.allow_disk_use = Some(true);
    let collection = client.database(database).collection::<RawDocumentBuf>(name);
    collection.find(doc! {}).with_options(options).await.map_err(CopyError::command(format!("read {database}.{name}")))
}

fn time_order(listed: &Listed) -> Document {
    let time =
        listed.options.get_document("timeseries").and_then(|options| options.get_str("timeField")).unwrap_or("_id");
    doc! { time: 1, "_id": 1 }
}

async fn exists(target: &Client, listed: &Listed, cursor: &Cursor<RawDocumentBuf>) -> Result<bool, CopyError> {
    let collection = target.database(&listed.target.database).collection::<RawDocumentBuf>(&listed.target.name);
    let Some(id) = id_of(cursor.current()) else { return Ok(false) };
    let found = collection.find_one(doc! { "_id": { "$eq": id } }).await;
    Ok(found.map_err(CopyError::command(format!("look into {} of the target", listed.namespace())))?.is_some())
}

fn shown_id(cursor: &Cursor<RawDocumentBuf>) -> String {
    id_of(cursor.current()).map_or_else(|| "missing".to_owned(), |id| id.to_string())
}
