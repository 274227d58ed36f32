//! Whether the server may listen where other machines reach it.
//!
//! Called by `database` before anything is opened. Where nobody has to log in, whoever reaches the address can read, change and drop everything. So an address
//! beyond loopback is refused unless the operator says that something else (a firewall, a private network, a container's) keeps others away.

use std::net::SocketAddr;
use std::path::Path;

use crate::STARTUP_WARNINGS;
use crate::configuration::Configuration;

/// Looks at the addresses that are listened on.
///
/// # Errors
/// One is beyond loopback, and nobody has said that it may be.
pub(crate) fn check(
    addresses: &[SocketAddr],
    requires_login: bool,
    is_allowed: bool,
    data: &Path,
) -> Result<(), String> {
    if requires_login {
        return Ok(());
    }
    for address in addresses.iter().filter(|address| !address.ip().to_canonical().is_loopback()) {
        if !is_allowed {
            return Err(format!(
                "{address} can be reached from other machines, and nobody has to log in: whoever reaches it could read and change all data. Make a user \
                 and have everybody log in: `plimsoll user add NAME --role root --data {data}`, then `plimsoll serve --auth --data {data}` (mongod: --auth). \
                 Or listen on 127.0.0.1; or, where something else keeps others away, say --insecure-no-authentication (mongod: --noauth; in the \
                 environment PLIMSOLL_INSECURE_NO_AUTHENTICATION=true)",
                data = data.display()
            ));
        }
        tracing::warn!(target: STARTUP_WARNINGS, %address, "access control is not enabled: whoever reaches this address can read and change all data");
    }
    Ok(())
}

/// The same of the address of the console. Where browsers log in without encryption, that is told.
///
/// # Errors
/// It is beyond loopback, and nobody has said that it may be.
pub(crate) fn check_console(
    address: SocketAddr,
    configuration: &Configuration,
    is_encrypted: bool,
) -> Result<(), String> {
    let Configuration { requires_login, allows_remote_without_login: is_allowed, data, .. } = configuration;
    check(&[address], *requires_login, *is_allowed, data).map_err(|reason| format!("--console: {reason}"))?;
    if !address.ip().to_canonical().is_loopback() && *requires_login && !is_encrypted {
        tracing::warn!(target: STARTUP_WARNINGS, %address, "browsers log in at the console without encryption: who listens on the network has their passwords (--tls-mode)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(address: &str, is_allowed: bool) -> Result<(), String> {
        check(&["127.0.0.1:1".parse().unwrap(), address.parse().unwrap()], false, is_allowed, Path::new("DIR"))
    }

    #[test]
    fn only_loopback_needs_no_word() {
        for local in ["127.0.0.1:27017", "127.8.9.10:1", "[::1]:27017", "[::ffff:127.0.0.1]:5"] {
            check_one(local, false).unwrap();
        }
        for remote in ["0.0.0.0:27017", "[::]:27017", "192.168.1.5:27017", "[fe80::1]:1"] {
            let refused = check_one(remote, false).unwrap_err();
            let told = [
                remote,
                "plimsoll user add NAME --role root --data DIR",
                "plimsoll serve --auth --data DIR",
                "--insecure-no-authentication",
            ];
            assert!(told.iter().all(|part| refused.contains(part)), "{refused}");
            check_one(remote, true).unwrap();
            check(&[remote.parse().unwrap()], true, false, Path::new("DIR")).unwrap();
        }
    }
}
