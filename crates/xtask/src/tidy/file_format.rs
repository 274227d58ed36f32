//! docs/file-format.md against the code: every constant of a format is stated there with its value, and every section that
//! the code names is there.
//!
//! The constants are read from the sources, so that a format is described without a crate showing what is in it. A new
//! constant in one of these files is either stated or said to be none of the format.

use std::collections::HashMap;

use super::Complaint;
use crate::workspace::SourceFile;

const DOCUMENT: &str = "docs/file-format.md";

/// A file that writes a format, and what is stated of its constants: `{}` is the value.
struct Format {
    file: &'static str,
    stated: &'static [(&'static str, &'static str)],
    /// Constants of the file that nobody finds on a disk.
    inward: &'static [&'static str],
}

const FORMATS: &[Format] = &[
    Format {
        file: "oplog/src/local_oplog/segment.rs",
        stated: &[
            ("SEGMENT_HEADER_BYTES", "### Segment header: {} bytes"),
            ("SPARE_NAME", "`{}`"),
            ("MAGIC", "| 0 | 8 | magic `{}` |\n| 8 | 4 | format version, 1 |"),
            ("FORMAT_VERSION", "| 8 | 4 | format version, {} |\n| 12 | 4 | zero |\n| 16 | 8 | start position"),
            ("CHECKED_BYTES", "| {} | 4 | checksum of bytes 0 to 39 |"),
            ("NAME_SUFFIX", "| `<start>{}` | a segment;"),
            ("NAME_DIGITS", "as {} decimal digits, e.g. `00000000000000000000.segment`"),
        ],
        inward: &["HEADER"],
    },
    Format {
        file: "oplog/src/entry.rs",
        stated: &[
            ("ENTRY_HEADER_BYTES", "### Entry: {} bytes and the payload"),
            ("PAYLOAD_BYTES_MAX", "the payload is at most {MiB} MiB"),
        ],
        inward: &[],
    },
    Format {
        file: "oplog/src/local_oplog/stored_retention.rs",
        stated: &[
            ("NAME", "| `{}` | what"),
            ("NEW_NAME", "`{}` is one being written"),
            ("MAGIC", "`{}`, version 1, bytes, milliseconds"),
            ("ABSENT", "(8 each; {}: not set)"),
        ],
        inward: &["BYTES"],
    },
    Format {
        file: "storage_engine/src/page_store/address.rs",
        stated: &[
            ("PAGE_BYTES", "| 12 | 4 | bytes of a page image, {} |"),
            ("UNIT_BYTES", "multiples of a *unit* of {} bytes"),
            ("PAGE_ID_LIMIT", "page id, below {2^}"),
            ("LENGTH_BITS", "× 2^52 + offset of the block in units × 4096"),
            ("OFFSET_BITS", "room × 2^52"),
            ("ROOM_BITS", "at most 511 of them"),
            ("ROOM_UNIT_BYTES", "in multiples of {} bytes"),
            ("NONE", "0 is no address."),
            ("BITS", "An *address* is a number of {} bits"),
        ],
        inward: &["ROOM_SHIFT", "OFFSET_UNITS_LIMIT", "LENGTH_UNITS_LIMIT", "ROOM_UNITS_LIMIT"],
    },
    Format {
        file: "storage_engine/src/page_store/superblock.rs",
        stated: &[
            ("PAGE_FILE_NAME", "The page file is `{}`"),
            ("FORMAT_VERSION", "| 8 | 4 | format version, {} |\n| 12 | 4 | bytes of a page image"),
            ("FORMAT_VERSIONS_READ", "Format version 3. Version 1, in which no address has a room, and version 2"),
            ("SUPERBLOCK_BYTES", "### Superblock: {} bytes"),
            ("SUPERBLOCK_COUNT", "Sequence `s` is written to slot `s mod {}`"),
            ("EXTENT_BYTES_RANGE", "a multiple of 4096 from 64 KiB to 256 MiB"),
            ("MAGIC", "| 0 | 8 | magic `{}` |"),
            ("FLAG_CLEAN_SHUTDOWN", "flags; bit 0: closed in order"),
            ("CHECKSUM_OFFSET", "| {} | 4 | checksum of bytes 0 to 4091 |"),
        ],
        inward: &[],
    },
    Format {
        file: "storage_engine/src/page_store/block.rs",
        stated: &[
            ("BLOCK_HEADER_BYTES", "| {} or 36 | | compressed image |"),
            ("MAGIC", "| 4 | 2 | magic `{}` |"),
            ("AS_IT_IS", "| 7 | 1 | {}: the image was compressed as it is;"),
            ("WITH_DIFFERENCES", "; {}: with its slots told as differences |"),
        ],
        inward: &[],
    },
    Format {
        file: "storage_engine/src/page_store/page_table_record.rs",
        stated: &[
            ("FILE_HEADER_BYTES", "### File header: {} bytes"),
            ("RECORD_ALIGNMENT", "Records begin at multiples of {} bytes"),
            ("RECORD_HEADER_BYTES", "| {} | | payload |"),
            ("PAYLOAD_BYTES_MAX", "bytes of the payload, at most {KiB} KiB |"),
            ("MARK_BYTES_MAX", "the engine gave with the checkpoint, at most {KiB} KiB"),
            ("FILE_MAGIC", "| 0 | 8 | magic `{}` |"),
            ("RECORD_MAGIC", "| 4 | 4 | magic `{}` |"),
            ("COMMIT_COUNT_BYTES", "number of entries in those ({} bytes)"),
        ],
        inward: &["ENTRIES_BYTES_TARGET"],
    },
    Format {
        file: "storage_engine/src/page_store/page_table_file.rs",
        stated: &[("PAGE_TABLE_DIRECTORY", "A page-table file is `{}/<number>`")],
        inward: &["EMPTY_FILE_BYTES", "WRITE_BYTES"],
    },
    Format {
        file: "storage_engine/src/node.rs",
        stated: &[
            ("HEADER_BYTES", "| {} | 8 each | slots, in key order |"),
            ("SLOT_BYTES", "| 48 | {} each | slots, in key order |"),
            ("KIND_NODE", "| 0 | 1 | kind, {} |"),
            ("KIND_OVERFLOW", "| 0 | 1 | kind, {} |"),
            ("KIND_CHANGES", "| 0 | 1 | kind, {} (3, another encoding"),
            ("KIND", "| {} | 1 | kind, 1 |"),
            ("COUNT", "| {} | 2 | number of slots, deleted entries included |"),
            ("HEAP_START", "| {} | 2 | start of the heap |"),
            ("GARBAGE", "| {} | 2 | bytes of the heap that nothing uses |"),
            ("PREFIX_LENGTH", "| {} | 2 | length of the common prefix;"),
            ("LOWER_LENGTH", "| {} | 2 | length of the lower fence |"),
            ("UPPER_LENGTH", "| {} | 2 | length of the upper fence;"),
            ("LOWER_AT", "| {} | 2 | offset of the lower fence |"),
            ("UPPER_AT", "| {} | 2 | offset of the upper fence |"),
            ("VERSIONED", "| {} | 2 | number of entries with a version cell |"),
            ("TREE", "| {} | 8 | tree id (page id of the tree's root) |"),
            ("RIGHTMOST", "| {} | 8 | inner nodes: page id of the child"),
            ("NO_FENCE", "0xffff: none, the page is the last of its level"),
            ("SUFFIX_MASK", "bits 0 to 12 length of the suffix"),
            ("VERSION_SHIFT", "bits {} and 14 version kind"),
            ("GHOST_BIT", "bit 15 deleted)"),
            ("OVERFLOW_BIT", "bit 15: the value is an overflow reference"),
            ("IMPLIED_CELL_BYTES", "offset of the entry (2),\ncommit timestamp since which the state holds (8)"),
            ("CHAINED_CELL_BYTES", "for kind 2 the position in the version history of the state before\nit (8)"),
        ],
        inward: &["ROOM_KEPT_BYTES", "SETTLING_BYTES"],
    },
    Format {
        file: "storage_engine/src/overflow.rs",
        stated: &[
            ("REFERENCE_BYTES", "length of the whole value (4), page id of the first overflow page (8)"),
            ("NEXT_AT", "| {} | 8 | page id of the next overflow page; all ones: none |"),
            ("LENGTH_AT", "| {} | 4 | bytes of payload |\n| 20 | 4 | CRC-32C of the whole value"),
            ("VALUE_CHECKSUM_AT", "| {} | 4 | CRC-32C of the whole value"),
            ("LAST", "page id of the next overflow page; {}: none"),
        ],
        inward: &["PAYLOAD_BYTES"],
    },
    Format {
        file: "storage_engine/src/page_cache/change_encoding.rs",
        stated: &[
            ("SHAPE_SHIFT", "one byte (bits {} to 7: what it is;"),
            ("LONG_KEY", "length of the key, {}: it is told behind"),
            ("SHAPES", "6 a removal; 7 a removal, settled"),
        ],
        inward: &["HEADER_BYTES_MAX"],
    },
    Format {
        file: "storage_engine/src/saved_changes.rs",
        stated: &[
            ("NO_PAGE", "With {} in the place of the page id"),
            ("CHAINS", "stands {} for first pages of overflow chains to free"),
            ("DROPPED_TREES", "{} stands for root page ids of dropped trees"),
        ],
        inward: &["BATCH_PAGES", "NO_TREE"],
    },
    Format {
        file: "storage_engine/src/ring/file.rs",
        stated: &[
            ("DIRECTORY", "is the file `{}/<ident>.ring`"),
            ("FILE_HEADER_BYTES", "header of {} bytes (magic `PLMSRING`"),
            ("MAGIC", "(magic `{}`, format version 1"),
            ("VERSION", "`PLMSRING`, format version {} (4 bytes)"),
        ],
        inward: &[],
    },
    Format {
        file: "storage_engine/src/ring/slot.rs",
        stated: &[
            ("HEADER_BYTES", "Where less than {} bytes are left of an extent"),
            ("KIND_DOCUMENT", "| 12 | 4 | {} a document;"),
            ("KIND_SKIP", "{} nothing: the next slot is elsewhere |"),
        ],
        inward: &[],
    },
    Format {
        file: "collection/src/catalog/stored.rs",
        stated: &[
            ("COLLECTION_KEY", "| {} | ident of a collection | BSON:"),
            ("COUNTS_KEY", "| {} | ident of a collection | its counts"),
            ("DROPPED_TREE_KEY", "| {} | tree id | nothing: the tree belongs to nobody"),
            ("SESSION_TREE_KEY", "| {} | tree id | nothing: the tree has what sessions have written |"),
        ],
        inward: &[],
    },
    Format {
        file: "transaction/src/sessions/record.rs",
        stated: &[
            ("FORMAT", "| 0 | 1 | version, {} |"),
            ("HEADER_BYTES", "| {} | 17 each | runs of statements"),
            ("RUN_BYTES", "| 10 | {} each | runs of statements"),
            ("NO_DETAILS", "(8; {}: none) |"),
        ],
        inward: &["RUNS_MAX", "RUNS_KEPT"],
    },
    Format {
        file: "shared_log/src/record.rs",
        stated: &[
            ("MAGIC", "| 0 | 8 | magic `{}` | | 8 | 2 | format version, 1 | | 10 | 1 | kind: 1 claim"),
            ("FORMAT_VERSION", "magic `PLMSHREC` | | 8 | 2 | format version, {} |"),
            ("HEADER_BYTES", "| {} | | what its kind has |"),
            ("CHECKSUM_AT", "| {} | 4 | checksum of all other bytes"),
            ("KIND_CLAIM", "| 10 | 1 | kind: {} claim"),
            ("KIND_RANGE", ", {} range"),
            ("KIND_HEARTBEAT", ", {} heartbeat"),
            ("KIND_STEP_DOWN", ", {} step-down"),
            ("KIND_RESTORED", ", {} restored |"),
            ("ADDRESS_BYTES_MAX", "at most {} bytes of UTF-8"),
            ("RECORD_BYTES_MAX", "A record has at most {} bytes."),
        ],
        inward: &["RANGE_BYTES_MAX", "STORED_BYTES_MAX"],
    },
    Format {
        file: "shared_log/src/standing.rs",
        stated: &[
            ("MAGIC", "| 0 | 8 | magic `{}` | | 8 | 2 | format version, 1 | | 10 | 1 | flags"),
            ("FORMAT_VERSION", "magic `PLMSTAND` | | 8 | 2 | format version, {} |"),
            ("FIXED_BYTES", "| {} | | the address |"),
            ("CHECKSUM_BYTES", "| end | {} | checksum of all before |"),
            ("FLAG_LEADER", "flags: {} somebody has claimed"),
            ("FLAG_ENDED", ", {} he has stepped down"),
            ("FLAG_SUCCESSOR", ", {} for a successor |"),
        ],
        inward: &[],
    },
    Format {
        file: "shared_log/src/directory_log/names.rs",
        stated: &[
            ("RECORDS", "| `{}/<offset>.record` |"),
            ("RECORD_SUFFIX", "| `records/<offset>{}` |"),
            ("SENDING", "| `{}/<end>-<random>.new` |"),
            ("SENDING_SUFFIX", "| `sending/<end>-<random>{}` |"),
            ("TRIMMED", "| `{}/<offset>` |"),
            ("IDENTITY_FILE", "| `{}` | magic `PLMSHDIR`"),
            ("NEW_IDENTITY_FILE", "`{}<random>` is one being written |"),
            ("IDENTITY_BYTES", "checksum of all before (4): {} bytes;"),
            ("IDENTITY_MAGIC", "| `identity` | magic `{}`"),
            ("FORMAT_VERSION", "format version {} (4), the identity (16)"),
            ("NAME_DIGITS", "Offsets in names are {} decimal digits."),
        ],
        inward: &["CHECKED_BYTES"],
    },
    Format {
        file: "platform/src/encryption/key_file.rs",
        stated: &[
            ("KEYS_FILE", "### File of keys: `{}`"),
            ("NEW_KEYS_FILE", "Written anew as `{}` and renamed"),
            ("MAGIC", "| 0 | 8 | magic `{}` | | 8 | 4 | format version, 1 | | 12 | 4 | number of sessions |"),
            ("VERSION", "magic `PLIMKEYS` | | 8 | 4 | format version, {} |"),
            ("HEADER_BYTES", "| {} | 16 each | random bytes of each session |"),
            ("WRAPPED_AT", "| {} | 48 | the data key of 32 bytes"),
            ("KEY_BYTES", "| 36 | 48 | the data key of {} bytes"),
            ("SALT_BYTES", "| 84 | {} each | random bytes of each session |"),
            ("SEAL_BYTES", "| end | {} | HMAC-SHA-256 of all before |"),
        ],
        inward: &["RESERVED_BYTES", "SESSIONS_MAX"],
    },
    Format {
        file: "platform/src/encryption/disk.rs",
        stated: &[
            ("MAGIC", "| 0 | 8 | magic `{}` | | 8 | 4 | format version, 1 | | 12 | 16 | the file's identity"),
            ("VERSION", "magic `PLIMCRYP` | | 8 | 4 | format version, 1 |"),
            ("COPIES_AT", "the same header twice, at 0 and at 4096"),
            ("CHECKED_BYTES", "| {} | 16 | the first bytes of the SHA-256"),
            ("COPY_BYTES", "| 28 | 16 | the first bytes of the SHA-256"),
        ],
        inward: &["STATES_KEPT"],
    },
    Format {
        file: "platform/src/encryption/sector.rs",
        stated: &[
            ("SECTOR_BYTES", "are sectors of {} bytes"),
            ("CONTENT_BYTES", "sectors of 512 bytes, with {} bytes of content each"),
            ("NONCE_BYTES", "| {} | 484 | content, AES-256-GCM"),
            ("TAG_BYTES", "| 496 | {} | tag |"),
            ("HEADER_BYTES", "The first {} bytes are the same header twice"),
        ],
        inward: &["PLACE_BYTES", "DAMAGED"],
    },
];

pub(super) fn complaints(files: &[SourceFile]) -> Vec<Complaint> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return Vec::new() };
    let mut found = Vec::new();
    for format in FORMATS {
        let path = format!("crates/{}", format.file);
        match files.iter().find(|file| file.path == path) {
            Some(source) => check(format, source, document, &mut found),
            None => found.push(Complaint::of_file(document, format!("its format is no longer written by {path}"))),
        }
    }
    for file in files.iter().filter(|file| file.is_rust()) {
        for section in sections_named(&file.text).filter(|section| !has_section(&document.text, section)) {
            found.push(Complaint::of_file(file, format!("{DOCUMENT} has no section \"{section}\"")));
        }
    }
    found
}

fn check(format: &Format, source: &SourceFile, document: &SourceFile, found: &mut Vec<Complaint>) {
    let constants = constants(&source.text);
    for (name, statement) in format.stated {
        let Some(expression) = constants.get(name) else {
            found.push(Complaint::of_file(source, format!("has no constant {name} (tidy/file_format.rs)")));
            continue;
        };
        let statement = filled(statement, expression, &constants);
        if !squeezed(&document.text).contains(&squeezed(&statement)) {
            found.push(Complaint::of_file(document, format!("does not say of {name}: {statement}")));
        }
    }
    let known = |name: &str| format.stated.iter().any(|(stated, _)| *stated == name) || format.inward.contains(&name);
    for name in constants.keys().filter(|name| !known(name)) {
        let message = format!("{name} is part of a format, or not: say which in tidy/file_format.rs");
        found.push(Complaint::of_file(source, message));
    }
}

/// Lines of paragraphs end where they will.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Constants of a file outside of functions and tests, with what stands behind the `=`, up to the end of its line.
fn constants(text: &str) -> HashMap<&str, &str> {
    let mut found = HashMap::new();
    for line in text.lines().take_while(|line| !line.starts_with("mod tests {")) {
        if line.starts_with("        ") {
            continue;
        }
        let words = line.trim_start().trim_start_matches("pub").trim_start();
        let words = words.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(words, |(_, rest)| rest);
        let declared = words.strip_prefix("const ").filter(|rest| !rest.starts_with("fn ") && !rest.starts_with('{'));
        if let Some((name, (_, value))) = declared
            .and_then(|rest| rest.split_once(": "))
            .and_then(|(name, rest)| Some((name, rest.split_once(" = ")?)))
        {
            found.insert(name, value.trim_end_matches(';'));
        }
    }
    found
}

fn filled(statement: &str, expression: &str, constants: &HashMap<&str, &str>) -> String {
    let text = expression.split_once('"').map(|(_, text)| text.trim_end_matches('"').to_owned());
    if let Some(text) = text {
        return statement.replace("{}", &text);
    }
    if expression.ends_with("::MAX") {
        return statement.replace("{}", "all ones");
    }
    // What is not a sum of numbers is held by the words of its statement alone.
    let Some(value) = number(expression, constants) else { return statement.to_owned() };
    let divided = statement.replace("{KiB}", &(value >> 10).to_string()).replace("{MiB}", &(value >> 20).to_string());
    divided.replace("{2^}", &format!("2^{}", value.trailing_zeros())).replace("{}", &value.to_string())
}

/// Sums, differences and shifts of numbers and of constants of the same file.
fn number(expression: &str, constants: &HashMap<&str, &str>) -> Option<u64> {
    if let Some((left, right)) = expression.rsplit_once(" + ") {
        return Some(number(left, constants)? + number(right, constants)?);
    }
    if let Some((left, right)) = expression.rsplit_once(" - ") {
        return number(left, constants)?.checked_sub(number(right, constants)?);
    }
    if let Some((left, right)) = expression.split_once(" << ") {
        return number(left, constants)?.checked_shl(number(right, constants)? as u32);
    }
    let plain = expression.replace('_', "");
    plain.parse().ok().or_else(|| number(constants.get(expression)?, constants))
}

/// The sections of the document that a file of the sources names: `docs/file-format.md`, "Rings".
fn sections_named(text: &str) -> impl Iterator<Item = &str> {
    // In two parts, so that this file names none.
    text.split(concat!("file-format", ".md`, \"")).skip(1).filter_map(|rest| rest.split('"').next())
}

fn has_section(document: &str, section: &str) -> bool {
    document.lines().any(|line| line.starts_with('#') && line.trim_start_matches('#').trim() == section)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub(super) const A: usize = 1 << 4;\nconst B: u32 = A + 2_000 - 16;\n    const NAME: &str = \"x.y\";\nconst fn none() {}\n";

    #[test]
    fn values_are_read_from_the_source() {
        let constants = constants(SOURCE);
        assert_eq!(constants.len(), 3);
        assert_eq!(number(constants["B"], &constants), Some(2000));
        assert_eq!(filled("`{}` is it", constants["NAME"], &constants), "`x.y` is it");
        assert_eq!(filled("{} of them", "u64::MAX", &constants), "all ones of them");
        assert_eq!(filled("{KiB} KiB, {2^}", "512 << 10", &constants), "512 KiB, 2^19");
    }

    #[test]
    fn a_change_of_a_constant_is_found() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let format = Format { file: "a.rs", stated: &[("A", "of {} bytes")], inward: &["NAME"] };
        let complaints = |text: &str, document: &str| {
            let mut found = Vec::new();
            check(&format, &file("crates/a.rs", text), &file(DOCUMENT, document), &mut found);
            found.iter().map(Complaint::to_string).collect::<Vec<_>>()
        };
        assert!(complaints("const A: u8 = 3;\n", "a thing of 3\nbytes").is_empty());
        assert_eq!(complaints("const A: u8 = 4;\n", "a thing of 3\nbytes").len(), 1);
        assert_eq!(complaints("const A: u8 = 3;\nconst C: u8 = 1;\n", "of 3 bytes").len(), 1);
        assert_eq!(complaints("", "of 3 bytes").len(), 1);
    }
}
