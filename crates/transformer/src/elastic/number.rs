//! What a shard's weights are: bytes of the int8 layout, which is what the product has, or numbers of single
//! precision, as the paper has them.

use std::ops::Range;

use bytemuck::Pod;
use riddle_kernels::{DICT_ENTRIES, unpack_bytes, unpack_f32};
use riddle_weights::ShardNumbers;

/// Outputs of a block of the int8 layout, and rows that are widened together of numbers.
pub(super) const BLOCK: usize = 16;

/// Bins that numbers are put into when a dictionary is found: each is a thousandth of a deviation wide, which is 60 dB
/// below what six bits lose.
const BINS: usize = 1 << 14;

/// A weight as a shard has it.
pub(super) trait ShardNumber: Pod + Send + Sync + PartialEq {
    /// How a shape calls it.
    const NUMBERS: ShardNumbers;

    /// In units of its output's scale.
    fn value(self) -> f64;

    /// The nearest to an entry that was computed.
    fn nearest(entry: f64) -> Self;

    /// The bins of weights between two.
    fn bins(least: f64, most: f64) -> Bins;

    /// Widens packed indexes to their entries.
    fn unpack(bits: u32, packed: &[u8], table: &[Self; DICT_ENTRIES], out: &mut [Self]);

    /// An outlier's place in its shard, and what it is.
    fn read_outlier(raw: &[u8]) -> (usize, Self);

    /// The reverse, to the end of `out`.
    fn write_outlier(self, place: usize, out: &mut Vec<u8>);

    /// Output and input of each weight of a slice, in the order in which a shard has them.
    fn places(
        outputs: Range<usize>,
        inputs: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize)> + use<Self>;

    /// How a slice of `inputs` inputs of a matrix that is cut by inputs lies in a layer of `width` slices.
    fn runs(inputs: usize, width: usize) -> Runs;
}

/// How the weights of a slice lie in an assembled matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runs {
    /// Weights that are widened together: whole groups of indexes.
    pub(super) group: usize,
    /// Weights that lie together in both.
    pub(super) piece: usize,
    /// From one piece to the next in the matrix.
    pub(super) stride: usize,
}

/// Bins of a histogram: values that ascend by equal steps.
#[derive(Debug, Clone)]
pub(super) struct Bins {
    pub(super) values: Vec<f64>,
    least: f64,
    step: f64,
}

impl Bins {
    fn of(least: f64, step: f64, count: usize) -> Bins {
        Bins { values: (0..count).map(|it| least + step * it as f64).collect(), least, step }
    }

    /// The bin of a value; beyond both ends the last.
    pub(super) fn place(&self, value: f64) -> usize {
        // A negative number becomes 0.
        (((value - self.least) / self.step).round() as usize).min(self.values.len() - 1)
    }
}

impl ShardNumber for i8 {
    const NUMBERS: ShardNumbers = ShardNumbers::Int8;

    fn value(self) -> f64 {
        f64::from(self)
    }

    fn nearest(entry: f64) -> i8 {
        entry.round().clamp(-127.0, 127.0) as i8
    }

    fn bins(_: f64, _: f64) -> Bins {
        Bins::of(-128.0, 1.0, 256)
    }

    fn unpack(bits: u32, packed: &[u8], table: &[i8; DICT_ENTRIES], out: &mut [i8]) {
        unpack_bytes(bits, packed, table, out);
    }

    fn read_outlier(raw: &[u8]) -> (usize, i8) {
        let word = raw.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        ((word >> 8) as usize, (word as u8).cast_signed())
    }

    fn write_outlier(self, place: usize, out: &mut Vec<u8>) {
        let word = (place as u32) << 8 | u32::from(self.cast_unsigned());
        out.extend_from_slice(&word.to_le_bytes());
    }

    /// `[outputs / 16][inputs / 4][16][4]`, as products read them.
    fn places(
        outputs: Range<usize>,
        inputs: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize)> + use<> {
        outputs.step_by(BLOCK).flat_map(move |block| {
            inputs.clone().step_by(4).flat_map(move |quad| {
                (block..block + BLOCK)
                    .flat_map(move |output| (quad..quad + 4).map(move |input| (output, input)))
            })
        })
    }

    fn runs(inputs: usize, width: usize) -> Runs {
        let block = BLOCK * inputs;
        Runs { group: block, piece: block, stride: block * width }
    }
}

impl ShardNumber for f32 {
    const NUMBERS: ShardNumbers = ShardNumbers::F32;

    fn value(self) -> f64 {
        f64::from(self)
    }

    fn nearest(entry: f64) -> f32 {
        entry as f32
    }

    fn bins(least: f64, most: f64) -> Bins {
        let step = (most - least) / (BINS - 1) as f64;
        // Weights that are all alike have one bin.
        if step > 0.0 { Bins::of(least, step, BINS) } else { Bins::of(least, 1.0, 1) }
    }

    fn unpack(bits: u32, packed: &[u8], table: &[f32; DICT_ENTRIES], out: &mut [f32]) {
        unpack_f32(bits, packed, table, out);
    }

    fn read_outlier(raw: &[u8]) -> (usize, f32) {
        let words = raw.as_chunks::<4>().0;
        let place = words.first().map_or(0, |it| u32::from_le_bytes(*it));
        (place as usize, words.get(1).map_or(0.0, |it| f32::from_le_bytes(*it)))
    }

    fn write_outlier(self, place: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(place as u32).to_le_bytes());
        out.extend_from_slice(&self.to_le_bytes());
    }

    /// Row after row.
    fn places(
        outputs: Range<usize>,
        inputs: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize)> + use<> {
        outputs.flat_map(move |output| inputs.clone().map(move |input| (output, input)))
    }

    fn runs(inputs: usize, width: usize) -> Runs {
        Runs { group: BLOCK * inputs, piece: inputs, stride: inputs * width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_read_as_they_are_written() {
        let mut raw = Vec::new();
        (-127i8).write_outlier(0x00ab_cdef, &mut raw);
        assert_eq!(raw.len(), ShardNumbers::Int8.outlier_bytes());
        assert_eq!(i8::read_outlier(&raw), (0x00ab_cdef, -127));
        let mut raw = Vec::new();
        (-1.5f32).write_outlier(77, &mut raw);
        assert_eq!(raw.len(), ShardNumbers::F32.outlier_bytes());
        assert_eq!(f32::read_outlier(&raw), (77, -1.5));
    }

    #[test]
    fn a_value_is_in_the_bin_that_is_nearest() {
        let bytes = i8::bins(0.0, 0.0);
        assert!((-128..=127).all(|it| bytes.values[bytes.place(f64::from(it))] == f64::from(it)));
        let numbers = f32::bins(-0.5, 0.25);
        for value in [-0.5, -0.1, 0.0, 0.123, 0.25] {
            let near = numbers.values[numbers.place(value)];
            assert!((near - value).abs() <= 0.75 / (BINS - 1) as f64, "{near} for {value}");
        }
        assert_eq!((numbers.place(-9.0), numbers.place(9.0)), (0, BINS - 1));
        assert_eq!(f32::bins(0.5, 0.5).place(0.5), 0);
    }
}
