//! Giving way: long work rests after each stretch while clients' operations go on beside it (`platform::WorkBudget`).
//!
//! Called in the loops of index builds, of expiry, and of large transactions: while they write, spill, and commit. Who the
//! others are is counted by whoever opened the store (`StoreOptions::foreground`). Beside them work rests the longer the less
//! the engine has in reserve, so that it is held back before they are (`storage_engine::pacing`).

use platform::WorkBudget;

use crate::store::Store;

impl Store {
    /// Of work that begins now.
    pub(crate) fn work_budget(&self) -> WorkBudget {
        WorkBudget::new(self.foreground.clone())
    }

    /// Rests if the stretch is over and others are there. Nothing that others wait for may be locked, but what a large transaction owns.
    pub(crate) fn give_way(&self, budget: &mut WorkBudget) {
        budget.step(&*self.clock, || self.engine.pace_long());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use platform::Clock;

    use crate::tests::fixture::Fixture;

    #[test]
    fn whoever_opens_the_store_says_who_the_others_are() {
        let fixture = Fixture::new();
        let mut budget = fixture.store.work_budget();
        let mut rests = || {
            fixture.store.give_way(&mut budget);
            fixture.clock.advance(Duration::from_secs(1));
            let began = fixture.clock.monotonic();
            fixture.store.give_way(&mut budget);
            fixture.clock.monotonic() > began
        };
        assert!(!rests());
        fixture.store.foreground().note_finished();
        // One thread is no more than a quarter of a large machine.
        let _others: Vec<platform::LongWork> = (0..fixture.store.foreground().processors())
            .map(|_| {
                let work = platform::LongWork::begin(fixture.store.foreground());
                platform::WorkClass::Background.set_for_thread();
                work
            })
            .collect();
        assert!(rests());
        assert!(!rests(), "they have gone");
    }
}
