//! The retrieval seam: queries, filters, retrievers and embedders.

use std::{ops::RangeInclusive, sync::Arc};

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
    /// Tags; a file passes with any of them, or with one below it: `boat` lets `boat/hull` pass. Empty: no condition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
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

/// A tag as it is kept and compared, `project/boat` for `#Project/Boat`; `None` where nothing is left of it.
pub fn tag_name(text: &str) -> Option<String> {
    /// Longer ones are no names.
    const LONGEST: usize = 100;
    let tag = text.trim().trim_start_matches('#').trim_matches('/').trim().to_lowercase();
    (!tag.is_empty() && tag.chars().count() <= LONGEST).then_some(tag)
}

/// A set of chunks, for membership tests inside the indexes: ranges of numbers that follow each other, as those of a
/// file's passages mostly do, so a million passages of ten thousand files are some ten thousand ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkSet {
    /// Apart from each other, in ascending order.
    ranges: Vec<RangeInclusive<u64>>,
    len: usize,
}

impl ChunkSet {
    /// Makes a set of any list.
    pub fn new(ids: Vec<ChunkId>) -> Self {
        ChunkSet::of_ranges(ids.into_iter().map(|it| it.0..=it.0).collect())
    }

    /// The chunks with numbers in one of these ranges, in any order; they may overlap.
    pub fn of_ranges(mut ranges: Vec<RangeInclusive<u64>>) -> Self {
        ranges.retain(|it| !it.is_empty());
        ranges.sort_unstable_by_key(|it| *it.start());
        let mut apart: Vec<RangeInclusive<u64>> = Vec::new();
        for range in ranges {
            match apart.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => apart.push(range),
            }
        }
        apart.shrink_to_fit();
        let len = apart.iter().map(|it| (it.end() - it.start()) as usize + 1).sum();
        ChunkSet { ranges: apart, len }
    }

    /// Whether `id` is in the set: O(log ranges).
    pub fn contains(&self, id: ChunkId) -> bool {
        let at = self.ranges.partition_point(|it| *it.end() < id.0);
        self.ranges.get(at).is_some_and(|it| *it.start() <= id.0)
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.ranges.iter().cloned().flatten().map(ChunkId)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
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
    pub allowed: Option<Arc<ChunkSet>>,
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbors_are_one_range() {
        let set = ChunkSet::new([3, 1, 3, 7, 4, u64::MAX].map(ChunkId).into());
        assert_eq!(set.ranges, [1..=1, 3..=4, 7..=7, u64::MAX..=u64::MAX]);
        assert_eq!(ChunkSet::of_ranges(vec![5..=9, 1..=2, 8..=8, 3..=3]).ranges, [1..=3, 5..=9]);
        // What a caller that computes its ends can come to.
        let (start, end) = (4, 3);
        assert!(ChunkSet::of_ranges(vec![start..=end]).is_empty());
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_the_set_of_its_members(
            ranges in prop::collection::vec((0u64..60, 0u64..6), 0..12), asked in 0u64..70,
        ) {
            let naive: BTreeSet<u64> =
                ranges.iter().flat_map(|&(from, more)| from..=from + more).collect();
            let set = ChunkSet::of_ranges(ranges.iter().map(|it| it.0..=it.0 + it.1).collect());
            prop_assert_eq!(set.len(), naive.len());
            prop_assert_eq!(set.contains(ChunkId(asked)), naive.contains(&asked));
            prop_assert!(set.iter().map(|it| it.0).eq(naive.iter().copied()));
            prop_assert_eq!(&set, &ChunkSet::new(naive.into_iter().map(ChunkId).collect()));
        }
    }

    #[test]
    fn tags_are_compared_without_their_sign_and_in_small_letters() {
        assert_eq!(tag_name(" #Project/Boat/ ").as_deref(), Some("project/boat"));
        assert_eq!(tag_name("Überholung").as_deref(), Some("überholung"));
        assert_eq!(
            (tag_name("#"), tag_name(" / "), tag_name(&"a".repeat(101))),
            (None, None, None)
        );
    }

    #[test]
    fn default_filter_is_empty() {
        assert!(Filter::default().is_empty());
        assert!(!Filter { kinds: vec![FileKind::Pdf], ..Filter::default() }.is_empty());
    }
}
