//! Queries that are read apart from the texts (late interaction): a layer computes each of them once, before the
//! texts, and what it says of a text is a comparison with the query's vectors.

use std::time::Duration;

use riddle_offload::EmbeddingRows;
use riddle_transformer::{
    CrossEncoder, Encoded, LateInteraction, Prefix, QueryEncoder, QuerySequence, RaggedBatch,
    Scratch, Span, Wanted,
};

use super::rows;
use crate::Result;

/// The sequences of a request, or of several.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {
    /// Of each candidate.
    pub(crate) candidates: Vec<Encoded>,
    /// Of each query that is read apart.
    queries: Vec<QuerySequence>,
    /// The query of each candidate; nothing where none is read apart.
    query_of: Vec<usize>,
}

impl Sequences {
    /// Adds a query and its candidates.
    pub(crate) fn add(&mut self, query: &QueryEncoder<'_>, candidates: Vec<Encoded>) {
        if let Some(apart) = query.apart() {
            self.query_of.resize(self.query_of.len() + candidates.len(), self.queries.len());
            self.queries.push(apart.clone());
        }
        self.candidates.extend(candidates);
    }

    /// All tokens.
    pub(super) fn tokens(&self) -> impl Iterator<Item = u32> {
        let queries = self.queries.iter().map(|it| &it.tokens);
        self.candidates.iter().chain(queries).flat_map(|it| it.ids.iter().copied())
    }

    /// Tokens of the longest query that is read apart.
    pub(super) fn longest_query(&self) -> usize {
        self.queries.iter().map(|it| it.tokens.len()).max().unwrap_or(0)
    }

    /// Bytes that [`Apart`] and comparing with it take.
    pub(super) fn apart_bytes(&self, network: &dyn CrossEncoder) -> u64 {
        let Some(late) = network.late() else { return 0 };
        let each = (network.sizes().hidden_size + late.outputs()) * size_of::<f32>();
        let queries: usize = self.queries.iter().map(|it| it.tokens.len()).sum();
        let marks: usize = self.candidates.iter().map(Encoded::len).sum();
        (queries * each + marks) as u64 + late.scratch_bytes(self.longest_query())
    }
}

/// Queries that are read apart, in the layer at work.
#[derive(Debug, Default)]
pub(super) struct Apart {
    queries: Vec<Query>,
    /// The query of each running candidate.
    query_of: Vec<usize>,
    /// Which tokens of each running candidate are compared.
    compared: Vec<Vec<bool>>,
}

#[derive(Debug)]
struct Query {
    sequence: QuerySequence,
    /// `[tokens, width]`.
    states: Vec<f32>,
    /// `[tokens, outputs]`.
    vectors: Vec<f32>,
}

impl Apart {
    /// Those of a request; nothing for models that read queries and texts together.
    pub(super) fn new(sequences: &mut Sequences, late: Option<&LateInteraction>) -> Apart {
        let Some(late) = late else { return Apart::default() };
        let compared = |text: &Encoded| text.ids.iter().map(|it| late.is_compared(*it)).collect();
        let query = |sequence| Query { sequence, states: Vec::new(), vectors: Vec::new() };
        Apart {
            compared: sequences.candidates.iter().map(compared).collect(),
            queries: std::mem::take(&mut sequences.queries).into_iter().map(query).collect(),
            query_of: std::mem::take(&mut sequences.query_of),
        }
    }

    /// Embeds the queries; returns how long reading rows for them took.
    pub(super) fn embed(
        &mut self,
        network: &dyn CrossEncoder,
        table: &mut EmbeddingRows,
    ) -> Result<Duration> {
        let width = network.sizes().hidden_size;
        let mut took = Duration::ZERO;
        for Query { sequence, states, .. } in &mut self.queries {
            states.resize(sequence.tokens.len() * width, 0.0);
            let packed = RaggedBatch::pack([&sequence.tokens]);
            took += rows::gather(table, network, &packed, states)?;
        }
        Ok(took)
    }

    /// Runs a layer over the queries, one after the other: what a query becomes depends on no other, and on nothing
    /// that the plan decides. Its vectors are made if somebody is to be compared with them.
    pub(super) fn layer(
        &mut self,
        network: &dyn CrossEncoder,
        (layer, weights): (usize, &[u8]),
        compares: bool,
        scratch: &mut Scratch,
    ) {
        for Query { sequence, states, vectors } in &mut self.queries {
            let cu_seqlens = &[0, sequence.tokens.len()];
            let (prefix, wanted, unseen) = (Prefix::None, Wanted::All, sequence.unseen);
            let span = Span { cu_seqlens, prefix, wanted, unseen };
            network.layer(layer, weights, span, states, scratch);
            if let Some(late) = network.late().filter(|_| compares) {
                *vectors = late.vectors(states);
            }
        }
    }

    /// The raw score of the running candidate at `place` by its states.
    pub(super) fn score(&self, late: &LateInteraction, place: usize, states: &[f32]) -> f32 {
        let query = &self.queries[self.query_of[place]];
        late.score(&query.vectors, states, &self.compared[place])
    }

    /// Keeps only the candidates at the given places (ascending).
    pub(super) fn retain(&mut self, places: &[usize]) {
        if !self.queries.is_empty() {
            self.query_of = places.iter().map(|&it| self.query_of[it]).collect();
            self.compared =
                places.iter().map(|&it| std::mem::take(&mut self.compared[it])).collect();
        }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        let floats = |it: &Query| it.states.capacity() + it.vectors.capacity();
        let floats: usize = self.queries.iter().map(floats).sum();
        let marks: usize = self.compared.iter().map(Vec::capacity).sum();
        (floats * size_of::<f32>() + marks) as u64
    }
}
