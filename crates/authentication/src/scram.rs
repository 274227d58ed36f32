//! The server's side of a SCRAM conversation (RFC 5802, RFC 7677), without channel binding.
//!
//! Called by `commands` for `saslStart` and `saslContinue`.
//!
//! ```text
//! client: n,,n=USER,r=NONCE ─▶ server: r=NONCE+OURS,s=SALT,i=COUNT
//! client: c=biws,r=..,p=PROOF ─▶ server: v=SIGNATURE ─ client: (empty) ─▶ done
//! ```

#[cfg(test)]
mod properties;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use crate::credentials::{Mechanism, ScramCredentials};

/// Why a conversation ends without a login. For the log; clients are told one and the same.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScramError {
    /// A message is not as the protocol has it.
    #[error("malformed message: {0}")]
    Malformed(&'static str),
    /// The client wants what there is not.
    #[error("channel binding is not supported")]
    ChannelBinding,
    /// It does not know the password.
    #[error("the proof does not fit")]
    WrongProof,
}

/// What the server says to a client's message.
#[derive(Debug, PartialEq, Eq)]
pub struct ScramReply {
    /// The message.
    pub payload: Vec<u8>,
    /// Whether the client has proved who it is, and nothing more is to come.
    pub is_done: bool,
}

/// What is awaited of the client.
enum Awaited {
    Proof,
    /// An empty message, which says that the client has checked the server's signature.
    Confirmation,
}

/// See the module's head.
pub struct ScramConversation {
    credentials: ScramCredentials,
    /// Whether the user exists: else no proof fits.
    is_known: bool,
    header: String,
    first_bare: String,
    server_first: String,
    nonce: String,
    skips_empty: bool,
    awaited: Awaited,
}

/// A client's first message, taken apart.
struct First<'a> {
    header: &'a str,
    bare: &'a str,
    user: &'a str,
    nonce: &'a str,
}

impl<'a> First<'a> {
    fn read(payload: &'a [u8]) -> Result<Self, ScramError> {
        let text = std::str::from_utf8(payload).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let mut parts = text.splitn(3, ',');
        match parts.next() {
            Some("n" | "y") => {}
            Some(binding) if binding.starts_with("p=") => return Err(ScramError::ChannelBinding),
            _ => return Err(ScramError::Malformed("the header")),
        }
        if parts.next().is_none_or(|identity| !identity.is_empty()) {
            return Err(ScramError::Malformed("an authorization identity"));
        }
        let bare = parts.next().ok_or(ScramError::Malformed("nothing behind the header"))?;
        let header = text.get(..text.len() - bare.len()).unwrap_or_default();
        let mut fields = bare.split(',');
        let user = fields.next().and_then(|field| field.strip_prefix("n="));
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).filter(|nonce| !nonce.is_empty());
        if fields.next().is_some() {
            return Err(ScramError::Malformed("unknown attributes"));
        }
        let user = user.ok_or(ScramError::Malformed("no user"))?;
        Ok(Self { header, bare, user, nonce: nonce.ok_or(ScramError::Malformed("no nonce"))? })
    }
}

/// The user that a first message names.
///
/// # Errors
/// The message is none.
pub fn read_user_name(payload: &[u8]) -> Result<String, ScramError> {
    let escaped = First::read(payload)?.user;
    let mut name = String::with_capacity(escaped.len());
    let mut parts = escaped.split('=');
    name.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(ScramError::Malformed("an escape in the user's name")),
        };
        name.push(character);
        name.push_str(rest);
    }
    Ok(name)
}

impl ScramConversation {
    /// Begins with the client's first message; `server_nonce` is used once. Gives the server's first message, too.
    ///
    /// # Errors
    /// The message is none.
    pub fn begin(
        payload: &[u8],
        credentials: ScramCredentials,
        is_known: bool,
        server_nonce: &[u8],
        skips_empty: bool,
    ) -> Result<(Self, ScramReply), ScramError> {
        let first = First::read(payload)?;
        let nonce = format!("{}{}", first.nonce, STANDARD.encode(server_nonce));
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&credentials.salt), credentials.iterations);
        let payload = server_first.clone().into_bytes();
        let conversation = Self {
            header: first.header.to_owned(),
            first_bare: first.bare.to_owned(),
            credentials,
            is_known,
            server_first,
            nonce,
            skips_empty,
            awaited: Awaited::Proof,
        };
        Ok((conversation, ScramReply { payload, is_done: false }))
    }

    /// By which mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.credentials.mechanism
    }

    /// Goes on with the client's next message.
    ///
    /// # Errors
    /// The message is none, or the proof does not fit: the conversation is over.
    pub fn go_on(&mut self, payload: &[u8]) -> Result<ScramReply, ScramError> {
        match self.awaited {
            Awaited::Confirmation if payload.is_empty() => Ok(ScramReply { payload: Vec::new(), is_done: true }),
            Awaited::Confirmation => Err(ScramError::Malformed("something behind the proof")),
            Awaited::Proof => {
                let signature = self.check_proof(payload)?;
                self.awaited = Awaited::Confirmation;
                let payload = format!("v={}", STANDARD.encode(signature)).into_bytes();
                Ok(ScramReply { payload, is_done: self.skips_empty })
            }
        }
    }

    /// The server's signature, if the proof fits.
    fn check_proof(&self, payload: &[u8]) -> Result<Vec<u8>, ScramError> {
        let text = std::str::from_utf8(payload).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed("no proof"))?;
        let (binding, nonce) = without_proof.split_once(",r=").ok_or(ScramError::Malformed("no nonce"))?;
        let binding = binding.strip_prefix("c=").and_then(|binding| STANDARD.decode(binding).ok());
        if binding.as_deref() != Some(self.header.as_bytes()) {
            return Err(ScramError::Malformed("another header than before"));
        }
        if nonce != self.nonce {
            return Err(ScramError::Malformed("another nonce"));
        }
        let proof = STANDARD.decode(proof).map_err(|_| ScramError::Malformed("a proof that is not base64"))?;
        let ScramCredentials { mechanism, stored_key, server_key, .. } = &self.credentials;
        let message = format!("{},{},{without_proof}", self.first_bare, self.server_first);
        let signature = mechanism.hmac(stored_key, message.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        let fits = mechanism.hash(&client_key).ct_eq(stored_key) & u8::from(self.is_known).ct_eq(&1);
        let signature = mechanism.hmac(server_key, message.as_bytes());
        if bool::from(fits) && proof.len() == mechanism.key_bytes() {
            Ok(signature)
        } else {
            Err(ScramError::WrongProof)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    /// Of RFC 7677, whose server's nonce is no base64; ours is, so the conversation is put together by hand.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn of_the_rfc(is_known: bool) -> ScramConversation {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credentials =
            ScramCredentials::derive(Mechanism::ScramSha256, "user", "pencil", false, 4096, &salt).unwrap();
        let (mut conversation, reply) = ScramConversation::begin(FIRST, credentials, is_known, b"x", true).unwrap();
        assert!(reply.payload.starts_with(b"r=rOprNGfwEbeRWgbNEkqO") && !reply.is_done);
        conversation.nonce = NONCE.to_owned();
        conversation.server_first = format!("r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        conversation
    }

    fn last(proof: &str) -> Vec<u8> {
        format!("c=biws,r={NONCE},p={proof}").into_bytes()
    }

    #[test]
    fn the_conversation_of_the_rfc_comes_to_its_end() {
        let reply = of_the_rfc(true).go_on(&last(PROOF)).unwrap();
        assert_eq!(reply.payload, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert!(reply.is_done);
        let mut patient = of_the_rfc(true);
        patient.skips_empty = false;
        assert!(!patient.go_on(&last(PROOF)).unwrap().is_done);
        assert_eq!(patient.go_on(b""), Ok(ScramReply { payload: Vec::new(), is_done: true }));
    }

    #[test]
    fn nothing_else_is_taken_for_a_proof() {
        for proof in ["", "AAAA", "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ", &STANDARD.encode([0; 32])] {
            assert!(of_the_rfc(true).go_on(&last(proof)).is_err(), "{proof}");
        }
        assert_eq!(of_the_rfc(false).go_on(&last(PROOF)), Err(ScramError::WrongProof));
        let other_nonce = String::from_utf8(last(PROOF)).unwrap().replace("%hvY", "%hvX");
        assert!(matches!(of_the_rfc(true).go_on(other_nonce.as_bytes()), Err(ScramError::Malformed(_))));
        let other_header = String::from_utf8(last(PROOF)).unwrap().replace("biws", "eSws");
        assert!(matches!(of_the_rfc(true).go_on(other_header.as_bytes()), Err(ScramError::Malformed(_))));
    }

    #[test]
    fn names_are_unescaped_and_what_is_malformed_is_refused() {
        assert_eq!(read_user_name(b"n,,n=a=2Cb=3Dc,r=x").as_deref(), Ok("a,b=c"));
        assert_eq!(read_user_name(b"y,,n=,r=x").as_deref(), Ok(""));
        assert_eq!(read_user_name(b"p=tls-unique,,n=a,r=x"), Err(ScramError::ChannelBinding));
        for bad in [
            &b""[..],
            b"n",
            b"n,,",
            b"n,a=x,n=a,r=x",
            b"n,,n=a",
            b"n,,n=a,r=",
            b"n,,n=a=2,r=x",
            b"n,,r=x,n=a",
            b"n,,n=a,r=x,m=1",
            b"\xff",
        ] {
            assert!(read_user_name(bad).is_err(), "{bad:?}");
        }
    }
}
