//! Objects in an object store: S3, Google's, Azure's, through the crate `object_store`.
//!
//! Called through `ObjectStore`, by threads that wait. The requests are run by two threads of their own. A request that fails for a
//! reason that passes is tried again for `RETRIED_FOR`, by the crate or, where an answer was cut, by us: each of ours may be made twice.
//! A large object is sent in parts, so that a cut connection costs one part.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStoreExt, RetryConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use crate::cloud_place::CloudPlace;
use crate::object_store::ObjectStore;

/// For so long a request is tried again.
const RETRIED_FOR: Duration = Duration::from_secs(60);
/// And the first one, which says whether the place can be reached at all.
const FIRST_RETRIED_FOR: Duration = Duration::from_secs(5);
const RETRIES_MAX: usize = 20;
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// What is larger is sent in parts.
const WHOLE_BYTES_MAX: usize = 16 << 20;
const PART_BYTES: usize = 8 << 20;
const THREADS: usize = 2;
/// Requests wait for the network most of the time.
const SIDE_BY_SIDE: usize = 4;

pub(crate) type Client = Arc<dyn object_store::ObjectStore>;

/// See the module's head.
pub(crate) struct CloudStore {
    place: CloudPlace,
    client: Client,
    /// Gives up soon.
    hasty: Client,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

impl CloudStore {
    /// Nothing is asked of the store yet.
    ///
    /// # Errors
    /// What in the environment is missing or wrong; the system refuses threads.
    pub(crate) fn open(place: &CloudPlace) -> io::Result<CloudStore> {
        let client = |retried_for| {
            let backoff = BackoffConfig { max_backoff: PAUSE_MAX, ..BackoffConfig::default() };
            place.client(RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: retried_for }).map_err(told)
        };
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(THREADS).thread_name("object store").enable_all();
        Ok(CloudStore {
            place: place.clone(),
            client: client(RETRIED_FOR)?,
            hasty: client(FIRST_RETRIED_FOR)?,
            runtime: Some(runtime.build()?),
        })
    }

    /// Whether an object is there.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) fn has_soon(&self, name: &str) -> io::Result<bool> {
        match self.ask_soon(name, |client, path| async move { client.head(&path).await }) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the place has any object.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) fn is_anything_there(&self) -> io::Result<bool> {
        let (client, path) = (self.client.clone(), self.path_of("")?);
        let asked = move || {
            let (client, path) = (client.clone(), path.clone());
            async move {
                let prefix = Some(&path).filter(|path| !path.as_ref().is_empty());
                client.list(prefix).try_next().await.map(|first| first.is_some())
            }
        };
        self.wait(FIRST_RETRIED_FOR, asked)
    }

    /// Runs a request. Whoever waits may be a thread of another runtime: it waits as for any other thread.
    fn wait<T: Send + 'static, F: Future<Output = object_store::Result<T>> + Send + 'static>(
        &self,
        patience: Duration,
        request: impl Fn() -> F + Send + 'static,
    ) -> io::Result<T> {
        let ended = || io::Error::other("the thread of the object store has ended");
        let (sender, receiver) = sync_channel(1);
        let runtime = self.runtime.as_ref().ok_or_else(ended)?;
        runtime.spawn(async move {
            // Somebody waits for it.
            let _ = sender.send(persist(patience, request).await);
        });
        receiver.recv().map_err(|_| ended())?.map_err(told)
    }

    /// Runs a request about an object, or a folder.
    fn ask<T: Send + 'static, F: Future<Output = object_store::Result<T>> + Send + 'static>(
        &self,
        name: &str,
        request: impl Fn(Client, Path) -> F + Send + 'static,
    ) -> io::Result<T> {
        let (client, path) = (self.client.clone(), self.path_of(name)?);
        self.wait(RETRIED_FOR, move || request(client.clone(), path.clone()))
    }

    /// The store's own name for an object.
    pub(crate) fn path_of(&self, name: &str) -> io::Result<Path> {
        self.place.path_of(name).map_err(told)
    }

    /// The same for who cannot wait for long.
    pub(crate) fn ask_soon<T: Send + 'static, F: Future<Output = object_store::Result<T>> + Send + 'static>(
        &self,
        name: &str,
        request: impl Fn(Client, Path) -> F + Send + 'static,
    ) -> io::Result<T> {
        let (client, path) = (self.hasty.clone(), self.path_of(name)?);
        self.wait(FIRST_RETRIED_FOR, move || request(client.clone(), path.clone()))
    }
}

impl Drop for CloudStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is forbidden to a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for CloudStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CloudStore({})", self.place)
    }
}

impl ObjectStore for CloudStore {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let bytes = Bytes::copy_from_slice(bytes);
        self.ask(name, move |client, path| {
            let bytes = bytes.clone();
            async move {
                match bytes.len() > WHOLE_BYTES_MAX {
                    true => put_in_parts(&client, &path, &bytes).await,
                    false => client.put(&path, bytes.into()).await.map(drop),
                }
            }
        })
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.ask(name, |client, path| async move { client.head(&path).await.map(|found| found.size) })
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.ask(name, |client, path| async move { client.get(&path).await?.bytes().await }).map(Vec::from)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let found = self.ask(folder, |client, path| async move { client.list_with_delimiter(Some(&path)).await })?;
        let objects = found.objects.iter().map(|object| &object.location);
        let names = objects.chain(&found.common_prefixes).filter_map(|path| path.filename());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn sizes(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let found = self.ask(folder, |client, path| async move { client.list_with_delimiter(Some(&path)).await })?;
        let sized =
            found.objects.iter().filter_map(|object| Some((object.location.filename()?.to_owned(), object.size)));
        Ok(sized.collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match self.ask(name, |client, path| async move { client.delete(&path).await }) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn side_by_side(&self) -> usize {
        SIDE_BY_SIDE
    }
}

/// Makes a request again while it fails for a reason that passes.
async fn persist<T, F: Future<Output = object_store::Result<T>>>(
    patience: Duration,
    request: impl Fn() -> F,
) -> object_store::Result<T> {
    let (until, mut pause) = (Instant::now() + patience, PAUSE_FIRST);
    loop {
        match request().await {
            Err(error) if passes(&error) && Instant::now() < until => sleep(pause).await,
            outcome => return outcome,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Whether a connection is to blame, and not the request or the store.
fn passes(error: &object_store::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            let kind = error.kind();
            return matches!(
                kind,
                HttpErrorKind::Connect | HttpErrorKind::Request | HttpErrorKind::Timeout | HttpErrorKind::Interrupted
            );
        }
        next = error.source();
    }
    false
}

/// The object appears with the last request.
async fn put_in_parts(client: &Client, path: &Path, bytes: &Bytes) -> object_store::Result<()> {
    let mut upload = client.put_multipart(path).await?;
    for begin in (0..bytes.len()).step_by(PART_BYTES) {
        let part = bytes.slice(begin..bytes.len().min(begin + PART_BYTES));
        if let Err(error) = upload.put_part(part.into()).await {
            // What is there of it would be paid for; the first error says more.
            let _ = upload.abort().await;
            return Err(error);
        }
    }
    upload.complete().await.map(drop)
}

/// As the standard library has it, with all reasons that are known.
fn told(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let reason = inner.to_string();
        if !text.contains(&reason) {
            text += &format!(": {reason}");
        }
        source = inner.source();
    }
    io::Error::new(kind, text)
}
