//! The retrieval seam: queries, filters, retrievers and embedders.

use serde::{Deserialize, Serialize};

use crate::{ChunkId, FileKind, Hit, StageError, TermWeights};

/// Conditions that every result must meet; applied inside each retriever, never after its top-k.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Absolute folders; a file passes below any of them. Empty: no condition.
    pub folders: Vec<String>,
    /// Absolute folders; no file below one of them passes.
    pub except: Vec<String>,
    /// File kinds; empty: no condition.
    pub kinds: Vec<FileKind>,
    /// Modified at or after, in seconds since 1970.
    pub modified_from: Option<i64>,
    /// Modified before, in seconds since 1970.
    pub modified_until: Option<i64>,
}

impl Filter {
    /// Whether the filter lets everything through.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }
}

/// A set of chunks, sorted, for membership tests inside the vector index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkSet(Vec<ChunkId>);

impl ChunkSet {
    /// Makes a set of any list; sorts it and removes duplicates.
    pub fn new(mut ids: Vec<ChunkId>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        ChunkSet(ids)
    }

    /// Whether `id` is in the set: O(log n).
    pub fn contains(&self, id: ChunkId) -> bool {
        self.0.binary_search(&id).is_ok()
    }

    /// The members in ascending order.
    pub fn as_slice(&self) -> &[ChunkId] {
        &self.0
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A question in the forms the retrievers need.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// As the user typed it.
    pub text: String,
    /// Its embedding by the active embedder, normalized; `None` when no embedder is there.
    pub vector: Option<Vec<f32>>,
    /// Its weights of terms by the active sparse encoder; `None` when none is there.
    pub terms: Option<TermWeights>,
    /// ISO 639-1 code, when detection was confident.
    pub language: Option<String>,
    /// The filter resolved to chunks by the catalog; `None` when the filter is empty.
    pub allowed: Option<ChunkSet>,
}

/// An index that proposes chunks for a query.
pub trait Retriever: Send + Sync {
    /// The `limit` best chunks that pass the filter, best first, ranks counting from 1.
    ///
    /// # Errors
    /// When the index can not be read. A query without a match is an empty list, not an error.
    fn retrieve(
        &self,
        query: &Query,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Hit>, StageError>;
}

/// Counts tokens as the embedder will, so that chunks fit it.
pub trait TokenCounter: Send + Sync {
    /// Number of tokens of `text`, without special tokens.
    fn count(&self, text: &str) -> usize;
}

/// Whether a text is embedded to be found or to find; some models want a different prefix for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedRole {
    /// A question.
    Query,
    /// A chunk.
    Passage,
}

/// Turns texts into vectors of one length.
pub trait Embedder: Send + Sync {
    /// Stable identity of model and settings; vectors of different ids are never compared.
    fn id(&self) -> &str;

    /// Length of the vectors.
    fn dimensions(&self) -> usize;

    /// Longest input in tokens, special tokens included; longer texts are truncated.
    fn max_tokens(&self) -> usize;

    /// Embeds each text; vectors are L2-normalized and in the order of `texts`.
    ///
    /// # Errors
    /// When the model can not be read or run.
    fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>, StageError>;

    /// The tokenizer's counter, for the chunker.
    fn token_counter(&self) -> &dyn TokenCounter;

    /// Bytes of weights in memory now, where the embedder can tell.
    fn resident_weight_bytes(&self) -> u64 {
        0
    }
}

/// Turns texts into weights of terms.
pub trait SparseEncoder: Send + Sync {
    /// Stable identity of model and settings; weights of different ids are never compared.
    fn id(&self) -> &str;

    /// The terms of each text, in the order of `texts`.
    ///
    /// # Errors
    /// When the model can not be read or run.
    fn encode(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<TermWeights>, StageError>;

    /// Bytes of weights in memory now.
    fn resident_weight_bytes(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_set_sorts_and_dedups() {
        let set = ChunkSet::new(vec![ChunkId(3), ChunkId(1), ChunkId(3)]);
        assert_eq!(set.as_slice(), [ChunkId(1), ChunkId(3)]);
        assert!(set.contains(ChunkId(3)) && !set.contains(ChunkId(2)));
    }

    #[test]
    fn default_filter_is_empty() {
        assert!(Filter::default().is_empty());
        assert!(!Filter { kinds: vec![FileKind::Pdf], ..Filter::default() }.is_empty());
    }
}
