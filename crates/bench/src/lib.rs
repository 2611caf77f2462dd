//! The reranker measured: how long, how much memory, and what each technique of the paper brings.
//!
//! [`measure`] is the entry: it makes texts of a given length ([`request`]), runs each [`Step`] of a
//! [`Preset`] in fresh processes ([`Worker`]), and returns a [`BenchReport`]. What is measured is a model
//! directory: a real one, or a [`Shape`], which [`prepare`] writes with every tensor of a published model
//! and random weights; [`prepare_language`] writes a language model as GGUF. A shape takes the time and the memory of
//! its model, and no download.
//!
//! [`compare`] puts it beside other programs. Not here: retrieval quality (`riddle-eval`), what the rivals do
//! (`tests/peers`, a Python program that is carried along), and what the engine does.

mod ablation;
mod deadline;
mod error;
mod figure;
mod measure;
mod peers;
mod report;
mod shape;
mod texts;
mod worker;

// What language models are prepared of.
pub use riddle_weights::gguf::{RandomFormat, RandomModel};

pub use ablation::{Preset, Setting, Step, steps};
pub use deadline::{
    DeadlineCell, DeadlineOptions, deadline_summary, deadline_table, measure_deadlines,
};
pub use error::{Error, Result};
pub use figure::memory_chart;
pub use measure::{BenchOptions, measure};
pub use peers::{PeerOptions, PeerReport, compare};
pub use report::{BenchReport, Machine, Note, StepReport};
pub use shape::{NumberFormat, Shape, prepare, prepare_language};
pub use texts::{Lengths, Request, request};
pub use worker::{Figures, Sample, Worker, work};
