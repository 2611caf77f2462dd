//! `riddle parse-worker`: the child process that parses one untrusted file.

use std::process::ExitCode;

/// Becomes the worker.
pub(crate) fn run() -> ExitCode {
    // Ctrl-C in a terminal reaches every process of the group: the parent decides when this one ends,
    // or the file at hand would be recorded as failed.
    let _ = ctrlc::set_handler(|| {});
    riddle_rag::indexing::worker_main()
}
