//! Writing a reply to a client that may not be reading. Called by `exchange`, with the connection's thread.
//!
//! A client that does not read holds its reply's memory. As long as there is memory, that is its own business; when memory is waited for,
//! or nearly used up, the connections of those that stand still, or take what they asked for at a crawl, are closed.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use platform::{Clock, MemoryBudget, SystemClock};

use crate::channel::Channel;

/// A reply of so many bytes costs less than what the connection's thread does.
const LARGE_BYTES: usize = 64 * 1024;
/// How often it is looked whether memory is short while the client takes nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A client that has taken nothing for so long stands still.
const STILL: Duration = Duration::from_millis(500);
/// For so long nobody's speed is judged, and then so many bytes a second are expected.
const BEGINNING: Duration = Duration::from_secs(2);
const BYTES_A_SECOND: u64 = 256 << 10;
/// Memory is nearly used up when less than such a part of the budget is free.
const SHORT_SHARE: u64 = 16;

/// Why a reply is not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplyWritingError {
    #[error("cannot send: {0}")]
    Send(#[from] io::Error),
    #[error(
        "memory is short, and the client does not read its reply: {taken} of {length} bytes were taken in {} ms",
        waited.as_millis()
    )]
    SlowReader { taken: usize, length: usize, waited: Duration },
}

/// Writes all of a reply.
pub(crate) fn write_reply(channel: &mut Channel, bytes: &[u8], budget: &MemoryBudget) -> Result<(), ReplyWritingError> {
    if bytes.len() <= LARGE_BYTES {
        channel.write_all(bytes)?;
        return Ok(channel.flush()?);
    }
    channel.socket().set_write_timeout(Some(LOOK_INTERVAL))?;
    let written = write_watching(channel, bytes, budget);
    channel.socket().set_write_timeout(None)?;
    written
}

fn write_watching(channel: &mut Channel, bytes: &[u8], budget: &MemoryBudget) -> Result<(), ReplyWritingError> {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let (mut taken, mut last_taken) = (0, begun);
    while taken < bytes.len() || channel.has_unsent() {
        let rest = bytes.get(taken..).unwrap_or_default();
        let written = if rest.is_empty() { channel.flush().map(|()| 0) } else { channel.write(rest) };
        match written {
            Ok(0) if !rest.is_empty() => return Err(io::Error::from(ErrorKind::WriteZero).into()),
            Ok(more) => (taken, last_taken) = (taken + more, clock.monotonic()),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                _ => return Err(error.into()),
            },
        }
        let now = clock.monotonic();
        let (waited, still) = (now.saturating_sub(begun), now.saturating_sub(last_taken));
        if is_slow(taken, waited, still) && is_short(budget) {
            return Err(ReplyWritingError::SlowReader { taken, length: bytes.len(), waited });
        }
    }
    Ok(())
}

fn is_slow(taken: usize, waited: Duration, still: Duration) -> bool {
    let judged = waited.saturating_sub(BEGINNING).as_millis() as u64;
    still >= STILL || (taken as u64) < judged * BYTES_A_SECOND / 1000
}

fn is_short(budget: &MemoryBudget) -> bool {
    budget.is_waited_for() || budget.free() < budget.limit() / SHORT_SHARE
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use platform::MemoryUse;

    use super::*;

    fn pair() -> (TcpStream, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Channel::plain(Arc::new(listener.accept().unwrap().0.into())))
    }

    #[test]
    fn who_does_not_read_is_cut_off_when_memory_is_short_and_not_before() {
        let bytes = vec![7; 16 << 20];
        let budget = MemoryBudget::new(32 << 20);
        let (mut client, mut server) = pair();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| write_reply(&mut server, &bytes, &budget));
            SystemClock::new().sleep(STILL * 2);
            let mut received = vec![0; bytes.len()];
            client.read_exact(&mut received).unwrap();
            assert_eq!(received, bytes);
            writing.join().unwrap().unwrap();
        });
        let _all = budget.reserve_fixed(MemoryUse::Frames, 32 << 20);
        // Another connection: the kernel's buffers grow with what is read, and could take all of it.
        let (_client, mut server) = pair();
        let refused = write_reply(&mut server, &bytes, &budget);
        assert!(matches!(refused, Err(ReplyWritingError::SlowReader { taken, .. }) if taken < bytes.len()));
    }

    #[test]
    fn a_crawl_is_slow_after_a_while() {
        let second = Duration::from_secs(1);
        assert!(!is_slow(1, second, Duration::ZERO) && is_slow(1, 4 * second, Duration::ZERO));
        assert!(!is_slow(1 << 20, 4 * second, Duration::ZERO) && is_slow(1 << 20, second, second));
    }
}
