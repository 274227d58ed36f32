//! Having the kernel write a range of a file to the disk, without waiting for it.
//!
//! Called by `real_disk`. Relies on `sync_file_range(2)`; a file system that cannot do it leaves the range to the kernel's own threads. (`posix_fadvise(2)` with
//! `POSIX_FADV_DONTNEED` does it too, but takes out of the kernel's memory what was written before and may be read again, and has every processor look for it.)
//!
//! `unsafe` because the C library's function has no safe form.
#![allow(unsafe_code)]

use std::fs::File;

/// Begins to write the range. Promises nothing.
#[cfg(target_os = "linux")]
pub(crate) fn begin(file: &File, offset: u64, length: u64) {
    use std::os::fd::AsRawFd;

    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the call takes numbers only, and the descriptor is open while `file` is borrowed.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Elsewhere the system decides.
#[cfg(not(target_os = "linux"))]
pub(crate) fn begin(_file: &File, _offset: u64, _length: u64) {}
