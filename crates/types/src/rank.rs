//! Hits and candidates: what the retrieval stages pass on.

use serde::{Deserialize, Serialize};

use crate::ChunkId;

/// One chunk proposed by one retriever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Its score in the retriever's own scale; only comparable within one list.
    pub score: f32,
    /// Its rank in the retriever's list, from 1.
    pub rank: u32,
}

/// How a chunk came to its place: one line of the explanation shown to the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTrace {
    /// Rank in the keyword list, from 1.
    pub bm25_rank: Option<u32>,
    /// Rank in the vector list, from 1.
    pub vector_rank: Option<u32>,
    /// Rank in the list of the learned sparse vectors, from 1; where nobody asked them it is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse_rank: Option<u32>,
    /// Rank after fusion, from 1.
    pub fused_rank: Option<u32>,
    /// Layer of the reranker after which its place was settled, from 1.
    pub decided_at_layer: Option<u32>,
}

/// A fused hit: input of the reranker.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which chunk.
    pub chunk: ChunkId,
    /// The text that the reranker reads.
    pub text: String,
    /// Score after fusion.
    pub score: f32,
    /// Where it came from.
    pub trace: RankTrace,
}
