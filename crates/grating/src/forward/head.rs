//! The model's head over the micro-batches of a layer.

use riddle_transformer::{CrossEncoder, EarlyHead, ScoredToken, Wanted};

use super::apart::Apart;

/// States that the head multiplies at a time: of few its weights would be read more often than they, and all of
/// thousands would be memory that no plan counts.
const HEAD_ROWS: usize = 64;

/// The head over the micro-batches of a layer.
pub(super) struct Head<'a> {
    network: &'a dyn CrossEncoder,
    layer: usize,
    wanted: Wanted,
    /// `[sequences, width]`: what the head reads and has not been given yet.
    rows: Vec<f32>,
    scores: Vec<f32>,
}

impl<'a> Head<'a> {
    pub(super) fn new(network: &'a dyn CrossEncoder, layer: usize, wanted: Wanted) -> Head<'a> {
        Head { network, layer, wanted, rows: Vec::new(), scores: Vec::new() }
    }

    /// A micro-batch that the layer has computed, after those before it; `queries`: how many tokens each sequence
    /// begins with that are the query's.
    pub(super) fn read(
        &mut self,
        cu_seqlens: &[usize],
        queries: &[usize],
        hidden: &[f32],
        apart: &Apart,
    ) {
        let width = self.network.sizes().hidden_size;
        if let Some(late) = self.network.late() {
            for ends in cu_seqlens.windows(2) {
                let states = &hidden[ends[0] * width..ends[1] * width];
                self.scores.push(apart.score(late, self.scores.len(), states));
            }
            return;
        }
        let early = self.network.early(self.layer).filter(|_| self.wanted == Wanted::All);
        if let Some(early) = early {
            let states = QueryStates::of(cu_seqlens, queries, hidden, width);
            return states.scores(self.network, self.layer, early, &mut self.scores);
        }
        for (sequence, ends) in cu_seqlens.windows(2).enumerate() {
            let row = match (self.wanted, self.network.scored_token()) {
                // Of each sequence the last layer leaves one state.
                (Wanted::Scored, _) => sequence,
                (Wanted::All, ScoredToken::First) => ends[0],
                (Wanted::All, ScoredToken::Last) => ends[1] - 1,
                (Wanted::All, ScoredToken::All) => {
                    return self.network.scores(self.layer, cu_seqlens, hidden, &mut self.scores);
                }
            };
            self.rows.extend_from_slice(&hidden[row * width..][..width]);
            if self.rows.len() == HEAD_ROWS * width {
                self.multiply();
            }
        }
    }

    fn multiply(&mut self) {
        let sequences = self.rows.len() / self.network.sizes().hidden_size;
        let each: Vec<usize> = (0..=sequences).collect();
        self.network.scores(self.layer, &each, &self.rows, &mut self.scores);
        self.rows.clear();
    }

    /// Raw scores of all sequences, in their order.
    pub(super) fn scores(mut self) -> Vec<f32> {
        if !self.rows.is_empty() {
            self.multiply();
        }
        self.scores
    }
}

/// The states of the query's tokens in a micro-batch.
pub(crate) struct QueryStates {
    width: usize,
    /// `[tokens, width]`, one sequence after the other.
    states: Vec<f32>,
    /// Where each sequence's end, from 0 on.
    ends: Vec<usize>,
}

impl QueryStates {
    /// Of the sequences of `hidden` `[tokens, width]`, each of which begins with so many tokens of the query.
    pub(crate) fn of(
        cu_seqlens: &[usize],
        queries: &[usize],
        hidden: &[f32],
        width: usize,
    ) -> QueryStates {
        let (mut states, mut ends) = (Vec::new(), vec![0]);
        for (start, count) in cu_seqlens.iter().zip(queries) {
            states.extend_from_slice(&hidden[start * width..][..count * width]);
            ends.push(states.len() / width);
        }
        QueryStates { width, states, ends }
    }

    /// Appends what the head of an early layer says of each sequence.
    pub(crate) fn scores(
        &self,
        network: &dyn CrossEncoder,
        layer: usize,
        early: &EarlyHead,
        out: &mut Vec<f32>,
    ) {
        let before = out.len();
        early.scores(&self.ends, &self.states, out);
        if early.own() == 0.0 {
            return;
        }
        // The first token is the query's, too.
        let first =
            self.ends.windows(2).flat_map(|it| &self.states[it[0] * self.width..][..self.width]);
        let first: Vec<f32> = first.copied().collect();
        let each: Vec<usize> = (0..self.ends.len()).collect();
        let mut own = Vec::with_capacity(self.ends.len());
        network.scores(layer, &each, &first, &mut own);
        for (score, own) in out[before..].iter_mut().zip(own) {
            *score += early.own() * own;
        }
    }
}
