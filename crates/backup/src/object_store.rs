//! Where backups are kept: names and bytes, written whole or not at all.
//!
//! Implemented by `directory_store` and `cloud_store`, opened by `place`. A name is a path with slashes; what is under a name is
//! written once, and may be replaced.

use std::io;

/// A store of objects. All methods may be called from several threads at once.
pub trait ObjectStore: Send + Sync {
    /// Stores an object durably, whole or not at all.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// The same for who gives way to others: calls `rest` after each small part of what computes.
    ///
    /// # Errors
    /// As `put`.
    fn put_resting(&self, name: &str, bytes: &[u8], _rest: &mut dyn FnMut()) -> io::Result<()> {
        self.put(name, bytes)
    }

    /// What is stored from now on is read soon, perhaps on this machine: it may stay in its memory until then.
    fn expect_readers(&self) {}

    /// Bytes of an object.
    ///
    /// # Errors
    /// `NotFound`; what the store says.
    fn size(&self, name: &str) -> io::Result<u64>;

    /// All of an object.
    ///
    /// # Errors
    /// `NotFound`; what the store says.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;

    /// The last parts of the names that begin with `folder` and a slash, sorted: those of objects and of folders. None if there is no
    /// such folder.
    ///
    /// # Errors
    /// What the store says.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// The objects of a folder, each with its bytes, by the last parts of their names. A store that lists sizes is asked once for all.
    ///
    /// # Errors
    /// What the store says.
    fn sizes(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let sized = |name: String| match self.size(&format!("{folder}/{name}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            size => Some(size.map(|bytes| (name, bytes))),
        };
        self.list(folder)?.into_iter().filter_map(sized).collect()
    }

    /// Removes an object; fine if it is not there.
    ///
    /// # Errors
    /// What the store says.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// How many objects are best stored or read at once.
    fn side_by_side(&self) -> usize {
        1
    }
}
