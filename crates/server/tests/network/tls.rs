//! Encrypted connections: each mode, who is let in, what is read again, and that handshakes take nothing from those who are in.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::rawdoc;
use platform::MemoryBudget;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use server::{Passphrase, Tls, TlsError, TlsMode, TlsSettings, TlsVersion};
use tempfile::TempDir;

use crate::authority::{Authority, Certified};
use crate::client::{Client, HANGS_AFTER, connect, msg};
use crate::test_service::{TestServer, eventually};

type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

/// An authority, and the files of a server that it has certified.
struct Files {
    folder: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new("an authority").unwrap() };
        files.write("server.pem", &files.authority.server("server").unwrap().in_one());
        files.write("ca.pem", &files.authority.certificate);
        files.write("crl.pem", &files.authority.revocation_list(&[13]).unwrap());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Without authorities.
    fn settings(&self, mode: TlsMode) -> TlsSettings {
        TlsSettings {
            mode,
            certificate_key_file: self.path("server.pem"),
            passphrase: None,
            authority_file: None,
            revocation_file: None,
            allows_without_certificate: false,
            versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
        }
    }

    /// With authorities and what they have revoked.
    fn verifying(&self, mode: TlsMode) -> TlsSettings {
        let (authority_file, revocation_file) = (Some(self.path("ca.pem")), Some(self.path("crl.pem")));
        TlsSettings { authority_file, revocation_file, ..self.settings(mode) }
    }

    fn client(&self, address: SocketAddr) -> Encrypted {
        encrypted(address, &self.authority, None, &rustls::version::TLS13)
    }
}

fn serve(settings: TlsSettings) -> TestServer {
    serve_within(settings, MemoryBudget::unlimited())
}

fn serve_within(settings: TlsSettings, memory: Arc<MemoryBudget>) -> TestServer {
    TestServer::with_tls(5000, Duration::from_secs(5), memory, Some(Arc::new(Tls::load(settings).unwrap())))
}

/// A client that trusts an authority; the handshake comes with its first message.
fn encrypted(
    address: SocketAddr,
    trusted: &Authority,
    certified: Option<&Certified>,
    version: &'static SupportedProtocolVersion,
) -> Encrypted {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.certificate.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let config = match certified {
        None => builder.with_no_client_auth(),
        Some(certified) => {
            let certificate = CertificateDer::from_pem_slice(certified.certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    Client { stream: StreamOwned::new(connection, connect(address)) }
}

/// Why a client gets no answer; `None`: it gets one.
fn refusal<S: Read + Write>(client: &mut Client<S>) -> Option<String> {
    let ping = msg(0, &rawdoc! { "ping": 1, "$db": "d" });
    let sent = client.stream.write_all(&ping).and_then(|()| client.stream.flush());
    sent.and_then(|()| client.receive().map(drop)).err().map(|error| error.to_string())
}

fn check_long_messages(server: &TestServer, client: &mut Encrypted) {
    for length in [100, 20_000, 5_000_000, 3] {
        let text = "x".repeat(length);
        let reply = client.run(&rawdoc! { "echo": text.as_str(), "$db": "d" });
        assert_eq!(reply.get_str("echo").unwrap(), text);
    }
    // Several in one record, and one in several.
    let many: Vec<u8> = (0..5).flat_map(|_| msg(0, &rawdoc! { "ping": 1, "$db": "d" })).collect();
    client.send(&many);
    (0..5).for_each(|_| drop(client.receive().unwrap()));
    for bytes in msg(0, &rawdoc! { "ping": 1, "$db": "d" }).chunks(9) {
        client.send(bytes);
    }
    client.receive().unwrap();
    // A stream of replies to one request.
    client.send(&msg(1 << 16, &rawdoc! { "batches": 100, "$db": "d" }));
    let replies: Vec<bool> = (0..100).map(|_| client.receive().unwrap().has_more_to_come()).collect();
    assert_eq!(replies.iter().filter(|more| **more).count(), 99);
    eventually("nothing runs", || server.handle.connections().active == 0);
}

#[test]
fn messages_of_all_sizes_and_versions_come_through_by_threads_and_in_the_crowd() {
    let files = Files::new();
    for is_crowded in [false, true] {
        let server = serve(files.settings(TlsMode::Require));
        server.seen.gate.is_crowded.store(is_crowded, Ordering::SeqCst);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            check_long_messages(&server, &mut encrypted(server.address, &files.authority, None, version));
        }
    }
}

#[test]
fn each_mode_lets_in_whom_it_shall() {
    let files = Files::new();
    for mode in [TlsMode::Allow, TlsMode::Prefer, TlsMode::Require] {
        let server = serve(files.settings(mode));
        assert_eq!(refusal(&mut files.client(server.address)), None);
        let plain = refusal(&mut Client::connect(server.address));
        assert_eq!(plain.is_none(), mode != TlsMode::Require, "{mode:?}: {plain:?}");
    }
    let server = TestServer::start();
    assert!(refusal(&mut files.client(server.address)).is_some(), "the server does not speak TLS");
    let settings = TlsSettings { versions: vec![TlsVersion::V1_3], ..files.settings(TlsMode::Require) };
    let server = serve(settings);
    let mut old = encrypted(server.address, &files.authority, None, &rustls::version::TLS12);
    assert!(refusal(&mut old).unwrap().contains("ProtocolVersion"));
    assert_eq!(refusal(&mut files.client(server.address)), None);
}

#[test]
fn the_console_is_encrypted_too() {
    let files = Files::new();
    let server = serve(files.settings(TlsMode::Prefer));
    let asks = "POST /api/whoami HTTP/1.1\r\nHost: localhost\r\nOrigin: https://localhost\r\nX-Plimsoll-Console: 1\r\n\
                Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    let answer = |stream: &mut dyn ReadWrite| {
        stream.write_all(asks.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Neither closes as TLS wishes.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let encrypted = answer(&mut files.client(server.console).stream);
    assert!(encrypted.starts_with("HTTP/1.1 200") && encrypted.contains("SameSite=Strict; Secure"), "{encrypted}");
    assert!(!answer(&mut connect(server.console)).contains("HTTP"));
}

/// What one can talk over.
trait ReadWrite: Read + Write {}

impl<S: Read + Write> ReadWrite for S {}

#[test]
fn certificates_of_clients_are_verified() {
    let files = Files::new();
    let other = Authority::new("another authority").unwrap();
    let (own, others) = (&files.authority, other.client("c", 12).unwrap());
    let (good, revoked) = (own.client("c", 12).unwrap(), own.client("c", 13).unwrap());
    let expired = own.client_until("c", 14, 2021).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = serve(files.verifying(TlsMode::Require));
        let refused = |certified: Option<&Certified>| refusal(&mut encrypted(server.address, own, certified, version));
        assert_eq!(refused(Some(&good)), None);
        for (certified, why) in [
            (None, "CertificateRequired"),
            (Some(&revoked), "CertificateRevoked"),
            (Some(&expired), "CertificateExpired"),
            (Some(&others), "UnknownCA"),
        ] {
            let said = refused(certified).unwrap();
            let tls12_of_none = certified.is_none() && version == &rustls::version::TLS12;
            assert!(said.contains(why) || tls12_of_none && said.contains("alert"), "{why}: {said}");
        }
        let mut client = encrypted(server.address, own, Some(&good), version);
        let reply = client.run(&rawdoc! { "certificate": 1, "$db": "d" });
        assert_eq!(reply.get_str("subject").unwrap(), "CN=c,OU=tests,O=Plimsoll");
        assert!(
            refusal(&mut encrypted(server.address, &other, Some(&good), version)).unwrap().contains("UnknownIssuer")
        );
        let settings = TlsSettings { allows_without_certificate: true, ..files.verifying(TlsMode::Require) };
        let server = serve(settings);
        let mut client = encrypted(server.address, own, None, version);
        assert_eq!(client.run(&rawdoc! { "certificate": 1, "$db": "d" }).get_str("subject").unwrap(), "none");
        assert!(refusal(&mut encrypted(server.address, own, Some(&revoked), version)).is_some());
    }
}

#[test]
fn files_are_read_again_and_bad_ones_change_nothing() {
    let files = Files::new();
    let settings = files.verifying(TlsMode::Require);
    let tls = Arc::new(Tls::load(settings).unwrap());
    let memory = MemoryBudget::unlimited();
    let server = TestServer::with_tls(10, Duration::from_secs(5), memory, Some(Arc::clone(&tls)));
    let (first, second) = (files.authority.client("c", 12).unwrap(), files.authority.client("c", 20).unwrap());
    let connected = |certified: &Certified, trusted: &Authority| {
        encrypted(server.address, trusted, Some(certified), &rustls::version::TLS13)
    };
    let mut open = connected(&first, &files.authority);
    assert_eq!(refusal(&mut open), None);
    for (name, text) in [("server.pem", "nothing"), ("ca.pem", ""), ("crl.pem", &files.authority.certificate)] {
        let before = std::fs::read_to_string(files.path(name)).unwrap();
        files.write(name, text);
        let error = tls.rotate().unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        assert_eq!(refusal(&mut connected(&first, &files.authority)), None);
        files.write(name, &before);
    }
    files.write("crl.pem", &files.authority.revocation_list(&[12]).unwrap());
    let other = Authority::new("another authority").unwrap();
    files.write("server.pem", &other.server("server").unwrap().in_one());
    tls.rotate().unwrap();
    assert_eq!(refusal(&mut open), None, "it was open before");
    let revoked = refusal(&mut connected(&first, &other)).unwrap();
    assert!(revoked.contains("CertificateRevoked"), "{revoked}");
    assert!(refusal(&mut connected(&second, &files.authority)).unwrap().contains("UnknownIssuer"));
    assert_eq!(refusal(&mut connected(&second, &other)), None);
}

#[test]
fn keys_may_be_encrypted_and_what_is_wrong_with_a_file_is_told() {
    /// Made by `openssl pkcs8 -topk8 -passout pass:aye`.
    const OF_OPENSSL: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiudI4Jvwze9AICCAAw\n\
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEOhqQ+XjxPxBVCuOvJqqdQQEgZDG\n\
        APE6R/wo9I9Ql2NMkYj+Zy6hQozqS9yZmR8fYgYxy7W4Ew0vfJj3q6fWfTn63b9U\n\
        GnGE+SY/kPGlV3w/2vpFbc2wj79Jb0hwI5cUZSljka2P7beUtayklja3ek74z279\n\
        mrc6pEjmozE9iDpBpHEJ/hSI3g5LfY4Y3NzWjklI/nTm50nPQggA8rxiUqx9XLc=\n\
        -----END ENCRYPTED PRIVATE KEY-----\n";
    let files = Files::new();
    let certified = files.authority.server("server").unwrap();
    files.write("passphrase", "open sesame\n");
    let load = |text: &str, passphrase: Option<Passphrase>| -> Result<(), TlsError> {
        files.write("server.pem", text);
        Tls::load(TlsSettings { passphrase, ..files.settings(TlsMode::Require) }).map(drop)
    };
    let told = |text: &str, passphrase: Option<&str>| {
        let passphrase = passphrase.map(|text| Passphrase::Text(text.to_owned()));
        load(text, passphrase).unwrap_err().to_string()
    };
    let encrypted = certified.encrypted("open sesame").unwrap();
    load(&encrypted, Some(Passphrase::Text("open sesame".to_owned()))).unwrap();
    load(&encrypted, Some(Passphrase::File(files.path("passphrase")))).unwrap();
    assert!(told(&encrypted, None).contains("no passphrase is given"));
    assert!(told(&encrypted, Some("secret")).contains("cannot be decrypted"));
    assert!(!told(&encrypted, Some("secret")).contains("secret"));
    // It can be decrypted, and is another certificate's.
    let of_another = format!("{}{OF_OPENSSL}", certified.certificate);
    assert!(told(&of_another, Some("aye")).contains("cannot be used"));
    assert!(told(&of_another, Some("nay")).contains("cannot be decrypted"));
    let old_way = format!(
        "{}-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA==\n-----END EC PRIVATE KEY-----\n",
        certified.certificate
    );
    assert!(told(&old_way, Some("x")).contains("openssl pkcs8 -topk8"));
    assert!(told(&certified.certificate, None).contains("no private key"));
    assert!(told(&certified.key, None).contains("no certificate"));
    assert!(told(&files.authority.server_until("server", 2021).unwrap().in_one(), None).contains("has expired"));
    let nowhere = TlsSettings { certificate_key_file: files.path("nowhere"), ..files.settings(TlsMode::Require) };
    assert!(Tls::load(nowhere).err().unwrap().to_string().contains("nowhere"));
}

#[test]
fn a_thousand_handshakes_that_are_not_finished_delay_nobody_and_take_little() {
    let files = Files::new();
    let memory = MemoryBudget::new(256 << 20);
    let server = serve_within(files.settings(TlsMode::Prefer), Arc::clone(&memory));
    let mut inside = files.client(server.address);
    assert_eq!(refusal(&mut inside), None);
    // Some say nothing, some one byte, some begin, and some have the server compute and then say no more.
    let mut hello = Vec::new();
    files.client(server.address).stream.conn.write_tls(&mut hello).unwrap();
    let beginnings = [&hello[..0], &hello[..1], &hello[..hello.len() / 2], &hello[..]];
    let half_open: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = connect(server.address);
            stream.write_all(beginnings[number % beginnings.len()]).unwrap();
            stream
        })
        .collect();
    eventually("all are there", || server.handle.connections().current >= 1000);
    assert_eq!(refusal(&mut inside), None);
    assert_eq!(refusal(&mut files.client(server.address)), None);
    assert_eq!(refusal(&mut Client::connect(server.address)), None);
    assert!(memory.used() < 30 << 20, "{}", memory.used());
    assert_eq!(server.handle.connections().refused, 0);
    drop(half_open);
    eventually("they are gone", || server.handle.connections().current <= 1);
}

#[test]
fn who_does_not_finish_the_handshake_in_time_is_closed() {
    let files = Files::new();
    let server = serve(files.settings(TlsMode::Require));
    let mut silent = connect(server.address);
    let mut begun = connect(server.address);
    begun.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).unwrap();
    for stream in [&mut silent, &mut begun] {
        stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    eventually("they are gone", || server.handle.connections().current == 0);
}

#[test]
fn an_idle_encrypted_connection_takes_little_and_one_whose_client_is_gone_is_noticed() {
    let files = Files::new();
    let memory = MemoryBudget::new(1 << 30);
    let server = serve_within(files.settings(TlsMode::Require), Arc::clone(&memory));
    let mut client = files.client(server.address);
    for _ in 0..3 {
        assert_eq!(client.run(&rawdoc! { "ping": 1, "$db": "d" }).get_f64("ok").unwrap(), 1.0);
        eventually("it has no thread and no buffers any more", || memory.used() <= 10 << 10);
    }
    client.send(&msg(0, &rawdoc! { "untilGone": 1, "$db": "d" }));
    eventually("it waits", || !server.seen.until_gone.lock().unwrap().is_empty());
    drop(client);
    eventually("its command has ended", || server.handle.connections().current == 0);
}

#[test]
fn what_is_no_handshake_is_refused() {
    let files = Files::new();
    let server = serve(files.settings(TlsMode::Prefer));
    let mut state: u64 = 1;
    for length in 0..200 {
        let mut stream = connect(server.address);
        let mut bytes = vec![0x16, 0x03, 0x01, 0x00, 0xf0];
        bytes.extend((0..length).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        }));
        // Fails where the server has refused the beginning already.
        let _ = stream.write_all(&bytes);
    }
    eventually("they are gone", || server.handle.connections().current == 0);
    assert_eq!(refusal(&mut files.client(server.address)), None);
}
