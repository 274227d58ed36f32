//! Whatever bytes come in as SCRAM's messages: no panic, and nobody logs in without the password.
//!
//! Run by `cargo xtask fuzz sasl`. The same calls, with generated messages, are in `crates/authentication/src/scram/properties.rs`,
//! which every test run includes.
#![no_main]

use authentication::{Mechanism, ScramConversation, ScramCredentials, read_user_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut messages = bytes.split(|byte| *byte == 0);
    let first = messages.next().unwrap_or_default();
    let name = read_user_name(first);
    for mechanism in Mechanism::ALL {
        let credentials = ScramCredentials::decoy(mechanism, b"secret", name.as_deref().unwrap_or_default(), "admin");
        let begun = ScramConversation::begin(first, credentials, true, b"nonce", true);
        assert!(begun.is_ok() || name.is_err());
        let Ok((mut conversation, reply)) = begun else { continue };
        // With the nonce that the server has chosen, so that the proof is looked at.
        let nonce = reply.payload.split(|byte| *byte == b',').next().unwrap_or_default();
        let proven = [&b"c=biws,"[..], nonce, b",p=", messages.clone().next().unwrap_or_default()].concat();
        assert!(conversation.go_on(&proven).is_err());
        for message in messages.clone() {
            assert!(conversation.go_on(message).is_err());
        }
    }
});
