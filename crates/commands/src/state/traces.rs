//! What is told of operations to those who trace them (`--otlp`): which of them, and what a span has.
//!
//! Decided at the end of a command by [`crate::handlers::diagnostics`]; given to a [`TraceSink`] of the program around, which never waits. Without one
//! no command does anything for it: the profiler's one look at its settings has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::get_field;
use platform::Waits;

/// Takes spans.
pub trait TraceSink: Send + Sync {
    /// One operation. Must not wait: what there is no room for is counted and lost.
    fn take(&self, span: OperationSpan);
    /// What became of them.
    fn figures(&self) -> TraceFigures;
}

/// What is traced.
#[derive(Clone)]
pub struct TraceSettings {
    /// The share of operations that are, from 0 to 1, of those whose client says nothing of it.
    pub share: f64,
    /// Where they go.
    pub sink: Arc<dyn TraceSink>,
}

/// Spans since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceFigures {
    /// Those that the collector has taken.
    pub sent: u64,
    /// Those that found the queue full.
    pub dropped: u64,
    /// Those that the collector did not take.
    pub failed: u64,
}

/// The operation of a client that has asked for this one, as W3C's `traceparent` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: [u8; 16],
    /// The span of the client.
    pub span: [u8; 8],
    /// Whether the client traces it.
    pub is_sampled: bool,
}

/// An operation that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationSpan {
    /// The command's name.
    pub command: &'static str,
    /// Database and collection, or `DATABASE.$cmd`.
    pub namespace: String,
    /// The client's address.
    pub client: String,
    /// When it came, in milliseconds since 1970.
    pub began_millis: i64,
    /// How long it took, waiting included.
    pub elapsed: Duration,
    /// Of that: until it had its place among those that run, or writes were let in.
    pub waited_for_place: Duration,
    /// Of that: for the disk, locks, the log, room and others.
    pub waits: Waits,
    /// Of that: for data to come.
    pub waited_for_data: Duration,
    /// By which plan; empty if there is none.
    pub plan: String,
    /// Keys of indexes that were looked at.
    pub keys_examined: u64,
    /// Documents that were looked at.
    pub docs_examined: u64,
    /// Documents that were given out.
    pub returned: u64,
    /// The code and the name of the error that it ended with. Not its text, which may have values of documents in it.
    pub error: Option<(i32, String)>,
    /// Whose part it is.
    pub parent: Option<TraceParent>,
}

/// What is traced here.
pub(crate) struct Traces {
    settings: TraceSettings,
    counted: AtomicU64,
}

impl Traces {
    pub(crate) fn new(settings: TraceSettings) -> Self {
        Self { settings, counted: AtomicU64::new(0) }
    }

    pub(crate) fn sink(&self) -> &dyn TraceSink {
        &*self.settings.sink
    }

    /// Whether this operation is traced. A client who says so decides; of the others the share is spread evenly, by multiples of the golden ratio.
    pub(crate) fn takes(&self, parent: Option<TraceParent>) -> bool {
        if let Some(parent) = parent {
            return parent.is_sampled;
        }
        let sample = self.counted.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let share = self.settings.share;
        share >= 1.0 || (sample as f64) < share * u64::MAX as f64
    }
}

/// What a command's comment says: `comment: {traceparent: "00-TRACE-SPAN-FLAGS"}`. Anything else says nothing.
pub(crate) fn parent_of(body: &RawDocument) -> Option<TraceParent> {
    let RawBsonRef::Document(comment) = get_field(body, "comment")? else { return None };
    let RawBsonRef::String(text) = get_field(comment, "traceparent")? else { return None };
    parse(text)
}

fn parse(text: &str) -> Option<TraceParent> {
    let mut parts = text.split('-');
    let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    // A later version may have more parts; none may be `ff`.
    if (version == "00" && parts.next().is_some()) || bytes::<1>(version)? == [0xff] {
        return None;
    }
    let (trace, span, [flags]) = (bytes::<16>(trace)?, bytes::<8>(span)?, bytes::<1>(flags)?);
    let is_real = trace != [0; 16] && span != [0; 8];
    is_real.then_some(TraceParent { trace, span, is_sampled: flags & 1 == 1 })
}

/// Lower case alone, as the standard has it.
fn bytes<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let is_hexadecimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != LENGTH * 2 || !text.as_bytes().iter().all(is_hexadecimal) {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_comment_names_the_parent() {
        let body = |text: &str| rawdoc! { "find": "c", "comment": { "traceparent": text } };
        let parent = parent_of(&body(PARENT)).unwrap();
        assert_eq!((parent.trace[0], parent.span[1], parent.is_sampled), (0x4b, 0xf0, true));
        assert!(!parent_of(&body(&PARENT.replace("-01", "-00"))).unwrap().is_sampled);
        assert!(parent_of(&body(&PARENT.replace("00-4b", "01-4b").replace("-01", "-01-more"))).is_some());
        let wrong = [
            String::new(),
            PARENT.to_uppercase(),
            PARENT.replace("00-4b", "ff-4b"),
            PARENT.replace("-01", "-01-more"),
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            PARENT.replace("00f067aa0ba902b7", "é0f067aa0ba902b"),
        ];
        for text in wrong {
            assert_eq!(parent_of(&body(&text)), None, "{text}");
        }
        assert_eq!(parent_of(&rawdoc! { "find": "c", "comment": PARENT }), None);
    }

    #[test]
    fn the_share_is_spread_evenly_and_a_parent_decides() {
        struct Nobody;
        impl TraceSink for Nobody {
            fn take(&self, _span: OperationSpan) {}
            fn figures(&self) -> TraceFigures {
                TraceFigures::default()
            }
        }
        let traces = |share| Traces::new(TraceSettings { share, sink: Arc::new(Nobody) });
        let taken = |share| {
            let traces = traces(share);
            (0..1000).filter(|_| traces.takes(None)).count()
        };
        assert_eq!((taken(0.0), taken(1.0)), (0, 1000));
        assert!((90..110).contains(&taken(0.1)), "{}", taken(0.1));
        let parent = |is_sampled| Some(TraceParent { trace: [1; 16], span: [1; 8], is_sampled });
        assert!(traces(0.0).takes(parent(true)) && !traces(1.0).takes(parent(false)));
    }
}
