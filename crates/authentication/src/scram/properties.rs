//! SCRAM's messages, made up: whatever comes in is refused or understood, and only who has the password logs in.
//!
//! `fuzz/fuzz_targets/sasl.rs` tries the same for as long as one likes, guided by what code it reaches.

use proptest::prelude::*;
use sha2::Sha256;

use super::*;

const ITERATIONS: u32 = 2;
const SALT: &[u8] = b"0123456789abcdef0123456789ab";

fn credentials(password: &str) -> ScramCredentials {
    ScramCredentials::derive(Mechanism::ScramSha256, "ada", password, false, ITERATIONS, SALT).unwrap()
}

/// What a client that has a password says to the server's first message.
fn last_message(first_bare: &str, server_first: &str, password: &str) -> String {
    let mechanism = Mechanism::ScramSha256;
    let nonce = server_first.split(',').next().unwrap();
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), SALT, ITERATIONS, &mut salted);
    let client_key = mechanism.hmac(&salted, b"Client Key");
    let without_proof = format!("c=biws,{nonce}");
    let message = format!("{first_bare},{server_first},{without_proof}");
    let signature = mechanism.hmac(&mechanism.hash(&client_key), message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

fn escaped(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

proptest! {
    #[test]
    fn whatever_comes_in_is_refused_or_understood(payload: Vec<u8>, next: Vec<u8>, is_known: bool) {
        let begun = ScramConversation::begin(&payload, credentials("secret"), is_known, b"nonce", true);
        prop_assert_eq!(begun.is_ok(), First::read(&payload).is_ok());
        if let Ok((mut conversation, _)) = begun {
            prop_assert!(conversation.go_on(&next).is_err());
        }
    }

    #[test]
    fn messages_that_are_nearly_right_are_refused_or_understood(payload in "[nyp],[a=]?,[nmr]=(a|=2C|=3D|=|,|é){0,4},r=[a-c,=]{0,4}") {
        let first = First::read(payload.as_bytes());
        if let Ok(first) = &first {
            prop_assert_eq!(format!("{}{}", first.header, first.bare), payload.as_str());
        }
        if let Ok(name) = read_user_name(payload.as_bytes()) {
            let written = format!("n={},r=", escaped(&name));
            prop_assert!(payload.contains(&written));
        }
    }

    #[test]
    fn every_name_comes_through(name in ".*", nonce in "[!-+\\--~]{1,20}") {
        let message = format!("n,,n={},r={nonce}", escaped(&name));
        prop_assert_eq!(read_user_name(message.as_bytes()).unwrap(), name);
    }

    /// `change`: where a byte of the client's last message is another one.
    #[test]
    fn who_has_the_password_logs_in_and_nobody_else(
        password in "[ -~]{1,12}",
        other in "[ -~]{1,12}",
        is_known: bool,
        change in proptest::option::of((0_usize..200, 1_u8..)),
    ) {
        let bare = "n=ada,r=abc";
        let first = format!("n,,{bare}");
        let begin = || ScramConversation::begin(first.as_bytes(), credentials(&password), is_known, b"nonce", true).unwrap();
        let (mut conversation, reply) = begin();
        let server_first = String::from_utf8(reply.payload).unwrap();
        let mut last = last_message(bare, &server_first, &password).into_bytes();
        let original = last.clone();
        if let Some((place, by)) = change {
            let place = place % last.len();
            last[place] ^= by;
        }
        let answer = conversation.go_on(&last);
        prop_assert_eq!(answer.is_ok(), is_known && last == original);
        let (mut conversation, _) = begin();
        let answer = conversation.go_on(last_message(bare, &server_first, &other).as_bytes());
        prop_assert_eq!(answer.is_ok(), is_known && other == password);
    }
}
