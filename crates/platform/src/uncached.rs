//! Writing a file without the kernel keeping in its memory what was written.
//!
//! Called by `real_disk` for files of which that is said. Relies on `RWF_DONTCACHE` and a file system that knows it: a page of the file that was not in the
//! kernel's memory before leaves it again once it is on the disk. The kernel begins to write at once. Linux has it since 6.14; from 6.16 on it takes care of
//! what is written again while it is being written.

use std::fs::File;
use std::io::{self, IoSlice};

/// Whether it worked.
pub(crate) enum Attempt {
    Done(io::Result<usize>),
    /// Kernel or file system cannot do it: nothing happened.
    Unsupported,
}

/// `RWF_DONTCACHE` of `linux/fs.h`.
#[cfg(target_os = "linux")]
const DONTCACHE: rustix::io::ReadWriteFlags = rustix::io::ReadWriteFlags::from_bits_retain(0x80);

/// First version of the kernel that this is used with.
const KERNEL: (u32, u32) = (6, 16);

/// Version and first revision of a release like `6.18.4-cloud`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(target_os = "linux")]
fn kernel_can() -> bool {
    static CAN: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        version_of(&release).is_some_and(|version| version >= KERNEL)
    });
    *CAN
}

/// Writes some of `bytes` at `offset`; returns how many.
#[cfg(target_os = "linux")]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> Attempt {
    use rustix::io::Errno;

    if !kernel_can() {
        return Attempt::Unsupported;
    }
    loop {
        match rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, DONTCACHE) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => return Attempt::Unsupported,
            result => return Attempt::Done(result.map_err(io::Error::from)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn write_at(_file: &File, _bytes: &[u8], _offset: u64) -> Attempt {
    Attempt::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_understood() {
        assert_eq!(version_of("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version_of("5.4"), Some((5, 4)));
        assert_eq!(version_of("unknown"), None);
    }
}
