//! A ragged batch: sequences of different lengths, one after the other.

use crate::Encoded;

/// Sequences packed without padding: a 40-token text beside a 500-token one costs 40 tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RaggedBatch {
    /// Token of every position, `[tokens]`.
    pub input_ids: Vec<u32>,
    /// Segment of every position, `[tokens]`.
    pub token_type_ids: Vec<u8>,
    /// Cumulative lengths from 0, `[sequences + 1]`.
    pub cu_seqlens: Vec<usize>,
}

impl RaggedBatch {
    /// Packs the sequences in their order.
    pub fn pack<'a>(sequences: impl IntoIterator<Item = &'a Encoded>) -> RaggedBatch {
        let mut batch = RaggedBatch { cu_seqlens: vec![0], ..RaggedBatch::default() };
        for sequence in sequences {
            batch.input_ids.extend_from_slice(&sequence.ids);
            batch.token_type_ids.extend_from_slice(&sequence.type_ids);
            batch.cu_seqlens.push(batch.input_ids.len());
        }
        batch
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.cu_seqlens.len().saturating_sub(1)
    }

    /// Tokens of all sequences.
    pub fn tokens(&self) -> usize {
        self.input_ids.len()
    }
}
