//! Heads of early layers: what the last layer will say, as far as an earlier one knows it.
//!
//! The model's own head reads the first token, which knows nothing before the last layers (GRATING §4.1 reads it after
//! every layer). The tokens of the query know earlier: each has attended to the passage and has found what it asks for
//! or not. So an early head looks at each of them by itself and takes the mean:
//! `score = mean over the query's tokens t of out_proj(gelu(dense(h_t))) + own * head(h_first)`,
//! where `head` is the model's own. It is learned from the model's own scores, and what the model says in the end stays
//! as it is.

use riddle_kernels::{Matrix, Output, Panels, gelu, linear};
use riddle_weights::Checkpoint;

use crate::{
    Result,
    layer::{bytes_of, read},
};

/// Neurons for each token; one row of weights each.
#[derive(Debug)]
pub struct EarlyHead {
    dense: Vec<f32>,
    dense_bias: Vec<f32>,
    out_proj: Vec<f32>,
    out_proj_bias: Vec<f32>,
    own: f32,
}

impl EarlyHead {
    /// Those of all layers but the last, from the first on; none where a layer has none.
    pub(super) fn read_all(
        checkpoint: &Checkpoint,
        layers: usize,
        width: usize,
    ) -> Result<Vec<Option<EarlyHead>>> {
        (0..layers.saturating_sub(1))
            .map(|layer| {
                let name = |part: &str| format!("early_heads.{layer}.{part}");
                let dense = name("dense.weight");
                if !checkpoint.contains(&dense) {
                    return Ok(None);
                }
                // As many neurons as there are biases.
                let bias = name("dense.bias");
                let neurons = checkpoint
                    .tensors()
                    .find(|it| it.name == bias)
                    .and_then(|it| it.shape.first().copied())
                    .unwrap_or(0);
                Ok(Some(EarlyHead {
                    dense: read(checkpoint, &dense, &[neurons, width])?,
                    dense_bias: read(checkpoint, &bias, &[neurons])?,
                    out_proj: read(checkpoint, &name("out_proj.weight"), &[1, neurons])?,
                    out_proj_bias: read(checkpoint, &name("out_proj.bias"), &[1])?,
                    own: match checkpoint.contains(&name("own")) {
                        true => read(checkpoint, &name("own"), &[1])?[0],
                        false => 0.0,
                    },
                }))
            })
            .collect()
    }

    /// How much what the model's own head says of the first token counts beside [`scores`](Self::scores).
    pub fn own(&self) -> f32 {
        self.own
    }

    /// Appends the raw score of each sequence, of which `query_tokens` `[tokens, hidden_size]` has the states of the
    /// query's tokens: those from `cu_seqlens[i]` to `cu_seqlens[i + 1]`.
    pub fn scores(&self, cu_seqlens: &[usize], query_tokens: &[f32], out: &mut Vec<f32>) {
        let neurons = self.dense_bias.len();
        let width = self.dense.len() / neurons.max(1);
        let tokens = query_tokens.len() / width.max(1);
        let none = &mut Panels::default();
        let mut inner = vec![0.0; tokens * neurons];
        let (dense, to) = (Matrix::F32(&self.dense), Output::dense(&mut inner, neurons));
        linear(query_tokens, dense, Some(&self.dense_bias), width, neurons, to, none);
        gelu(&mut inner);
        let mut each = vec![0.0; tokens];
        let (out_proj, to) = (Matrix::F32(&self.out_proj), Output::dense(&mut each, 1));
        linear(&inner, out_proj, Some(&self.out_proj_bias), neurons, 1, to, none);
        out.extend(cu_seqlens.windows(2).map(|ends| {
            let own = &each[ends[0]..ends[1]];
            own.iter().sum::<f32>() / own.len().max(1) as f32
        }));
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        bytes_of(&[&self.dense, &self.dense_bias, &self.out_proj, &self.out_proj_bias])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, token by token.
    #[test]
    fn a_score_is_the_mean_of_what_the_querys_tokens_say() {
        let head = EarlyHead {
            dense: vec![1.0, -2.0, 0.5, 0.25, 3.0, -1.0],
            dense_bias: vec![0.1, -0.2, 0.3],
            out_proj: vec![2.0, -1.0, 0.5],
            out_proj_bias: vec![-0.4],
            own: 0.0,
        };
        let tokens = [[0.3, -0.7], [1.0, 2.0], [-1.5, 0.2], [0.0, 0.0], [0.9, -0.1]];
        let gelu = |x: f32| {
            let mut of = [x];
            gelu(&mut of);
            of[0]
        };
        let token = |it: &[f32; 2]| {
            let neuron = |n: usize| {
                let row = &head.dense[2 * n..][..2];
                gelu(row[0] * it[0] + row[1] * it[1] + head.dense_bias[n]) * head.out_proj[n]
            };
            (0..3).map(neuron).sum::<f32>() + head.out_proj_bias[0]
        };
        let mut found = vec![9.0];
        let states: Vec<f32> = tokens.iter().flatten().copied().collect();
        head.scores(&[0, 2, 5], &states, &mut found);
        let mean = |part: &[[f32; 2]]| part.iter().map(token).sum::<f32>() / part.len() as f32;
        for (found, expected) in found.iter().zip([9.0, mean(&tokens[..2]), mean(&tokens[2..])]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert_eq!(head.bytes(), 4 * 13);
    }
}
