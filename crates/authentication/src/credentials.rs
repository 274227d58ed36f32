//! What is stored of a password: SCRAM's keys, from which nobody gets the password back.
//!
//! Called by `commands` when a password is set. That costs thousands of hashes on purpose; a login costs a few.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What can be wrong with a password, or with what is stored of one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CredentialsError {
    /// SASLprep refuses it.
    #[error("the password has characters that SASLprep (RFC 4013) prohibits")]
    Prohibited,
    /// It is empty.
    #[error("Password cannot be empty")]
    Empty,
    /// What is stored does not make sense.
    #[error("stored credentials are malformed")]
    Malformed,
}

/// How a user proves who he is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// SCRAM-SHA-1, of an MD5 digest of the password: for clients from before 4.0.
    ScramSha1,
    /// SCRAM-SHA-256.
    ScramSha256,
}

impl Mechanism {
    /// All.
    pub const ALL: [Self; 2] = [Self::ScramSha1, Self::ScramSha256];

    /// As clients call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    /// The one of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Iterations for a new password.
    pub fn iterations(self) -> u32 {
        match self {
            Self::ScramSha1 => 10_000,
            Self::ScramSha256 => 15_000,
        }
    }

    /// Bytes of a new salt.
    pub fn salt_bytes(self) -> usize {
        self.key_bytes() - 4
    }

    pub(crate) fn key_bytes(self) -> usize {
        match self {
            Self::ScramSha1 => 20,
            Self::ScramSha256 => 32,
        }
    }

    pub(crate) fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        match self {
            Self::ScramSha1 => hmac_of::<Hmac<Sha1>>(key, message),
            Self::ScramSha256 => hmac_of::<Hmac<Sha256>>(key, message),
        }
    }

    pub(crate) fn hash(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::ScramSha1 => Sha1::digest(message).to_vec(),
            Self::ScramSha256 => Sha256::digest(message).to_vec(),
        }
    }
}

fn hmac_of<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    // A key of any length is taken.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// The SHA-256 of a text: what stands for a user's name.
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// 32 bytes that follow from a key and a message, and that nobody without the key can tell.
pub fn keyed_hash(key: &[u8], message: &[u8]) -> Vec<u8> {
    Mechanism::ScramSha256.hmac(key, message)
}

/// What a password and a salt make, from which all keys follow.
pub(crate) fn salted_password(
    mechanism: Mechanism,
    user: &str,
    password: &str,
    is_digest: bool,
    iterations: u32,
    salt: &[u8],
) -> Result<Vec<u8>, CredentialsError> {
    if password.is_empty() {
        return Err(CredentialsError::Empty);
    }
    let mut salted = vec![0; mechanism.key_bytes()];
    match mechanism {
        Mechanism::ScramSha1 => {
            let digest = if is_digest { password.to_owned() } else { password_digest(user, password) };
            pbkdf2::pbkdf2_hmac::<Sha1>(digest.as_bytes(), salt, iterations, &mut salted);
        }
        Mechanism::ScramSha256 => {
            let prepared = stringprep::saslprep(password).map_err(|_| CredentialsError::Prohibited)?;
            pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, &mut salted);
        }
    }
    Ok(salted)
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredentials {
    /// Of which mechanism.
    pub mechanism: Mechanism,
    /// How often was hashed.
    pub iterations: u32,
    /// What was hashed with the password.
    pub salt: Vec<u8>,
    /// By which a proof is checked.
    pub stored_key: Vec<u8>,
    /// By which the server proves that it knows the user.
    pub server_key: Vec<u8>,
}

/// Without what is secret.
impl std::fmt::Debug for ScramCredentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} credentials", self.mechanism.name())
    }
}

impl ScramCredentials {
    /// Those of a password. `is_digest`: it is what a client of old has made of user and password already, for SCRAM-SHA-1.
    ///
    /// # Errors
    /// The password is empty, or SASLprep refuses it.
    pub fn derive(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        is_digest: bool,
        iterations: u32,
        salt: &[u8],
    ) -> Result<Self, CredentialsError> {
        let salted = salted_password(mechanism, user, password, is_digest, iterations, salt)?;
        let client_key = mechanism.hmac(&salted, b"Client Key");
        Ok(Self {
            mechanism,
            iterations,
            salt: salt.to_vec(),
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        })
    }

    /// What a user who does not exist seems to have: always the same, and nobody's password.
    pub fn decoy(mechanism: Mechanism, secret: &[u8], user: &str, database: &str) -> Self {
        let made = |purpose: &str| {
            Mechanism::ScramSha256
                .hmac(secret, format!("{purpose}\0{}\0{database}\0{user}", mechanism.name()).as_bytes())
        };
        let of_length = |mut bytes: Vec<u8>, length| {
            bytes.truncate(length);
            bytes
        };
        Self {
            mechanism,
            iterations: mechanism.iterations(),
            salt: of_length(made("salt"), mechanism.salt_bytes()),
            stored_key: of_length(made("stored"), mechanism.key_bytes()),
            server_key: of_length(made("server"), mechanism.key_bytes()),
        }
    }

    /// From what is stored: salt and keys in base64.
    ///
    /// # Errors
    /// They are not what a server writes.
    pub fn decode(
        mechanism: Mechanism,
        iterations: i64,
        salt: &str,
        stored_key: &str,
        server_key: &str,
    ) -> Result<Self, CredentialsError> {
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| CredentialsError::Malformed);
        let iterations =
            u32::try_from(iterations).ok().filter(|count| *count > 0).ok_or(CredentialsError::Malformed)?;
        let (salt, stored_key, server_key) = (bytes(salt)?, bytes(stored_key)?, bytes(server_key)?);
        let is_whole = |key: &[u8]| key.len() == mechanism.key_bytes();
        if salt.is_empty() || !is_whole(&stored_key) || !is_whole(&server_key) {
            return Err(CredentialsError::Malformed);
        }
        Ok(Self { mechanism, iterations, salt, stored_key, server_key })
    }

    /// Salt, stored key and server key as they are stored.
    pub fn encoded(&self) -> [String; 3] {
        [&self.salt, &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes))
    }
}

/// The digest of user and password that MongoDB's clients use as the password of SCRAM-SHA-1.
fn password_digest(user: &str, password: &str) -> String {
    let digest = Md5::digest(format!("{user}:mongo:{password}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specifications_come_out() {
        // RFC 7677: user "user", password "pencil".
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let derived = ScramCredentials::derive(Mechanism::ScramSha256, "user", "pencil", false, 4096, &salt).unwrap();
        let [_, stored, server] = derived.encoded();
        assert_eq!(stored, "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=");
        assert_eq!(server, "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=");
        assert_eq!(password_digest("user", "pencil"), "1c33006ec1ffd90f9cadcbcc0e118200");
    }

    #[test]
    fn passwords_are_prepared_for_sha_256_only() {
        let keys = |password| {
            let derive = |mechanism| ScramCredentials::derive(mechanism, "u", password, false, 10, b"salt").unwrap();
            Mechanism::ALL.map(derive)
        };
        let ([digest, plain], [other_digest, other]) = (keys("IX"), keys("I\u{AD}X"));
        assert!(plain == other && digest != other_digest);
        let prohibited = ScramCredentials::derive(Mechanism::ScramSha256, "u", "\u{7}", false, 10, b"salt");
        assert_eq!(prohibited, Err(CredentialsError::Prohibited));
    }

    #[test]
    fn what_is_stored_is_read_again_and_what_is_not_is_refused() {
        let derived = ScramCredentials::derive(Mechanism::ScramSha1, "u", "p", false, 10, b"0123456789abcdef").unwrap();
        let [salt, stored, server] = derived.encoded();
        let decode =
            |iterations, salt: &str| ScramCredentials::decode(Mechanism::ScramSha1, iterations, salt, &stored, &server);
        assert_eq!(decode(10, &salt), Ok(derived.clone()));
        assert_eq!(decode(0, &salt), Err(CredentialsError::Malformed));
        assert_eq!(decode(10, "%"), Err(CredentialsError::Malformed));
        assert!(!format!("{derived:?}").contains(&stored));
    }
}
