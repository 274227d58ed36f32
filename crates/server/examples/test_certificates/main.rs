//! Writes certificates for the driver suites of `tests/` into a folder: `cargo run -p server --example test_certificates DIRECTORY`.

#![allow(clippy::disallowed_methods, reason = "files for tests")]

mod authority;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use crate::authority::Authority;

const REVOKED: u64 = 13;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("say where to")?);
    fs::create_dir_all(&folder)?;
    let (authority, other) = (Authority::new("Authority of tests")?, Authority::new("Another authority")?);
    let server = authority.server("server")?;
    let files = [
        ("ca.pem", authority.certificate.clone()),
        ("other-ca.pem", other.certificate.clone()),
        ("crl.pem", authority.revocation_list(&[REVOKED])?),
        ("server.pem", server.in_one()),
        ("server-encrypted.pem", server.encrypted("a long passphrase")?),
        ("server-next.pem", authority.server("server of next year")?.in_one()),
        ("server-expired.pem", authority.server_until("server", 2021)?.in_one()),
        ("server-of-other.pem", other.server("server")?.in_one()),
        ("client.pem", authority.client("client", 12)?.in_one()),
        ("client-revoked.pem", authority.client("revoked", REVOKED)?.in_one()),
        ("client-expired.pem", authority.client_until("expired", 14, 2021)?.in_one()),
        ("client-of-other.pem", other.client("client", 12)?.in_one()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}
