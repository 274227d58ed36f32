//! The client's side of a SCRAM conversation, for who comes to the server with a password: the browser at its console.
//!
//! Called by `commands`, which has what is said here answered by `saslStart` and `saslContinue`. The server's signature is not looked at: it is the
//! same process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::credentials::{CredentialsError, Mechanism, salted_password};

/// A conversation whose first message has been said.
pub struct ScramClient {
    mechanism: Mechanism,
    user: String,
    first_bare: String,
}

impl ScramClient {
    /// Begins; `nonce` is used once. Gives the first message, too.
    pub fn begin(mechanism: Mechanism, user: &str, nonce: &[u8]) -> (Self, Vec<u8>) {
        let escaped = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={escaped},r={}", STANDARD.encode(nonce));
        let said = format!("n,,{first_bare}").into_bytes();
        (Self { mechanism, user: user.to_owned(), first_bare }, said)
    }

    /// The proof that the password is known, in answer to the server's first message.
    ///
    /// # Errors
    /// The password cannot be one, or the message is none.
    pub fn prove(&self, password: &str, server_first: &[u8]) -> Result<Vec<u8>, CredentialsError> {
        let server_first = std::str::from_utf8(server_first).map_err(|_| CredentialsError::Malformed)?;
        let field = |name: &str| {
            server_first.split(',').find_map(|field| field.strip_prefix(name)).ok_or(CredentialsError::Malformed)
        };
        let salt = STANDARD.decode(field("s=")?).map_err(|_| CredentialsError::Malformed)?;
        let iterations = field("i=")?.parse().map_err(|_| CredentialsError::Malformed)?;
        let salted = salted_password(self.mechanism, &self.user, password, false, iterations, &salt)?;
        let client_key = self.mechanism.hmac(&salted, b"Client Key");
        let without_proof = format!("c=biws,r={}", field("r=")?);
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = self.mechanism.hmac(&self.mechanism.hash(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ScramConversation, ScramCredentials, read_user_name};

    #[test]
    fn the_client_of_the_rfc_says_what_it_says_there() {
        let client = ScramClient {
            mechanism: Mechanism::ScramSha256,
            user: "user".to_owned(),
            first_bare: "n=user,r=rOprNGfwEbeRWgbNEkqO".to_owned(),
        };
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let said = client.prove("pencil", format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096").as_bytes()).unwrap();
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(said).unwrap(), format!("c=biws,r={nonce},p={proof}"));
    }

    #[test]
    fn our_own_server_believes_who_knows_the_password_and_nobody_else() {
        for mechanism in Mechanism::ALL {
            let credentials = ScramCredentials::derive(mechanism, "a=b,c", "secret", false, 50, b"salt").unwrap();
            let says = |password: &str| {
                let (client, first) = ScramClient::begin(mechanism, "a=b,c", b"nonce");
                assert_eq!(read_user_name(&first).as_deref(), Ok("a=b,c"));
                let (mut server, reply) =
                    ScramConversation::begin(&first, credentials.clone(), true, b"ours", true).unwrap();
                server.go_on(&client.prove(password, &reply.payload).unwrap()).map(|reply| reply.is_done)
            };
            assert_eq!(says("secret"), Ok(true));
            assert!(says("Secret").is_err());
        }
        let (client, _) = ScramClient::begin(Mechanism::ScramSha256, "a", b"nonce");
        for bad in [&b""[..], b"\xff", b"r=x,s=!,i=1", b"r=x,s=YQ==,i=x"] {
            assert_eq!(client.prove("secret", bad), Err(CredentialsError::Malformed));
        }
        assert_eq!(client.prove("", b"r=x,s=YQ==,i=1"), Err(CredentialsError::Empty));
    }
}
