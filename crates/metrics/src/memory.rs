//! Memory as the operating system counts it: a sampler would miss the spike that matters.

use serde::Serialize;

/// Memory of this process. Children report their own: `RUSAGE_CHILDREN` counts what a child shared with
/// its parent between fork and exec as the child's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// Most bytes that were ever resident in this process.
    pub peak_rss_bytes: u64,
    /// Bytes resident now, where the system tells.
    pub rss_bytes: Option<u64>,
}

/// Reads the counters. Figures the system does not offer are 0 or `None`.
pub fn memory() -> MemoryReport {
    MemoryReport {
        peak_rss_bytes: status_bytes("self", "VmHWM:").unwrap_or_else(max_rss),
        rss_bytes: status_bytes("self", "VmRSS:"),
    }
}

/// Bytes resident now in the process of that number; `None` where the system does not tell, and when there
/// is no such process.
pub fn rss_of(process: u32) -> Option<u64> {
    status_bytes(&process.to_string(), "VmRSS:")
}

/// Bytes of memory that this machine has; `None` where the system does not tell.
pub fn machine_memory() -> Option<u64> {
    kib_line("/proc/meminfo", "MemTotal:")
}

/// A `kB` line of Linux's `/proc/…/status`. `VmHWM` is preferred to `ru_maxrss`, which a forked
/// process inherits from its parent.
fn status_bytes(process: &str, key: &str) -> Option<u64> {
    kib_line(&format!("/proc/{process}/status"), key)
}

fn kib_line(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(unix)]
fn max_rss() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid, writable rusage; getrusage writes nothing beyond it.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return 0;
    }
    // SAFETY: zeroed bytes are a valid rusage (plain integers), and the call above filled it.
    let max = unsafe { usage.assume_init() }.ru_maxrss;
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    u64::try_from(max).unwrap_or(0) * unit
}

#[cfg(not(unix))]
fn max_rss() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_grows_with_use() {
        let before = memory();
        let block = vec![1u8; 64 << 20];
        let after = memory();
        assert!(block.iter().map(|&it| u64::from(it)).sum::<u64>() > 0);
        assert!(after.peak_rss_bytes >= before.peak_rss_bytes);
        assert!(after.peak_rss_bytes >= 64 << 20, "{after:?}");
    }

    #[test]
    fn a_machine_has_more_memory_than_one_of_its_processes() {
        let machine = machine_memory();
        assert_eq!(machine.is_some(), cfg!(target_os = "linux"));
        assert!(machine.is_none_or(|it| it > memory().peak_rss_bytes));
    }

    #[test]
    fn a_process_is_seen_by_its_number() {
        assert_eq!(rss_of(std::process::id()).is_some(), memory().rss_bytes.is_some());
        assert_eq!(rss_of(u32::MAX), None);
    }
}
