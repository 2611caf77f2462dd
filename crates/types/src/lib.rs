//! Plain values that travel between Riddle's stages, and the traits the stages implement.
//!
//! A question runs through `Query` → [`Hit`]s (one list per [`Retriever`]) → [`Candidate`]s (fused) →
//! [`Ranked`] (what a [`Reranker`] kept) → an answer written by a [`Generator`]. A file runs the other
//! way round: bytes → [`Document`] → [`Chunk`]s with a [`Location`] each.
//!
//! What goes wrong or should be known travels as plain values, too: an [`Advice`] is what a person can do, a [`Notice`]
//! what a person should know; sentences are made of them by whoever talks to the person.
//!
//! This crate does no IO, knows no model and no database, and depends on nothing of ours. A type that
//! only one crate uses does not belong here.

mod access;
mod advice;
mod document;
mod file;
mod generate;
mod language;
mod notice;
mod panic;
mod rank;
mod rerank;
mod retrieve;
mod sparse;
mod spelling;

pub use access::{Level, Reader, Rule};
pub use advice::{Advice, Advised, StageError, Trouble};
pub use document::{
    Block, BlockKind, Chunk, ChunkId, Document, Location, VectorTurn, column_letters,
};
pub use file::{FileEntry, FileKind, FileState, FolderIdentity, FolderPlace, ScanVerdict};
pub use generate::{
    ExpertStats, Generation, GenerationRequest, GenerationStats, Generator, Message, Passage,
    PassageOrder, Role, StoredPrompt,
};
pub use language::language_code;
pub use notice::{NoJudge, NotElsewhere, Notice, RewriteFault};
pub use panic::panic_message;
pub use rank::{Candidate, Hit, RankTrace};
pub use rerank::{
    DeadlineEnd, DeadlinePlan, DeadlineReport, Decision, LayerEvent, LayerObserver, MemoryPlan,
    Prior, Ranked, RerankOutcome, RerankStats, Reranker, SilentObserver,
};
pub use retrieve::{
    ChunkSet, EmbedRole, Embedder, Filter, Query, Retriever, SparseEncoder, TokenCounter, tag_name,
};
pub use sparse::{TERM_STEP, TermWeights};
pub use spelling::folded;
