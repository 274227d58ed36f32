//! The server that a suite is run against: on a free port, with a data directory of its own, and gone when it is dropped.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(60);

/// A running server.
pub(super) struct Server {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// Starts `program` and waits until it accepts connections.
    pub(super) fn start(program: &Path, arguments: &[String]) -> Result<Self, String> {
        let describe = |error: std::io::Error| error.to_string();
        let port = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).map_err(describe)?.port();
        let folder = std::env::temp_dir().join(format!("plimsoll-suite-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).map_err(describe)?;
        let log = File::create(folder.join("server.log")).map_err(describe)?;
        let mut command = Command::new(program);
        command.args(["serve", "--enable-test-commands", "--listen", &format!("127.0.0.1:{port}"), "--data"]);
        command.arg(folder.join("data")).args(arguments);
        command.stdout(log.try_clone().map_err(describe)?).stderr(log);
        crate::step::announce(&command);
        let process = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut server = Self { process, port, folder };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < START_MAX {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                let log = fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
                return Err(format!("the server ended with {status}:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the server does not listen after {} s", START_MAX.as_secs()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing more can be done about a process or a folder that will not go.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
