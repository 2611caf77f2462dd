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
    /// The layer's own, if there is one: it reads the query's tokens.
    early: Option<&'a EarlyHead>,
    /// `[tokens, width]`: what the head reads and has not been given yet.
    rows: Vec<f32>,
    /// Where each sequence's rows end, from 0 on.
    ends: Vec<usize>,
    scores: Vec<f32>,
}

impl<'a> Head<'a> {
    pub(super) fn new(network: &'a dyn CrossEncoder, layer: usize, wanted: Wanted) -> Head<'a> {
        let early = network.early(layer).filter(|_| wanted == Wanted::All);
        Head { network, layer, wanted, early, rows: Vec::new(), ends: vec![0], scores: Vec::new() }
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
        for (sequence, ends) in cu_seqlens.windows(2).enumerate() {
            let (first, count) = match (self.wanted, self.network.scored_token()) {
                _ if self.early.is_some() => (ends[0], queries[sequence]),
                // Of each sequence the last layer leaves one state.
                (Wanted::Scored, _) => (sequence, 1),
                (Wanted::All, ScoredToken::First) => (ends[0], 1),
                (Wanted::All, ScoredToken::Last) => (ends[1] - 1, 1),
                (Wanted::All, ScoredToken::All) => {
                    return self.network.scores(self.layer, cu_seqlens, hidden, &mut self.scores);
                }
            };
            self.rows.extend_from_slice(&hidden[first * width..][..count * width]);
            self.ends.push(self.rows.len() / width);
            if self.rows.len() >= HEAD_ROWS * width {
                self.multiply();
            }
        }
    }

    fn multiply(&mut self) {
        match self.early {
            Some(early) => {
                let tokens = (&self.ends[..], &self.rows[..]);
                early_scores(self.network, self.layer, early, tokens, &mut self.scores);
            }
            None => self.network.scores(self.layer, &self.ends, &self.rows, &mut self.scores),
        }
        self.rows.clear();
        self.ends.truncate(1);
    }

    /// Raw scores of all sequences, in their order.
    pub(super) fn scores(mut self) -> Vec<f32> {
        if !self.rows.is_empty() {
            self.multiply();
        }
        self.scores
    }
}

/// What the head of an early layer says of sequences of which `tokens` has the query's states, `[tokens, width]`, and
/// where those of each end; the first one is the sequence's first token.
pub(crate) fn early_scores(
    network: &dyn CrossEncoder,
    layer: usize,
    early: &EarlyHead,
    (ends, tokens): (&[usize], &[f32]),
    out: &mut Vec<f32>,
) {
    let before = out.len();
    early.scores(ends, tokens, out);
    if early.own() == 0.0 {
        return;
    }
    let width = network.sizes().hidden_size;
    let each: Vec<usize> = (0..ends.len()).collect();
    let first: Vec<f32> =
        ends.windows(2).flat_map(|it| tokens[it[0] * width..][..width].iter().copied()).collect();
    let mut own = Vec::with_capacity(ends.len());
    network.scores(layer, &each, &first, &mut own);
    for (score, own) in out[before..].iter_mut().zip(own) {
        *score += early.own() * own;
    }
}
