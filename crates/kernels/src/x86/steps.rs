//! Products of bytes in steps ([`crate::steps`]) with AVX2.

use std::arch::x86_64::*;

use crate::{
    micro::{Micro, Operands},
    steps::{STEP, STEP_LANES},
};

/// Four rows: eight of the sixteen registers hold sums, four a step's weights.
pub(crate) const STEPS: Micro = Micro { rows: 4, offset: 128, ..Micro::new(step_tile) };

/// # Safety
/// As [`Micro::run`], with an even depth.
unsafe fn step_tile(operands: Operands) {
    // SAFETY: the caller's promise, and each version has as many rows as there are.
    unsafe {
        match operands.rows {
            1 => light::<1>(operands),
            2 => light::<2>(operands),
            3 => light::<3>(operands),
            4 => light::<4>(operands),
            other => unreachable!("a tile of {other} rows: this is a bug"),
        }
    }
}

type Rows<const ROWS: usize> = [[__m256i; 2]; ROWS];

/// Two lanes of inputs at a time.
///
/// # Safety
/// As [`Micro::run`], with an even depth.
#[target_feature(enable = "avx2")]
#[allow(clippy::needless_range_loop, reason = "iterating over arrays by value copies them")]
unsafe fn light<const ROWS: usize>(operands: Operands) {
    let Operands { a, stride, b, depth, .. } = operands;
    let ones = _mm256_set1_epi16(1);
    let mut sums: Rows<ROWS> = [[_mm256_setzero_si256(); 2]; ROWS];
    // SAFETY: the caller's promise.
    unsafe {
        for step in 0..depth / STEP_LANES {
            let weights = b.add(step * STEP).cast::<__m256i>();
            let first = [_mm256_loadu_si256(weights), _mm256_loadu_si256(weights.add(1))];
            let second = [_mm256_loadu_si256(weights.add(2)), _mm256_loadu_si256(weights.add(3))];
            for row in 0..ROWS {
                let lanes = a.add(row * stride + step * STEP_LANES).cast::<i32>();
                let (low, high) = (_mm256_set1_epi32(*lanes), _mm256_set1_epi32(*lanes.add(1)));
                for half in 0..2 {
                    let pairs = _mm256_add_epi16(
                        _mm256_maddubs_epi16(low, first[half]),
                        _mm256_maddubs_epi16(high, second[half]),
                    );
                    let products = _mm256_madd_epi16(pairs, ones);
                    sums[row][half] = _mm256_add_epi32(sums[row][half], products);
                }
            }
        }
        store(operands, &sums);
    }
}

/// # Safety
/// As [`Micro::run`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const ROWS: usize>(operands: Operands, sums: &Rows<ROWS>) {
    for (row, sums) in sums.iter().enumerate() {
        for (half, sum) in sums.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let out = operands.out.add(row * operands.out_stride + half * 8);
                _mm256_storeu_si256(out.cast(), *sum);
            }
        }
    }
}

/// As [`crate::steps`]' own.
#[target_feature(enable = "avx2")]
pub(crate) fn heaviest(steps: &[[u32; STEP]]) -> i16 {
    let (ones, zero) = (_mm256_set1_epi8(1), _mm256_setzero_si256());
    let mut most = zero;
    for step in steps {
        let registers = step.as_ptr().cast::<__m256i>();
        for half in 0..2 {
            // SAFETY: a step is four registers, two of each lane.
            let (first, second) = unsafe {
                let first = _mm256_loadu_si256(registers.add(half));
                (first, _mm256_loadu_si256(registers.add(2 + half)))
            };
            let positive = _mm256_add_epi16(
                _mm256_maddubs_epi16(_mm256_max_epi8(first, zero), ones),
                _mm256_maddubs_epi16(_mm256_max_epi8(second, zero), ones),
            );
            // There is no opposite of −128, but as an unsigned byte it is 128.
            let opposite = |it| _mm256_sub_epi8(zero, _mm256_min_epi8(it, zero));
            let negative = _mm256_add_epi16(
                _mm256_maddubs_epi16(opposite(first), ones),
                _mm256_maddubs_epi16(opposite(second), ones),
            );
            most = _mm256_max_epi16(most, _mm256_max_epi16(positive, negative));
        }
    }
    let mut lanes = [0i16; 16];
    // SAFETY: sixteen numbers of 16 bits are a register.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), most) };
    lanes.into_iter().fold(0, i16::max)
}
