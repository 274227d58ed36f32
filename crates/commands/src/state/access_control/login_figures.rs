//! How many have tried to log in, by mechanism, and how many have: `serverStatus.security.authentication`.
//!
//! Counted by the commands of `handlers/security` that log in, and by `hello`.

use std::sync::atomic::{AtomicU64, Ordering};

use authentication::Mechanism;

use crate::DocumentWriter;

/// A way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginMechanism {
    /// By a password.
    Scram(Mechanism),
    /// By the client's certificate.
    X509,
}

impl LoginMechanism {
    const ALL: [LoginMechanism; 3] = [
        LoginMechanism::X509,
        LoginMechanism::Scram(Mechanism::ScramSha1),
        LoginMechanism::Scram(Mechanism::ScramSha256),
    ];

    /// As clients name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LoginMechanism::Scram(mechanism) => mechanism.name(),
            LoginMechanism::X509 => "MONGODB-X509",
        }
    }
}

/// Whether a login has begun in the client's first `hello`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    InHello,
    ByCommand,
}

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    successful: AtomicU64,
}

impl Counts {
    fn write(&self, name: &str, section: &mut DocumentWriter<'_>) {
        section.document(name, |counts| {
            counts.size("received", self.received.load(Ordering::Relaxed));
            counts.size("successful", self.successful.load(Ordering::Relaxed));
        });
    }
}

#[derive(Default)]
struct OfMechanism {
    in_hello: Counts,
    all: Counts,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct LoginFigures {
    /// How often a user's mechanisms were asked for.
    pub(crate) mechanisms_asked: AtomicU64,
    x509: OfMechanism,
    scram_sha1: OfMechanism,
    scram_sha256: OfMechanism,
}

impl LoginFigures {
    fn of(&self, mechanism: LoginMechanism) -> &OfMechanism {
        match mechanism {
            LoginMechanism::X509 => &self.x509,
            LoginMechanism::Scram(Mechanism::ScramSha1) => &self.scram_sha1,
            LoginMechanism::Scram(Mechanism::ScramSha256) => &self.scram_sha256,
        }
    }

    /// Counts a login that begins.
    pub(crate) fn count_received(&self, mechanism: LoginMechanism, begun: Begun) {
        self.count(mechanism, begun, |counts| &counts.received);
    }

    /// Counts one that is through.
    pub(crate) fn count_successful(&self, mechanism: LoginMechanism, begun: Begun) {
        self.count(mechanism, begun, |counts| &counts.successful);
    }

    fn count(&self, mechanism: LoginMechanism, begun: Begun, of: fn(&Counts) -> &AtomicU64) {
        let counts = self.of(mechanism);
        of(&counts.all).fetch_add(1, Ordering::Relaxed);
        if begun == Begun::InHello {
            of(&counts.in_hello).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes `mechanisms`.
    pub(crate) fn write_mechanisms(&self, section: &mut DocumentWriter<'_>) {
        section.document("mechanisms", |mechanisms| {
            for mechanism in LoginMechanism::ALL {
                let counts = self.of(mechanism);
                mechanisms.document(mechanism.name(), |figures| {
                    counts.in_hello.write("speculativeAuthenticate", figures);
                    counts.all.write("authenticate", figures);
                });
            }
        });
    }
}
