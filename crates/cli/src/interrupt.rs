//! Ctrl-C: the first one asks the command to stop where nothing is lost, the second one ends at once.

use std::{
    io::Write as _,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread,
};

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
    let handler = handler(stop.clone(), sender.clone());
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::debug!(%error, "Ctrl-C will end the program at once");
    }
    let worker =
        thread::Builder::new().name("riddle".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            let code = work(stop);
            // The receiver is gone only when the process is ending.
            let _ = sender.send(Event::Done(code));
        });
    let worker = match worker {
        Ok(worker) => worker,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "riddle: no thread could be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut interrupts = 0;
    // The handler keeps a sender, so a worker that panics is noticed by asking it.
    loop {
        match receiver.recv_timeout(std::time::Duration::from_millis(200)) {
            Ok(Event::Done(code)) => return code,
            Ok(Event::Interrupted) => {
                interrupts += 1;
                if !graceful || interrupts > 1 {
                    let _ = writeln!(std::io::stderr(), "riddle: interrupted");
                    return ExitCode::FAILURE;
                }
                let _ = writeln!(
                    std::io::stderr(),
                    "stopping after this step; Ctrl-C again ends at once"
                );
            }
            Err(_) if worker.is_finished() => {
                return match receiver.try_recv() {
                    Ok(Event::Done(code)) => code,
                    // It panicked: the panic's own message is on stderr.
                    _ => ExitCode::FAILURE,
                };
            }
            Err(_) => {}
        }
    }
}

fn handler(stop: Stop, sender: Sender<Event>) -> impl FnMut() + Send + 'static {
    move || {
        stop.store(true, Ordering::SeqCst);
        let _ = sender.send(Event::Interrupted);
    }
}
