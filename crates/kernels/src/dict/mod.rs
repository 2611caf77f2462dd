//! Weights as indexes into a dictionary: two to six bits each, widened to the bytes that products multiply, or to f32.
//!
//! This is how a reranker's weights are kept in several fidelities (STI, §4.2): fewer bits are read faster, and what is
//! multiplied is the same int8 layout whatever was read. Substituting is a table look-up of at most 64 entries, which
//! AVX-512 VBMI does for 64 weights in one instruction, AVX2 for 32 in one to four, NEON for 16 in one.
//!
//! Indexes lie in groups of [`DICT_GROUP`], each in up to three planes one after the other: 32 bytes of four bits
//! (element i in the low half of byte i, i + 32 in the high half), 16 bytes of two bits (elements i, i + 16, i + 32 and
//! i + 48 in byte i), 8 bytes of single bits. Two bits are the second plane, three the second and the third, four the
//! first, five the first and the third, six the first and the second; the plane that comes first holds the low bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::dispatch::multiversion;

/// Indexes that lie together.
pub const DICT_GROUP: usize = 64;

/// Most entries of a dictionary.
pub const DICT_ENTRIES: usize = 64;

/// Fewest and most bits of an index.
const BITS: std::ops::RangeInclusive<u32> = 2..=6;

/// Bytes of `count` indexes of `bits` bits, `count` a multiple of [`DICT_GROUP`].
///
/// # Panics
/// When there is no such width or `count` is no multiple: the caller's bug.
pub fn dict_bytes(bits: u32, count: usize) -> usize {
    check(bits, count);
    count / DICT_GROUP * group_bytes(bits)
}

fn check(bits: u32, count: usize) {
    assert!(BITS.contains(&bits), "no indexes of {bits} bits");
    assert!(count.is_multiple_of(DICT_GROUP), "{count} indexes are no whole groups");
}

fn group_bytes(bits: u32) -> usize {
    DICT_GROUP / 8 * bits as usize
}

/// Where the planes of four, two and one bits begin in a group, if it has them, and how far each is shifted.
#[derive(Debug, Clone, Copy)]
struct Planes {
    nibbles: bool,
    /// Start and shift of the pairs.
    pairs: Option<(usize, u32)>,
    /// Start and shift of the single bits.
    singles: Option<(usize, u32)>,
}

impl Planes {
    const fn of(bits: u32) -> Planes {
        match bits {
            2 => Planes { nibbles: false, pairs: Some((0, 0)), singles: None },
            3 => Planes { nibbles: false, pairs: Some((0, 0)), singles: Some((16, 2)) },
            4 => Planes { nibbles: true, pairs: None, singles: None },
            5 => Planes { nibbles: true, pairs: None, singles: Some((32, 4)) },
            _ => Planes { nibbles: true, pairs: Some((32, 4)), singles: None },
        }
    }
}

/// Packs indexes, each below 2^`bits`, to the end of `out`.
///
/// # Panics
/// When there is no such width or they are no whole groups: the caller's bug.
pub fn pack_indexes(bits: u32, indexes: &[u8], out: &mut Vec<u8>) {
    check(bits, indexes.len());
    let planes = Planes::of(bits);
    for group in indexes.chunks_exact(DICT_GROUP) {
        if planes.nibbles {
            out.extend((0..32).map(|i| group[i] & 15 | (group[i + 32] & 15) << 4));
        }
        if let Some((_, shift)) = planes.pairs {
            let pair = |i: usize| group[i] >> shift & 3;
            let byte = |i| pair(i) | pair(i + 16) << 2 | pair(i + 32) << 4 | pair(i + 48) << 6;
            out.extend((0..16).map(byte));
        }
        if let Some((_, shift)) = planes.singles {
            let byte = |start: usize| {
                (0..8).fold(0, |byte, i| byte | (group[8 * start + i] >> shift & 1) << i)
            };
            out.extend((0..8).map(byte));
        }
    }
}

/// Widens packed indexes to the bytes of their entries: `out` `[count]`, `packed` as [`pack_indexes`] made it.
///
/// # Panics
/// When lengths do not belong together: the caller's bug.
pub fn unpack_bytes(bits: u32, packed: &[u8], table: &[i8; DICT_ENTRIES], out: &mut [i8]) {
    assert_eq!(packed.len(), dict_bytes(bits, out.len()), "not {} packed indexes", out.len());
    #[cfg(target_arch = "x86_64")]
    {
        if crate::dispatch::has_avx512() && is_x86_feature_detected!("avx512vbmi") {
            // SAFETY: the processor has AVX-512 F, BW and VBMI, and lengths were compared.
            return unsafe { avx512::unpack(bits, packed, table, out) };
        }
        if crate::dispatch::has_avx2() {
            // SAFETY: the processor has AVX2, and lengths were compared.
            return unsafe { avx2::unpack(bits, packed, table, out) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if crate::isa::current() > crate::Isa::Scalar {
        // SAFETY: every 64-bit Arm has NEON, and lengths were compared.
        return unsafe { neon::unpack(bits, packed, table, out) };
    }
    scalar_bytes(bits, packed, table, out);
}

/// The twin that the others are compared with.
fn scalar_bytes(bits: u32, packed: &[u8], table: &[i8; DICT_ENTRIES], out: &mut [i8]) {
    let groups = packed.chunks_exact(group_bytes(bits)).zip(out.chunks_exact_mut(DICT_GROUP));
    let mut indexes = [0; DICT_GROUP];
    for (group, out) in groups {
        indexes_of(bits, group, &mut indexes);
        for (value, index) in out.iter_mut().zip(indexes) {
            *value = table[usize::from(index)];
        }
    }
}

#[inline(always)]
fn indexes_of(bits: u32, group: &[u8], indexes: &mut [u8; DICT_GROUP]) {
    let planes = Planes::of(bits);
    indexes.fill(0);
    if planes.nibbles {
        let (low, high) = indexes.split_at_mut(32);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(group) {
            (*low, *high) = (byte & 15, byte >> 4);
        }
    }
    if let Some((start, shift)) = planes.pairs {
        for (i, byte) in group[start..start + 16].iter().enumerate() {
            for quarter in 0..4 {
                indexes[i + 16 * quarter] |= (byte >> (2 * quarter) & 3) << shift;
            }
        }
    }
    if let Some((start, shift)) = planes.singles {
        for (indexes, byte) in indexes.chunks_exact_mut(8).zip(&group[start..]) {
            for (i, index) in indexes.iter_mut().enumerate() {
                *index |= (byte >> i & 1) << shift;
            }
        }
    }
}

multiversion! {
    fn wide(bits: u32, packed: &[u8], table: &[f32; DICT_ENTRIES], out: &mut [f32]) {
        let groups = packed.chunks_exact(group_bytes(bits)).zip(out.chunks_exact_mut(DICT_GROUP));
        let mut indexes = [0; DICT_GROUP];
        for (group, out) in groups {
            indexes_of(bits, group, &mut indexes);
            for (value, index) in out.iter_mut().zip(indexes) {
                // Below 64 by what it is made of.
                *value = table[usize::from(index & 63)];
            }
        }
    }
}

/// As [`unpack_bytes`], to the numbers that a dictionary of numbers has.
///
/// # Panics
/// As there.
pub fn unpack_f32(bits: u32, packed: &[u8], table: &[f32; DICT_ENTRIES], out: &mut [f32]) {
    assert_eq!(packed.len(), dict_bytes(bits, out.len()), "not {} packed indexes", out.len());
    wide(bits, packed, table, out);
}

multiversion! {
    fn sum_blocks(blocks: &[i8], block_bytes: usize, sums: &mut [i32]) {
        let parts = blocks.chunks_exact(block_bytes).zip(sums.chunks_exact_mut(16));
        for (block, sums) in parts {
            let mut total = [0i32; 16];
            for quad in block.as_chunks::<64>().0 {
                for (total, bytes) in total.iter_mut().zip(quad.as_chunks::<4>().0) {
                    let word = i32::from_le_bytes(bytes.map(|it| it as u8));
                    *total += (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
                }
            }
            sums.copy_from_slice(&total);
        }
    }
}

/// Sums of each output's bytes, of whole blocks of 16 outputs `[N / 16][K / 4][16][4]` of `inputs` inputs, a multiple
/// of four: what [`Int8Matrix`](crate::Int8Matrix) keeps beside them.
///
/// # Panics
/// When lengths do not belong together: the caller's bug.
pub fn int8_sums(blocks: &[i8], inputs: usize, sums: &mut [i32]) {
    assert!(inputs > 0 && inputs.is_multiple_of(4), "{inputs} inputs are no whole lanes");
    assert_eq!(blocks.len(), sums.len() * inputs, "not {} rows of {inputs}", sums.len());
    assert!(sums.len().is_multiple_of(16), "{} outputs are no whole blocks", sums.len());
    sum_blocks(blocks, 16 * inputs, sums);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Version = fn(u32, &[u8], &[i8; DICT_ENTRIES], &mut [i8]);

    fn versions() -> Vec<Version> {
        let mut versions: Vec<Version> = vec![scalar_bytes, unpack_bytes];
        #[cfg(target_arch = "x86_64")]
        {
            if crate::Isa::Avx2.runs_here() {
                // SAFETY: the processor has AVX2; the test's lengths belong together.
                versions.push(|bits, packed, table, out| unsafe {
                    avx2::unpack(bits, packed, table, out);
                });
            }
            if crate::Isa::Avx512.runs_here() && is_x86_feature_detected!("avx512vbmi") {
                // SAFETY: the processor has AVX-512 and VBMI; the test's lengths belong together.
                versions.push(|bits, packed, table, out| unsafe {
                    avx512::unpack(bits, packed, table, out);
                });
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: every 64-bit Arm has NEON; the test's lengths belong together.
        versions.push(|bits, packed, table, out| unsafe { neon::unpack(bits, packed, table, out) });
        versions
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back_in_every_version(
            bits in 2u32..=6, groups in 0usize..crate::within(9, 2), seed in prop::collection::vec(any::<u8>(), 97),
            table in prop::collection::vec(any::<i8>(), DICT_ENTRIES),
        ) {
            let table: [i8; DICT_ENTRIES] = table.try_into().expect("as many");
            let mask = (1u8 << bits) - 1;
            let indexes: Vec<u8> =
                (0..groups * DICT_GROUP).map(|i| seed[(i * 7 + i / 89) % 97] & mask).collect();
            let mut packed = Vec::new();
            pack_indexes(bits, &indexes, &mut packed);
            prop_assert_eq!(packed.len(), dict_bytes(bits, indexes.len()));
            let expected: Vec<i8> = indexes.iter().map(|&it| table[usize::from(it)]).collect();
            for version in versions() {
                let mut out = vec![77; indexes.len()];
                version(bits, &packed, &table, &mut out);
                prop_assert_eq!(&out, &expected);
            }
            let numbers = table.map(f32::from);
            for version in wide::versions() {
                let mut out = vec![f32::NAN; indexes.len()];
                version(bits, &packed, &numbers, &mut out);
                prop_assert!(out.iter().zip(&expected).all(|(a, b)| *a == f32::from(*b)));
            }
        }

        #[test]
        fn sums_are_those_of_a_packed_matrix(
            blocks in 1usize..4, lanes in 1usize..crate::within(20, 3), seed in prop::collection::vec(-127i8..=127, 89),
        ) {
            let inputs = 4 * lanes;
            let bytes: Vec<i8> = (0..blocks * 16 * inputs).map(|i| seed[(i * 5 + i / 83) % 89]).collect();
            let mut expected = vec![0i32; blocks * 16];
            for (place, byte) in bytes.iter().enumerate() {
                let (block, rest) = (place / (16 * inputs), place % (16 * inputs));
                expected[block * 16 + rest % 64 / 4] += i32::from(*byte);
            }
            for version in sum_blocks::versions() {
                let mut sums = vec![1; blocks * 16];
                version(&bytes, 16 * inputs, &mut sums);
                prop_assert_eq!(&sums, &expected);
            }
            let mut sums = vec![1; blocks * 16];
            int8_sums(&bytes, inputs, &mut sums);
            prop_assert_eq!(&sums, &expected);
        }
    }

    #[test]
    #[should_panic(expected = "no indexes of 7 bits")]
    fn other_widths_are_a_bug() {
        dict_bytes(7, 64);
    }
}
