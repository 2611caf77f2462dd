//! Memory that a layer needs beyond its input.

use riddle_kernels::{
    AttentionShape, PanelUse, Panels, Precision, attention_scratch_len, disentangled_scratch_len,
    panel_len, zeros,
};
use riddle_weights::{Format, LayeredCheckpoint};

/// What a layer of a model needs, per token and per thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ScratchShape {
    /// f32 elements per token of queries, keys and values, or of the feed-forward layer, whatever is more:
    /// they are not needed at the same time.
    pub wide: usize,
    /// f32 elements per token of normalized input, or of what attention or a projection gives.
    pub narrow: usize,
    /// Inputs of the widest product.
    pub panel_inputs: usize,
    /// Whether products of the layers' weights need memory to widen panels in.
    pub panel_use: PanelUse,
    /// Sizes of attention.
    pub attention: AttentionShape,
    /// Each kind of rotary positions.
    pub rotary: Vec<RotaryShape>,
    /// Distances between tokens, where scores depend on them.
    pub relative: Option<RelativeShape>,
}

/// Distances between tokens that scores depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeShape {
    /// Distances that are told apart, each with a key and a query.
    pub rows: usize,
}

/// A kind of rotary positions: the i-th of d/2 frequencies is θ^(−2i/d) / divisor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RotaryShape {
    /// Elements of half a head, d/2.
    pub half: usize,
    /// Base of the frequencies, θ.
    pub theta: f32,
    /// What stretches positions beyond their base; 1 where nothing does.
    pub divisor: f32,
}

impl RotaryShape {
    /// Positions as they are.
    pub fn plain(half: usize, theta: f32) -> RotaryShape {
        RotaryShape { half, theta, divisor: 1.0 }
    }
}

/// Tokens and threads that [`Scratch`] is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScratchSize {
    /// Tokens of the largest micro-batch.
    pub tokens: usize,
    /// Tokens of the longest sequence, with the prefix it shares with others.
    pub longest: usize,
    /// Threads that compute.
    pub threads: usize,
}

impl ScratchShape {
    /// Bytes of a [`Scratch`] of this size, known before it is made.
    pub fn bytes(&self, size: ScratchSize) -> u64 {
        let panels = match self.panel_inputs {
            0 => 0,
            inputs => panel_len(inputs, size.threads, self.panel_use),
        };
        let rotary: usize = self.rotary.iter().map(|it| 2 * it.half * size.longest).sum();
        let elements = size.tokens * (self.wide + self.narrow)
            + self.scores(size)
            + self.relative()
            + panels
            + rotary;
        (elements * size_of::<f32>()) as u64
    }
}

impl ScratchShape {
    /// Elements that attention needs.
    fn scores(&self, ScratchSize { longest, threads, .. }: ScratchSize) -> usize {
        match self.relative {
            None => attention_scratch_len(self.attention, longest, threads),
            Some(it) => disentangled_scratch_len(self.attention, longest, it.rows, threads),
        }
    }

    /// Elements of keys and queries of distances.
    fn relative(&self) -> usize {
        self.relative.map_or(0, |it| 2 * it.rows * self.attention.width())
    }
}

/// Memory of one layer for the largest micro-batch, allocated once; peak memory is a sum one can read.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) wide: Vec<f32>,
    pub(crate) narrow: Vec<f32>,
    /// Attention scores of a block of queries, per thread.
    pub(crate) scores: Vec<f32>,
    pub(crate) panels: Panels,
    pub(crate) rotary: Vec<Rotary>,
    /// Keys of distances, then queries.
    pub(crate) relative: Vec<f32>,
    bytes: u64,
}

impl Scratch {
    /// Scratch of that shape and size.
    pub fn new(shape: &ScratchShape, size: ScratchSize) -> Scratch {
        Scratch {
            wide: zeros(size.tokens * shape.wide),
            narrow: zeros(size.tokens * shape.narrow),
            scores: zeros(shape.scores(size)),
            panels: Panels::new(shape.panel_inputs, size.threads, shape.panel_use),
            rotary: shape.rotary.iter().map(|it| Rotary::new(*it, size.longest)).collect(),
            relative: zeros(shape.relative()),
            bytes: shape.bytes(size),
        }
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Cosines and sines of rotary positions.
#[derive(Debug)]
pub(crate) struct Rotary {
    pub(crate) half: usize,
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
}

impl Rotary {
    fn new(RotaryShape { half, theta, divisor }: RotaryShape, positions: usize) -> Rotary {
        // In single precision where the reference is: an angle of thousands has few digits left, and they
        // must be the same ones.
        let frequency = |i: usize| 1.0 / theta.powf((2 * i) as f32 / (2 * half) as f32) / divisor;
        let frequencies: Vec<f32> = (0..half).map(frequency).collect();
        let angles = |f: fn(f32) -> f32| -> Vec<f32> {
            let of = |position: usize| {
                frequencies.iter().map(move |frequency| f(position as f32 * frequency))
            };
            (0..positions).flat_map(of).collect()
        };
        Rotary { half, cos: angles(f32::cos), sin: angles(f32::sin) }
    }
}

/// What the products of these layers need: packed bytes are multiplied as they are, all else is widened.
pub(crate) fn panel_use(layers: &LayeredCheckpoint) -> PanelUse {
    let packed = |format| format == Format::Int8;
    // Vectors are no products: a layer's matrices are all that is not one row of f32.
    let mut matrices = layers.layers().iter().flat_map(|it| it.matrix_formats());
    if matrices.all(packed) { PanelUse::Packed } else { PanelUse::Any }
}

/// Numbers that attention multiplies: where products multiply bytes, what they give has fewer digits than bf16
/// anyway.
pub(crate) fn attention_precision(layers: &LayeredCheckpoint, products: Precision) -> Precision {
    if panel_use(layers) == PanelUse::Packed { Precision::Bf16 } else { products }
}
