//! Authorities, certificates and lists of what is revoked, made for tests. Used by the program beside it and by the tests of the network.

use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::pkcs5::pbes2;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason, RevokedCertParams,
    SerialNumber, date_time_ymd,
};

/// Whoever makes a certificate for a test has nothing to do when that fails.
type Made<T> = Result<T, Box<dyn std::error::Error>>;

/// One that certificates are made by.
pub(crate) struct Authority {
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, in PEM.
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certified {
    /// As servers and clients want it, in one file.
    pub(crate) fn in_one(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }

    /// With the key encrypted.
    pub(crate) fn encrypted(&self, passphrase: &str) -> Made<String> {
        let key = KeyPair::from_pem(&self.key)?.serialize_der();
        let parameters = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(2048, b"of a test", [7; 16])?;
        let encrypted = PrivateKeyInfoRef::try_from(key.as_slice())?.encrypt_with_params(parameters, passphrase)?;
        let pem = encrypted.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF)?;
        Ok(format!("{}{}", self.certificate, pem.as_str()))
    }
}

impl Authority {
    pub(crate) fn new(name: &str) -> Made<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// For a server on this machine.
    pub(crate) fn server(&self, name: &str) -> Made<Certified> {
        self.server_until(name, 4000)
    }

    /// For a server on this machine, valid until the end of a year.
    pub(crate) fn server_until(&self, name: &str, year: i32) -> Made<Certified> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, 1, year)
    }

    /// For a client, whose subject is `CN=name,OU=tests,O=Plimsoll`.
    pub(crate) fn client(&self, name: &str, serial: u64) -> Made<Certified> {
        self.client_until(name, serial, 4000)
    }

    pub(crate) fn client_until(&self, name: &str, serial: u64, year: i32) -> Made<Certified> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Plimsoll");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "tests");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, serial, year)
    }

    fn sign(&self, mut params: CertificateParams, serial: u64, year: i32) -> Made<Certified> {
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        Ok(Certified { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }

    /// What it has revoked.
    pub(crate) fn revocation_list(&self, serials: &[u64]) -> Made<String> {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }
}
