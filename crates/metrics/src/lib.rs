//! Where the time and the memory went: stage timings from `tracing` spans, peak memory from the
//! operating system.
//!
//! The stages know nothing of this crate: they open spans with the target [`STAGE_TARGET`], named
//! after the stage (`bm25`, `embed`, `rerank`, …). A program that wants the figures installs a
//! [`StageLayer`] and reads its [`StageTimings`]. Only the tops (command line, desktop shell,
//! benchmarks) use this crate; a library that measured itself could not be silenced.
//!
//! [`History`] keeps the latest runs of each stage and tells their percentiles over time; [`sample_memory`] watches
//! the process while something runs.
//!
//! Not here: anything that decides.

mod cache;
mod history;
mod memory;
mod power;
mod process;
mod sampler;
mod stages;

pub use cache::{cached_bytes, forget_cached_files};
pub use history::{History, Slice, Summary, percentile};
pub use memory::{MemoryReport, machine_memory, memory, rss_of};
pub use power::{is_hot, is_hot_of, on_mains, on_mains_of};
pub use process::{
    Process, process_tree, pss_of, release_free_memory, return_freed_memory, since_start_ms,
};
pub use sampler::{Sample, sample_memory};
pub use stages::{OPERATION_TARGET, STAGE_TARGET, StageLayer, StageTimings, operations};
