//! What is known of a document beside its fields, which `$meta` reads by keywords.
//!
//! Made by plans and stages that find out: scores by a search of texts, distances by `$near` and `$geoNear`, others by
//! `$score`. It goes along with a document as long as stages pass the document on.

use std::ops::BitOr;
use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};

use crate::error::{ErrorKind, QueryError};

/// What is known of one document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Its score for a `$text` query.
    pub text_score: Option<f64>,
    /// How far it is from the point of `$near` or `$geoNear`, in metres, radians or the units of the plane.
    pub distance: Option<f64>,
    /// The place of the document that is so far.
    pub place: Option<Arc<RawBson>>,
    /// What `$score` computed.
    pub score: Option<f64>,
    /// And how it did.
    pub score_details: Option<Arc<RawDocumentBuf>>,
}

/// What is asked for by `$meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Keyword {
    TextScore,
    GeoNearDistance,
    GeoNearPoint,
    Score,
    ScoreDetails,
}

/// Which parts of what is known are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetadataUse {
    /// The score for a `$text` query.
    pub text_score: bool,
    /// The distance or the place.
    pub nearness: bool,
    /// What `$score` computed.
    pub score: bool,
}

impl Keyword {
    const ALL: [Keyword; 5] =
        [Keyword::TextScore, Keyword::GeoNearDistance, Keyword::GeoNearPoint, Keyword::Score, Keyword::ScoreDetails];

    /// The keyword that a client has written.
    pub fn named(name: &str) -> Option<Keyword> {
        Keyword::ALL.into_iter().find(|keyword| keyword.name() == name)
    }

    /// As a client writes it.
    pub fn name(self) -> &'static str {
        match self {
            Keyword::TextScore => "textScore",
            Keyword::GeoNearDistance => "geoNearDistance",
            Keyword::GeoNearPoint => "geoNearPoint",
            Keyword::Score => "score",
            Keyword::ScoreDetails => "scoreDetails",
        }
    }

    /// What it reads.
    pub fn reads(self) -> MetadataUse {
        match self {
            Keyword::TextScore => MetadataUse { text_score: true, ..MetadataUse::default() },
            Keyword::GeoNearDistance | Keyword::GeoNearPoint => {
                MetadataUse { nearness: true, ..MetadataUse::default() }
            }
            Keyword::Score | Keyword::ScoreDetails => MetadataUse { score: true, ..MetadataUse::default() },
        }
    }

    /// What is said where it is not known.
    pub fn not_available(self) -> QueryError {
        let what = match self {
            Keyword::TextScore => "text score",
            Keyword::GeoNearDistance => "$geoNear distance",
            Keyword::GeoNearPoint => "$geoNear point",
            Keyword::Score => "score",
            Keyword::ScoreDetails => "scoreDetails",
        };
        let message = format!("query requires {what} metadata, but it is not available");
        QueryError::new(ErrorKind::Location(40218), message)
    }
}

impl Metadata {
    /// What a keyword stands for; `None` when that is not known.
    pub fn value(&self, keyword: Keyword) -> Option<RawBsonRef<'_>> {
        match keyword {
            Keyword::TextScore => self.text_score.map(RawBsonRef::Double),
            Keyword::GeoNearDistance => self.distance.map(RawBsonRef::Double),
            Keyword::GeoNearPoint => self.place.as_deref().map(RawBson::as_raw_bson_ref),
            Keyword::Score => self.score.map(RawBsonRef::Double),
            Keyword::ScoreDetails => self.score_details.as_deref().map(|details| RawBsonRef::Document(details)),
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Metadata::default()
    }

    /// As a document, for who keeps it beside the fields.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        if let Some(score) = self.text_score {
            document.append(cstr!("textScore"), score);
        }
        if let Some(distance) = self.distance {
            document.append(cstr!("distance"), distance);
        }
        if let Some(place) = &self.place {
            document.append(cstr!("place"), place.as_raw_bson_ref());
        }
        if let Some(score) = self.score {
            document.append(cstr!("score"), score);
        }
        if let Some(details) = &self.score_details {
            document.append(cstr!("details"), &***details);
        }
        document
    }

    /// The same back.
    pub fn of_document(document: &RawDocument) -> Metadata {
        let number = |name| document::get_field(document, name).and_then(|value| value.as_f64());
        let place = document::get_field(document, "place").map(|place| Arc::new(RawBson::from(place)));
        let details = document::get_field(document, "details").and_then(|details| details.as_document());
        Metadata {
            text_score: number("textScore"),
            distance: number("distance"),
            place,
            score: number("score"),
            score_details: details.map(|details| Arc::new(details.to_owned())),
        }
    }
}

impl MetadataUse {
    /// Whether anything is read.
    pub fn is_any(self) -> bool {
        self.text_score || self.nearness || self.score
    }
}

impl BitOr for MetadataUse {
    type Output = MetadataUse;

    fn bitor(self, other: MetadataUse) -> MetadataUse {
        MetadataUse {
            text_score: self.text_score || other.text_score,
            nearness: self.nearness || other.nearness,
            score: self.score || other.score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_beside_the_fields_comes_back() {
        let place = RawBson::Document(bson::rawdoc! { "type": "Point", "coordinates": [1.5, 2.0] });
        let known = Metadata {
            text_score: Some(0.75),
            distance: Some(12.5),
            place: Some(Arc::new(place)),
            score: Some(-1.0),
            score_details: Some(Arc::new(bson::rawdoc! { "value": -1.0 })),
        };
        assert_eq!(Metadata::of_document(&known.to_document()), known);
        assert!(Metadata::of_document(&Metadata::default().to_document()).is_empty());
    }
}
