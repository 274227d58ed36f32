//! The socket in the file system. Used by `listener`.
//!
//! Its file is there from the beginning until the end, with the mode that lets in whom it shall before anybody can connect. One that a server left
//! that was killed is replaced; one that is answered at, or any other file, is not touched.

use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::configuration::UnixSocketSettings;

/// The longest path that the kernel takes, without the end.
const PATH_BYTES_MAX: usize = 107;

/// A bound socket, whose file is removed when this is dropped.
pub(crate) struct UnixSocket {
    path: PathBuf,
    /// The file's number, to tell whether it is still this socket's.
    inode: u64,
}

impl UnixSocket {
    /// Binds, and does not listen yet.
    #[allow(clippy::disallowed_methods, reason = "a socket's file; no part of the data")]
    pub(crate) fn bind(settings: &UnixSocketSettings) -> io::Result<(Self, Socket)> {
        let path = settings.path.clone();
        if path.as_os_str().as_bytes().len() > PATH_BYTES_MAX {
            return Err(io::Error::other(format!("the path is longer than {PATH_BYTES_MAX} bytes")));
        }
        remove_stale(&settings.path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(&path)?)?;
        let own = Self { inode: std::fs::symlink_metadata(&path)?.ino(), path };
        // Nobody can connect before it listens.
        std::fs::set_permissions(&own.path, std::fs::Permissions::from_mode(settings.permissions))?;
        Ok((own, socket))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixSocket {
    #[allow(clippy::disallowed_methods, reason = "a socket's file; no part of the data")]
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes the file of a server that is gone.
#[allow(clippy::disallowed_methods, reason = "a socket's file; no part of the data")]
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::other("there is a file of this name, and it is no socket"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // It is there, bound, and may listen soon or be full.
        Ok(_) => Err(io::Error::from(ErrorKind::AddrInUse)),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}
