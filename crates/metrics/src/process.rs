//! What a whole program takes: proportional memory, its child processes, its age.

use std::path::Path;

/// A process with its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Name of its program.
    pub name: String,
    /// Bytes resident, shared pages divided by those who share them; 0 where the system does not tell.
    pub pss_bytes: u64,
    /// Bytes resident.
    pub rss_bytes: u64,
}

/// Bytes resident in a process, each shared page divided by the number of its users. `None` where the system
/// does not tell.
pub fn pss_of(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|it| it.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// This process first, then those that it started, directly or not. Only this one where the system does not
/// tell.
pub fn process_tree() -> Vec<Process> {
    let own = std::process::id();
    let mut parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|it| it.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat_field(pid, 3)?.parse().ok()?)))
        .collect();
    parents.sort_unstable();
    let mut tree = vec![own];
    let mut at = 0;
    while let Some(&parent) = tree.get(at) {
        tree.extend(parents.iter().filter(|it| it.1 == parent).map(|it| it.0));
        at += 1;
    }
    tree.into_iter()
        .map(|pid| Process {
            pid,
            name: name_of(pid),
            pss_bytes: pss_of(pid).unwrap_or(0),
            rss_bytes: crate::rss_of(pid).unwrap_or(0),
        })
        .collect()
}

/// Milliseconds since this process was started, the time before `main` included; `None` where the system does
/// not tell.
pub fn since_start_ms() -> Option<f64> {
    // Field 22 counts from the start of the system in hundredths of a second: USER_HZ, fixed in Linux's ABI.
    let started: f64 = stat_field(std::process::id(), 21)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Some((now * 100.0 - started).max(0.0) * 10.0)
}

/// Gives memory that was freed back to the system. The allocator keeps it for the next time; a program that
/// waits in the background for hours has none.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the allocator give back what is freed, from the start of a program on. By itself it keeps blocks up to the size
/// of the largest that was freed, 32 MiB at most, and a heap for every thread: what readers of files need for a moment
/// stays.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, RETURNED_BYTES),
        (libc::M_TRIM_THRESHOLD, RETURNED_BYTES),
        (libc::M_ARENA_MAX, HEAPS),
    ] {
        // SAFETY: mallopt takes integers alone; one that it does not know changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Blocks from this size on are returned when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURNED_BYTES: libc::c_int = 1 << 20;

/// Heaps that threads share.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: libc::c_int = 4;

/// A field of `/proc/PID/stat`, counted from 0. The name in parentheses may hold spaces and parentheses.
fn stat_field(pid: u32, field: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(field.checked_sub(2)?).map(str::to_owned)
}

fn name_of(pid: u32) -> String {
    let path = format!("/proc/{pid}/comm");
    std::fs::read_to_string(Path::new(&path)).map(|it| it.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_in_the_tree_and_has_memory() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().expect("starts");
        let tree = process_tree();
        child.kill().expect("ends");
        child.wait().expect("ends");
        assert_eq!(tree[0].pid, std::process::id());
        if pss_of(std::process::id()).is_some() {
            assert!(tree[0].pss_bytes > 0 && tree[0].pss_bytes <= tree[0].rss_bytes);
            assert!(tree.iter().any(|it| it.pid == child.id()), "{tree:?}");
        }
    }

    #[test]
    fn a_process_has_an_age() {
        if let Some(first) = since_start_ms() {
            assert!(since_start_ms().is_some_and(|it| it >= first));
        }
        return_freed_memory();
        release_free_memory();
    }
}
