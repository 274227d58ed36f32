//! How much memory there is: the machine's, or the least limit of the control groups (version 1 or 2) we are in.
//!
//! Called by the server for its defaults, and by the storage engine to know what is left for the operating system.

use std::path::Path;

/// The memory this process may use, in bytes.
///
/// # Errors
/// The kernel says of no memory at all.
#[allow(clippy::disallowed_methods, reason = "the kernel's own files, not data")]
pub fn machine_memory_bytes() -> std::io::Result<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let machine = total_of_meminfo(&meminfo).or_else(total_by_system_call);
    let machine = machine.ok_or_else(|| std::io::Error::other("the kernel does not say how much memory there is"))?;
    Ok(group_limits(&groups, Path::new("/sys/fs/cgroup")).into_iter().fold(machine, u64::min))
}

/// Where nobody has mounted `/proc`, as in a root of a program's own.
fn total_by_system_call() -> Option<u64> {
    let known = rustix::system::sysinfo();
    let bytes = (known.totalram as u64).checked_mul(u64::from(known.mem_unit))?;
    (bytes > 0).then_some(bytes)
}

fn total_of_meminfo(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The limits of our groups and of all groups above them. Inside a container the path is often one of the host's, and
/// then only the root, which is our own group there, can be found.
#[allow(clippy::disallowed_methods, reason = "the kernel's own files, not data")]
fn group_limits(groups: &str, root: &Path) -> Vec<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (hierarchy, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = hierarchy.join(group.trim_start_matches('/'));
        for folder in group.ancestors().take_while(|folder| folder.starts_with(&hierarchy)) {
            let content = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            // "max" is no limit; version 1 says so with a number larger than any machine's memory.
            limits.extend(content.trim().parse::<u64>().ok());
        }
    }
    limits
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn meminfo() {
        assert_eq!(total_of_meminfo("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total_of_meminfo("nothing"), None);
        assert!(machine_memory_bytes().unwrap() > 1 << 20);
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert_eq!(total_by_system_call(), total_of_meminfo(&meminfo));
    }

    #[test]
    fn limits_of_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/b/memory.max", "max\n");
        write("memory/c/memory.limit_in_bytes", "500\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(group_limits("0::/a/b\n", root.path()), [1000]);
        assert_eq!(group_limits("9:pids:/x\n4:cpu,memory:/c\n", root.path()), [500, 9_223_372_036_854_771_712]);
        assert_eq!(group_limits("4:memory:/of/the/host\n", root.path()), [9_223_372_036_854_771_712]);
        assert_eq!(group_limits("", root.path()), [] as [u64; 0]);
    }
}
