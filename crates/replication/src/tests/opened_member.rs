//! A member with whole threads of its own, on the clock of the machine: for the tests that apply by several threads.

use platform::SystemClock;

use super::*;
use crate::{Entered, Member as SetMember, enter};

/// Opens a member on a log.
pub(super) fn open(machine: &Machine, log: &MemoryLog, options: StoreOptions) -> (Arc<Store>, SetMember) {
    let (connection, clock) = (Arc::new(log.connect()), Arc::new(SystemClock::new()) as Arc<dyn Clock>);
    let me = Leader { node: machine.node, incarnation: 1, address: format!("db{}:1", machine.node) };
    let mut entered = None;
    let random = Arc::new(SeededRandom::new(machine.node));
    let disk: Arc<dyn Disk> = machine.disk.clone();
    let store =
        Store::open_caught_up(disk.clone(), clock.clone(), random.clone(), options, |oplog| -> Result<OpensAs> {
            let found = enter(&*connection, oplog, StandingFile::open(disk)?, me.clone(), &clock)?;
            let opens_as = if matches!(found, Entered::Leads(_)) { OpensAs::Leader } else { OpensAs::Follower };
            entered = Some(found);
            Ok(opens_as)
        });
    let store = store.unwrap();
    let member = SetMember::begin(connection, clock, random, me, entered.unwrap(), &store);
    (store, member)
}
