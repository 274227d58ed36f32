//! What this process has used of the machine since its start, as the kernel counts it: for `serverStatus`.

use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};

/// See the module's head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Pages that had to be read from the disk, and pages that were there.
    pub major_page_faults: u64,
    /// See above.
    pub minor_page_faults: u64,
    /// Processors' time outside of the kernel.
    pub user_time: Duration,
    /// And inside.
    pub system_time: Duration,
    /// Threads now.
    pub threads: u64,
    /// Times that it gave a processor up because it had nothing to do, and times that one was taken from it; of the first thread.
    pub voluntary_context_switches: u64,
    /// See above.
    pub involuntary_context_switches: u64,
    /// Most that was ever in memory.
    pub resident_bytes_max: u64,
}

/// Asks the kernel. These files are questions to the kernel, not storage: they do not go through `Disk`, which
/// the simulator replaces.
pub fn process_usage() -> Option<ProcessUsage> {
    let mut buffer = [0; 4096];
    let mut usage = of_stat(read("/proc/self/stat", &mut buffer)?, rustix::param::clock_ticks_per_second())?;
    add_status(read("/proc/self/status", &mut buffer)?, &mut usage);
    Some(usage)
}

fn read<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut *buffer).ok()?;
    std::str::from_utf8(buffer.get(..length)?).ok()
}

/// The fields behind the program's name, which may contain anything, are numbers in the order of `proc(5)`.
fn of_stat(stat: &str, ticks_per_second: u64) -> Option<ProcessUsage> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |position: usize| fields.get(position).and_then(|text| text.parse::<u64>().ok());
    let time = |position| Some(Duration::from_millis(number(position)? * 1000 / ticks_per_second.max(1)));
    Some(ProcessUsage {
        minor_page_faults: number(7)?,
        major_page_faults: number(9)?,
        user_time: time(11)?,
        system_time: time(12)?,
        threads: number(17)?,
        ..ProcessUsage::default()
    })
}

fn add_status(status: &str, usage: &mut ProcessUsage) {
    for line in status.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let number = value.split_ascii_whitespace().next().and_then(|text| text.parse::<u64>().ok());
        let Some(number) = number else { continue };
        match name {
            "VmHWM" => usage.resident_bytes_max = number << 10,
            "voluntary_ctxt_switches" => usage.voluntary_context_switches = number,
            "nonvoluntary_ctxt_switches" => usage.involuntary_context_switches = number,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        let stat = "42 (a) name) S 1 42 42 0 -1 4194560 100 0 7 0 250 50 0 0 20 0 9 0 1000 1 2\n";
        let mut usage = of_stat(stat, 100).unwrap();
        assert_eq!((usage.minor_page_faults, usage.major_page_faults, usage.threads), (100, 7, 9));
        assert_eq!((usage.user_time, usage.system_time), (Duration::from_millis(2500), Duration::from_millis(500)));
        add_status("VmHWM:\t  2048 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n", &mut usage);
        assert_eq!(usage.resident_bytes_max, 2 << 20);
        assert_eq!((usage.voluntary_context_switches, usage.involuntary_context_switches), (5, 3));
        assert!(process_usage().is_some_and(|usage| usage.threads > 0 && usage.resident_bytes_max > 0));
    }
}
