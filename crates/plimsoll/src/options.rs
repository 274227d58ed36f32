//! How a database is opened: options for what programs differ in, and every setting of the server by its name.

use std::path::{Path, PathBuf};

use server::configuration::{Configuration, Settings, Size, machine_memory_bytes};
use server::{DiagnosticLog, Listeners, LogFormat, ServerHandle, Signals, Surroundings};

use crate::database::Database;
use crate::errors::OpenError;

/// Room for a small working set. Programs with more give more.
const MEMORY_BYTES: u64 = 256 << 20;
/// Of a program that has descriptors for its own work, too.
const CONNECTIONS_MAX: usize = 200;
const FREE_PORT_OF_LOOPBACK: &str = "127.0.0.1:0";

/// How a database is opened.
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    settings: Settings,
    configuration: Option<String>,
    listens: bool,
}

impl Options {
    /// Data in a directory, which is made if it is not there.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::with(Settings { data: Some(directory.into()), ..Settings::default() })
    }

    /// Data in memory: gone when the database is closed.
    pub fn in_memory() -> Self {
        Self::with(Settings { ephemeral: Some(true), ..Settings::default() })
    }

    fn with(settings: Settings) -> Self {
        Self { settings, configuration: None, listens: true }
    }

    /// All memory that it may use, in bytes [default: 256 MiB].
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.settings.memory = Some(Size::Bytes(bytes));
        self
    }

    /// Listens there, `HOST:PORT` [default: a free port of 127.0.0.1].
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.settings.listen = Some(vec![address.into()]);
        self
    }

    /// Listens on a socket in the file system and on no port. Drivers want its name to end with `.sock`.
    pub fn unix_socket(mut self, path: impl AsRef<Path>) -> Self {
        self.settings.unix_socket = Some(path.as_ref().to_owned());
        self.settings.listen.get_or_insert_default();
        self
    }

    /// Listens nowhere: direct calls only.
    pub fn without_address(mut self) -> Self {
        self.listens = false;
        self
    }

    /// Is the only member of a replica set of this name, as transactions and change streams want it.
    pub fn replica_set(mut self, name: impl Into<String>) -> Self {
        self.settings.replica_set = Some(name.into());
        self
    }

    /// Any setting of `plimsoll serve` in the form of its configuration file: TOML, each key a flag's name. Options above win.
    pub fn configuration(mut self, toml: impl Into<String>) -> Self {
        self.configuration = Some(toml.into());
        self
    }

    /// Opens the database, which recovers what the last run left, and serves its address.
    ///
    /// # Errors
    /// Those of [`OpenError`]; nothing is open then.
    pub fn open(self) -> Result<Database, OpenError> {
        let configuration = self.resolve()?;
        let failed = |error: std::io::Error| OpenError::Failed(error.to_string());
        let mut listeners =
            Listeners::bind(&configuration.listen).map_err(|error| OpenError::Address(error.to_string()))?;
        let socket = configuration.unix_socket.as_ref().filter(|_| self.listens);
        if let Some(socket) = socket {
            listeners.bind_unix(socket).map_err(|error| OpenError::Address(error.to_string()))?;
        }
        let address = match (listeners.addresses().first(), socket) {
            (Some(address), _) => Some(format!("mongodb://{address}/?directConnection=true")),
            (None, Some(socket)) => Some(format!("mongodb://{}/?directConnection=true", in_address(&socket.path))),
            (None, None) => None,
        };
        let log = DiagnosticLog::new(LogFormat::Text).map_err(failed)?;
        let handle = ServerHandle::new(configuration.connection_limits(), log);
        let surroundings = Surroundings {
            handle: handle.clone(),
            arguments: Vec::new(),
            parameters: Vec::new(),
            sample_profile: None,
            signals: Signals::OfProgram,
        };
        let database = server::Database::open(&configuration, listeners, surroundings)?;
        Database::begin(database, handle, address)
    }

    fn resolve(&self) -> Result<Configuration, OpenError> {
        let told = |error: &dyn std::fmt::Display| OpenError::Option(error.to_string());
        let given: Settings = toml::from_str(self.configuration.as_deref().unwrap_or_default())
            .map_err(|error| OpenError::Option(format!("in the configuration: {error}")))?;
        let usual = Settings {
            memory: Some(Size::Bytes(MEMORY_BYTES)),
            listen: Some(vec![FREE_PORT_OF_LOOPBACK.to_owned()]),
            max_connections: Some(CONNECTIONS_MAX),
            // Figures of every second are an operator's.
            no_flight_recorder: Some(true),
            ..Settings::default()
        };
        let machine_bytes = machine_memory_bytes().map_err(|error| told(&error))?;
        let settings = self.settings.clone().or(given).or(usual);
        let mut configuration = Configuration::resolve(settings, machine_bytes).map_err(|error| told(&error))?;
        if !self.listens {
            configuration.listen.clear();
        }
        Ok(configuration)
    }
}

/// A path as the host of a connection string: what is no letter, digit or dot is written as its bytes.
fn in_address(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let written = |byte: &u8| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_bytes().iter().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_a_host() {
        assert_eq!(in_address(Path::new("/run/a b/ü.sock")), "%2Frun%2Fa%20b%2F%C3%BC.sock");
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn options_win_over_the_configuration_and_that_over_what_is_usual() {
        let options = Options::new("d").configuration("memory = \"128MiB\"\noplog-size = \"64MiB\"");
        let resolved = options.clone().resolve().unwrap();
        assert_eq!((resolved.memory_bytes, resolved.oplog_bytes), (128 << 20, 64 << 20));
        assert_eq!(options.memory_bytes(200 << 20).resolve().unwrap().memory_bytes, 200 << 20);
        assert_eq!(Options::new("d").resolve().unwrap().memory_bytes, MEMORY_BYTES);
        let refused = Options::new("d").configuration("no-such-thing = 1").resolve();
        assert!(matches!(refused, Err(OpenError::Option(told)) if told.contains("no-such-thing")));
    }
}
