//! A certificate's subject as text, in the form that users of MONGODB-X509 are named by: RFC 2253, as OpenSSL writes it. Called by `opening`.
//!
//! ```text
//! C=DE, O=Sea + L=Kiel, CN=client  ──▶  CN=client,L=Kiel+O=Sea,C=DE
//! ```

#[cfg(test)]
mod properties;

use std::fmt::Write;

use der::asn1::{AnyRef, BmpString, ObjectIdentifier};
use der::{Encode, Tag, Tagged};

use super::certificate_fields::{CertificateFields, content, elements};

/// OpenSSL's short names of what a name is made of.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
];

/// The subject of a certificate in DER.
///
/// # Errors
/// It is none.
pub fn subject_of_certificate(certificate: &[u8]) -> Result<String, der::Error> {
    to_rfc2253(CertificateFields::parse(certificate)?.subject)
}

/// The text of an encoded name.
pub(super) fn to_rfc2253(name: &[u8]) -> Result<String, der::Error> {
    let mut text = String::new();
    for set in elements(name)?.into_iter().rev() {
        let parts = elements(content(set, Tag::Set)?)?;
        for (position, part) in parts.into_iter().rev().enumerate() {
            if !text.is_empty() {
                text.push(if position == 0 { ',' } else { '+' });
            }
            append_attribute(&mut text, part)?;
        }
    }
    Ok(text)
}

fn append_attribute(text: &mut String, attribute: AnyRef<'_>) -> Result<(), der::Error> {
    let parts = elements(content(attribute, Tag::Sequence)?)?;
    let [kind, value] = parts.as_slice() else { return Err(der::ErrorKind::Failed.into()) };
    let kind = kind.decode_as::<ObjectIdentifier>()?.to_string();
    let known = ATTRIBUTES.iter().find(|(identifier, _)| *identifier == kind);
    text.push_str(known.map_or(kind.as_str(), |(_, name)| name));
    text.push('=');
    match characters(*value)?.filter(|_| known.is_some()) {
        Some(characters) => append_escaped(text, &characters),
        None => append_bytes(text, &value.to_der()?),
    }
    Ok(())
}

/// The value as text; `None`: it is none.
fn characters(value: AnyRef<'_>) -> Result<Option<String>, der::Error> {
    let bytes = value.value();
    Ok(match value.tag() {
        Tag::Utf8String => Some(std::str::from_utf8(bytes).map_err(|_| der::ErrorKind::Failed)?.to_owned()),
        Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString | Tag::TeletexString => {
            Some(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        Tag::BmpString => Some(value.decode_as::<BmpString>()?.to_string()),
        _ => None,
    })
}

fn append_escaped(text: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (position, character) in value.chars().enumerate() {
        let is_special = match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            '#' => position == 0,
            ' ' => position == 0 || position == last,
            _ => false,
        };
        if is_special {
            text.push('\\');
        }
        match character {
            control @ ('\0'..='\x1f' | '\x7f') => append_byte(text, "\\", control as u8),
            other => text.push(other),
        }
    }
}

fn append_bytes(text: &mut String, bytes: &[u8]) {
    text.push('#');
    for byte in bytes {
        append_byte(text, "", *byte);
    }
}

fn append_byte(text: &mut String, before: &str, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{before}{byte:02X}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificates that OpenSSL has made, and what `openssl x509 -subject -nameopt RFC2253,-esc_msb` says of them.
    const CERTIFICATES: [(&str, &str); 2] = [
        (
            "MIICHDCCAcMCFGlniuBldL+X2w0Mt+QA2HGu3OEaMAoGCCqGSM49BAMCMIGQMQswCQYDVQQGEwJERTEpMCcGA1UECgwgU2VhIFwsIGFuZCA8U2\
             hpcHM+OyBxdW90ZWQgYStiPWMxDjAMBgNVBAsMBSNoYXNoMQ8wDQYDVQQDDAZzcGFjZWQxFTATBgkqhkiG9w0BCQEWBmFAYi5kZTESMBAGCgmS\
             JomT8ixkAQEMAnUxMQowCAYDVQQFEwE3MB4XDTI2MTEyODE0MTg1N1oXDTM1MDIxNDE0MTg1N1owgZAxCzAJBgNVBAYTAkRFMSkwJwYDVQQKDC\
             BTZWEgXCwgYW5kIDxTaGlwcz47IHF1b3RlZCBhK2I9YzEOMAwGA1UECwwFI2hhc2gxDzANBgNVBAMMBnNwYWNlZDEVMBMGCSqGSIb3DQEJARYG\
             YUBiLmRlMRIwEAYKCZImiZPyLGQBAQwCdTExCjAIBgNVBAUTATcwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASiX2wCb+TnUN7o78aqGvGCf1\
             TMQycB7NFoByzmfdqIIaUWksbVxJKiiyGRkBEOMZJ/45QlUzMv75ZirUZR97i+MAoGCCqGSM49BAMCA0cAMEQCID8JLE+HNBvJe2r77e88RlxS\
             SOJDdY4qJMMBnh55HJGkAiBGqfMaWQyO1NdQ8nsRzDHy+E0VD1DDXh1lv5M2uhr/+A==",
            r"serialNumber=7,UID=u1,emailAddress=a@b.de,CN=spaced,OU=\#hash,O=Sea \\\, and \<Ships\>\; quoted a\+b=c,C=DE",
        ),
        (
            "MIIChTCCAiugAwIBAgIUUvyBq0QqdKENVAw/8V901ylNKvUwCgYIKoZIzj0EAwIwgZcxEzARBgoJkiaJk/IsZAEZFgNvcmcxGDAWBgoJkiaJk/\
             IsZAEZFghwbGltc29sbDELMAkGA1UEBhMCREUxGjAIBgNVBAsMAWEwDgYDVQQKDAdTdHJhw59lMQ0wCwYDVQQDDAQjeC95MQowCAYDVQQJDAFz\
             MQowCAYDVQQEDAFuMQowCAYDVQQqDAFnMQowCAYDVQQMDAF0MB4XDTI2MTEyODE0MTg1N1oXDTM1MDIxNDE0MTg1N1owgZcxEzARBgoJkiaJk/\
             IsZAEZFgNvcmcxGDAWBgoJkiaJk/IsZAEZFghwbGltc29sbDELMAkGA1UEBhMCREUxGjAIBgNVBAsMAWEwDgYDVQQKDAdTdHJhw59lMQ0wCwYD\
             VQQDDAQjeC95MQowCAYDVQQJDAFzMQowCAYDVQQEDAFuMQowCAYDVQQqDAFnMQowCAYDVQQMDAF0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQg\
             AEol9sAm/k51De6O/Gqhrxgn9UzEMnAezRaAcs5n3aiCGlFpLG1cSSooshkZARDjGSf+OUJVMzL++WYq1GUfe4vqNTMFEwHQYDVR0OBBYEFAoy\
             zW9RXGrky9JpfKZf/UnU22y0MB8GA1UdIwQYMBaAFAoyzW9RXGrky9JpfKZf/UnU22y0MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSA\
             AwRQIgQxWpY6Y/jJhy7mIy6fQR12eNzNyPkVFIG33rAvUEZK4CIQDHNYDcTx1hW2o6BDArbTZa1Nz6K6KWv6QxI5ajVk21Fg==",
            r"title=t,GN=g,SN=n,street=s,CN=\#x/y,O=Straße+OU=a,C=DE,DC=plimsoll,DC=org",
        ),
    ];

    fn der_of(base64: &str) -> Vec<u8> {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;
        let pem = format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
    }

    #[test]
    fn subjects_are_written_as_openssl_writes_them() {
        for (base64, expected) in CERTIFICATES {
            let certificate = der_of(base64);
            let fields = CertificateFields::parse(&certificate).unwrap();
            assert_eq!(to_rfc2253(fields.subject).unwrap(), expected);
            assert_eq!(fields.not_after_seconds - fields.not_before_seconds, 3000 * 24 * 3600);
        }
    }

    #[test]
    fn a_certificate_that_is_cut_off_or_changed_is_an_error_or_another_name() {
        let certificate = der_of(CERTIFICATES[1].0);
        for position in 0..certificate.len() {
            assert!(CertificateFields::parse(&certificate[..position]).is_err());
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut changed = certificate.clone();
                changed[position] = byte;
                if let Ok(fields) = CertificateFields::parse(&changed) {
                    let _ = to_rfc2253(fields.subject);
                }
            }
        }
    }

    #[test]
    fn what_has_no_name_is_written_as_bytes_and_control_characters_as_numbers() {
        // SEQUENCE { SET { SEQUENCE { 1.2.3.4, UTF8String "a" } } SET { SEQUENCE { CN, UTF8String "\n " } } }, without the outermost header.
        let name = [
            0x31, 0x0a, 0x30, 0x08, 0x06, 0x03, 0x2a, 0x03, 0x04, 0x0c, 0x01, 0x61, 0x31, 0x0b, 0x30, 0x09, 0x06, 0x03,
            0x55, 0x04, 0x03, 0x0c, 0x02, 0x0a, 0x20,
        ];
        assert_eq!(to_rfc2253(&name).unwrap(), r"CN=\0A\ ,1.2.3.4=#0C0161");
    }
}
