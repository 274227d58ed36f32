//! How long a thread of the load generator was ready to run and had no processor: what its clients wait for then is not the server.
//!
//! Used by `lane` when a phase has a lane for each client (with several on a lane, one's wait may overlap another's answer). The clients stand
//! for other machines, whose threads do not queue behind the server's. Relies on Linux' `/proc/thread-self/schedstat`; where that
//! cannot be read, nothing is left out.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Of the thread that made it.
pub(crate) struct OwnWaits(Option<File>);

impl OwnWaits {
    /// Must be used on this thread only, as it is this one's waits that it tells.
    pub(crate) fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Counts nothing.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Whether it counts.
    pub(crate) fn are_counted(&self) -> bool {
        self.0.is_some()
    }

    /// All waits so far.
    pub(crate) fn so_far(&self) -> Duration {
        let mut text = [0; 96];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        parse(text.get(..length).unwrap_or_default()).unwrap_or_default()
    }
}

/// See the kernel's documentation of scheduler statistics: nanoseconds on a processor, nanoseconds of waiting for one, slices.
fn parse(text: &[u8]) -> Option<Duration> {
    let waited = std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?;
    waited.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(parse(b"12345 678 9\n"), Some(Duration::from_nanos(678)));
        assert_eq!(parse(b"12345"), None);
        assert_eq!(OwnWaits::none().so_far(), Duration::ZERO);
    }

    #[test]
    fn waits_only_grow() {
        let waits = OwnWaits::of_this_thread();
        let before = waits.so_far();
        std::thread::yield_now();
        assert!(waits.so_far() >= before);
    }
}
