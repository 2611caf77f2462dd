//! GRATING: a cross-encoder reranker in a fraction of the usual time and memory (*monolithic forwarding*).
//!
//! [`Engine`] opens a published cross-encoder (BERT, XLM-RoBERTa, MPNet, ModernBERT, GTE, DeBERTa, Qwen rerankers,
//! MiniCPM layerwise) or late interaction, and reranks: all candidates of a request go through layer *i* before
//! any goes through *i + 1* (§3.2), in micro-batches (§4.3), over a window of layers read from disk (§4.2) and a
//! cache of embedding rows (§4.4); hidden states of thousands of candidates go to disk, too. One number,
//! [`EngineOptions::memory_budget`], plans all of it. [`convert()`] writes weights so that a layer is one
//! checksummed read.
//!
//! After each layer a [`PruningPolicy`] may accept or drop candidates (§4.1); the engine enforces that
//! exactly `min(top_k, n)` come back, and a [`LayerObserver`](riddle_types::LayerObserver) hears of every
//! decision at once and may stop the run. [`NeverPrune`] is the oracle; [`ClusterPruning`] is the paper's
//! policy; [`BoundedError`] prunes with a stated error probability; one of your own is one function
//! (`examples/own_policy.rs`). A [`Trace`] of a full forward can be [replayed](replay) under any policy
//! without computing, and [`calibrate()`] learns from many of them which threshold keeps a wanted
//! precision. [`chart`] draws such curves.
//!
//! With a deadline there is [`ElasticEngine`] (STI): it plans for each request what is read and computed, from shards
//! of several fidelities ([`mod@deadline`]).
//!
//! Not here: where candidates come from, kernels, file formats, tokenizers. Section numbers refer to the
//! GRATING paper.
//!
//! ```no_run
//! use riddle_grating::{Engine, EngineOptions};
//! use riddle_types::{Reranker as _, SilentObserver};
//!
//! // 250 MiB for the whole process, or an error that says how much it takes.
//! let options = EngineOptions { memory_budget: Some(250 << 20), ..EngineOptions::default() };
//! let engine = Engine::open("models/cross-encoder".as_ref(), options)?;
//! let outcome = engine.rerank("Who built it?", &["Thorne did.", "It rained."], 1, &mut SilentObserver)?;
//! println!("best: {}", outcome.ranked[0].index);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

// The example of the page that crates.io shows compiles, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bounded;
mod calibrate;
pub mod chart;
mod cluster;
mod confidence;
mod convert;
mod curve;
pub mod deadline;
mod elastic;
mod enforce;
mod engine;
mod error;
mod forward;
mod plan;
mod policy;
mod sample;
mod sweep;
mod trace;

pub use bounded::{Bounded, BoundedError, BoundedPoint, Guarantee};
pub use calibrate::{
    CALIBRATION_VERSION, Calibration, CalibrationOptions, CalibrationTable, CurvePoint, Meets,
    calibrate, evaluate, evaluate_threshold,
};
pub use cluster::{Clustering, cluster};
pub use confidence::{CONFIDENCE, lower_bound};
pub use convert::{WeightCount, convert, count_weights, module_files, verify};
pub use elastic::{
    DEADLINE_PROFILE_VERSION, DeadlineProfile, ElasticEngine, ElasticFiles, ElasticOptions,
    LearnQuestion, Learned, MachineCost, Submodel, Within, unlearned,
};
pub use enforce::Mode;
pub use engine::{Engine, EngineOptions, Pruning, Question, Run};
pub use error::{Error, Result};
pub use policy::{ClusterPruning, LayerView, NeverPrune, PruningPolicy, dispersion};
pub use riddle_kernels::{FORCE_ISA, sigmoid};
pub use riddle_offload::RatedDevice;
pub use riddle_transformer::{
    Arithmetic, Centroids, DEFAULT_INSTRUCTION, Dtype, STORE_FILE, ShardNumbers, ShardShape,
    ShardSummary, SliceOrdering, StorePrecision, StoreSummary, write_shards,
};
pub use sample::Measured;
pub use trace::{Replay, Trace, TraceRecorder, replay};
