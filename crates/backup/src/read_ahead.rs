//! Several objects read at once, and taken in their order.
//!
//! Called by `restore` and `known_blocks`: an answer of an object store takes so long that one request at a time would leave the
//! network unused. A directory is read by the thread that asks.

use std::sync::mpsc::sync_channel;

use crate::error::{BackupError, Result};

/// Calls `read` for each item, on `threads` threads, and `take` with what it gave, in the order of the items.
///
/// # Errors
/// The first of either.
pub(crate) fn in_order<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    read: impl Fn(&I) -> Result<T> + Sync,
    mut take: impl FnMut(&I, T) -> Result<()>,
) -> Result<()> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().try_for_each(|item| take(item, read(item)?));
    }
    let (read, class) = (&read, platform::WorkClass::of_thread());
    std::thread::scope(|scope| {
        // Each thread has every so-manieth item, and waits until it is taken.
        let begin = |number: usize| {
            let (sender, receiver) = sync_channel(0);
            let own = items.iter().skip(number).step_by(threads);
            scope.spawn(move || {
                // It gives way as whoever waits for it does.
                class.set_for_thread();
                for item in own {
                    let found = read(item);
                    let has_failed = found.is_err();
                    if sender.send(found).is_err() || has_failed {
                        break;
                    }
                }
                platform::memory_check::thread_ends();
            });
            receiver
        };
        let receivers: Vec<_> = (0..threads).map(begin).collect();
        items.iter().zip(receivers.iter().cycle()).try_for_each(|(item, receiver)| {
            // It ends early only behind an error that was sent.
            let found = receiver.recv().map_err(|_| BackupError::Stopped)?;
            take(item, found?)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_taken_in_their_order_and_the_first_error_ends_it() {
        let items: Vec<u32> = (0..50).collect();
        for threads in [1, 3, 80] {
            let mut taken = Vec::new();
            let read = |item: &u32| Ok(item * 2);
            in_order(&items, threads, read, |item, double| {
                taken.push((*item, double));
                Ok(())
            })
            .unwrap();
            assert_eq!(taken, items.iter().map(|item| (*item, item * 2)).collect::<Vec<_>>());
            let mut count = 0;
            let read = |item: &u32| if *item < 20 { Ok(()) } else { Err(BackupError::Missing(item.to_string())) };
            let failed = in_order(&items, threads, read, |_, ()| {
                count += 1;
                Ok(())
            });
            assert_eq!((failed.unwrap_err().to_string(), count), ("20 is missing".to_owned(), 20));
            assert!(in_order(&items, threads, |_| Ok(()), |_, ()| Err(BackupError::Stopped)).is_err());
        }
    }
}
