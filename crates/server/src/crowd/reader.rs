//! The thread that reads the requests of the crowd's connections. Runs nothing that may last: it refuses, everything else is for workers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use platform::{Clock, SystemClock, WorkClass};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::workers::LATE;
use super::{Crowd, Job, Look, Member, Request, WAKE};
use crate::connection::{LINGER_WHEN_BUSY, Pause, Polled};
use crate::service::CommandService;

/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// How often those who have waited for too long are looked for.
const TICK: Duration = Duration::from_millis(10);
/// How often silent connections are.
const SWEEP: Duration = Duration::from_millis(100);

/// See the module's head.
pub(super) struct Reader<S: CommandService> {
    crowd: Arc<Crowd<S>>,
    /// Those that wait for bytes, and since when.
    members: HashMap<u64, (Member<S>, Duration)>,
    clock: SystemClock,
    now: Duration,
    helped: Duration,
    ticked: Duration,
    swept: Duration,
}

impl<S: CommandService> Reader<S> {
    pub(super) fn new(crowd: Arc<Crowd<S>>) -> Self {
        let zero = Duration::ZERO;
        Self {
            crowd,
            members: HashMap::new(),
            clock: SystemClock::new(),
            now: zero,
            helped: zero,
            ticked: zero,
            swept: zero,
        }
    }

    /// Until the server stops.
    pub(super) fn run(mut self) {
        WorkClass::Interactive.set_for_thread();
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        while !self.crowd.is_stopping() {
            events.clear();
            let longest = self.longest_sleep();
            // Fails when interrupted.
            let _ = epoll::wait(&self.crowd.epoll, spare_capacity(&mut events), longest.as_ref());
            self.now = self.clock.monotonic();
            self.take_returned();
            for event in &events {
                let (data, flags) = (event.data, event.flags);
                match data.u64() {
                    WAKE => self.woken(),
                    id => self.readable(id, flags),
                }
            }
            self.tick();
        }
    }

    /// Without members there is nothing to do by the clock.
    fn longest_sleep(&self) -> Option<Timespec> {
        if self.members.is_empty() {
            let handover = self.crowd.handover.lock();
            if handover.away.is_empty() && handover.returned.is_empty() {
                return None;
            }
        }
        Timespec::try_from(if self.crowd.workers.has_jobs() { LATE } else { TICK }).ok()
    }

    fn woken(&self) {
        let mut count = [0; 8];
        // Fails when there is nothing, which is as well.
        let _ = rustix::io::read(&self.crowd.wake, &mut count);
    }

    fn take_returned(&mut self) {
        let returned = std::mem::take(&mut self.crowd.handover.lock().returned);
        for (member, look) in returned {
            match look {
                Look::Now => self.read(member),
                Look::Later => self.keep(member),
            }
        }
    }

    fn keep(&mut self, member: Member<S>) {
        self.members.insert(member.connection.id(), (member, self.now));
    }

    /// There are bytes, or the end.
    fn readable(&mut self, id: u64, flags: EventFlags) {
        if let Entry::Vacant(_) = self.members.entry(id) {
            if let Some(look) = self.crowd.handover.lock().away.get_mut(&id) {
                *look = Look::Now;
                return;
            }
            // Given back since, or gone.
            self.take_returned();
        }
        let Some((mut member, _)) = self.members.remove(&id) else { return };
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            member.connection.note_more();
        }
        self.read(member);
    }

    fn read(&mut self, mut member: Member<S>) {
        match member.connection.poll_request() {
            Ok(Polled::Nothing) => self.keep(member),
            Ok(Polled::Large) => self.crowd.leave(member, Pause::Large),
            Ok(Polled::Frame { .. }) if !self.crowd.service.has_crowd() && member.connection.may_have_thread() => {
                self.crowd.leave(member, Pause::Ready);
            }
            Ok(Polled::Frame { length, need }) => {
                self.crowd.handover.lock().away.insert(member.connection.id(), Look::Later);
                match need {
                    None => self.crowd.workers.push(Job::Serve(Request { member, length, permission: None })),
                    Some(need) => self.call_back(member, length, need),
                }
            }
            // What ends with it may block.
            Err(end) => self.crowd.workers.push(Job::End(member, end)),
        }
    }

    fn call_back(&self, member: Member<S>, length: usize, need: S::Need) {
        let crowd = Arc::clone(&self.crowd);
        let told = move |permission: S::Permission| {
            let is_granted = S::is_granted(&permission);
            let request = Request { member, length, permission: Some(permission) };
            if is_granted {
                crowd.workers.push(Job::Serve(request));
            } else {
                crowd.handover.lock().refused.push(request);
            }
        };
        self.crowd.service.call_back(need, Box::new(told));
    }

    fn tick(&mut self) {
        if self.now.saturating_sub(self.helped) >= LATE && self.crowd.workers.help_late() {
            self.helped = self.now;
        }
        if self.now.saturating_sub(self.ticked) >= TICK {
            self.ticked = self.now;
            self.crowd.service.refuse_overdue();
        }
        let refused = std::mem::take(&mut self.crowd.handover.lock().refused);
        for request in refused {
            self.refuse(request);
        }
        if self.now.saturating_sub(self.swept) >= SWEEP {
            self.swept = self.now;
            self.sweep();
        }
    }

    /// Here if that cannot block: the client may not be reading its replies.
    fn refuse(&self, request: Request<S>) {
        let mut socket = [PollFd::new(request.member.connection.socket(), PollFlags::OUT)];
        let is_writable = poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready == 1);
        if is_writable {
            self.crowd.serve(request);
        } else {
            self.crowd.workers.push(Job::Serve(request));
        }
    }

    fn sweep(&mut self) {
        let now = self.now;
        let is_silent =
            |_: &u64, (_, since): &mut (Member<S>, Duration)| now.saturating_sub(*since) >= LINGER_WHEN_BUSY;
        let silent: Vec<_> = self.members.extract_if(is_silent).collect();
        for (_, (member, _)) in silent {
            self.crowd.leave(member, Pause::Idle);
        }
    }
}
