//! `riddle bench-worker`: the child process that runs one configuration of `riddle bench`.

use std::process::ExitCode;

use crate::failure::{Failure, report};

/// Becomes the worker. Ctrl-C ends it as it ends its parent: there is nothing to lose.
pub(crate) fn run() -> ExitCode {
    match riddle_bench::work(std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&Failure::from(error));
            ExitCode::FAILURE
        }
    }
}
