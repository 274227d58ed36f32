//! CPU time and memory of the server's process, from `/proc`, when the server runs on this machine.
//!
//! The process is the one that listens at the target's port; the `pid` that a server reports can be of another name space (a
//! container), so it is believed only where the listener cannot be looked up. Called by `target`.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

use mongodb::options::ServerAddress;
use serde::Serialize;

/// Clock ticks a second in `/proc/*/stat`: 100 on every Linux architecture that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

/// A process of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ServerProcess {
    pub(crate) pid: u32,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessSample {
    /// User and system time of all threads, to the clock tick (10,000 microseconds).
    pub(crate) cpu_microseconds: u64,
    pub(crate) resident_bytes: u64,
    /// Highest resident size since the process began.
    pub(crate) resident_peak_bytes: u64,
}

/// How busy all processors of the machine have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MachineSample {
    /// Of all processes, and what a hypervisor took.
    pub(crate) busy_microseconds: u64,
    /// Of all processors, idle time included.
    pub(crate) total_microseconds: u64,
    /// What a hypervisor took alone.
    pub(crate) stolen_microseconds: u64,
}

impl MachineSample {
    /// Since the machine started; nothing where the system does not say.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?.split_whitespace();
        // Guests' time, the 9th and 10th, is in the first two already.
        let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
        let total: u64 = ticks.iter().sum();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let microseconds = 1_000_000 / TICKS_PER_SECOND;
        Some(Self {
            busy_microseconds: (total - idle) * microseconds,
            total_microseconds: total * microseconds,
            stolen_microseconds: ticks.get(7).copied().unwrap_or(0) * microseconds,
        })
    }
}

impl ServerProcess {
    /// This program, to report what the client itself costs.
    pub(crate) fn own() -> Self {
        Self { pid: std::process::id() }
    }

    /// The process behind an address of this machine, or none.
    pub(crate) fn find(address: &ServerAddress, reported_pid: Option<u32>) -> Option<Self> {
        let reported = || reported_pid.map(|pid| Self { pid }).filter(|process| process.sample().is_some());
        match address {
            ServerAddress::Tcp { host, port } => {
                let port = port.unwrap_or(27017);
                if !is_this_machine(host, port) {
                    return None;
                }
                listener_of(port).or_else(reported)
            }
            _ => reported(),
        }
    }

    /// How long each of its threads has run so far, in nanoseconds, as the scheduler counts it; empty where the kernel does not say. For short times, of which a
    /// clock tick is a part that matters.
    pub(crate) fn thread_times(self) -> HashMap<u64, u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let times = tasks.filter_map(|task| {
            let told = fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((task.file_name().to_str()?.parse().ok()?, told.split_whitespace().next()?.parse().ok()?))
        });
        times.collect()
    }

    /// What it has used, or none once it has ended.
    pub(crate) fn sample(self) -> Option<ProcessSample> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        parse_sample(&stat, &status)
    }
}

fn parse_sample(stat: &str, status: &str) -> Option<ProcessSample> {
    // The name in parentheses may hold spaces and parentheses; user and system time are the 12th and 13th fields past it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let kibibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(ProcessSample {
        cpu_microseconds: ticks * (1_000_000 / TICKS_PER_SECOND),
        resident_bytes: kibibytes("VmRSS:")? * 1024,
        resident_peak_bytes: kibibytes("VmHWM:")? * 1024,
    })
}

/// Whether an address of the host is one that this machine can bind.
fn is_this_machine(host: &str, port: u16) -> bool {
    let Ok(addresses) = (host, port).to_socket_addrs() else { return false };
    addresses
        .map(|address| address.ip())
        .any(|address: IpAddr| address.is_loopback() || UdpSocket::bind((address, 0)).is_ok())
}

fn listener_of(port: u16) -> Option<ServerProcess> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables
        .iter()
        .flat_map(|table| listening_inodes(table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        holds_one_of(&entry.path().join("fd"), &sockets).then_some(ServerProcess { pid })
    })
}

/// The inodes of sockets listening at a port, in the text of `/proc/net/tcp`.
fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1).is_some_and(|local| local.ends_with(&suffix)) && row.get(3) == Some(&LISTEN))
        .filter_map(|row| row.get(9)?.parse().ok())
        .collect()
}

fn holds_one_of(descriptors: &Path, sockets: &[String]) -> bool {
    let Ok(entries) = fs::read_dir(descriptors) else { return false };
    let targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter_map(|target| target.to_str().map(str::to_owned)).any(|target| sockets.contains(&target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_tells_how_long_threads_have_run() {
        let before = ServerProcess::own().thread_times();
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let after = ServerProcess::own().thread_times();
        let ran: u64 = after.iter().map(|(thread, time)| time - before.get(thread).unwrap_or(&0)).sum();
        assert!(!before.is_empty() && ran > 0, "{before:?} {after:?}");
    }

    #[test]
    fn a_process_name_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 1000 10 0";
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let sample = parse_sample(stat, status).unwrap();
        assert_eq!(
            sample,
            ProcessSample { cpu_microseconds: 3_000_000, resident_bytes: 1 << 20, resident_peak_bytes: 2 << 20 }
        );
        assert_eq!(parse_sample("", ""), None);
    }

    #[test]
    fn waiting_is_not_being_busy() {
        let sample = MachineSample::parse("cpu  100 10 40 800 50 0 5 5 99 99\ncpu0 1 2 3\n").unwrap();
        let (busy_microseconds, total_microseconds, stolen_microseconds) = (1_600_000, 10_100_000, 50_000);
        assert_eq!(sample, MachineSample { busy_microseconds, total_microseconds, stolen_microseconds });
        assert_eq!(MachineSample::parse("intr 5"), None);
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:6989 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1\n\
            1: 0100007F:6989 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 222 1\n\
            2: 0100007F:698A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1\n";
        assert_eq!(listening_inodes(table, 27017), [111]);
    }

    #[test]
    fn finds_a_listener_of_this_machine() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ServerAddress::parse(listener.local_addr().unwrap().to_string()).unwrap();
        let found = ServerProcess::find(&address, Some(1)).unwrap();
        assert_eq!(found, ServerProcess::own());
        assert!(found.sample().unwrap().resident_bytes > 0);
    }
}
