//! Spans as OTLP writes them in JSON: `ExportTraceServiceRequest`, its numbers of 64 bits as text, its identifiers in hexadecimal.
//!
//! Called by `otlp`. Names of attributes are those of OpenTelemetry's conventions for databases where there is one, `plimsoll.` otherwise. Nothing of a
//! document is in them.

use std::time::Duration;

use commands::OperationSpan;
use platform::Random;
use serde_json::{Value, json};

/// A span of a server.
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;

/// Whose spans they are.
pub(super) struct Resource {
    host: String,
    process: u32,
}

impl Resource {
    pub(super) fn of_process() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { host, process: std::process::id() }
    }
}

/// The request for these spans.
pub(super) fn written(spans: &[OperationSpan], resource: &Resource, random: &dyn Random) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = spans.iter().map(|span| written_one(span, random)).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            text("service.name", "plimsoll"),
            text("service.version", version),
            text("host.name", &resource.host),
            number("process.pid", u64::from(resource.process)),
        ] },
        "scopeSpans": [{ "scope": { "name": "plimsoll", "version": version }, "spans": spans }],
    }] })
}

fn written_one(span: &OperationSpan, random: &dyn Random) -> Value {
    let (mut own_trace, mut own) = ([0; 16], [0; 8]);
    random.fill(&mut own);
    let trace = span.parent.map_or_else(
        || {
            random.fill(&mut own_trace);
            own_trace
        },
        |parent| parent.trace,
    );
    let began = u128::try_from(span.began_millis).unwrap_or(0) * 1_000_000;
    let mut written = json!({
        "traceId": hex::encode(trace),
        "spanId": hex::encode(own),
        "name": format!("{} {}", span.command, span.namespace),
        "kind": KIND_SERVER,
        "startTimeUnixNano": began.to_string(),
        "endTimeUnixNano": (began + span.elapsed.as_nanos()).to_string(),
        "attributes": attributes(span),
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = hex::encode(parent.span).into();
    }
    if let Some((_, name)) = &span.error {
        written["status"] = json!({ "code": STATUS_ERROR, "message": name });
    }
    written
}

fn attributes(span: &OperationSpan) -> Vec<Value> {
    let (database, collection) = span.namespace.split_once('.').unwrap_or((&span.namespace, ""));
    let micros = |name: &str, time: Duration| number(name, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    let mut attributes = vec![
        text("db.system.name", "mongodb"),
        text("db.operation.name", span.command),
        text("db.namespace", database),
        text("client.address", &span.client),
        number("plimsoll.keys_examined", span.keys_examined),
        number("plimsoll.docs_examined", span.docs_examined),
        number("plimsoll.returned", span.returned),
        micros("plimsoll.wait.place_us", span.waited_for_place),
        micros("plimsoll.wait.data_us", span.waited_for_data),
    ];
    attributes.extend(
        platform::WAIT_KINDS.map(|(kind, name)| micros(&format!("plimsoll.wait.{name}_us"), span.waits.of(kind))),
    );
    if !matches!(collection, "" | "$cmd") {
        attributes.push(text("db.collection.name", collection));
    }
    if !span.plan.is_empty() {
        attributes.push(text("plimsoll.plan_summary", &span.plan));
    }
    if let Some((code, name)) = &span.error {
        attributes.push(text("db.response.status_code", &code.to_string()));
        attributes.push(text("error.type", name));
    }
    attributes
}

fn text(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn number(name: &str, value: u64) -> Value {
    json!({ "key": name, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use commands::TraceParent;
    use platform::SeededRandom;

    use super::*;

    #[test]
    fn a_span_has_what_the_specification_wants() {
        let span = OperationSpan {
            command: "find",
            namespace: "shop.orders.old".to_owned(),
            client: "127.0.0.1:5".to_owned(),
            began_millis: 1_764_417_600_123,
            elapsed: Duration::from_micros(1500),
            waited_for_place: Duration::from_micros(7),
            waits: platform::Waits::default(),
            waited_for_data: Duration::ZERO,
            plan: "IXSCAN { a: 1 }".to_owned(),
            keys_examined: 3,
            docs_examined: 2,
            returned: 1,
            error: Some((50, "MaxTimeMSExpired".to_owned())),
            parent: Some(TraceParent { trace: [0xab; 16], span: [0xcd; 8], is_sampled: true }),
        };
        let resource = Resource { host: "h".to_owned(), process: 1 };
        let other = OperationSpan { parent: None, error: None, ..span.clone() };
        let request = written(&[span, other], &resource, &SeededRandom::new(1));
        let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(spans[0]["traceId"], "ab".repeat(16));
        assert_eq!(spans[0]["parentSpanId"], "cd".repeat(8));
        assert_eq!(spans[0]["startTimeUnixNano"], "1764417600123000000");
        assert_eq!(spans[0]["endTimeUnixNano"], "1764417600124500000");
        assert_eq!(spans[0]["status"], json!({ "code": 2, "message": "MaxTimeMSExpired" }));
        let attributes = spans[0]["attributes"].as_array().unwrap();
        for expected in [
            text("db.namespace", "shop"),
            text("db.collection.name", "orders.old"),
            text("db.response.status_code", "50"),
            number("plimsoll.wait.place_us", 7),
        ] {
            assert!(attributes.contains(&expected), "{expected} is not in {attributes:?}");
        }
        assert_eq!(spans[1]["traceId"].as_str().unwrap().len(), 32);
        assert_ne!((&spans[1]["traceId"], &spans[1]["spanId"]), (&spans[0]["traceId"], &spans[0]["spanId"]));
        assert!(spans[1].get("status").is_none() && spans[1].get("parentSpanId").is_none());
    }
}
