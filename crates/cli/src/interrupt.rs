//! Ctrl-C: the first one asks the command to stop where nothing is lost, the second one ends at once.

use std::{
    any::Any,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
};

use crate::failure::{Failure, report};

/// The flag that long work looks at.
pub(crate) type Stop = Arc<AtomicBool>;

/// Stack of the thread that works: what the main thread has on Linux; parsers of JSON recurse.
const STACK_BYTES: usize = 8 << 20;

/// Why `main` may return.
enum Event {
    Done(ExitCode),
    Interrupted,
}

/// Runs `work` on a thread of its own and returns when it is done, or when the user insists.
///
/// Returning from `main` with the worker still running is how the second Ctrl-C ends the process without
/// calling exit: for the catalog it is the same as kill -9, which it survives.
pub(crate) fn guard(
    graceful: bool,
    work: impl FnOnce(Stop) -> ExitCode + Send + 'static,
) -> ExitCode {
    let stop = Stop::default();
    let (sender, receiver) = channel();
    if let Err(error) = ctrlc::set_handler(handler(stop.clone(), sender.clone())) {
        tracing::debug!(%error, "Ctrl-C will end the program at once");
    }
    // A panic is a bug: the user gets one line of it, and the log has the place.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let worker = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(stop)));
        let code = outcome.unwrap_or_else(|panic| internal_error(panic.as_ref()));
        // The receiver is gone only when the process is ending.
        let _ = sender.send(Event::Done(code));
    };
    let builder = thread::Builder::new().name("riddle".to_owned()).stack_size(STACK_BYTES);
    let worker = match builder.spawn(worker) {
        Ok(worker) => worker,
        Err(error) => {
            say(&format!("riddle: no thread could be started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut interrupts = 0;
    for event in receiver {
        match event {
            Event::Done(code) => {
                // What libraries free at the end of a thread, they may free at the end of the process as well.
                let _ = worker.join();
                return code;
            }
            Event::Interrupted => interrupts += 1,
        }
        if !graceful || interrupts > 1 {
            say("riddle: interrupted");
            return ExitCode::FAILURE;
        }
        say("stopping after this step; Ctrl-C again ends at once");
    }
    unreachable!("the worker sends before it ends: this is a bug")
}

fn handler(stop: Stop, sender: Sender<Event>) -> impl FnMut() + Send + 'static {
    move || {
        stop.store(true, Ordering::SeqCst);
        let _ = sender.send(Event::Interrupted);
    }
}

/// With stderr closed there is nobody to tell.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn internal_error(panic: &(dyn Any + Send)) -> ExitCode {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    report(&Failure::run(format!(
        "internal error: {text}: this is a bug, please report it; what was indexed is kept"
    )));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_decides_the_exit_code_and_a_panic_is_a_failure() {
        // One test for both: a process can have only one handler for Ctrl-C.
        assert_eq!(guard(true, |_| ExitCode::from(7)), ExitCode::from(7));
        assert_eq!(guard(true, |_| panic!("on purpose")), ExitCode::FAILURE);
    }
}
