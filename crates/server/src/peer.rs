//! Who is at the other end of a connection: an address, or a process of this machine. Used wherever connections are told of.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An address of the network.
    Network(SocketAddr),
    /// A socket in the file system.
    Unix,
}

impl Peer {
    /// What connections are counted by: who has one address of IPv6 has all of its network's.
    pub(crate) fn counted_as(&self) -> Option<IpAddr> {
        let Peer::Network(address) = self else { return None };
        Some(match address.ip().to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            other => other,
        })
    }

    /// Its address, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Peer::Network(address) => Some(*address),
            Peer::Unix => None,
        }
    }

    /// Whether it is on this machine for certain.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Network(address) => address.ip().to_canonical().is_loopback(),
            Peer::Unix => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Network(address) => address.fmt(formatter),
            Peer::Unix => formatter.write_str("anonymous unix socket"),
        }
    }
}
