//! From where, and at which address of the server, somebody may log in: `authenticationRestrictions`.
//!
//! A list of conditions, of which one must hold. Each has ranges of addresses (`clientSource`, `serverAddress`), of which
//! one must match. A user must satisfy his own list and that of each of his roles.

use std::net::{IpAddr, SocketAddr};

use bson::{RawArray, RawArrayBuf, RawBsonRef};

use crate::request::arguments::Field;
use crate::request::error::{CommandError, Result};

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Restriction {
    client_source: Option<Vec<Range>>,
    server_address: Option<Vec<Range>>,
}

/// An address, or all with the same beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    address: IpAddr,
    bits: u32,
}

/// A list of conditions; an empty one restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Restrictions(Vec<Restriction>);

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(all), |bits| bits.parse().ok().filter(|bits| *bits <= all))?;
        Some(Self { address, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(range), IpAddr::V4(address)) => {
                let shift = 32 - self.bits;
                u32::from(range).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (IpAddr::V6(range), _) => {
                let IpAddr::V6(address) = address else { return false };
                let shift = 128 - self.bits;
                u128::from(range).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }
}

impl Restrictions {
    /// Reads and checks what a command gives, or what is stored.
    pub(crate) fn parse(array: &RawArray) -> Result<Self> {
        let mut all = Vec::new();
        for element in document::array_elements(array) {
            let RawBsonRef::Document(condition) = element.value() else {
                return Err(CommandError::type_mismatch("authenticationRestrictions must be an array of objects"));
            };
            let mut restriction = Restriction { client_source: None, server_address: None };
            for element in document::elements(condition) {
                let field = Field::of("authenticationRestrictions", element);
                match field.name() {
                    "clientSource" => restriction.client_source = Some(ranges(field)?),
                    "serverAddress" => restriction.server_address = Some(ranges(field)?),
                    other => {
                        let message = format!("Unrecognized restriction '{other}'");
                        return Err(CommandError::bad_value(message));
                    }
                }
            }
            all.push(restriction);
        }
        Ok(Self(all))
    }

    /// Whether somebody may log in from there.
    pub(crate) fn allow(&self, client: Option<IpAddr>, server: Option<IpAddr>) -> bool {
        let lies_in = |ranges: &Option<Vec<Range>>, address: Option<IpAddr>| {
            let within =
                |ranges: &Vec<Range>| address.is_some_and(|address| ranges.iter().any(|range| range.contains(address)));
            ranges.as_ref().is_none_or(within)
        };
        let holds = |one: &Restriction| lies_in(&one.client_source, client) && lies_in(&one.server_address, server);
        self.0.is_empty() || self.0.iter().any(holds)
    }
}

fn ranges(field: Field<'_>) -> Result<Vec<Range>> {
    let array = field.required(Field::array)?;
    let parsed = document::array_elements(array).map(|element| {
        let text = element.value().as_str().ok_or_else(|| field.wrong_type("an array of type 'string'"))?;
        Range::parse(text)
            .ok_or_else(|| CommandError::bad_value(format!("'{text}' is no address or range of addresses")))
    });
    parsed.collect()
}

/// What a command gives, checked, to be stored.
pub(crate) fn checked(array: &RawArray) -> Result<RawArrayBuf> {
    Restrictions::parse(array)?;
    Ok(array.to_owned())
}

/// The address in `address:port`.
pub(crate) fn address_of(client: &str) -> Option<IpAddr> {
    client.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn restrictions(array: bson::RawArrayBuf) -> Result<Restrictions> {
        let document = rawdoc! {"a": array};
        Restrictions::parse(document.get_array("a").unwrap())
    }

    #[test]
    fn one_condition_must_hold_in_all_it_says() {
        let both = restrictions(
            bson::rawbson!([
                {"clientSource": ["10.0.0.0/8", "::1"], "serverAddress": ["127.0.0.1"]},
                {"clientSource": ["192.168.1.7"]},
            ])
            .as_array()
            .unwrap()
            .to_owned(),
        )
        .unwrap();
        let allow = |client: &str, server: &str| both.allow(client.parse().ok(), server.parse().ok());
        assert!(allow("10.200.0.1", "127.0.0.1") && allow("::1", "127.0.0.1") && allow("192.168.1.7", "8.8.8.8"));
        assert!(allow("::ffff:10.1.1.1", "127.0.0.1"));
        assert!(!allow("11.0.0.1", "127.0.0.1") && !allow("10.0.0.1", "127.0.0.2") && !allow("192.168.1.8", "1.1.1.1"));
        assert!(!allow("nowhere", "127.0.0.1") && Restrictions::default().allow(None, None));
        assert!(Range::parse("0.0.0.0/0").unwrap().contains("9.9.9.9".parse().unwrap()));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for bad in ["", "10.0.0.0/33", "host", "::1/129", "1.2.3"] {
            let list = bson::rawbson!([{"clientSource": [bad]}]);
            assert_eq!(restrictions(list.as_array().unwrap().to_owned()).unwrap_err().code, 2, "{bad}");
        }
        assert!(restrictions(bson::rawbson!([{"from": ["::1"]}]).as_array().unwrap().to_owned()).is_err());
    }
}
