//! Where the time and the memory went: stage timings from `tracing` spans, peak memory from the
//! operating system.
//!
//! The stages know nothing of this crate: they open spans with the target [`STAGE_TARGET`], named
//! after the stage (`bm25`, `embed`, `rerank`, …). A program that wants the figures installs a
//! [`StageLayer`] and reads its [`StageTimings`]. Only the tops (command line, desktop shell,
//! benchmarks) use this crate; a library that measured itself could not be silenced.
//!
//! Not here: percentiles over time (the catalog's history holds the runs), and anything that decides.

mod memory;
mod stages;

pub use memory::{MemoryReport, memory, rss_of};
pub use stages::{OPERATION_TARGET, STAGE_TARGET, StageLayer, StageTimings, operations};
