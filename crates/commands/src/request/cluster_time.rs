//! The times in every reply: `$clusterTime`, by which clients carry causality from server to server, and `operationTime`, from which on a later
//! read sees what this command saw or did.
//!
//! Written by `dispatcher`. On one server both are the timestamp of the newest visible commit; the signature is the one of a server without keys.
//!
//! A client sends the newest `$clusterTime` that it has heard of, perhaps from elsewhere. Ours does not follow it; but a time that no clock can have
//! reached is refused, as it would be by a cluster that the client talks to later.

use bson::RawBsonRef;
use platform::Clock;

use crate::DocumentWriter;
use crate::request::error::{CommandError, Result};

/// How far ahead of our clock a client's time may be: `maxAcceptableLogicalClockDriftSecs` of MongoDB, a year.
const AHEAD_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// `{$clusterTime: {clusterTime, signature: {hash: 20 zeros, keyId: 0}}, operationTime}`, with zeros in place of the times.
const TEMPLATE: &[u8] = b"\x03$clusterTime\0\x58\0\0\0\
    \x11clusterTime\0\0\0\0\0\0\0\0\0\
    \x03signature\0\x33\0\0\0\
    \x05hash\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x12keyId\0\0\0\0\0\0\0\0\0\
    \0\
    \0\
    \x11operationTime\0\0\0\0\0\0\0\0\0";
/// Where the times are in it.
const CLUSTER_TIME: usize = 14 + 4 + 13;
const OPERATION_TIME: usize = TEMPLATE.len() - 8;

/// The time in a client's `$clusterTime`, of which null says nothing.
///
/// # Errors
/// It has none.
pub(crate) fn parse(value: RawBsonRef<'_>) -> Result<Option<platform::Timestamp>> {
    if matches!(value, RawBsonRef::Null | RawBsonRef::Undefined) {
        return Ok(None);
    }
    let RawBsonRef::Document(sent) = value else {
        let found = document::type_name(value.element_type());
        let message = format!("BSON field '$clusterTime' is the wrong type '{found}', expected type 'object'");
        return Err(CommandError::type_mismatch(message));
    };
    match document::get_field(sent, "clusterTime") {
        Some(RawBsonRef::Timestamp(time)) => Ok(Some(platform::Timestamp::new(time.time, time.increment))),
        Some(_) => Err(CommandError::type_mismatch("BSON field '$clusterTime.clusterTime' must be a timestamp")),
        None => Err(CommandError::named("NoSuchKey", "BSON field '$clusterTime.clusterTime' is missing")),
    }
}

/// Refuses a client's time that is too far ahead of our clock, and of the newest time that clients can have from us: a clock may have been set back.
pub(crate) fn check(
    sent: Option<platform::Timestamp>,
    clock: &dyn Clock,
    newest: impl FnOnce() -> platform::Timestamp,
) -> Result<()> {
    let Some(sent) = sent else { return Ok(()) };
    let mut now_seconds = u64::try_from(clock.wall_millis()).unwrap_or_default() / 1000;
    if sent.0 >> 32 > now_seconds + AHEAD_SECONDS_MAX {
        now_seconds = now_seconds.max(u64::from(newest().seconds()));
    }
    if sent.0 >> 32 <= now_seconds + AHEAD_SECONDS_MAX {
        return Ok(());
    }
    let message = format!(
        "the client's $clusterTime of {} s is more than {AHEAD_SECONDS_MAX} s ahead of this server's clock, {now_seconds} s",
        sent.0 >> 32
    );
    Err(CommandError::named("ClusterTimeFailsRateLimiter", message))
}

/// Appends both fields.
pub(crate) fn write(reply: &mut DocumentWriter<'_>, time: platform::Timestamp) {
    let mut fields = [0; TEMPLATE.len()];
    fields.copy_from_slice(TEMPLATE);
    for place in [CLUSTER_TIME, OPERATION_TIME] {
        if let Some(bytes) = fields.get_mut(place..place + 8) {
            bytes.copy_from_slice(&time.0.to_le_bytes());
        }
    }
    reply.elements(&fields);
}

/// A time as BSON has it.
pub(crate) fn bson_timestamp(time: platform::Timestamp) -> bson::Timestamp {
    bson::Timestamp { time: (time.0 >> 32) as u32, increment: time.0 as u32 }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocument, doc};

    use super::*;

    #[test]
    fn a_clock_that_was_set_back_refuses_nobody_who_has_the_time_from_us() {
        let clock = platform::SimulatedClock::new(1_000_000_000);
        let ours = platform::Timestamp::new(200_000_000, 7);
        check(Some(ours), &clock, || ours).unwrap();
        assert!(check(Some(ours), &clock, || platform::Timestamp::MIN).is_err());
        let far = platform::Timestamp::new(ours.seconds() + AHEAD_SECONDS_MAX as u32 + 1, 1);
        assert!(check(Some(far), &clock, || ours).is_err());
    }

    #[test]
    fn the_template_is_what_it_says() {
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::begin(&mut bytes);
        write(&mut writer, platform::Timestamp::new(9, 3));
        writer.finish();
        let written = bson::Document::try_from(RawDocument::from_bytes(&bytes).unwrap()).unwrap();
        let time = bson::Timestamp { time: 9, increment: 3 };
        let hash = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0; 20] };
        let expected = doc! {
            "$clusterTime": {"clusterTime": time, "signature": {"hash": hash, "keyId": 0i64}},
            "operationTime": time,
        };
        assert_eq!(written, expected);
    }
}
