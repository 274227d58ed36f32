//! Whatever bytes come in as a certificate: no panic, and a name that is written in one line.
//!
//! Run by `cargo xtask fuzz subjects`. The same call, with generated names, is in
//! `crates/server/src/tls/distinguished_name/properties.rs`, which every test run includes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(subject) = server::subject_of_certificate(bytes) {
        assert!(!subject.contains(|character: char| character.is_ascii_control()));
    }
});
