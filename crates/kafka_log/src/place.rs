//! Where a log in Kafka is: `kafka://HOST:PORT,HOST:PORT/TOPIC?OPTION=VALUE&...`. Nothing is guessed: what is not known is refused by its name.
//!
//! Parsed by `server` at its start. A password is in a file, so that neither a list of processes nor a log of diagnostics has it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::client_memory::ClientMemory;

const SCHEME: &str = "kafka://";
const PORT: u16 = 9092;
/// Longest name of a topic, with room for that of the notices.
const TOPIC_BYTES_MAX: usize = 240;
/// Copies of each record, where nothing else is said.
const REPLICATION: u16 = 3;
const REPLICATION_MAX: u16 = 9;
const NOTICES_SUFFIX: &str = "-members";

/// How a client says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The password is sent as it is: for connections with TLS.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl Mechanism {
    const ALL: [Mechanism; 3] = [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512];

    /// As Kafka calls it.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    /// Whether it needs digests, which come with TLS.
    pub fn is_scram(self) -> bool {
        self != Mechanism::Plain
    }
}

/// Who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The file that has the password, and nothing else but a line break.
    pub password_file: PathBuf,
    /// How it is proven.
    pub mechanism: Mechanism,
}

/// Encrypted connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Authorities that are trusted; without it those of the system.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its key.
    pub certificate_key_file: Option<PathBuf>,
}

/// Where a log is, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaPlace {
    /// `HOST:PORT` of each broker to ask first.
    pub brokers: Vec<String>,
    /// The topic of the records.
    pub topic: String,
    /// On how many brokers each record is to be.
    pub replication: u16,
    /// Encrypted connections.
    pub tls: Option<Tls>,
    /// Who the client is.
    pub login: Option<Login>,
    /// A directory that all members see, for copies of their data for new members.
    pub copies: Option<PathBuf>,
    /// How much memory the client may take. Nothing that a URL says.
    pub memory: ClientMemory,
}

impl KafkaPlace {
    /// Whether a URL names such a place.
    pub fn is_named_by(url: &str) -> bool {
        url.starts_with(SCHEME)
    }

    /// The topic of the members' notices.
    pub fn notices_topic(&self) -> String {
        format!("{}{NOTICES_SUFFIX}", self.topic)
    }

    /// How many of the brokers that are to have a record must have it before it is acknowledged: most of them.
    pub fn in_sync_min(&self) -> u16 {
        self.replication / 2 + 1
    }
}

impl FromStr for KafkaPlace {
    type Err = String;

    fn from_str(url: &str) -> Result<KafkaPlace, String> {
        let rest = url.strip_prefix(SCHEME).ok_or("needs kafka://HOST:PORT,.../TOPIC")?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (brokers, topic) = path.split_once('/').ok_or("needs the name of a topic: kafka://HOST:PORT,.../TOPIC")?;
        let brokers = brokers.split(',').map(broker).collect::<Result<Vec<_>, _>>()?;
        check_topic(topic)?;
        let mut options = Options::default();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| format!("the option '{option}' has no value"))?;
            options.take(name, &decoded(value)?)?;
        }
        options.into_place(brokers, topic.to_owned())
    }
}

impl fmt::Display for KafkaPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}", self.brokers.join(","), self.topic)
    }
}

/// The options of a URL, each at most once.
#[derive(Default)]
struct Options {
    replication: Option<u16>,
    tls: Option<bool>,
    ca_file: Option<PathBuf>,
    certificate_key_file: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    mechanism: Option<Mechanism>,
    copies: Option<PathBuf>,
}

impl Options {
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let file = || {
            let path = PathBuf::from(value);
            path.is_absolute().then_some(path).ok_or_else(|| format!("'{name}' needs the whole path"))
        };
        match name {
            "replication" => {
                let number = value.parse().ok().filter(|number| (1..=REPLICATION_MAX).contains(number));
                let wrong = || format!("'replication' is a number from 1 to {REPLICATION_MAX}");
                once(&mut self.replication, name, number.ok_or_else(wrong)?)
            }
            "tls" => {
                let is_on = value.parse().map_err(|_| "'tls' is true or false".to_owned())?;
                once(&mut self.tls, name, is_on)
            }
            "tls-ca-file" => once(&mut self.ca_file, name, file()?),
            "tls-certificate-key-file" => once(&mut self.certificate_key_file, name, file()?),
            "user" if value.is_empty() => Err("'user' needs a name".to_owned()),
            "user" => once(&mut self.user, name, value.to_owned()),
            "password-file" => once(&mut self.password_file, name, file()?),
            "mechanism" => {
                let known = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == value);
                let wrong = || format!("'mechanism' is one of {}", Mechanism::ALL.map(Mechanism::name).join(", "));
                once(&mut self.mechanism, name, known.ok_or_else(wrong)?)
            }
            "copies" => once(&mut self.copies, name, file()?),
            _ => Err(format!(
                "there is no option '{name}': known are replication, tls, tls-ca-file, tls-certificate-key-file, user, password-file, mechanism and copies"
            )),
        }
    }

    fn into_place(self, brokers: Vec<String>, topic: String) -> Result<KafkaPlace, String> {
        let has_tls = self.tls == Some(true);
        if !has_tls && (self.ca_file.is_some() || self.certificate_key_file.is_some()) {
            return Err("'tls-ca-file' and 'tls-certificate-key-file' mean nothing without tls=true".to_owned());
        }
        let login = match (self.user, self.password_file) {
            (Some(user), Some(password_file)) => {
                let mechanism = self.mechanism.ok_or("'user' needs 'mechanism', too")?;
                Some(Login { user, password_file, mechanism })
            }
            (None, None) if self.mechanism.is_none() => None,
            _ => return Err("'user', 'password-file' and 'mechanism' are given together".to_owned()),
        };
        let tls = has_tls.then_some(Tls { ca_file: self.ca_file, certificate_key_file: self.certificate_key_file });
        let replication = self.replication.unwrap_or(REPLICATION);
        let (copies, memory) = (self.copies, ClientMemory::default());
        Ok(KafkaPlace { brokers, topic, replication, tls, login, copies, memory })
    }
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), String> {
    match place.replace(value) {
        Some(_) => Err(format!("the option '{name}' is there twice")),
        None => Ok(()),
    }
}

/// Adds the port where there is none.
fn broker(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}' is not HOST:PORT of a broker");
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse::<u16>().map_err(|_| wrong())?),
        _ => (text, PORT),
    };
    let is_address = host.starts_with('[') && host.ends_with(']');
    let is_name = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    let is_in_brackets = |character: char| character.is_ascii_hexdigit() || "[]:.%".contains(character);
    let is_host = if is_address { host.chars().all(is_in_brackets) } else { host.chars().all(is_name) };
    if host.is_empty() || !is_host || port == 0 {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

fn check_topic(topic: &str) -> Result<(), String> {
    let is_known = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    let is_name = !topic.is_empty() && topic.len() <= TOPIC_BYTES_MAX && topic.chars().all(is_known);
    if !is_name || topic == "." || topic == ".." {
        return Err(format!(
            "'{topic}' is no name of a topic: at most {TOPIC_BYTES_MAX} letters, digits, dots, dashes and underscores"
        ));
    }
    Ok(())
}

/// `%41` is `A`.
fn decoded(value: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("'{value}': two hexadecimal digits follow a %"))?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("'{value}' is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> KafkaPlace {
        url.parse().unwrap()
    }

    #[test]
    fn a_place_says_what_the_url_says() {
        let place = parsed("kafka://a:9093,b,[::1]:9094/rs0");
        assert_eq!(place.brokers, ["a:9093", "b:9092", "[::1]:9094"]);
        assert_eq!((place.topic.as_str(), place.replication, place.in_sync_min()), ("rs0", 3, 2));
        assert_eq!((&place.tls, &place.login, &place.copies), (&None, &None, &None));
        assert_eq!(place.notices_topic(), "rs0-members");
        assert_eq!(place.to_string(), "kafka://a:9093,b:9092,[::1]:9094/rs0");
        assert_eq!(parsed("kafka://a/t?replication=1").in_sync_min(), 1);
        assert_eq!(parsed("kafka://a/t?replication=5").in_sync_min(), 3);

        let place = parsed(
            "kafka://a/t?tls=true&tls-ca-file=/ca.pem&user=me%40home&password-file=/run/a%20b&mechanism=SCRAM-SHA-512&copies=/shared",
        );
        assert_eq!(place.tls, Some(Tls { ca_file: Some("/ca.pem".into()), certificate_key_file: None }));
        let login = place.login.clone().unwrap();
        assert_eq!((login.user.as_str(), login.password_file.to_str()), ("me@home", Some("/run/a b")));
        assert_eq!((login.mechanism, place.copies.clone()), (Mechanism::ScramSha512, Some("/shared".into())));
        assert!(!place.to_string().contains("me@home"), "what is told to all names nobody");
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        for (url, told) in [
            ("dir:///a", "kafka://"),
            ("kafka://a:9092", "topic"),
            ("kafka:///t", "HOST:PORT"),
            ("kafka://a,,b/t", "HOST:PORT"),
            ("kafka://a:0/t", "a:0"),
            ("kafka://a:x/t", "a:x"),
            ("kafka://u:p@a/t", "u:p@a"),
            ("kafka://a/", "no name of a topic"),
            ("kafka://a/b/c", "no name of a topic"),
            ("kafka://a/..", "no name of a topic"),
            ("kafka://a/t?acks=1", "'acks'"),
            ("kafka://a/t?Replication=1", "'Replication'"),
            ("kafka://a/t?replication=0", "'replication'"),
            ("kafka://a/t?replication", "'replication'"),
            ("kafka://a/t?replication=1&replication=1", "twice"),
            ("kafka://a/t?tls=yes", "'tls'"),
            ("kafka://a/t?tls-ca-file=/a", "tls=true"),
            ("kafka://a/t?tls=true&tls-ca-file=a", "whole path"),
            ("kafka://a/t?user=a", "'password-file'"),
            ("kafka://a/t?mechanism=PLAIN", "'password-file'"),
            ("kafka://a/t?user=a&password-file=/b", "'mechanism'"),
            ("kafka://a/t?user=a&password-file=/b&mechanism=plain", "SCRAM-SHA-256"),
            ("kafka://a/t?copies=%2", "hexadecimal"),
            ("kafka://a/t?user=%ff", "UTF-8"),
        ] {
            let refused = url.parse::<KafkaPlace>().unwrap_err();
            assert!(refused.contains(told), "{url}: {refused}");
        }
    }
}
