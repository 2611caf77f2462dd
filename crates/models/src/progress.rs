//! What a caller sees of a long operation, and how it stops it.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use crate::{Error, Result};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Asking a source what there is.
    Asking,
    /// Fetching bytes.
    Fetching,
    /// Waiting before another try.
    Waiting,
    /// Unpacking and checking.
    Checking,
}

/// A moment of a pull or an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done.
    pub stage: Stage,
    /// Where the bytes come from.
    pub source: &'a str,
    /// The file at hand; empty while asking.
    pub file: &'a str,
    /// Bytes done of all files.
    pub done: u64,
    /// Bytes of all files; 0 while not known.
    pub total: u64,
}

/// Sees progress; `Break` stops the operation.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>;

/// The caller's function with the state that it is told.
pub(crate) struct Watch<'a> {
    on_progress: OnProgress<'a>,
    stage: Stage,
    source: String,
    file: String,
    /// Bytes of the files before the one at hand.
    before: u64,
    /// Bytes of the file at hand.
    at: u64,
    total: u64,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(on_progress: OnProgress<'a>) -> Watch<'a> {
        Watch {
            on_progress,
            stage: Stage::Asking,
            source: String::new(),
            file: String::new(),
            before: 0,
            at: 0,
            total: 0,
        }
    }

    pub(crate) fn source(&mut self, source: &str) -> Result<()> {
        (self.source, self.file) = (source.to_owned(), String::new());
        (self.stage, self.before, self.at, self.total) = (Stage::Asking, 0, 0, 0);
        self.tell(Stage::Asking)
    }

    pub(crate) fn total(&mut self, total: u64) {
        self.total = total;
    }

    /// The next file begins; the one before counts as done with `size` bytes.
    pub(crate) fn file(&mut self, stage: Stage, file: &str) -> Result<()> {
        self.file = file.to_owned();
        self.at = 0;
        self.tell(stage)
    }

    pub(crate) fn file_done(&mut self, size: u64) {
        self.before += size;
        self.at = 0;
    }

    pub(crate) fn at(&mut self, at: u64) -> Result<()> {
        self.at = at;
        self.tell(self.stage)
    }

    pub(crate) fn tell(&mut self, stage: Stage) -> Result<()> {
        self.stage = stage;
        let progress = Progress {
            stage,
            source: &self.source,
            file: &self.file,
            done: self.before + self.at,
            total: self.total,
        };
        match (self.on_progress)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }

    /// Sleeps, asking now and then whether to stop.
    pub(crate) fn wait(&mut self, pause: Duration) -> Result<()> {
        // A person who presses Ctrl-C does not notice a tenth of a second.
        const STEP: Duration = Duration::from_millis(100);
        let before = self.stage;
        let end = Instant::now() + pause;
        loop {
            self.tell(Stage::Waiting)?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(STEP));
        }
        self.tell(before)
    }
}
