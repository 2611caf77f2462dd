//! Products of bytes for processors that add two of them in 16 bits (AVX2's `vpmaddubsw`).
//!
//! That instruction multiplies unsigned bytes, the activations, with signed ones, the weights, and adds neighbors. What
//! it adds must stay within 16 bits: 255 · 128 < 2¹⁵, so whatever the activations, it does where positive weights, and
//! negative ones, add up to no more than 128. Where that holds for four weights, two lanes of inputs are added before
//! they are widened to 32 bits: five instructions do what takes eight with numbers of 16 bits. [`pack_int8`] leaves the
//! scale of a row as large as that needs, so that all panels it packs are *light*.
//!
//! Others (packed before, or by somebody else) are multiplied lane by lane, and a lane whose pairs are too heavy is cut
//! into two halves, which never are. All sums are those of every other kernel, to the bit.
//!
//! [`pack_int8`]: crate::pack_int8

use crate::micro::PANEL;

/// Lanes of inputs whose products are added in 16 bits.
pub(crate) const STEP_LANES: usize = 2;

/// Lanes of a step's weights.
pub(crate) const STEP: usize = STEP_LANES * PANEL;

/// What positive weights, and negative ones, may add up to where their products are added in 16 bits.
pub(crate) const MOST_WEIGHT: i16 = 128;

/// A panel as a kernel takes it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Steps<'a> {
    /// It is light: two lanes at a time, where they lie.
    Light(&'a [u32]),
    /// One lane at a time: weights `[steps][16]`, and of every step its lane of inputs.
    Lanes { weights: &'a [u32], places: &'a [u32] },
}

/// Lanes of room that a panel of `depth` lanes needs at most.
pub(crate) fn room(depth: usize) -> usize {
    2 * depth * (PANEL + 1)
}

/// Looks how a panel, lanes `[depth][16]`, may be multiplied.
pub(crate) fn steps<'a>(panel: &'a [u32], room: &'a mut [u32]) -> Steps<'a> {
    let (whole, rest) = panel.as_chunks::<STEP>();
    if rest.is_empty() && heaviest(whole) <= MOST_WEIGHT {
        return Steps::Light(panel);
    }
    let lanes = panel.as_chunks::<PANEL>().0;
    let (weights, places) = room.split_at_mut(2 * lanes.len() * PANEL);
    let mut count = 0;
    let mut push = |place: usize, lane: &[u32; PANEL]| {
        weights[count * PANEL..][..PANEL].copy_from_slice(lane);
        places[count] = place as u32;
        count += 1;
    };
    for (place, lane) in lanes.iter().enumerate() {
        if heaviest_pair(lane) <= MOST_WEIGHT {
            push(place, lane);
        } else {
            push(place, &lane.map(lower_half));
            push(place, &lane.map(upper_half));
        }
    }
    Steps::Lanes { weights: &weights[..count * PANEL], places: &places[..count] }
}

/// Halves of four weights, rounded down.
fn lower_half(lane: u32) -> u32 {
    u32::from_le_bytes(lane.to_le_bytes().map(|it| (it as i8 >> 1) as u8))
}

/// What is left of them.
fn upper_half(lane: u32) -> u32 {
    u32::from_le_bytes(lane.to_le_bytes().map(|it| (it as i8 - (it as i8 >> 1)) as u8))
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
        lanes.map(|(a, b)| weight_of(&[a.to_le_bytes(), b.to_le_bytes()])).fold(0, i16::max)
    };
    steps.iter().map(of).fold(0, i16::max)
}

/// The largest of a single lane.
fn heaviest_pair(lane: &[u32; PANEL]) -> i16 {
    lane.iter().map(|it| weight_of(&[it.to_le_bytes()])).fold(0, i16::max)
}

/// What the lower pairs of some lanes, or their upper ones, add up to at most.
fn weight_of(lanes: &[[u8; 4]]) -> i16 {
    let of = |pair: usize| {
        let weights = lanes.iter().flat_map(|it| [it[2 * pair], it[2 * pair + 1]]);
        heavier(weights.map(|it| it as i8))
    };
    of(0).max(of(1))
}

/// The sum of the positive ones, or of the magnitudes of the negative ones.
fn heavier(weights: impl Iterator<Item = i8>) -> i16 {
    let (mut positive, mut negative) = (0, 0);
    for weight in weights {
        let weight = i16::from(weight);
        positive += weight.max(0);
        negative -= weight.min(0);
    }
    positive.max(negative)
}

/// Which of a step's inputs, `count` of eight, meet in 16 bits: of both lanes the first pairs, or the last ones.
pub(crate) fn meeting(count: usize, pair: usize) -> impl Iterator<Item = usize> {
    (0..count).filter(move |it| it % 4 / 2 == pair)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lanes of weights, many of them extreme unless they are to be small.
    fn panel(depth: usize, small: bool, seed: &[u32]) -> Vec<u32> {
        let byte = |i: usize| {
            let number = seed[(i * 7 + i / 19) % seed.len()];
            match number % 5 {
                _ if small => (number % 65) as i8 - 32,
                0 => 127,
                1 => -128,
                2 => 0,
                _ => (number / 5 % 256) as i32 as i8,
            }
        };
        let lane = |i: usize| [0, 1, 2, 3].map(|j| byte(4 * i + j) as u8);
        (0..depth * PANEL).map(|i| u32::from_le_bytes(lane(i))).collect()
    }

    proptest! {
        /// Whatever the weights: nothing can leave 16 bits, and what a lane was cut into adds up to it.
        #[test]
        fn steps_are_light_and_add_up(
            depth in 1usize..20, small in any::<bool>(), seed in prop::collection::vec(any::<u32>(), 53),
        ) {
            let panel = panel(depth, small, &seed);
            let whole = panel.as_chunks::<STEP>().0;
            prop_assert_eq!(heaviest(whole), heaviest_step(whole));
            let mut memory = vec![0; room(depth)];
            match steps(&panel, &mut memory) {
                Steps::Light(same) => {
                    prop_assert_eq!(same, &panel[..]);
                    prop_assert!(depth % 2 == 0 && heaviest_step(whole) <= MOST_WEIGHT);
                }
                Steps::Lanes { weights, places } => {
                    prop_assert!(!small || depth % 2 == 1);
                    let mut sums = vec![0i32; panel.len() * 4];
                    for (lane, place) in weights.as_chunks::<PANEL>().0.iter().zip(places) {
                        prop_assert!(heaviest_pair(lane) <= MOST_WEIGHT);
                        let own = &mut sums[*place as usize * PANEL * 4..];
                        for (sum, byte) in own.iter_mut().zip(lane.iter().flat_map(|it| it.to_le_bytes())) {
                            *sum += i32::from(byte as i8);
                        }
                    }
                    let expected = panel.iter().flat_map(|it| it.to_le_bytes()).map(|it| i32::from(it as i8));
                    prop_assert!(sums.iter().copied().eq(expected));
                }
            }
        }
    }
}
