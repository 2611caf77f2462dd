//! The model's head over the micro-batches of a layer.

use riddle_transformer::{CrossEncoder, ScoredToken, Wanted};

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

    /// A micro-batch that the layer has computed, after those before it.
    pub(super) fn read(&mut self, cu_seqlens: &[usize], hidden: &[f32], apart: &Apart) {
        let width = self.network.sizes().hidden_size;
        if let Some(late) = self.network.late() {
            for ends in cu_seqlens.windows(2) {
                let states = &hidden[ends[0] * width..ends[1] * width];
                self.scores.push(apart.score(late, self.scores.len(), states));
            }
            return;
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
