//! The matrix product of a linear layer.

use std::sync::atomic::{AtomicUsize, Ordering};

use gemm::Parallelism;
use half::{
    f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};
use rayon::prelude::*;

use crate::dispatch::multiversion;

/// Where a product is written: rows of `stride` elements, of which the product fills `columns` from
/// `offset` on. Three products can so share one buffer (query | key | value).
#[derive(Debug)]
pub struct Output<'a> {
    /// The buffer, `rows × stride` elements or more.
    pub data: &'a mut [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// First column written.
    pub offset: usize,
}

impl<'a> Output<'a> {
    /// A buffer that the product fills wholly, row after row.
    pub fn dense(data: &'a mut [f32], columns: usize) -> Self {
        Output { data, stride: columns, offset: 0 }
    }
}

/// A weight matrix `[outputs, inputs]`, row by row as Hugging Face stores it, in the format it is kept in.
#[derive(Debug, Clone, Copy)]
pub enum Matrix<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision, as bits.
    F16(&'a [u16]),
    /// The upper halves of singles, as bits.
    Bf16(&'a [u16]),
}

impl Matrix<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Matrix::F32(values) => values.len(),
            Matrix::F16(bits) | Matrix::Bf16(bits) => bits.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// f32 elements of the panels of all threads together: 8 MiB. A product packs its input once per panel, so
/// panels want to be wide: 4 MiB for each of two threads hold 340 columns of 3 072, at which packing costs
/// a few percent.
const PANELS: usize = 2 << 20;

/// Fewest elements of a thread's panel: 1 MiB, beyond eight threads.
const SMALLEST_PANEL: usize = 256 << 10;

/// Elements of panel memory that products need on `threads` threads with two-byte weights of up to `inputs`
/// inputs. Products of f32 weights need none.
pub fn panel_len(inputs: usize, threads: usize) -> usize {
    let threads = threads.max(1);
    (PANELS / threads).max(SMALLEST_PANEL).max(inputs) * threads
}

/// Memory into which two-byte weights are widened, panel by panel, one panel for each thread.
#[derive(Debug, Default)]
pub struct Panels {
    memory: Vec<f32>,
    threads: usize,
}

impl Panels {
    /// Panels for `threads` threads; none when `inputs` is 0, for models of f32 weights alone.
    pub fn new(inputs: usize, threads: usize) -> Panels {
        let elements = if inputs == 0 { 0 } else { panel_len(inputs, threads) };
        Panels { memory: vec![0.0; elements], threads: threads.max(1) }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        (self.memory.len() * size_of::<f32>()) as u64
    }
}

/// `out = x · wᵀ + bias`.
///
/// Shapes: `x` `[rows, inputs]`, `weight` `[outputs, inputs]`, `bias` `[outputs]`, `out` `[rows, outputs]`
/// at its stride. Two-byte weights are widened on the way; all arithmetic is f32. Runs on the threads of
/// the current pool.
///
/// # Panics
/// When a slice is shorter than its shape says: the caller's bug.
pub fn linear(
    x: &[f32],
    weight: Matrix<'_>,
    bias: Option<&[f32]>,
    inputs: usize,
    outputs: usize,
    out: Output<'_>,
    panels: &mut Panels,
) {
    let product = Product::new(x, weight, inputs, outputs, &out);
    if let Some(bias) = bias {
        assert_eq!(bias.len(), outputs, "bias is not {outputs} long");
        for row in out.data.chunks_mut(out.stride).take(product.rows) {
            row[out.offset..out.offset + outputs].copy_from_slice(bias);
        }
    }
    product.run(out, bias.is_some(), 1.0, panels);
}

/// `out += scale · x · wᵀ`: a residual connection without a buffer between.
///
/// Shapes as for [`linear`], `out` without gaps.
///
/// # Panics
/// When a slice is shorter than its shape says: the caller's bug.
pub fn linear_add(
    x: &[f32],
    weight: Matrix<'_>,
    scale: f32,
    inputs: usize,
    outputs: usize,
    out: &mut [f32],
    panels: &mut Panels,
) {
    let out = Output::dense(out, outputs);
    Product::new(x, weight, inputs, outputs, &out).run(out, true, scale, panels);
}

/// A product whose shapes have been checked.
struct Product<'a> {
    x: &'a [f32],
    weight: Matrix<'a>,
    rows: usize,
    inputs: usize,
    outputs: usize,
}

impl<'a> Product<'a> {
    fn new(
        x: &'a [f32],
        weight: Matrix<'a>,
        inputs: usize,
        outputs: usize,
        out: &Output<'_>,
    ) -> Product<'a> {
        let rows = x.len() / inputs.max(1);
        let Output { data, stride, offset } = out;
        assert_eq!(x.len(), rows * inputs, "x is not rows × {inputs}");
        assert_eq!(weight.len(), outputs * inputs, "weight is not {outputs} × {inputs}");
        assert!(
            offset + outputs <= *stride,
            "{outputs} columns from {offset} do not fit rows of {stride}"
        );
        assert!(
            rows == 0 || data.len() >= (rows - 1) * stride + offset + outputs,
            "out holds fewer than {rows} rows"
        );
        Product { x, weight, rows, inputs, outputs }
    }

    fn run(&self, out: Output<'_>, keep: bool, scale: f32, panels: &mut Panels) {
        if self.rows == 0 || self.outputs == 0 {
            return;
        }
        let Output { data, stride, offset } = out;
        let place = Place { data: data.as_mut_ptr(), stride, keep, scale };
        match self.weight {
            Matrix::F32(weight) => self.plain(weight, place, offset),
            Matrix::F16(bits) => self.widened(bits, widen_f16, place, offset, panels),
            Matrix::Bf16(bits) => self.widened(bits, widen_bf16, place, offset, panels),
        }
    }

    /// Columns of the product in turns, shared out here and not by the library: its own threads meet several
    /// times in a product, ours once at its end, which is a tenth faster.
    fn plain(&self, weight: &[f32], place: Place, offset: usize) {
        let threads = rayon::current_num_threads();
        // One row is a matrix-vector product: threads would cost more than they bring.
        if self.rows == 1 || threads == 1 {
            // SAFETY: the checks of `new` bound every element that the strides reach: x is rows × inputs,
            // the weights outputs × inputs, the last written element is inside `data`, which is borrowed
            // mutably and so overlaps neither input.
            unsafe { self.columns(weight, self.outputs, place, offset) };
            return;
        }
        let width = self.outputs.div_ceil(threads).next_multiple_of(ALIGNED_COLUMNS);
        weight.par_chunks(width * self.inputs).enumerate().for_each(|(turn, weight)| {
            let count = weight.len() / self.inputs;
            // SAFETY: as above; no two turns write the same columns.
            unsafe { self.columns(weight, count, place, offset + turn * width) };
        });
    }

    /// Columns of the product in turns: each thread widens the weights of some into its panel and multiplies.
    fn widened(
        &self,
        bits: &[u16],
        widen: fn(&[u16], &mut [f32]),
        place: Place,
        offset: usize,
        panels: &mut Panels,
    ) {
        let threads = panels.threads;
        let per_thread = panels.memory.len() / threads;
        assert!(per_thread >= self.inputs, "panels are smaller than a row of {}", self.inputs);
        // As many turns as a multiple of the threads, all about as wide.
        let turns = self.outputs.div_ceil(per_thread / self.inputs).next_multiple_of(threads);
        let width = self.outputs.div_ceil(turns).next_multiple_of(ALIGNED_COLUMNS);
        let width = width.min(per_thread / self.inputs);
        let next = AtomicUsize::new(0);
        panels.memory.par_chunks_exact_mut(per_thread).for_each(|panel| {
            loop {
                let first = next.fetch_add(width, Ordering::Relaxed);
                if first >= self.outputs {
                    break;
                }
                let count = width.min(self.outputs - first);
                let panel = &mut panel[..count * self.inputs];
                widen(&bits[first * self.inputs..][..panel.len()], panel);
                // SAFETY: as in `plain`; no two turns write the same columns.
                unsafe { self.columns(panel, count, place, offset + first) };
            }
        });
    }

    /// Multiplies with `weight` `[count, inputs]` into `count` columns from `column` on.
    ///
    /// # Safety
    /// `place` holds `rows` rows at its stride with these columns in each, and nobody else uses them.
    unsafe fn columns(&self, weight: &[f32], count: usize, place: Place, column: usize) {
        // SAFETY: strides fit isize because the slices exist; the rest is the caller's promise.
        unsafe {
            gemm::gemm(
                self.rows,
                count,
                self.inputs,
                place.data.add(column),
                1,
                place.stride as isize,
                place.keep,
                self.x.as_ptr(),
                1,
                self.inputs as isize,
                weight.as_ptr(),
                self.inputs as isize,
                1,
                1.0,
                place.scale,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

/// Columns that a turn is a multiple of: one AVX-512 register of f32.
const ALIGNED_COLUMNS: usize = 16;

/// Where a product goes, shared by threads that write disjoint columns of it.
#[derive(Clone, Copy)]
struct Place {
    data: *mut f32,
    stride: usize,
    /// Adds to what is there.
    keep: bool,
    scale: f32,
}

// SAFETY: every turn writes columns of its own, and nobody reads before all have ended.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

multiversion! {
    /// Widens the upper halves of singles.
    fn widen_bf16(bits: &[u16], out: &mut [f32]) {
        for (value, &bits) in out.iter_mut().zip(bits) {
            *value = f32::from_bits(u32::from(bits) << 16);
        }
    }
}

/// Widens half precision; the library chooses its instructions at run time.
fn widen_f16(bits: &[u16], out: &mut [f32]) {
    bits.reinterpret_cast::<f16>().convert_to_f32_slice(out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(x: &[f32], weight: &[f32], bias: &[f32], inputs: usize, outputs: usize) -> Vec<f32> {
        x.chunks(inputs)
            .flat_map(|row| {
                weight
                    .chunks(inputs)
                    .zip(bias)
                    .take(outputs)
                    .map(move |(w, b)| b + row.iter().zip(w).map(|(a, b)| a * b).sum::<f32>())
            })
            .collect()
    }

    proptest! {
        #[test]
        fn equals_the_naive_product(
            (rows, inputs, outputs) in (1usize..9, 1usize..40, 1usize..40),
            seed in prop::collection::vec(-1f32..1.0, 64),
        ) {
            let fill = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| seed[(i * step + 7) % 64]).collect() };
            let (x, weight, bias) = (fill(rows * inputs, 5), fill(outputs * inputs, 3), fill(outputs, 11));
            let expected = naive(&x, &weight, &bias, inputs, outputs);
            // Written into the middle of wider rows, whose other columns stay as they were.
            let stride = outputs + 3;
            let mut data = vec![9.0; rows * stride];
            let mut none = Panels::default();
            linear(&x, Matrix::F32(&weight), Some(&bias), inputs, outputs, Output { data: &mut data, stride, offset: 2 }, &mut none);
            for (row, expected) in data.chunks(stride).zip(expected.chunks(outputs)) {
                for (a, b) in row[2..].iter().zip(expected) {
                    prop_assert!((a - b).abs() < 1e-4);
                }
                prop_assert_eq!((row[0], row[1], row[stride - 1]), (9.0, 9.0, 9.0));
            }
        }
    }

    #[test]
    fn no_rows_is_no_work() {
        let none = &mut Panels::default();
        linear(&[], Matrix::F32(&[1.0, 2.0]), None, 2, 1, Output::dense(&mut [], 1), none);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Two-byte weights, in as many turns as it takes, equal the same weights widened beforehand.
        #[test]
        fn narrow_weights_are_the_numbers_that_they_are(
            (rows, inputs, outputs) in (1usize..5, 1usize..30, 1usize..90), threads in 1usize..4,
            seed in prop::collection::vec(-1f32..1.0, 61), small in any::<bool>(), scale in -2f32..2.0,
        ) {
            let fill = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| seed[(i * step + 5) % 61]).collect() };
            let (x, bias) = (fill(rows * inputs, 5), fill(outputs, 11));
            let half: Vec<u16> = fill(outputs * inputs, 3).iter().map(|&it| f16::from_f32(it).to_bits()).collect();
            let brain: Vec<u16> = fill(outputs * inputs, 7).iter().map(|it| (it.to_bits() >> 16) as u16).collect();
            let mut panels = Panels::new(inputs, threads);
            if small {
                // A row or two a turn.
                panels.memory.truncate(threads * inputs * 2);
            }
            for matrix in [Matrix::F16(&half), Matrix::Bf16(&brain)] {
                let wide: Vec<f32> = match matrix {
                    Matrix::F16(bits) => bits.iter().map(|&it| f16::from_bits(it).to_f32()).collect(),
                    Matrix::Bf16(bits) => bits.iter().map(|&it| f32::from_bits(u32::from(it) << 16)).collect(),
                    Matrix::F32(_) => Vec::new(),
                };
                let expected = naive(&x, &wide, &bias, inputs, outputs);
                let mut data = vec![9.0; rows * outputs];
                linear(&x, matrix, Some(&bias), inputs, outputs, Output::dense(&mut data, outputs), &mut panels);
                for (a, b) in data.iter().zip(&expected) {
                    prop_assert!((a - b).abs() < 1e-4, "{a} {b}");
                }
                let zeros = vec![0.0; outputs];
                let product = naive(&x, &wide, &zeros, inputs, outputs);
                linear_add(&x, matrix, scale, inputs, outputs, &mut data, &mut panels);
                for ((a, b), p) in data.iter().zip(&expected).zip(&product) {
                    prop_assert!((a - (b + scale * p)).abs() < 1e-4, "{a} {b} {p}");
                }
            }
        }
    }

    #[test]
    fn every_version_widens_alike() {
        let bits: Vec<u16> = (0..u16::MAX).step_by(7).filter(|it| it & 0x7f80 != 0x7f80).collect();
        for version in widen_bf16::versions() {
            let mut out = vec![f32::NAN; bits.len()];
            version(&bits, &mut out);
            assert!(out.iter().zip(&bits).all(|(a, &b)| a.to_bits() == u32::from(b) << 16));
        }
    }
}
