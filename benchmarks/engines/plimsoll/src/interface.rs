//! The C interface. Called from C++, declared in `engine_plimsoll.cc`; relies on the caller for pointers that are valid.
//!
//! Here alone is `unsafe`: pointers that come from C++ are turned into references and boxes, and functions are exported
//! under their own names.

use std::ffi::{CStr, c_char, c_void};
use std::time::Duration;

use crate::{Failure, Peer, Settings, Worker};

/// As C++ declares it.
#[repr(C)]
pub struct PlimsollSettings {
    directory: *const c_char,
    cache_bytes: usize,
    collections: u32,
    indexes: u32,
    sync_ms: u32,
    checkpoint_s: u32,
}

fn must<T>(what: &str, result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("FATAL {what}: {error}");
        std::process::exit(2)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_open(settings: &PlimsollSettings) -> *mut Peer {
    // SAFETY: the caller passes a string that ends with 0 and lives during the call.
    let directory = unsafe { CStr::from_ptr(settings.directory) };
    let settings = Settings {
        directory: directory.to_string_lossy().into_owned(),
        cache_bytes: settings.cache_bytes,
        collections: settings.collections as usize,
        indexes: settings.indexes as usize,
        sync: Duration::from_millis(settings.sync_ms.into()),
        checkpoint: Duration::from_secs(settings.checkpoint_s.into()),
    };
    Box::into_raw(Box::new(must("open", Peer::open(&settings))))
}

#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_worker(peer: &Peer) -> *mut Worker {
    Box::into_raw(Box::new(peer.worker()))
}

#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_insert(worker: &mut Worker, collection: u32, record: *const u8, length: usize) {
    // SAFETY: the caller passes `length` readable bytes that live during the call.
    let record = unsafe { std::slice::from_raw_parts(record, length) };
    must("insert", worker.insert(collection as usize, record));
}

#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_increment(worker: &mut Worker, collection: u32, document: u64) {
    must("increment", worker.increment(collection as usize, document));
}

/// `hit` gets `context` and a document's number, and may call `plimsoll_increment` with the same worker.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_scan(
    worker: &mut Worker,
    collection: u32,
    modulus: u64,
    remainder: u64,
    hit: extern "C" fn(*mut c_void, *mut Worker, u64),
    context: *mut c_void,
) {
    let pass_on = |worker: &mut Worker, document| hit(context, worker, document);
    must("scan", worker.scan(collection as usize, (modulus, remainder), pass_on));
}

#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_verify(worker: &mut Worker, collection: u32, entries: &mut u64, sum: &mut u64) {
    (*entries, *sum) = must("verify", worker.verify(collection as usize));
}

/// Writes the engine's counters as members of a JSON object, each after a comma, and 0 at the end.
///
/// # Safety
/// `length` bytes at `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_counters(peer: &Peer, out: *mut u8, length: usize) {
    // SAFETY: as the function demands of its caller.
    let out = unsafe { std::slice::from_raw_parts_mut(out, length) };
    let text = must("counters", peer.counters());
    let count = text.len().min(length - 1);
    out[..count].copy_from_slice(&text.as_bytes()[..count]);
    out[count] = 0;
}

/// # Safety
/// `worker` comes from `plimsoll_worker` and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_worker_close(worker: *mut Worker) {
    // SAFETY: as the function demands of its caller.
    drop(unsafe { Box::from_raw(worker) });
}

/// # Safety
/// `peer` comes from `plimsoll_open` and is not used again; its workers are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_close(peer: *mut Peer) {
    // SAFETY: as the function demands of its caller.
    let peer = unsafe { Box::from_raw(peer) };
    must("close", peer.store.shutdown().map_err(Failure::from));
}
