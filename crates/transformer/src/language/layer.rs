//! One layer of a language model.

use std::borrow::Cow;

use super::{
    KvCache, LanguageModel, LanguageScratch,
    convolution::Convolution,
    tensors::{LayerTensor, TensorPart, matrix, numbers},
};
use crate::{
    layer::{Linear, Multiply},
    operation::Operation,
};
use riddle_kernels::{
    CachedAttention, Finish, Gate, Matrix, Pairs, Part, Rotation, Rounding, Rows, cached_attention,
    rms_norm, rms_norm_heads, rotate,
};

/// One layer's weights, cut out of what was read for it.
struct Cut<'a> {
    mixer_norm: Cow<'a, [f32]>,
    /// Of that norm; empty without.
    mixer_norm_bias: Cow<'a, [f32]>,
    mixer: Mixer<'a>,
    feed_forward_norm: Cow<'a, [f32]>,
    feed_forward: FeedForward<'a>,
}

/// By what a layer's tokens see each other.
#[expect(clippy::large_enum_variant, reason = "one for a layer, on the stack")]
enum Mixer<'a> {
    Attention(Attention<'a>),
    Convolution(Convolution<'a>),
}

struct Attention<'a> {
    query: Linear<'a>,
    key: Linear<'a>,
    value: Linear<'a>,
    biases: [Cow<'a, [f32]>; 3],
    /// Gains of queries and keys, head by head; empty without.
    head_norms: [Cow<'a, [f32]>; 2],
    output: Linear<'a>,
    /// Of the output; empty without.
    output_bias: Cow<'a, [f32]>,
    /// Gain of what attention adds; empty without.
    post_norm: Cow<'a, [f32]>,
}

/// What follows attention.
enum FeedForward<'a> {
    Dense {
        gate: Linear<'a>,
        up: Linear<'a>,
        down: Linear<'a>,
        /// Gain of what the feed-forward layer adds; empty without.
        post_norm: Cow<'a, [f32]>,
    },
    /// The router; experts come later.
    Experts(Linear<'a>),
    /// Not what follows attention, but what stands beside it, without a gate: two products with their biases.
    Beside([(Linear<'a>, Cow<'a, [f32]>); 2]),
}

/// Takes tensors in the order in which [`super::tensors::of_layer`] lists them.
struct Cutter<'a, 'b> {
    tensors: std::slice::Iter<'a, LayerTensor>,
    weights: std::slice::Iter<'b, &'a [u8]>,
}

impl<'a> Cutter<'a, '_> {
    fn next(&mut self) -> (&'a LayerTensor, &'a [u8]) {
        let tensor = self.tensors.next().expect("a layer has all of its tensors: this is a bug");
        (tensor, self.weights.next().copied().unwrap_or_default())
    }

    fn vector(&mut self) -> Cow<'a, [f32]> {
        numbers(self.next().1)
    }

    fn optional(&mut self, wanted: bool) -> Cow<'a, [f32]> {
        if wanted { self.vector() } else { Cow::Borrowed(&[]) }
    }

    /// Several vectors that are stored as one.
    fn split_vector<const N: usize>(&mut self, lengths: [usize; N]) -> [Cow<'a, [f32]>; N] {
        let whole = self.vector();
        let mut first = 0;
        lengths.map(|length| {
            let part = first..first + length;
            first = part.end;
            match &whole {
                Cow::Borrowed(all) => Cow::Borrowed(&all[part]),
                Cow::Owned(all) => Cow::Owned(all[part].to_vec()),
            }
        })
    }

    fn whole(&mut self) -> (Matrix<'a>, usize, usize) {
        let (LayerTensor { tensor, .. }, bytes) = self.next();
        let (inputs, outputs) = (tensor.shape[0], tensor.shape[1]);
        (matrix(tensor.format, bytes, outputs, inputs), inputs, outputs)
    }

    fn linear(&mut self) -> Linear<'a> {
        let (weight, inputs, outputs) = self.whole();
        Linear { weight, bias: None, inputs, outputs }
    }

    /// Several matrices that are stored as one, of so many outputs each.
    fn split<const N: usize>(&mut self, sizes: [usize; N]) -> [Linear<'a>; N] {
        let (whole, inputs, _) = self.whole();
        let mut first = 0;
        sizes.map(|outputs| {
            let weight = whole.rows(first..first + outputs, inputs);
            first += outputs;
            Linear { weight, bias: None, inputs, outputs }
        })
    }
}

impl LanguageModel {
    fn cut<'a>(&'a self, layer: usize, weights: &[&'a [u8]]) -> Cut<'a> {
        let tensors = &self.layers[layer];
        let has = |part| tensors.iter().any(|it| it.part == part);
        let family = self.config.family;
        let mut cut = Cutter { tensors: tensors.iter(), weights: weights.iter() };
        let mixer_norm = cut.vector();
        let mixer_norm_bias = cut.optional(family.is_parallel());
        let mixer = if has(TensorPart::ConvolutionInput) {
            let (input, kernel) = (cut.linear(), cut.vector());
            Mixer::Convolution(Convolution { input, kernel, output: cut.linear() })
        } else {
            Mixer::Attention(self.cut_attention(has(TensorPart::QueryKeyValue), &mut cut))
        };
        if family.is_parallel() {
            return Cut {
                mixer_norm,
                mixer_norm_bias,
                mixer,
                feed_forward_norm: Cow::Borrowed(&[]),
                feed_forward: FeedForward::Beside([(); 2].map(|()| (cut.linear(), cut.vector()))),
            };
        }
        let feed_forward_norm = cut.vector();
        let wide = self.config.intermediate_size;
        let feed_forward = if has(TensorPart::Router) {
            FeedForward::Experts(cut.linear())
        } else {
            let [gate, up] = if has(TensorPart::GateUp) {
                cut.split([wide, wide])
            } else {
                [(); 2].map(|()| cut.linear())
            };
            let down = cut.linear();
            let post_norm = cut.optional(family.normalizes_parts());
            FeedForward::Dense { gate, up, down, post_norm }
        };
        Cut { mixer_norm, mixer_norm_bias, mixer, feed_forward_norm, feed_forward }
    }

    fn cut_attention<'a>(&self, as_one: bool, cut: &mut Cutter<'a, '_>) -> Attention<'a> {
        let (shape, family) = (self.attention_shape(), self.config.family);
        let [query, key, value] = if as_one {
            cut.split([shape.width(), shape.kv_width(), shape.kv_width()])
        } else {
            [(); 3].map(|()| cut.linear())
        };
        let normed = family.normalizes_heads();
        Attention {
            query,
            key,
            value,
            biases: match self.config.has_biases {
                true if as_one => {
                    cut.split_vector([shape.width(), shape.kv_width(), shape.kv_width()])
                }
                biased => [(); 3].map(|()| cut.optional(biased)),
            },
            head_norms: [(); 2].map(|()| cut.optional(normed)),
            output: cut.linear(),
            output_bias: cut.optional(family.is_parallel()),
            post_norm: cut.optional(family.normalizes_parts()),
        }
    }

    /// Layer `layer` of the tokens at positions `first…`, whose states `hidden` `[tokens, hidden_size]` it replaces;
    /// what later tokens need of them goes into `cache`, which holds that of all tokens before. `weights` are the
    /// layer's tensors as the file has them, in the order of [`layers`](Self::layers). [`turn`](Self::turn) was called
    /// for these positions. With [`Rounding::AsMany`] what a token gets depends on itself and those before it alone,
    /// not on how many are read at a time. With [`Rounding::AsOne`] it gets what it would get in a pass of its own.
    ///
    /// Where the feed-forward layer is a mixture, its experts have then to be asked: those that are
    /// [`wanted`](Self::wanted), each by [`expert`](Self::expert) in any order, and at last
    /// [`add_experts`](Self::add_experts).
    ///
    /// # Panics
    /// When the cache or the scratch are too small, the weights are not the layer's, or there are more tokens than are
    /// taken as one: the caller's bug.
    pub fn layer(
        &self,
        layer: usize,
        weights: &[&[u8]],
        first: usize,
        hidden: &mut [f32],
        cache: &mut KvCache,
        scratch: &mut LanguageScratch,
        rounding: Rounding,
    ) {
        let cut = self.cut(layer, weights);
        let multiply = Multiply { rounding, ..self.multiply };
        let normalized = &mut scratch.narrow[..hidden.len()];
        self.norm_rows(hidden, &cut.mixer_norm, &cut.mixer_norm_bias, normalized);
        if let FeedForward::Beside(products) = &cut.feed_forward {
            // First: attention leaves nothing of the states that both read.
            feed_forward_beside(products, hidden, scratch, multiply);
        }
        match &cut.mixer {
            Mixer::Attention(attention) => {
                self.attend(layer, attention, first, hidden, cache, scratch, multiply);
            }
            Mixer::Convolution(convolution) => {
                self.convolve(layer, convolution, first, hidden, cache, scratch, multiply);
            }
        }
        let norm = &cut.feed_forward_norm;
        match &cut.feed_forward {
            FeedForward::Dense { gate, up, down, post_norm } => {
                self.feed_forward(norm, [gate, up, down], post_norm, hidden, scratch, multiply);
            }
            FeedForward::Experts(router) => self.route(hidden, norm, router, scratch, rounding),
            FeedForward::Beside(_) => {}
        }
    }

    /// Attention of the normalized states in `scratch.narrow`, and its residual.
    fn attend(
        &self,
        layer: usize,
        attention: &Attention<'_>,
        first: usize,
        hidden: &mut [f32],
        cache: &mut KvCache,
        scratch: &mut LanguageScratch,
        multiply: Multiply,
    ) {
        let span = Operation::Qkv.enter();
        let shape = self.attention_shape();
        let (tokens, stride) = (hidden.len() / self.config.hidden_size, shape.qkv_width());
        self.project(layer, attention, tokens, scratch, multiply);
        let qkv = &scratch.wide[..tokens * stride];
        cache.store(layer, first, shape, qkv);
        drop(span);
        let span = Operation::Attention.enter();
        let (keys, values) = cache.layer(layer);
        let local = self.config.is_local(layer);
        let work = CachedAttention {
            queries: Rows { data: qkv, stride, offset: 0 },
            keys,
            values,
            first,
            shape,
            window: self.config.sliding_window.filter(|_| local),
            scale: self.config.attention_scale(),
            softcap: self.config.attention_softcap,
            precision: multiply.precision,
            rounding: multiply.rounding,
        };
        let context = &mut scratch.narrow[..tokens * shape.width()];
        cached_attention(work, context, &mut scratch.scores);
        drop(span);
        self.after_attention(attention, hidden, scratch, multiply);
    }

    /// Queries, keys and values of the normalized states in `scratch.narrow`, normalized and rotated, in
    /// `scratch.wide`.
    fn project(
        &self,
        layer: usize,
        attention: &Attention<'_>,
        tokens: usize,
        scratch: &mut LanguageScratch,
        multiply: Multiply,
    ) {
        let (shape, config) = (self.attention_shape(), &self.config);
        let (width, kv_width, stride) = (shape.width(), shape.kv_width(), shape.qkv_width());
        let normalized = &scratch.narrow[..tokens * config.hidden_size];
        let qkv = &mut scratch.wide[..tokens * stride];
        let [query, key, value] = &attention.biases;
        let parts = [
            with_bias(&attention.query, query, 0),
            with_bias(&attention.key, key, width),
            with_bias(&attention.value, value, width + kv_width),
        ];
        let inputs = config.hidden_size;
        multiply.parts(normalized, inputs, &parts, (&mut *qkv, stride), &mut scratch.panels);
        let [query_norm, key_norm] = &attention.head_norms;
        if !query_norm.is_empty() {
            let epsilon = config.norm_eps;
            rms_norm_heads(qkv, stride, 0, width, query_norm, epsilon);
            rms_norm_heads(qkv, stride, width, kv_width, key_norm, epsilon);
        }
        if config.is_rotary(layer) {
            let (cos, sin) = scratch.rotary.of(config.is_local(layer));
            let neighbors = config.rotates_neighbors();
            let rotation = Rotation {
                stride,
                first: 0,
                // Queries and keys lie side by side and are rotated alike.
                columns: width + kv_width,
                cu_seqlens: &[0, tokens],
                first_position: 0,
                head: config.head_dim,
                half: config.rotary_dim / 2,
                cos,
                sin,
                pairs: if neighbors { Pairs::Neighbors } else { Pairs::Halves },
            };
            rotate(qkv, rotation);
        }
    }

    /// Projection and its residual, of the states whose attention is in `scratch.narrow`.
    fn after_attention(
        &self,
        attention: &Attention<'_>,
        hidden: &mut [f32],
        scratch: &mut LanguageScratch,
        multiply: Multiply,
    ) {
        let LanguageScratch { wide, narrow, panels, .. } = scratch;
        let config = &self.config;
        let (tokens, epsilon) = (hidden.len() / config.hidden_size, config.norm_eps);
        let _span = Operation::Output.enter();
        let context = &narrow[..tokens * self.attention_shape().width()];
        let normed = !attention.post_norm.is_empty();
        if normed {
            let added = &mut wide[..hidden.len()];
            multiply.one(context, &attention.output, Finish::Store, added, panels);
            let normalized = &mut narrow[..hidden.len()];
            rms_norm(added, &attention.post_norm, epsilon, normalized);
            add(hidden, normalized);
        } else {
            let parts = [with_bias(&attention.output, &attention.output_bias, 0)];
            let (inputs, stride) = (attention.output.inputs, config.hidden_size);
            multiply.parts_to(context, inputs, &parts, Finish::Add(1.0), (hidden, stride), panels);
        }
    }

    /// The gated feed-forward layer and its residual.
    fn feed_forward(
        &self,
        norm: &[f32],
        [gate_matrix, up, down]: [&Linear<'_>; 3],
        post_norm: &[f32],
        hidden: &mut [f32],
        scratch: &mut LanguageScratch,
        multiply: Multiply,
    ) {
        let LanguageScratch { wide, narrow, panels, .. } = scratch;
        let config = &self.config;
        let (tokens, epsilon) = (hidden.len() / config.hidden_size, config.norm_eps);
        let _span = Operation::FeedForward.enter();
        let normalized = &mut narrow[..hidden.len()];
        rms_norm(hidden, norm, epsilon, normalized);
        let gate = &mut wide[..tokens * config.intermediate_size];
        let kind = if config.family.is_gemma() { Gate::GeluTanh } else { Gate::Silu };
        multiply.one(normalized, gate_matrix, Finish::Store, gate, panels);
        multiply.one(normalized, up, Finish::Gate(kind), gate, panels);
        if post_norm.is_empty() {
            multiply.one(gate, down, Finish::Add(1.0), hidden, panels);
        } else {
            multiply.one(gate, down, Finish::Store, normalized, panels);
            let added = &mut wide[..hidden.len()];
            rms_norm(normalized, post_norm, epsilon, added);
            add(hidden, added);
        }
    }
}

/// The feed-forward layer of the normalized states in `scratch.narrow`, added to `hidden`: what attention reads stays.
fn feed_forward_beside(
    [up, down]: &[(Linear<'_>, Cow<'_, [f32]>); 2],
    hidden: &mut [f32],
    scratch: &mut LanguageScratch,
    multiply: Multiply,
) {
    let _span = Operation::FeedForward.enter();
    let LanguageScratch { wide, narrow, panels, .. } = scratch;
    let (width, inner) = (up.0.inputs, up.0.outputs);
    let widened = &mut wide[..hidden.len() / width * inner];
    let parts = [with_bias(&up.0, &up.1, 0)];
    let normalized = &narrow[..hidden.len()];
    multiply.parts_to(normalized, width, &parts, Finish::GeluTanh, (&mut *widened, inner), panels);
    let parts = [with_bias(&down.0, &down.1, 0)];
    multiply.parts_to(widened, inner, &parts, Finish::Add(1.0), (hidden, width), panels);
}

/// A product with a bias that may be empty.
fn with_bias<'a>(linear: &Linear<'a>, bias: &'a [f32], offset: usize) -> Part<'a> {
    Part { bias: (!bias.is_empty()).then_some(bias), ..linear.at(offset) }
}

fn add(to: &mut [f32], values: &[f32]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += value;
    }
}
