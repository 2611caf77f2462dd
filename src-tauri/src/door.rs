//! The door of the app: other programs ask the library that the app has open, so that its models are in memory once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use riddle_doors::{Lender, ServeOptions, Started, serve_lent};
use riddle_rag::Config;

use crate::{context::lock, dto::Failure, failure::Reply};

/// The server, where it runs.
#[derive(Default)]
pub(crate) struct Door(Mutex<Option<Running>>);

struct Running {
    url: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Door {
    /// Its address, while it is open.
    pub(crate) fn url(&self) -> Option<String> {
        let running = lock(&self.0);
        running.as_ref().filter(|it| !it.thread.is_finished()).map(|it| it.url.clone())
    }

    /// Opens it, if it is not open. `forget_questions`: who asked is written down, and not what.
    pub(crate) fn open(&self, config: Config, lender: Lender, forget_questions: bool) -> Reply<()> {
        let mut running = lock(&self.0);
        if running.as_ref().is_some_and(|it| !it.thread.is_finished()) {
            return Ok(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel::<Result<String, riddle_doors::Error>>();
        let options = ServeOptions { forget_questions, ..ServeOptions::default() };
        let flag = Arc::clone(&stop);
        let serve = move || {
            let ready = |started: &Started| {
                // Whoever waits for it is there until it hears.
                let _ = sender.send(Ok(started.url.clone()));
                Ok(())
            };
            if let Err(error) = serve_lent(config, lender, &options, &flag, ready) {
                tracing::warn!("the door is closed: {error}");
                let _ = sender.send(Err(error));
            }
        };
        let thread =
            thread::Builder::new().name("door".to_owned()).spawn(serve).map_err(Failure::other)?;
        match receiver.recv() {
            Ok(Ok(url)) => {
                *running = Some(Running { url, stop, thread });
                Ok(())
            }
            Ok(Err(error)) => Err(Failure::other(error)),
            Err(error) => Err(Failure::other(error)),
        }
    }

    /// Closes it: what is being answered is answered, and nobody comes in any more.
    pub(crate) fn close(&self) {
        if let Some(running) = lock(&self.0).take() {
            running.stop.store(true, Ordering::SeqCst);
            // It has no words of its own to say.
            let _ = running.thread.join();
        }
    }
}
