//! Progress on stderr: bars on a terminal, nothing elsewhere.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use riddle_eval::EvalEvent;
use riddle_rag::{indexing::IndexEvent, models};
use riddle_types::FileState;

use crate::{show, words};

/// Redraws per second: enough to look alive, few enough to cost nothing over a slow connection.
const REDRAWS_PER_SECOND: u8 = 8;

/// One bar that changes its shape with the work.
pub(crate) struct Progress {
    bar: ProgressBar,
    failed: u64,
}

impl Progress {
    /// A bar on stderr if that is a terminal; without one every call does nothing.
    pub(crate) fn new() -> Progress {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        } else {
            ProgressDrawTarget::hidden()
        };
        Progress { bar: ProgressBar::with_draw_target(None, target), failed: 0 }
    }

    /// Shows what indexing does.
    pub(crate) fn index(&mut self, event: &IndexEvent<'_>) {
        match event {
            IndexEvent::Scanning(path) => {
                self.spin(format!("looking through {}", show::path(&path.to_string_lossy())));
            }
            IndexEvent::Queued(files) => self.count(*files, "files"),
            IndexEvent::File { path, state, reason } => self.file(path, *state, reason),
            IndexEvent::Embedding { done, total } => {
                self.count(*total, "passages");
                self.bar.set_position(*done);
                self.bar.set_message("words find everything; now for meaning");
            }
            IndexEvent::Weighing { done, total } => {
                self.count(*total, "passages");
                self.bar.set_position(*done);
                self.bar.set_message("meaning finds everything; now terms are weighed");
            }
            IndexEvent::Pictures { done, total } => {
                self.count(*total, "pages");
                self.bar.set_position(*done);
                self.bar.set_message("all else is done; now reading scans");
            }
            IndexEvent::Resting(rest) => self.bar.set_message(words::rest(*rest)),
            IndexEvent::Syncing => self.spin("bringing the search indexes up to date".to_owned()),
            IndexEvent::Watching => self.spin("watching for changes; Ctrl-C ends".to_owned()),
        }
    }

    /// Shows how far a run of the reranker is.
    pub(crate) fn layer(&mut self, layer: u32, running: usize, settled: usize) {
        let running = show::plural(running as u64, "candidate");
        let settled = show::plural(settled as u64, "result");
        self.spin(format!("layer {layer} done, {running} running, {settled} certain"));
    }

    /// Shows how many of a number of things are done.
    pub(crate) fn done(&mut self, done: u64, total: u64, what: &'static str) {
        if done <= 1 {
            self.count(total, what);
        }
        self.bar.set_position(done);
    }

    /// Shows how much of a file is written.
    pub(crate) fn writing(&mut self, bytes: u64) {
        self.spin(format!("{} written", show::bytes(bytes)));
    }

    fn file(&mut self, path: &std::path::Path, state: FileState, reason: &str) {
        self.bar.inc(1);
        let shown = show::path(&path.to_string_lossy());
        if state == FileState::Failed {
            self.failed += 1;
            self.bar.println(format!("failed: {shown}: {}", show::clean(reason)));
        }
        let failed =
            if self.failed > 0 { format!("{} failed · ", self.failed) } else { String::new() };
        self.bar.set_message(format!("{failed}{shown}"));
    }

    /// Shows what an evaluation does.
    pub(crate) fn eval(&mut self, event: &EvalEvent<'_>) {
        match event {
            EvalEvent::Set { name, number, total } => {
                self.bar.println(format!("set {number} of {total}: {}", show::clean(name)));
            }
            EvalEvent::Loading => self.spin("reading the dataset".to_owned()),
            EvalEvent::Indexing(event) => self.index(event),
            EvalEvent::Queries { done, total } => {
                self.count(*total as u64, "queries");
                self.bar.set_position(*done as u64);
                self.bar.set_message("");
            }
        }
    }

    /// Shows how many requests of a calibration are done.
    pub(crate) fn requests(&mut self, done: u64, total: u64) {
        self.count(total, "requests");
        self.bar.set_position(done);
        self.bar.set_message("");
    }

    /// Shows a download or an import.
    pub(crate) fn model(&mut self, progress: &models::Progress<'_>) {
        let what = match progress.stage {
            models::Stage::Asking => format!("asking {}", progress.source),
            models::Stage::Fetching => progress.file.to_owned(),
            models::Stage::Waiting => format!("{}: waiting before another try", progress.source),
            models::Stage::Checking => format!("checking {}", progress.file),
        };
        if progress.total == 0 {
            self.spin(what);
            return;
        }
        if self.bar.length() != Some(progress.total) {
            self.bar.set_length(progress.total);
            self.style(
                "{bar:24} {bytes}/{total_bytes} · {bytes_per_sec} · {eta} left · {wide_msg}",
            );
        }
        self.bar.set_position(progress.done);
        self.bar.set_message(what);
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Lets something be said on stderr while the bar is out of the way, which goes on afterwards.
    pub(crate) fn aside(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// Shows which of several things is being measured.
    pub(crate) fn step(&mut self, what: &str) {
        self.spin(format!("measuring {}", show::clean(what)));
    }

    /// Shows that a model of random weights is being written.
    pub(crate) fn preparing(&mut self, shape: &str) {
        self.spin(format!("writing {shape}"));
    }

    /// Shows which configuration of a measurement runs.
    pub(crate) fn bench(&mut self, done: usize, all: usize, step: &str) {
        self.count(all as u64, "runs");
        self.bar.set_position(done as u64);
        self.bar.set_message(show::clean(step));
    }

    fn count(&mut self, total: u64, unit: &str) {
        if self.bar.length() == Some(total) && self.bar.position() < total {
            return;
        }
        self.bar.reset();
        self.bar.set_length(total);
        self.style(&format!(
            "{{bar:24}} {{pos}}/{{len}} {unit} · {{rate}}/s · {{eta}} left · {{wide_msg}}"
        ));
    }

    fn spin(&mut self, message: String) {
        self.style("{spinner} {wide_msg}");
        self.bar.set_message(message);
        self.bar.tick();
    }

    fn style(&self, template: &str) {
        // A template is a literal of this file; a mistake in it costs the bar and not the work.
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // A bar that can not be written shows nothing: the work goes on.
                let _ = write!(out, "{:.1}", state.per_sec());
            };
            self.bar.set_style(style.with_key("rate", rate));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
