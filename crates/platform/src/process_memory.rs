//! The memory of this process as the kernel counts it: for `serverStatus`, and for giving back what the allocator holds.

use rustix::fs::{Mode, OFlags, open};

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Address space.
    pub virtual_bytes: u64,
    /// In memory.
    pub resident_bytes: u64,
}

/// Asks the kernel. This file is a question to the kernel, not storage: it does not go through `Disk`, which
/// the simulator replaces.
pub fn process_memory() -> Option<ProcessMemory> {
    let file = open("/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 128];
    let length = rustix::io::read(&file, &mut text).ok()?;
    parse(std::str::from_utf8(text.get(..length)?).ok()?, rustix::param::page_size() as u64)
}

/// The first two numbers are pages: of address space, and in memory.
fn parse(statm: &str, page_bytes: u64) -> Option<ProcessMemory> {
    let mut pages = statm.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    let (virtual_pages, resident_pages) = (pages.next()??, pages.next()??);
    Some(ProcessMemory { virtual_bytes: virtual_pages * page_bytes, resident_bytes: resident_pages * page_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statm_is_understood() {
        let expected = ProcessMemory { virtual_bytes: 400 * 4096, resident_bytes: 30 * 4096 };
        assert_eq!(parse("400 30 20 1 0 9 0\n", 4096), Some(expected));
        assert_eq!(parse("", 4096), None);
        assert!(process_memory().is_some_and(|memory| memory.resident_bytes > 0));
    }
}
