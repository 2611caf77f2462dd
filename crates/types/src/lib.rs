//! Plain values that travel between Riddle's stages, and the traits the stages implement.
//!
//! A question runs through `Query` → [`Hit`]s (one list per [`Retriever`]) → [`Candidate`]s (fused) →
//! [`Ranked`] (what a [`Reranker`] kept) → an answer written by a [`Generator`]. A file runs the other
//! way round: bytes → [`Document`] → [`Chunk`]s with a [`Location`] each.
//!
//! This crate does no IO, knows no model and no database, and depends on nothing of ours. A type that
//! only one crate uses does not belong here.

mod document;
mod file;
mod generate;
mod language;
mod panic;
mod rank;
mod rerank;
mod retrieve;

pub use document::{Block, BlockKind, Chunk, ChunkId, Document, Location};
pub use file::{FileEntry, FileKind, FileState, ScanVerdict};
pub use generate::{
    Generation, GenerationRequest, GenerationStats, Generator, Message, Passage, Role,
};
pub use language::language_code;
pub use panic::panic_message;
pub use rank::{Candidate, Hit, RankTrace};
pub use rerank::{
    Decision, LayerEvent, LayerObserver, MemoryPlan, Ranked, RerankOutcome, RerankStats, Reranker,
    SilentObserver,
};
pub use retrieve::{ChunkSet, EmbedRole, Embedder, Filter, Query, Retriever, TokenCounter};

/// The error that crosses a stage seam: the stage's own error type, boxed.
///
/// Each crate keeps a typed `Error`; the seams erase it because the façade can only report it.
pub type StageError = Box<dyn std::error::Error + Send + Sync + 'static>;
