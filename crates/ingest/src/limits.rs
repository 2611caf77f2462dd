//! What the child may use of the machine, set by itself before it reads the first byte.

/// Limits that the operating system enforces on this process from now on.
///
/// On systems without resource limits only the parent's clock protects it.
#[cfg(unix)]
pub(crate) fn restrict(memory_bytes: u64) {
    // No file the parser "creates" may fill the disk, and a crash leaves no dump of the user's data.
    set(libc::RLIMIT_CORE, 0);
    set(libc::RLIMIT_FSIZE, 0);
    // A library that tries is told that it failed, and goes on without.
    // SAFETY: ignoring a signal installs no handler and touches no memory of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    set(libc::RLIMIT_AS, memory_bytes);
    // Standard streams, and room for the runtime's own.
    set(libc::RLIMIT_NOFILE, 32);
    #[cfg(target_os = "linux")]
    {
        // SAFETY: prctl with PR_SET_NO_NEW_PRIVS takes plain integers and touches no memory of ours.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    }
}

#[cfg(unix)]
#[cfg(target_os = "linux")]
type Resource = libc::__rlimit_resource_t;
#[cfg(unix)]
#[cfg(not(target_os = "linux"))]
type Resource = libc::c_int;

#[cfg(unix)]
fn set(resource: Resource, most: u64) {
    let limit = libc::rlimit { rlim_cur: most as libc::rlim_t, rlim_max: most as libc::rlim_t };
    // A limit that can not be set (already lower, or not known here) leaves the parent's clock.
    // SAFETY: `limit` is a valid rlimit that lives through the call, which only reads it.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

/// Ends this process by a signal if it is not done in time: the parent may be gone and can not.
#[cfg(unix)]
pub(crate) fn alarm(seconds: u64) {
    // SAFETY: alarm takes an integer and touches no memory of ours.
    unsafe { libc::alarm(libc::c_uint::try_from(seconds).unwrap_or(libc::c_uint::MAX)) };
}

/// Standard output for ourselves alone: what a library prints goes where errors go, and is no part of an answer.
#[cfg(unix)]
pub(crate) fn own_output() -> Box<dyn std::io::Write> {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    let (output, errors) = (std::io::stdout(), std::io::stderr());
    let Ok(own) = output.as_fd().try_clone_to_owned() else { return Box::new(output) };
    // SAFETY: both are open descriptors of this process, and dup2 touches no memory of ours.
    unsafe { libc::dup2(errors.as_raw_fd(), output.as_raw_fd()) };
    Box::new(std::fs::File::from(own))
}

/// The system gives no second one: what a library prints is an answer that nobody understands, and the file fails.
#[cfg(not(unix))]
pub(crate) fn own_output() -> Box<dyn std::io::Write> {
    Box::new(std::io::stdout())
}

#[cfg(not(unix))]
pub(crate) fn restrict(_memory_bytes: u64) {}

#[cfg(not(unix))]
pub(crate) fn alarm(_seconds: u64) {}

/// Most bytes that were ever resident in this process, where the system tells.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|it| it.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0)
        * 1024
}
