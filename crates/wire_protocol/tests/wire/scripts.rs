//! Golden scripts of the wire: bytes in, what they mean; documents in, bytes out.
//!
//! Sections: `bytes` (hexadecimal, a field a line; what follows `;` is a remark) is parsed as a frame, or `reply` (a document)
//! is written as one, to a request of the kind that `to` says (`msg`, `msg with checksum`, `query`). In `bytes` the word
//! `length` is the frame's length, `document {...}` a document's bytes, `text "..."` a text with its zero, `checksum` the
//! CRC-32C of everything before it.

use script_test::{Case, Suite, parse_document, print_document};
use wire_protocol::{Compressor, OpMsg, OpQuery, ReplyBuilder, ReplyTo, Request, decompress};

const COMPRESSORS: [Compressor; 4] = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

#[test]
fn wire_scripts() {
    let count = Suite::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts")).run(outcome);
    assert!(count >= 30, "{count} cases");
}

fn outcome(case: &Case) -> String {
    if case.has("reply") {
        return written(case);
    }
    let frame = frame(case.text("bytes").unwrap_or_else(|| panic!("{}: neither bytes nor reply", case.place)));
    let mut content = Vec::new();
    let (frame, compressor) = match decompress(&frame, &COMPRESSORS, &mut content) {
        Ok(compressor) => (&content, Some(compressor)),
        // Not compressed; or it is, and wrong.
        Err(error) if frame.get(12..16) == Some(&2012_i32.to_le_bytes()[..]) => return format!("error {error}"),
        Err(_) => (&frame, None),
    };
    let said = match Request::parse(frame) {
        Ok(Request::Msg(message)) => msg(&message),
        Ok(Request::Query(query)) => self::query(&query),
        Err(error) => format!("error {error}"),
    };
    match compressor {
        Some(compressor) => format!("{}\n{said}", compressor.name()),
        None => said,
    }
}

fn msg(message: &OpMsg<'_>) -> String {
    let header = message.header;
    let mut flags = Vec::new();
    for (is_set, name) in [
        (message.flags.checksum_present, "checksum"),
        (message.flags.more_to_come, "more to come"),
        (message.flags.exhaust_allowed, "exhaust allowed"),
    ] {
        flags.extend(is_set.then_some(name));
    }
    let mut lines = vec![format!("OP_MSG {} [{}]", header.request_id, flags.join(", "))];
    lines.push(format!("body {}", print_document(message.body)));
    for sequence in message.sequences.iter() {
        let documents: Vec<String> = sequence.documents().map(print_document).collect();
        lines.push(format!("{} {}", sequence.identifier(), documents.join(" ")));
    }
    lines.join("\n")
}

fn query(query: &OpQuery<'_>) -> String {
    let database = query.command_database().unwrap_or("(no command)");
    format!("OP_QUERY {} on {database}\n{}", query.header.request_id, print_document(query.command()))
}

fn written(case: &Case) -> String {
    let reply_to = match case.text("to") {
        Some("msg") => ReplyTo::Msg { checksum: false },
        Some("msg with checksum") => ReplyTo::Msg { checksum: true },
        Some("query") => ReplyTo::Query,
        other => panic!("{}: no reply to {other:?}", case.place),
    };
    let mut builder = ReplyBuilder::default();
    builder.begin(reply_to);
    builder.append(&case.document("reply"));
    match case.text("mark") {
        Some("more to come") => builder.mark_more_to_come(),
        Some("failure") => builder.mark_query_failure(),
        Some(other) => panic!("{}: no mark {other}", case.place),
        None => {}
    }
    let frame = builder.finish(8, 7).unwrap();
    let rows: Vec<String> = frame.chunks(16).map(hex::encode).collect();
    rows.iter().map(|row| spaced(row)).collect::<Vec<_>>().join("\n")
}

/// A space between each four bytes.
fn spaced(digits: &str) -> String {
    digits.as_bytes().chunks(8).map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
}

fn frame(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut length_at = None;
    for line in text.lines().map(|line| line.split(" ;").next().unwrap_or("").trim()).filter(|line| !line.is_empty()) {
        if line == "length" {
            length_at = Some(frame.len());
            frame.extend_from_slice(&[0; 4]);
        } else if line == "checksum" {
            set_length(&mut frame, length_at, 4);
            let checksum = crc32c::crc32c(&frame);
            frame.extend_from_slice(&checksum.to_le_bytes());
        } else if let Some(document) = line.strip_prefix("document ") {
            frame.extend_from_slice(parse_document(document).unwrap().as_bytes());
        } else if let Some(text) = line.strip_prefix("text ") {
            frame.extend_from_slice(text.trim_matches('"').as_bytes());
            frame.push(0);
        } else {
            let digits: String = line.split_whitespace().collect();
            frame.extend_from_slice(&hex::decode(&digits).unwrap_or_else(|error| panic!("{line}: {error}")));
        }
    }
    set_length(&mut frame, length_at, 0);
    frame
}

fn set_length(frame: &mut [u8], at: Option<usize>, more: usize) {
    let length = (frame.len() + more) as u32;
    if let Some(at) = at
        && frame[at..at + 4] == [0; 4]
    {
        frame[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
}
