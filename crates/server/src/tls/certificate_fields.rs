//! What is looked for inside of a certificate beside its signature: how long it is valid, and whose it is. Used by `certificate_files` and `opening`.
//!
//! Signatures, names of hosts and revocation are the library's business. This reads what it does not tell.

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode, Reader, SliceReader, Tag, Tagged};

/// Fields of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CertificateFields<'a> {
    /// Since 1970.
    pub(super) not_before_seconds: u64,
    pub(super) not_after_seconds: u64,
    /// The parts of the subject's name, encoded.
    pub(super) subject: &'a [u8],
}

impl<'a> CertificateFields<'a> {
    /// Of a certificate in DER.
    pub(super) fn parse(certificate: &'a [u8]) -> Result<Self, der::Error> {
        let outer = AnyRef::from_der(certificate)?;
        let mut outer = SliceReader::new(content(outer, Tag::Sequence)?)?;
        let mut fields = SliceReader::new(content(AnyRef::decode(&mut outer)?, Tag::Sequence)?)?;
        let mut next = AnyRef::decode(&mut fields)?;
        if matches!(next.tag(), Tag::ContextSpecific { .. }) {
            // The version; then the serial number.
            next = AnyRef::decode(&mut fields)?;
        }
        content(next, Tag::Integer)?;
        let _signature_algorithm = AnyRef::decode(&mut fields)?;
        let _issuer = AnyRef::decode(&mut fields)?;
        let mut validity = SliceReader::new(content(AnyRef::decode(&mut fields)?, Tag::Sequence)?)?;
        let not_before_seconds = seconds(AnyRef::decode(&mut validity)?)?;
        let not_after_seconds = seconds(AnyRef::decode(&mut validity)?)?;
        let subject = content(AnyRef::decode(&mut fields)?, Tag::Sequence)?;
        Ok(Self { not_before_seconds, not_after_seconds, subject })
    }
}

/// What is inside, if it is such a thing.
pub(super) fn content(value: AnyRef<'_>, wanted: Tag) -> Result<&[u8], der::Error> {
    value.tag().assert_eq(wanted)?;
    Ok(value.value())
}

/// What follows one another.
pub(super) fn elements(content: &[u8]) -> Result<Vec<AnyRef<'_>>, der::Error> {
    let mut reader = SliceReader::new(content)?;
    let mut found = Vec::new();
    while !reader.is_finished() {
        found.push(AnyRef::decode(&mut reader)?);
    }
    Ok(found)
}

fn seconds(time: AnyRef<'_>) -> Result<u64, der::Error> {
    let since = match time.tag() {
        Tag::UtcTime => time.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => time.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(since.as_secs())
}
