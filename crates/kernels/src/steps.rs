//! Products of bytes for processors that add two of them in 16 bits (AVX2's `vpmaddubsw`).
//!
//! That instruction multiplies unsigned bytes, the activations, with signed ones, the weights, and adds neighbors. What
//! it adds must stay within 16 bits: 255 · 128 < 2¹⁵, so whatever the activations, it does where positive weights, and
//! negative ones, add up to no more than 128. Weights are *light* where that holds for the four of each *step* of two
//! lanes. Their products are added before they are widened to 32 bits: five instructions do what takes eight with
//! numbers of 16 bits, and the sums are those of every other kernel, to the bit.
//!
//! All that [`pack_int8`](crate::pack_int8) packs is light. What was packed before, or by somebody else, may not be.

use crate::{int8::QUAD, micro::PANEL};

/// Lanes of inputs whose products are added in 16 bits.
pub(crate) const STEP_LANES: usize = 2;

/// Lanes of a step's weights.
pub(crate) const STEP: usize = STEP_LANES * PANEL;

/// What positive weights, and negative ones, may add up to where their products are added in 16 bits.
pub(crate) const MOST_WEIGHT: i16 = 128;

/// Whether panels of an even number of lanes are light.
pub(crate) fn are_light(panels: &[i8]) -> bool {
    // A few at a time: the first heavy one is the answer.
    const STEPS: usize = 256;
    // SAFETY: any four bytes are a lane; panels begin at multiples of four, so that nothing is left out.
    let (_, lanes, _) = unsafe { panels.align_to::<u32>() };
    lanes.as_chunks::<STEP>().0.chunks(STEPS).all(|it| heaviest(it) <= MOST_WEIGHT)
}

/// The largest sum of positive weights, or of negative ones, that are added in 16 bits.
fn heaviest(steps: &[[u32; STEP]]) -> i16 {
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx2() {
        // SAFETY: the processor has AVX2.
        return unsafe { crate::x86::heaviest(steps) };
    }
    heaviest_step(steps)
}

/// As [`heaviest`], without intrinsics.
fn heaviest_step(steps: &[[u32; STEP]]) -> i16 {
    let of = |step: &[u32; STEP]| {
        let (first, second) = step.split_at(PANEL);
        let lanes = first.iter().zip(second);
        lanes.map(|(a, b)| weight_of(a.to_le_bytes(), b.to_le_bytes())).fold(0, i16::max)
    };
    steps.iter().map(of).fold(0, i16::max)
}

/// The larger of what the lower pairs of two lanes weigh, and their upper ones.
fn weight_of(first: [u8; 4], second: [u8; 4]) -> i16 {
    let of = |pair: usize| {
        let (mut positive, mut negative) = (0, 0);
        for place in meeting(2 * QUAD, pair) {
            let byte = if place < QUAD { first[place] } else { second[place - QUAD] };
            let weight = i16::from(byte as i8);
            positive += weight.max(0);
            negative -= weight.min(0);
        }
        positive.max(negative)
    };
    of(0).max(of(1))
}

/// Which of a step's inputs, `count` of eight, meet in 16 bits: of both lanes the first pairs, or the last ones.
pub(crate) fn meeting(count: usize, pair: usize) -> impl Iterator<Item = usize> {
    (0..count).filter(move |it| it % QUAD / 2 == pair)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Panels as lanes, and as the bytes that they are.
    fn panels(steps: usize, byte: impl Fn(usize) -> i8) -> (Vec<u32>, Vec<i8>) {
        let lane = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|j| byte(4 * i + j) as u8));
        let lanes: Vec<u32> = (0..steps * STEP).map(lane).collect();
        let bytes = lanes.iter().flat_map(|it| it.to_le_bytes()).map(|it| it as i8).collect();
        (lanes, bytes)
    }

    proptest! {
        /// Whatever the weights: the intrinsics weigh as the loop does, and light ones never leave 16 bits.
        #[test]
        fn light_weights_stay_within_sixteen_bits(
            seed in prop::collection::vec(any::<i8>(), 53), most in 1i8..=127,
            activations in prop::collection::vec(any::<u8>(), 8),
        ) {
            let (lanes, _) = panels(3, |i| seed[(i * 7 + i / 19) % 53].clamp(-most, most));
            let steps = lanes.as_chunks::<STEP>().0;
            prop_assert_eq!(heaviest(steps), heaviest_step(steps));
            for step in steps.iter().filter(|it| heaviest_step(&[**it]) <= MOST_WEIGHT) {
                for (first, second) in step[..PANEL].iter().zip(&step[PANEL..]) {
                    let weights = [first.to_le_bytes(), second.to_le_bytes()].concat();
                    for pair in 0..2 {
                        let product = |it: usize| i32::from(activations[it]) * i32::from(weights[it] as i8);
                        let sum: i32 = meeting(8, pair).map(product).sum();
                        prop_assert!(i16::try_from(sum).is_ok(), "{}", sum);
                    }
                }
            }
        }
    }

    #[test]
    fn four_of_thirty_two_are_light_and_one_more_is_not() {
        let light =
            |byte: &dyn Fn(usize) -> i8| heaviest(panels(2, byte).0.as_chunks().0) <= MOST_WEIGHT;
        assert!(light(&|_| 32) && light(&|_| -32));
        assert!(!light(&|i| if i == 200 { 33 } else { 32 }));
        assert!(light(&|i| if i % 2 == 0 { 64 } else { -64 }));
        assert!(!light(&|_| -128));
    }
}
