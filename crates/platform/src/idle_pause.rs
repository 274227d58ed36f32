//! The pause of a background thread between two looks whether something is to be done: twice as long each time while
//! nothing is, so that a server that nobody uses hardly wakes the processor.
//!
//! Called by the threads of `storage_engine` and `transaction`. What must not wait for the longest pause has a condition
//! variable of its own that ends it.

use std::time::Duration;

/// Doubles from one length to another.
#[derive(Clone, Copy, Debug)]
pub struct IdlePause {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl IdlePause {
    /// Begins with the least.
    pub const fn new(least: Duration, most: Duration) -> Self {
        Self { least, most, next: least }
    }

    /// The pause behind a look: the least if something was found.
    pub fn after(&mut self, found: bool) -> Duration {
        if found {
            self.next = self.least;
        }
        let pause = self.next;
        self.next = (pause * 2).min(self.most);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_until_something_is_found() {
        let millis = Duration::from_millis;
        let mut pause = IdlePause::new(millis(50), millis(300));
        let looks = [true, false, false, false, false, true, false];
        assert_eq!(looks.map(|found| pause.after(found).as_millis()), [50, 100, 200, 300, 300, 50, 100]);
    }
}
