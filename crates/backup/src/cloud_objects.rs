//! Single objects of an object store, made only where there is none of that name: what a shared log in one needs (`server`).
//!
//! Small requests that somebody waits for: they are given up sooner than those of a backup.

use std::io;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode};

use crate::cloud_place::CloudPlace;
use crate::cloud_store::{Client, CloudStore};

/// Objects that are asked for at once.
const SIDE_BY_SIDE: usize = 16;

/// See the module's head.
#[derive(Debug)]
pub struct CloudObjects {
    store: CloudStore,
}

impl CloudObjects {
    /// Those of a place. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// What in the environment is missing or wrong; the system refuses threads.
    pub fn open(place: &CloudPlace) -> io::Result<CloudObjects> {
        Ok(CloudObjects { store: CloudStore::open(place)? })
    }

    /// Stores an object if there is none of that name. `false`: there is one, which may be of this request: it may have been made twice.
    ///
    /// # Errors
    /// Whether it was stored is not known.
    pub fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let bytes = Bytes::copy_from_slice(bytes);
        self.store.ask_soon(name, move |client, path| {
            let bytes = bytes.clone();
            async move {
                match client.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                        Ok(false)
                    }
                    Err(error) => Err(error),
                }
            }
        })
    }

    /// Stores an object, in the place of the last one.
    ///
    /// # Errors
    /// What the store says.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let bytes = Bytes::copy_from_slice(bytes);
        self.store.ask_soon(name, move |client, path| {
            let bytes = bytes.clone();
            async move { client.put(&path, bytes.into()).await.map(drop) }
        })
    }

    /// All of an object, if it is there.
    ///
    /// # Errors
    /// What the store says.
    pub fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let got = self.store.ask_soon(name, |client, path| async move { client.get(&path).await?.bytes().await });
        match got {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same of several, which are asked for side by side.
    ///
    /// # Errors
    /// What the store says.
    pub fn get_all(&self, names: &[String]) -> io::Result<Vec<Option<Vec<u8>>>> {
        let paths = names.iter().map(|name| self.store.path_of(name)).collect::<io::Result<Vec<_>>>()?;
        self.store.ask_soon("", move |client, _| {
            let paths = paths.clone();
            async move {
                let got = stream::iter(paths).map(|path| get_if_there(client.clone(), path));
                got.buffered(SIDE_BY_SIDE).try_collect().await
            }
        })
    }

    /// The last parts of the names in a folder that are behind `after`, sorted; so many at most.
    ///
    /// # Errors
    /// What the store says.
    pub fn list_after(&self, folder: &str, after: &str, count_max: usize) -> io::Result<Vec<String>> {
        let after = after.to_owned();
        let found = self.store.ask_soon(folder, move |client, path| {
            let offset = path.clone().join(after.as_str());
            async move {
                let names = client.list_with_offset(Some(&path), &offset).take(count_max);
                names.map_ok(|object| object.location).try_collect::<Vec<_>>().await
            }
        })?;
        let mut names: Vec<String> = found.iter().filter_map(|path| path.filename()).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes an object; fine if it is not there.
    ///
    /// # Errors
    /// What the store says.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        match self.store.ask_soon(name, |client, path| async move { client.delete(&path).await }) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

async fn get_if_there(client: Client, path: Path) -> object_store::Result<Option<Vec<u8>>> {
    match client.get(&path).await {
        Ok(found) => found.bytes().await.map(|bytes| Some(bytes.into())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
