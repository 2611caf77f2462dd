//! Feed-forward layers of many experts: who is chosen, and what they say together.
//!
//! For a token with the normalized state `x` the router gives the scores `s = W_r x`. With `p = softmax(s)` the token
//! is given the `k` experts of the largest `p`, and the layer adds `Σ p_e / Σ p · E_e(x)` over them, each `E` a gated
//! feed-forward layer (Shazeer et al. 2017, §2.1; Jiang et al. 2024, Mixtral, §2.1).
//!
//! What each expert says of each of its tokens is kept apart and summed when all have spoken, in the order of the
//! scores: no bit depends on which of them was in memory first.

use riddle_kernels::{Finish, Gate, Precision, Rounding, rms_norm};
use riddle_weights::{Experts, gguf::GgufTensor};

use super::{
    LanguageModel, LanguageScratch,
    tensors::{ExpertTensors, TensorPart, matrix, numbers},
};
use crate::{
    layer::{Linear, Multiply},
    operation::Operation,
};

/// Which tokens of a pass are given to which experts, and what these say.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Normalized states `[tokens, hidden_size]`.
    normalized: Vec<f32>,
    /// Scores `[tokens, experts]`, then their softmax.
    scores: Vec<f32>,
    /// Of each token the experts that it is given, the one with the largest weight first: expert, weight, place in
    /// `said`.
    chosen: Vec<(usize, f32, usize)>,
    /// Of each expert the tokens that it is given, one after the other, and where those of each begin.
    tokens: Vec<usize>,
    begins: Vec<usize>,
    /// States of the tokens of one expert, and its gate.
    gathered: Vec<f32>,
    gate: Vec<f32>,
    /// What each expert says of each of its tokens `[tokens × used, hidden_size]`, in the order of `tokens`.
    said: Vec<f32>,
    /// The experts that were chosen, ascending.
    wanted: Vec<usize>,
}

impl Routes {
    /// Elements of all parts for up to `tokens` tokens; numbers of another size count by their bytes.
    pub(super) fn len(model: &LanguageModel, tokens: usize) -> usize {
        let Some(Experts { count, used }) = model.config.experts else { return 0 };
        let (hidden, wide) = (model.config.hidden_size, model.config.intermediate_size);
        let numbers = (tokens * used * (size_of::<(usize, f32, usize)>() + size_of::<usize>())
            + 2 * count * size_of::<usize>())
        .div_ceil(size_of::<f32>());
        tokens * (2 * hidden + wide + count + used * hidden) + numbers
    }

    /// Memory for up to `tokens` tokens; none without experts.
    pub(super) fn new(model: &LanguageModel, tokens: usize) -> Routes {
        let Some(Experts { count, used }) = model.config.experts else { return Routes::default() };
        let (hidden, wide) = (model.config.hidden_size, model.config.intermediate_size);
        Routes {
            normalized: vec![0.0; tokens * hidden],
            scores: vec![0.0; tokens * count],
            chosen: Vec::with_capacity(tokens * used),
            tokens: vec![0; tokens * used],
            begins: vec![0; count + 1],
            gathered: vec![0.0; tokens * hidden],
            gate: vec![0.0; tokens * wide],
            said: vec![0.0; tokens * used * hidden],
            wanted: Vec::with_capacity(count),
        }
    }

    /// Gives each of `tokens` tokens its experts, by their scores.
    fn choose(&mut self, tokens: usize, Experts { count, used }: Experts) {
        self.chosen.clear();
        let mut order: Vec<usize> = Vec::with_capacity(count);
        for scores in self.scores[..tokens * count].chunks_exact_mut(count) {
            softmax(scores);
            order.clear();
            order.extend(0..count);
            // Of equals the first one; a NaN, which a damaged file can have, is the last.
            let by_score = |a: &usize, b: &usize| {
                let rank = |it: f32| if it.is_nan() { f32::NEG_INFINITY } else { it };
                rank(scores[*b]).total_cmp(&rank(scores[*a])).then(a.cmp(b))
            };
            order.select_nth_unstable_by(used - 1, by_score);
            order[..used].sort_unstable_by(by_score);
            let sum: f32 = order[..used].iter().map(|it| scores[*it]).sum();
            self.chosen.extend(order[..used].iter().map(|it| (*it, scores[*it] / sum, 0)));
        }
        self.gather_tokens(used, count);
    }

    /// Turns the experts of each token into the tokens of each expert.
    fn gather_tokens(&mut self, used: usize, count: usize) {
        self.begins.clear();
        self.begins.resize(count + 1, 0);
        for (expert, _, _) in &self.chosen {
            self.begins[expert + 1] += 1;
        }
        for expert in 0..count {
            self.begins[expert + 1] += self.begins[expert];
        }
        let mut next = self.begins.clone();
        for (number, (expert, _, place)) in self.chosen.iter_mut().enumerate() {
            *place = next[*expert];
            self.tokens[*place] = number / used;
            next[*expert] += 1;
        }
        self.wanted.clear();
        self.wanted.extend((0..count).filter(|it| self.begins[*it] < self.begins[it + 1]));
    }
}

/// The softmax of a row, in place.
fn softmax(row: &mut [f32]) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for value in row.iter_mut() {
        *value = (*value - most).exp();
        sum += *value;
    }
    row.iter_mut().for_each(|it| *it /= sum);
}

impl LanguageModel {
    /// The experts of each layer; none where feed-forward layers are no mixtures.
    pub fn experts(&self) -> &[ExpertTensors] {
        &self.experts
    }

    /// The places of the router and of the norm before it among the tensors of a layer.
    pub fn router(&self, layer: usize) -> Option<(usize, usize)> {
        let tensors = &self.layers[layer];
        let router = tensors.iter().position(|it| it.part == TensorPart::Router)?;
        // As `of_layer` lists them.
        Some((router, router - 1))
    }

    /// The experts that the tokens of the last [`layer`](Self::layer) were given, ascending.
    pub fn wanted<'a>(&self, scratch: &'a LanguageScratch) -> &'a [usize] {
        &scratch.routes.wanted
    }

    /// Gives the tokens of a pass their experts, by their states before the feed-forward layer.
    pub(super) fn route(
        &self,
        hidden: &[f32],
        norm: &[f32],
        router: &Linear<'_>,
        scratch: &mut LanguageScratch,
        rounding: Rounding,
    ) {
        let Some(experts) = self.config.experts else { return };
        let _span = Operation::Router.enter();
        let tokens = hidden.len() / self.config.hidden_size;
        let LanguageScratch { routes, panels, .. } = scratch;
        let normalized = &mut routes.normalized[..hidden.len()];
        rms_norm(hidden, norm, self.config.norm_eps, normalized);
        let scores = &mut routes.scores[..tokens * experts.count];
        // Small and in f32: who is chosen should not depend on rounding.
        let multiply = Multiply { precision: Precision::F32, rounding };
        multiply.one(normalized, router, Finish::Store, scores, panels);
        routes.choose(tokens, experts);
    }

    /// Which experts of `layer` these states would be given, if the layers between added nothing, ascending: a guess of
    /// what will be wanted. `norm` and `router` are the tensors that [`router`](Self::router) names.
    ///
    /// # Panics
    /// When the layer has no experts, or slices do not have their lengths: the caller's bug.
    pub fn guess(
        &self,
        layer: usize,
        hidden: &[f32],
        [router, norm]: [&[u8]; 2],
        scratch: &mut GuessScratch,
    ) -> Vec<usize> {
        let Some(Experts { count, used }) = self.config.experts else { return Vec::new() };
        let (width, epsilon) = (self.config.hidden_size, self.config.norm_eps);
        let (place, _) = self.router(layer).expect("a layer with experts: this is a bug");
        let format = self.layers[layer][place].tensor.format;
        let weight = matrix(format, router, count, width);
        let router = Linear { weight, bias: None, inputs: width, outputs: count };
        let GuessScratch { normalized, scores, panels } = scratch;
        let norm = numbers(norm);
        let mut wanted = vec![false; count];
        let multiply = Multiply { precision: Precision::F32, rounding: Rounding::ByCount };
        for state in hidden.chunks_exact(width) {
            rms_norm(state, &norm, epsilon, normalized);
            multiply.one(normalized, &router, Finish::Store, scores, panels);
            let mut order: Vec<usize> = (0..count).collect();
            order.select_nth_unstable_by(used - 1, |a, b| scores[*b].total_cmp(&scores[*a]));
            order[..used].iter().for_each(|it| wanted[*it] = true);
        }
        (0..count).filter(|it| wanted[*it]).collect()
    }

    /// What one expert says of the tokens that it was given; `weights` are its gate, up and down matrices as the file
    /// has them.
    ///
    /// # Panics
    /// When there is no such expert, or the weights are not its own: the caller's bug.
    pub fn expert(
        &self,
        layer: usize,
        expert: usize,
        weights: &[&[u8]],
        scratch: &mut LanguageScratch,
        rounding: Rounding,
    ) {
        let _span = Operation::FeedForward.enter();
        let &[gate, up, down] = weights else { panic!("three matrices: this is a bug") };
        let (width, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let tensors = &self.experts[layer];
        let linear = |tensor: &GgufTensor, bytes, inputs, outputs| {
            let weight = matrix(tensor.format, bytes, outputs, inputs);
            Linear { weight, bias: None, inputs, outputs }
        };
        let LanguageScratch { routes, panels, .. } = scratch;
        let Routes { normalized, tokens, begins, gathered, gate: gates, said, .. } = routes;
        let places = begins[expert]..begins[expert + 1];
        let rows = places.len();
        let gathered = &mut gathered[..rows * width];
        for (row, token) in gathered.chunks_exact_mut(width).zip(&tokens[places.clone()]) {
            row.copy_from_slice(&normalized[token * width..][..width]);
        }
        let multiply = Multiply { rounding, ..self.multiply };
        let gates = &mut gates[..rows * wide];
        let product = linear(&tensors.gate, gate, width, wide);
        multiply.one(gathered, &product, Finish::Store, gates, panels);
        let product = linear(&tensors.up, up, width, wide);
        multiply.one(gathered, &product, Finish::Gate(Gate::Silu), gates, panels);
        let said = &mut said[places.start * width..places.end * width];
        let product = linear(&tensors.down, down, wide, width);
        multiply.one(gates, &product, Finish::Store, said, panels);
    }

    /// Adds to the states what the experts of their tokens have said, each by its weight.
    pub fn add_experts(&self, hidden: &mut [f32], scratch: &LanguageScratch) {
        let Some(Experts { used, .. }) = self.config.experts else { return };
        let _span = Operation::FeedForward.enter();
        let (width, routes) = (self.config.hidden_size, &scratch.routes);
        let chosen = routes.chosen.chunks_exact(used);
        for (state, chosen) in hidden.chunks_exact_mut(width).zip(chosen) {
            for (_, weight, place) in chosen {
                let said = &routes.said[place * width..][..width];
                for (state, said) in state.iter_mut().zip(said) {
                    *state += weight * said;
                }
            }
        }
    }

    /// Memory for guesses.
    pub fn guess_scratch(&self) -> GuessScratch {
        let (width, count) =
            (self.config.hidden_size, self.config.experts.map_or(0, |it| it.count));
        GuessScratch {
            normalized: vec![0.0; width],
            scores: vec![0.0; count],
            panels: riddle_kernels::Panels::new(width, 1, riddle_kernels::PanelUse::Any),
        }
    }
}

/// Memory of a guess.
#[derive(Debug)]
pub struct GuessScratch {
    normalized: Vec<f32>,
    scores: Vec<f32>,
    panels: riddle_kernels::Panels,
}
