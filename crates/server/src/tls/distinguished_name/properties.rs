//! Names made up: what is written can be read back, so no two names are written alike, and nobody can have a certificate whose text is another
//! user's name.
//!
//! `fuzz/fuzz_targets/subjects.rs` tries whatever bytes come in, for as long as one likes.

use proptest::prelude::*;

use super::*;

/// Attributes that have a name here, as they are encoded.
const ENCODED: &[(&str, &[u8])] = &[
    ("CN", &[0x55, 4, 3]),
    ("C", &[0x55, 4, 6]),
    ("O", &[0x55, 4, 10]),
    ("DC", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25]),
];

/// Sets of attributes with their values, in the order in which they are encoded.
type Name = Vec<Vec<(usize, String)>>;

fn encoded(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut bytes = match length {
        0..128 => vec![tag, length as u8],
        128..256 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    bytes.extend_from_slice(content);
    bytes
}

fn encode(name: &Name) -> Vec<u8> {
    let attribute = |(number, value): &(usize, String)| {
        encoded(0x30, &[encoded(6, ENCODED[*number].1), encoded(0x0c, value.as_bytes())].concat())
    };
    let set = |parts: &Vec<(usize, String)>| encoded(0x31, &parts.iter().flat_map(attribute).collect::<Vec<u8>>());
    name.iter().flat_map(set).collect()
}

/// Reads text as RFC 2253 has it. The sets and their parts come in the other order.
fn read(text: &str) -> Name {
    let mut name = vec![Vec::new()];
    let mut part: Vec<u8> = Vec::new();
    let mut key = None;
    let mut bytes = text.bytes();
    let finish = |name: &mut Name, key: &mut Option<String>, part: &mut Vec<u8>| {
        let key = key.take().unwrap();
        let number = ENCODED.iter().position(|(known, _)| *known == key).unwrap();
        name.last_mut().unwrap().insert(0, (number, String::from_utf8(std::mem::take(part)).unwrap()));
    };
    while let Some(byte) = bytes.next() {
        match byte {
            b'=' if key.is_none() => key = Some(String::from_utf8(std::mem::take(&mut part)).unwrap()),
            b'\\' => match bytes.next().unwrap() {
                digit if digit.is_ascii_hexdigit() => {
                    let digits = [digit, bytes.next().unwrap()];
                    part.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                }
                other => part.push(other),
            },
            b'+' => finish(&mut name, &mut key, &mut part),
            b',' => {
                finish(&mut name, &mut key, &mut part);
                name.push(Vec::new());
            }
            other => part.push(other),
        }
    }
    finish(&mut name, &mut key, &mut part);
    name.reverse();
    name
}

fn names() -> impl Strategy<Value = Name> {
    let value = prop_oneof![".{0,10}", "[ ,+\"\\\\<>;#=aA0\\x00-\\x1f\\x7f]{0,8}"];
    let set = proptest::collection::vec((0..ENCODED.len(), value), 1..4);
    proptest::collection::vec(set, 1..5)
}

proptest! {
    #[test]
    fn what_is_written_can_be_read_back(name in names()) {
        let text = to_rfc2253(&encode(&name)).unwrap();
        prop_assert_eq!(read(&text), name);
        prop_assert!(!text.contains(|character: char| character.is_ascii_control()));
    }

    #[test]
    fn whatever_bytes_come_in_are_a_name_or_an_error(bytes: Vec<u8>, name in names(), place: proptest::sample::Index, by in 1_u8..) {
        let _ = to_rfc2253(&bytes);
        let _ = subject_of_certificate(&bytes);
        let mut changed = encode(&name);
        let place = place.index(changed.len());
        changed[place] ^= by;
        let _ = to_rfc2253(&changed);
        let _ = to_rfc2253(&changed[..place]);
    }
}
