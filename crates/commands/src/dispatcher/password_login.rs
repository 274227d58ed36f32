//! A login with a password, for who cannot say SCRAM itself: the browser at the server's console.
//!
//! It is the login of any client: the commands `hello`, `saslStart` and `saslContinue`, run here in its place. So failures are slowed, counted and
//! audited, and restrictions of addresses hold.

use authentication::{Mechanism, ScramClient};
use bson::spec::BinarySubtype;
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc};

use super::Dispatcher;
use crate::request::command_request::{Attempt, CommandRequest, NoSequences};
use crate::state::context::ClientContext;

/// Who somebody says that he is.
#[derive(Clone, Copy)]
pub struct PasswordLogin<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The database that the user is of.
    pub database: &'a str,
    /// What only he knows.
    pub password: &'a str,
}

impl Dispatcher {
    /// Logs a client in.
    ///
    /// # Errors
    /// What the client is told: the same whatever was wrong.
    pub fn log_in(&self, client: &mut ClientContext, login: PasswordLogin<'_>) -> Result<(), String> {
        const FAILED: &str = "Authentication failed.";
        let asked = rawdoc! { "hello": 1, "saslSupportedMechs": format!("{}.{}", login.database, login.user) };
        let hello = self.say("hello", "admin", &asked, client)?;
        let listed = |name: &str| {
            let names = hello.get_array("saslSupportedMechs").ok();
            names.is_some_and(|names| names.into_iter().flatten().any(|listed| listed.as_str() == Some(name)))
        };
        let [old, current] = Mechanism::ALL;
        let mechanism = if listed(old.name()) && !listed(current.name()) { old } else { current };
        let nonce = self.server.access.unguessable(24);
        let (scram, first) = ScramClient::begin(mechanism, login.user, &nonce);
        let start = rawdoc! {
            "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(first), "options": { "skipEmptyExchange": true }
        };
        let begun = self.say("saslStart", login.database, &start, client)?;
        let challenge = begun.get_binary("payload").map_err(|_| FAILED)?;
        let id = begun.get_i32("conversationId").map_err(|_| FAILED)?;
        // A password that cannot be one is tried as well, so that the failure counts.
        let proof = scram.prove(login.password, challenge.bytes).unwrap_or_default();
        let proved = rawdoc! { "saslContinue": 1, "conversationId": id, "payload": binary(proof) };
        let done = self.say("saslContinue", login.database, &proved, client)?;
        if done.get_bool("done").unwrap_or(false) { Ok(()) } else { Err(FAILED.to_owned()) }
    }

    fn say(
        &self,
        name: &str,
        database: &str,
        body: &RawDocument,
        client: &mut ClientContext,
    ) -> Result<RawDocumentBuf, String> {
        let (sequences, attempt) = (&NoSequences, Attempt::First);
        let request = CommandRequest { name, database, body, sequences, attempt, is_legacy: false };
        let mut reply = Vec::new();
        self.run(&request, client, &mut reply);
        let reply = RawDocumentBuf::from_bytes(reply).map_err(|error| error.to_string())?;
        match reply.get_f64("ok") {
            Ok(1.0) => Ok(reply),
            _ => Err(reply.get_str("errmsg").unwrap_or("it failed").to_owned()),
        }
    }
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::test_server::TestServer;

    fn login<'a>(user: &'a str, password: &'a str) -> PasswordLogin<'a> {
        PasswordLogin { user, database: "admin", password }
    }

    #[test]
    fn who_knows_the_password_is_logged_in_and_so_are_his_other_connections() {
        let mut server = TestServer::new();
        for (name, mechanism) in [("old", "SCRAM-SHA-1"), ("new", "SCRAM-SHA-256")] {
            let user = doc! { "createUser": name, "pwd": "secret", "roles": ["read"], "mechanisms": [mechanism] };
            server.run("admin", user);
            let mut client = server.dispatcher.server().connect(7, "127.0.0.1:5".to_owned());
            server.dispatcher.log_in(&mut client, login(name, "secret")).unwrap();
            let mut other = server.dispatcher.server().connect_again(&client, 8);
            let asked = rawdoc! { "connectionStatus": 1 };
            let status = server.dispatcher.say("connectionStatus", "admin", &asked, &mut other).unwrap();
            let users = status.get_document("authInfo").unwrap().get_array("authenticatedUsers").unwrap();
            let user = users.get_document(0).unwrap();
            assert_eq!((user.get_str("user").unwrap(), user.get_str("db").unwrap()), (name, "admin"));
        }
    }

    #[test]
    fn all_failures_are_told_alike() {
        let mut server = TestServer::new();
        server.run("admin", doc! { "createUser": "ada", "pwd": "secret", "roles": ["read"] });
        for (user, password) in [("ada", "Secret"), ("ada", ""), ("ada", "\u{7}"), ("bob", "secret")] {
            let mut client = server.dispatcher.server().connect(7, "127.0.0.1:5".to_owned());
            let refused = server.dispatcher.log_in(&mut client, login(user, password)).unwrap_err();
            assert_eq!(refused, "Authentication failed.", "{user} {password}");
        }
    }
}
