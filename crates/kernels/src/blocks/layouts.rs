//! How each format lies, read without intrinsics: the twin that all other readers are tested against.
//!
//! All formats are read as the same thing: a block is parts of 32 *codes*, small unsigned numbers, and for every 16
//! neighboring codes there is a scale and a minimum; a weight is `scale · (code − OFFSET) + minimum`.

/// Codes of a part: the inputs of the smaller blocks, and those that share a scale of activations.
pub(crate) const PART: usize = 32;

/// Scales, or minimums, of a block of 256: one for every 16 inputs.
pub(crate) const GROUPS: usize = 16;

/// A format.
pub(crate) trait Layout {
    /// Inputs of a block.
    const LEN: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// The code that stands for zero.
    const OFFSET: i32;
    /// Whether there are minimums.
    const MINIMUMS: bool;
    /// Inputs that share a scale, 16 or 32.
    const GROUP: usize;

    /// Codes `32 · part` and those after them of a block, in their order.
    fn codes(block: &[u8], part: usize) -> [u8; PART];

    /// Scales and minimums of every 16 inputs of a block, those of 32 twice.
    fn scales(block: &[u8]) -> ([f32; GROUPS], [f32; GROUPS]);
}

/// A number of half precision. Moves exponent and mantissa into place and lets a multiplication correct the
/// exponent's bias, which is right for numbers too small to be normal as well.
#[inline(always)]
pub(crate) fn widen_f16(bits: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13);
    // 2^(127 − 15).
    let value = (magnitude * f32::from_bits((127 + 112) << 23)).to_bits();
    // Infinities and NaN keep the largest exponent.
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(value | special | u32::from(bits & 0x8000) << 16)
}

/// The half at a place of a block.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    widen_f16(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Widens blocks to `out`, of as many numbers as they hold.
#[inline(always)]
pub(crate) fn widen_blocks<L: Layout>(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.chunks_exact(L::BYTES).zip(out.chunks_exact_mut(L::LEN)) {
        let (scales, minimums) = L::scales(block);
        for (part, out) in out.as_chunks_mut::<PART>().0.iter_mut().enumerate() {
            let codes = L::codes(block, part);
            for half in 0..2 {
                let scale = scales[2 * part + half];
                let minimum = minimums[2 * part + half];
                for i in half * 16..half * 16 + 16 {
                    let value = (i32::from(codes[i]) - L::OFFSET) as f32 * scale;
                    out[i] = if L::MINIMUMS { value + minimum } else { value };
                }
            }
        }
    }
}

/// Low halves of 16 bytes, then high halves.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> [u8; PART] {
    let mut codes = [0; PART];
    for i in 0..16 {
        codes[i] = bytes[i] & 15;
        codes[i + 16] = bytes[i] >> 4;
    }
    codes
}

/// Adds 16 where a bit of `high` is set.
#[inline(always)]
fn fifth_bits(mut codes: [u8; PART], high: &[u8]) -> [u8; PART] {
    let bits = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= ((bits >> i & 1) as u8) << 4;
    }
    codes
}

macro_rules! small_layout {
    (
        $(#[$meta:meta])* $name:ident, bytes $bytes:literal, offset $offset:literal, minimums $minimums:literal,
        codes $codes:expr $(,)?
    ) => {
        $(#[$meta])*
        #[allow(non_camel_case_types, reason = "the format's own name")]
        pub(crate) struct $name;

        impl Layout for $name {
            const LEN: usize = 32;
            const BYTES: usize = $bytes;
            const OFFSET: i32 = $offset;
            const MINIMUMS: bool = $minimums;
            const GROUP: usize = 32;

            #[inline(always)]
            fn codes(block: &[u8], _part: usize) -> [u8; PART] {
                $codes(block)
            }

            #[inline(always)]
            fn scales(block: &[u8]) -> ([f32; GROUPS], [f32; GROUPS]) {
                let minimum = if $minimums { half_at(block, 2) } else { 0.0 };
                ([half_at(block, 0); GROUPS], [minimum; GROUPS])
            }
        }
    };
}

small_layout! {
    /// Scale f16, 16 bytes: input i in the low and i + 16 in the high half of byte i.
    Q4_0, bytes 18, offset 8, minimums false,
    codes |block: &[u8]| nibbles(&block[2..]),
}

small_layout! {
    /// Scale f16, minimum f16, then as [`Q4_0`].
    Q4_1, bytes 20, offset 0, minimums true,
    codes |block: &[u8]| nibbles(&block[4..]),
}

small_layout! {
    /// Scale f16, 32 fifth bits, then as [`Q4_0`].
    Q5_0, bytes 22, offset 16, minimums false,
    codes |block: &[u8]| fifth_bits(nibbles(&block[6..]), &block[2..]),
}

small_layout! {
    /// Scale f16, minimum f16, 32 fifth bits, then as [`Q4_0`].
    Q5_1, bytes 24, offset 0, minimums true,
    codes |block: &[u8]| fifth_bits(nibbles(&block[8..]), &block[4..]),
}

small_layout! {
    /// Scale f16, 32 signed bytes.
    Q8_0, bytes 34, offset 128, minimums false,
    codes |block: &[u8]| std::array::from_fn(|i| block[2 + i] ^ 0x80),
}

macro_rules! large_layout {
    (
        $(#[$meta:meta])* $name:ident, bytes $bytes:literal, offset $offset:literal, minimums $minimums:literal,
        group $group:literal, codes $codes:expr, scales $scales:expr $(,)?
    ) => {
        $(#[$meta])*
        pub(crate) struct $name;

        impl Layout for $name {
            const LEN: usize = 256;
            const BYTES: usize = $bytes;
            const OFFSET: i32 = $offset;
            const MINIMUMS: bool = $minimums;
            const GROUP: usize = $group;

            #[inline(always)]
            fn codes(block: &[u8], part: usize) -> [u8; PART] {
                $codes(block, part)
            }

            #[inline(always)]
            fn scales(block: &[u8]) -> ([f32; GROUPS], [f32; GROUPS]) {
                $scales(block)
            }
        }
    };
}

/// 32 bytes of a block from `at` on.
#[inline(always)]
fn bytes_at(block: &[u8], at: usize) -> [u8; PART] {
    std::array::from_fn(|i| block[at + i])
}

large_layout! {
    /// 16 bytes with a scale in the low and a minimum in the high half, 64 bytes of two bits, scale of the scales
    /// f16, scale of the minimums f16. Of each 128 inputs, input `32 j + i` has bits 2 j, 2 j + 1 of byte i of 32.
    Q2K, bytes 84, offset 0, minimums true, group 16,
    codes |block: &[u8], part: usize| {
        bytes_at(block, 16 + part / 4 * 32).map(|it| it >> (2 * (part % 4)) & 3)
    },
    scales |block: &[u8]| {
        let (scale, minimum) = (half_at(block, 80), half_at(block, 82));
        (
            std::array::from_fn(|i| scale * f32::from(block[i] & 15)),
            std::array::from_fn(|i| -(minimum * f32::from(block[i] >> 4))),
        )
    },
}

/// The 16 scales of six bits of [`Q3K`], from 12 bytes: four low bits in the halves of the first eight bytes, two
/// high bits in the quarters of the last four.
#[inline(always)]
pub(crate) fn scales_of_q3k(bytes: &[u8]) -> [u8; GROUPS] {
    std::array::from_fn(|i| {
        let low = bytes[i % 8] >> (4 * (i / 8)) & 15;
        low | (bytes[8 + i % 4] >> (2 * (i / 4)) & 3) << 4
    })
}

large_layout! {
    /// 32 bytes of third bits (bit j of byte i is of input `32 j + i`), 64 bytes of two bits as in [`Q2K`], 12 bytes
    /// of scales, which are 32 more than they stand for, their scale f16.
    Q3K, bytes 110, offset 4, minimums false, group 16,
    codes |block: &[u8], part: usize| {
        let (low, high) = (bytes_at(block, 32 + part / 4 * 32), bytes_at(block, 0));
        std::array::from_fn(|i| low[i] >> (2 * (part % 4)) & 3 | (high[i] >> part & 1) << 2)
    },
    scales |block: &[u8]| {
        let scale = half_at(block, 108);
        (scales_of_q3k(&block[96..108]).map(|it| scale * (i32::from(it) - 32) as f32), [0.0; GROUPS])
    },
}

/// The eight scales and minimums of six bits of [`Q4K`] and [`Q5K`], from 12 bytes: the first four of each in the low
/// bits of the first eight bytes; of the others, four low bits in the halves of the last four bytes and two high
/// ones above the first.
#[inline(always)]
pub(crate) fn scales_of_q4k(bytes: &[u8]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut minimums) = ([0; 8], [0; 8]);
    for i in 0..4 {
        scales[i] = bytes[i] & 63;
        minimums[i] = bytes[4 + i] & 63;
        scales[4 + i] = bytes[8 + i] & 15 | bytes[i] >> 6 << 4;
        minimums[4 + i] = bytes[8 + i] >> 4 | bytes[4 + i] >> 6 << 4;
    }
    (scales, minimums)
}

/// Scales and minimums of [`Q4K`] and [`Q5K`].
#[inline(always)]
fn paired_scales(block: &[u8]) -> ([f32; GROUPS], [f32; GROUPS]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (scales, minimums) = scales_of_q4k(&block[4..16]);
    (
        std::array::from_fn(|i| scale * f32::from(scales[i / 2])),
        std::array::from_fn(|i| -(minimum * f32::from(minimums[i / 2]))),
    )
}

large_layout! {
    /// Scale of the scales f16, scale of the minimums f16, 12 bytes of both, 128 bytes: of each 64 inputs, input i in
    /// the low and i + 32 in the high half of byte i of 32.
    Q4K, bytes 144, offset 0, minimums true, group 32,
    codes |block: &[u8], part: usize| {
        bytes_at(block, 16 + part / 2 * 32).map(|it| it >> (4 * (part % 2)) & 15)
    },
    scales paired_scales,
}

large_layout! {
    /// As [`Q4K`], with 32 bytes of fifth bits before the 128: bit j of byte i is of input `32 j + i`.
    Q5K, bytes 176, offset 0, minimums true, group 32,
    codes |block: &[u8], part: usize| {
        let (low, high) = (bytes_at(block, 48 + part / 2 * 32), bytes_at(block, 16));
        std::array::from_fn(|i| low[i] >> (4 * (part % 2)) & 15 | (high[i] >> part & 1) << 4)
    },
    scales paired_scales,
}

large_layout! {
    /// 128 bytes of four low bits, 64 bytes of two high bits, 16 signed scales, their scale f16. Of each 128 inputs,
    /// input i < 64 has the low half of byte i of 64, input 64 + i the high half; input `32 j + i` has bits 2 j,
    /// 2 j + 1 of byte i of 32.
    Q6K, bytes 210, offset 32, minimums false, group 16,
    codes |block: &[u8], part: usize| {
        let (half, quarter) = (part / 4, part % 4);
        let low = bytes_at(block, half * 64 + quarter % 2 * 32);
        let high = bytes_at(block, 128 + half * 32);
        std::array::from_fn(|i| low[i] >> (4 * (quarter / 2)) & 15 | (high[i] >> (2 * quarter) & 3) << 4)
    },
    scales |block: &[u8]| {
        let scale = half_at(block, 208);
        (std::array::from_fn(|i| scale * f32::from(block[192 + i] as i8)), [0.0; GROUPS])
    },
}
