//! How exactly a shard holds its weights, and how large that makes it (STI, §4.2).

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

/// Weights whose indexes are packed together; every run of a shard is a multiple of it.
const GROUP: usize = 64;

/// Alignment of a shard within its run: a cache line, so that no vector load straddles two.
pub(crate) const SHARD_ALIGNMENT: usize = 64;

/// Bits per weight of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Fidelity(u8);

impl Fidelity {
    /// The fewest: what a plan begins with.
    pub const LEAST: Fidelity = Fidelity(2);

    /// The codes of the int8 layout as they are.
    pub const INT8: Fidelity = Fidelity(8);

    /// Single precision.
    pub const F32: Fidelity = Fidelity(32);

    /// Those that are indexes into a dictionary.
    pub const DICTIONARIES: [Fidelity; 5] =
        [Fidelity(2), Fidelity(3), Fidelity(4), Fidelity(5), Fidelity(6)];

    /// Bits per weight.
    pub fn bits(self) -> u32 {
        u32::from(self.0)
    }

    /// Whether weights are indexes into a dictionary.
    pub fn is_dictionary(self) -> bool {
        self.0 <= 6
    }

    /// Entries of its dictionary; 0 without one.
    pub fn entries(self) -> usize {
        if self.is_dictionary() { 1 << self.0 } else { 0 }
    }
}

impl TryFrom<u8> for Fidelity {
    type Error = String;

    fn try_from(bits: u8) -> Result<Fidelity, String> {
        match bits {
            2..=6 | 8 | 32 => Ok(Fidelity(bits)),
            _ => Err(format!("there are no shards of {bits} bits")),
        }
    }
}

impl From<Fidelity> for u8 {
    fn from(fidelity: Fidelity) -> u8 {
        fidelity.0
    }
}

impl fmt::Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What shards are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardNumbers {
    /// Codes of the int8 layout, a scale for each output apart: what products multiply.
    Int8,
    /// Numbers of single precision, as the paper has them.
    F32,
}

impl ShardNumbers {
    /// Bytes of a weight as it is, and of an entry of a dictionary.
    pub fn bytes(self) -> usize {
        match self {
            ShardNumbers::Int8 => 1,
            ShardNumbers::F32 => 4,
        }
    }

    /// Bytes of an outlier: where it is, and the weight as it is.
    pub fn outlier_bytes(self) -> usize {
        match self {
            ShardNumbers::Int8 => 4,
            ShardNumbers::F32 => 8,
        }
    }

    /// The fidelity that loses nothing.
    pub fn exact(self) -> Fidelity {
        match self {
            ShardNumbers::Int8 => Fidelity::INT8,
            ShardNumbers::F32 => Fidelity::F32,
        }
    }
}

/// The six matrices of a layer, in the order in which a shard holds its part of each.
///
/// Of the first three and of the fifth a slice is a run of outputs, of the others a run of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardMatrix {
    /// Queries of the slice's head.
    Query,
    /// Its keys.
    Key,
    /// Its values.
    Value,
    /// What the head's values add to every hidden state.
    AttentionOutput,
    /// The slice's neurons.
    Intermediate,
    /// What the neurons add to every hidden state.
    Output,
}

impl ShardMatrix {
    /// All, in order.
    pub const ALL: [ShardMatrix; 6] = [
        ShardMatrix::Query,
        ShardMatrix::Key,
        ShardMatrix::Value,
        ShardMatrix::AttentionOutput,
        ShardMatrix::Intermediate,
        ShardMatrix::Output,
    ];

    /// Whether a slice is a run of outputs; else of inputs.
    pub fn is_cut_by_outputs(self) -> bool {
        !matches!(self, ShardMatrix::AttentionOutput | ShardMatrix::Output)
    }
}

/// How a model is cut: each layer into as many slices as it has heads, a slice being a head and its share of the
/// neurons of the feed-forward layer (§4.2, table 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardShape {
    /// What shards are made of.
    pub numbers: ShardNumbers,
    /// Layers.
    pub layers: usize,
    /// Slices of a layer.
    pub slices: usize,
    /// Width of the hidden states.
    pub hidden: usize,
    /// Neurons of a feed-forward layer.
    pub inner: usize,
}

impl ShardShape {
    /// Width of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden / self.slices.max(1)
    }

    /// Neurons of a slice.
    pub fn neurons(&self) -> usize {
        self.inner / self.slices.max(1)
    }

    /// Says why a model can not be cut so, if it can not.
    ///
    /// # Errors
    /// What does not divide, or is larger than any model.
    pub fn check(&self) -> Result<(), String> {
        let ShardShape { layers, slices, hidden, inner, .. } = *self;
        if layers == 0 || layers > 1024 || slices == 0 || slices > 256 {
            return Err(format!("{layers} layers of {slices} slices are no model"));
        }
        if hidden > 1 << 14 || inner > 1 << 16 {
            return Err(format!("hidden states of {hidden} and {inner} neurons are too many"));
        }
        let whole = |it: usize| it > 0 && it.is_multiple_of(16 * slices);
        if !whole(hidden) || !whole(inner) {
            // Blocks of the int8 layout have 16 outputs.
            return Err(format!(
                "hidden states of {hidden} and {inner} neurons are no {slices} slices of whole blocks of 16"
            ));
        }
        if self.elements() >= 1 << 24 {
            return Err("a slice has more weights than an outlier's place counts".to_owned());
        }
        Ok(())
    }

    /// Outputs and inputs of a slice of a matrix.
    pub fn part(&self, matrix: ShardMatrix) -> (usize, usize) {
        match matrix {
            ShardMatrix::Query | ShardMatrix::Key | ShardMatrix::Value => {
                (self.head_dim(), self.hidden)
            }
            ShardMatrix::AttentionOutput => (self.hidden, self.head_dim()),
            ShardMatrix::Intermediate => (self.neurons(), self.hidden),
            ShardMatrix::Output => (self.hidden, self.neurons()),
        }
    }

    /// Where a matrix's weights are among those of a shard.
    pub fn place(&self, matrix: ShardMatrix) -> Range<usize> {
        let mut start = 0;
        for it in ShardMatrix::ALL {
            let (outputs, inputs) = self.part(it);
            if it == matrix {
                return start..start + outputs * inputs;
            }
            start += outputs * inputs;
        }
        start..start
    }

    /// Weights of a shard.
    pub fn elements(&self) -> usize {
        4 * self.hidden * self.head_dim() + 2 * self.hidden * self.neurons()
    }

    /// Bytes of a shard's weights, without outliers.
    pub fn weight_bytes(&self, fidelity: Fidelity) -> usize {
        if fidelity.is_dictionary() {
            self.elements() / GROUP * (GROUP / 8) * fidelity.bits() as usize
        } else {
            self.elements() * self.numbers.bytes()
        }
    }

    /// Bytes of a shard.
    pub fn shard_bytes(&self, fidelity: Fidelity, outliers: usize) -> usize {
        self.weight_bytes(fidelity) + outliers * self.numbers.outlier_bytes()
    }

    /// Most outliers of a shard: beyond a sixteenth a dictionary would be the wrong tool.
    pub fn most_outliers(&self) -> usize {
        self.elements() / 16
    }

    /// Fidelities that a store of this shape has.
    pub fn fidelities(&self) -> impl Iterator<Item = Fidelity> + Clone + use<> {
        Fidelity::DICTIONARIES.into_iter().chain(std::iter::once(self.numbers.exact()))
    }

    /// f32 of a layer's small part: scales of the outputs of all matrices (for bytes), biases of the same, and gain
    /// and bias of both norms.
    pub fn small_numbers(&self) -> usize {
        let outputs = 5 * self.hidden + self.inner;
        let scales = if self.numbers == ShardNumbers::Int8 { outputs } else { 0 };
        scales + outputs + 4 * self.hidden
    }

    /// Bytes of a layer's dictionaries: for each width one of each matrix.
    pub fn dictionary_bytes(&self) -> usize {
        let entries: usize = Fidelity::DICTIONARIES.iter().map(|it| it.entries()).sum();
        entries * ShardMatrix::ALL.len() * self.numbers.bytes()
    }

    /// Bytes of a layer's small part: its numbers, then its dictionaries.
    pub fn small_bytes(&self) -> usize {
        self.small_numbers() * size_of::<f32>() + self.dictionary_bytes()
    }

    /// Where a small part holds the dictionary of a matrix.
    pub fn dictionary(&self, fidelity: Fidelity, matrix: ShardMatrix) -> Range<usize> {
        let (each, all) = (self.numbers.bytes(), ShardMatrix::ALL.len());
        let before: usize =
            Fidelity::DICTIONARIES.iter().filter(|it| **it < fidelity).map(|it| it.entries()).sum();
        let entries = fidelity.entries();
        let start = self.small_numbers() * size_of::<f32>()
            + (before * all + entries * matrix as usize) * each;
        start..start + entries * each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLED: ShardShape =
        ShardShape { numbers: ShardNumbers::Int8, layers: 4, slices: 12, hidden: 384, inner: 1536 };

    #[test]
    fn a_shard_of_the_bundled_model_is_as_large_as_computed_by_hand() {
        BUNDLED.check().expect("a model");
        assert_eq!(BUNDLED.elements(), 147_456);
        let bytes = |it| BUNDLED.shard_bytes(it, 0);
        let sizes: Vec<usize> = BUNDLED.fidelities().map(bytes).collect();
        assert_eq!(sizes, [36_864, 55_296, 73_728, 92_160, 110_592, 147_456]);
        assert_eq!(bytes(Fidelity::LEAST) + 4 * 10, BUNDLED.shard_bytes(Fidelity::LEAST, 10));
        let end = BUNDLED.place(ShardMatrix::Output).end;
        assert_eq!(end, BUNDLED.elements());
        // Dictionaries follow one another to the end of the small part.
        let last = BUNDLED.dictionary(Fidelity::DICTIONARIES[4], ShardMatrix::Output);
        assert_eq!((last.end, last.len()), (BUNDLED.small_bytes(), 64));
    }

    #[test]
    fn what_is_no_model_is_told() {
        for (shape, word) in [
            (ShardShape { slices: 0, ..BUNDLED }, "no model"),
            (ShardShape { slices: 7, ..BUNDLED }, "whole blocks"),
            (ShardShape { hidden: 1 << 20, ..BUNDLED }, "too many"),
            (ShardShape { hidden: 1 << 14, inner: 1 << 16, slices: 1, ..BUNDLED }, "more weights"),
        ] {
            let why = shape.check().expect_err("no shape of a model");
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn widths_are_read_as_they_are_written() {
        for bits in 0..=40u8 {
            let known = [2, 3, 4, 5, 6, 8, 32].contains(&bits);
            assert_eq!(Fidelity::try_from(bits).is_ok_and(|it| u8::from(it) == bits), known);
        }
    }
}
