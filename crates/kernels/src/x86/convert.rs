//! Numbers into the form that tiles read, with AVX-512.

use std::arch::x86_64::*;

/// f32 in a register.
const LANES: usize = 16;

/// Rounds a row to bf16, two to a lane; an odd last one stands with a zero.
///
/// # Safety
/// The processor has AVX-512 F, BW and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn round_row(row: &[f32], scale: f32, lanes: &mut [f32]) {
    let factor = _mm512_set1_ps(scale);
    let (whole, rest) = row.as_chunks::<32>();
    let (out, out_rest) = lanes.as_chunks_mut::<16>();
    for (values, out) in whole.iter().zip(out.iter_mut()) {
        // SAFETY: 32 values and 16 lanes.
        unsafe {
            let low = _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr()), factor);
            let high = _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr().add(16)), factor);
            let pairs = std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
            _mm512_storeu_ps(out.as_mut_ptr(), pairs);
        }
    }
    if rest.is_empty() {
        return;
    }
    let mask = |from: usize| -> __mmask16 {
        ((1u32 << rest.len().saturating_sub(from).min(16)) - 1) as u16
    };
    let out = match out.get_mut(whole.len()) {
        Some(out) => out.as_mut_slice(),
        None => out_rest,
    };
    let room: __mmask16 = ((1u32 << out.len().min(16)) - 1) as u16;
    // SAFETY: the masks leave out what is beyond the ends.
    unsafe {
        let low = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask(0), rest.as_ptr()), factor);
        let high = rest.get(16..).unwrap_or(&[]);
        let high = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask(16), high.as_ptr()), factor);
        let pairs = std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
        let used: __mmask16 = ((1u32 << rest.len().div_ceil(2)) - 1) as u16;
        _mm512_mask_storeu_ps(out.as_mut_ptr(), room & used, pairs);
    }
}

/// Two rows rounded to bf16, each column's two numbers in a lane.
///
/// # Safety
/// The processor has AVX-512 F, BW and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn join_rows(first: &[f32; 16], second: &[f32; 16], lanes: &mut [f32; 16]) {
    const ORDER: [u16; 32] = {
        let mut order = [0; 32];
        let mut place = 0;
        while place < 32 {
            order[place] = (place / 2 + place % 2 * 16) as u16;
            place += 1;
        }
        order
    };
    // SAFETY: all are 64 bytes.
    unsafe {
        let first = _mm512_loadu_ps(first.as_ptr());
        let second = _mm512_loadu_ps(second.as_ptr());
        let rows = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first));
        let order = _mm512_loadu_epi16(ORDER.as_ptr().cast());
        _mm512_storeu_epi16(lanes.as_mut_ptr().cast(), _mm512_permutexvar_epi16(order, rows));
    }
}

/// Two rows of 32 bf16, each column's two numbers in a lane.
///
/// # Safety
/// The processor has AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn join_lanes(
    first: &[f32; 16],
    second: &[f32; 16],
    low: &mut [f32; 16],
    high: &mut [f32; 16],
) {
    const fn order(start: u16) -> [u16; 32] {
        let mut order = [0; 32];
        let mut place = 0;
        while place < 32 {
            order[place] = start + (place / 2 + place % 2 * 32) as u16;
            place += 1;
        }
        order
    }
    const LOW: [u16; 32] = order(0);
    const HIGH: [u16; 32] = order(16);
    // SAFETY: all are 64 bytes.
    unsafe {
        let first = _mm512_loadu_si512(first.as_ptr().cast());
        let second = _mm512_loadu_si512(second.as_ptr().cast());
        for (order, out) in [(&LOW, low), (&HIGH, high)] {
            let order = _mm512_loadu_si512(order.as_ptr().cast());
            let joined = _mm512_permutex2var_epi16(first, order, second);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), joined);
        }
    }
}

/// Transposes 16 rows of 16 lanes, `stride` lanes apart, to `out`.
///
/// # Safety
/// The processor has AVX-512 F; `rows` points to 16 rows of 16 lanes, `out` to 256 lanes that are nobody else's.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn transpose(rows: *const f32, stride: usize, out: *mut f32) {
    // SAFETY: the caller's promise.
    let r: [__m512; 16] = std::array::from_fn(|i| unsafe { _mm512_loadu_ps(rows.add(i * stride)) });
    // Pairs of rows, then of pairs, then of quarters: each step doubles what lies together.
    let mut t = r;
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    let mut q = t;
    for i in 0..4 {
        let (a, b, c, d) = (t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3]);
        q[4 * i] = _mm512_shuffle_ps::<0x44>(a, c);
        q[4 * i + 1] = _mm512_shuffle_ps::<0xee>(a, c);
        q[4 * i + 2] = _mm512_shuffle_ps::<0x44>(b, d);
        q[4 * i + 3] = _mm512_shuffle_ps::<0xee>(b, d);
    }
    // q[4g + j] holds, in quarter x, column 4x + j of rows 4g…4g + 3.
    for j in 0..4 {
        let (a, b, c, d) = (q[j], q[4 + j], q[8 + j], q[12 + j]);
        let ab_low = _mm512_shuffle_f32x4::<0x88>(a, b);
        let ab_high = _mm512_shuffle_f32x4::<0xdd>(a, b);
        let cd_low = _mm512_shuffle_f32x4::<0x88>(c, d);
        let cd_high = _mm512_shuffle_f32x4::<0xdd>(c, d);
        // Columns j, 8 + j from the low ones, 4 + j, 12 + j from the high ones.
        // SAFETY: the caller's promise.
        unsafe {
            _mm512_storeu_ps(out.add(j * 16), _mm512_shuffle_f32x4::<0x88>(ab_low, cd_low));
            _mm512_storeu_ps(out.add((8 + j) * 16), _mm512_shuffle_f32x4::<0xdd>(ab_low, cd_low));
            _mm512_storeu_ps(out.add((4 + j) * 16), _mm512_shuffle_f32x4::<0x88>(ab_high, cd_high));
            _mm512_storeu_ps(
                out.add((12 + j) * 16),
                _mm512_shuffle_f32x4::<0xdd>(ab_high, cd_high),
            );
        }
    }
}

/// Rounds to half precision.
///
/// # Safety
/// The processor has AVX-512 F, BW and VL; `out` is as long as `values`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn narrow_f16(values: &[f32], out: &mut [u16]) {
    for (values, out) in values.chunks(16).zip(out.chunks_mut(16)) {
        let mask = ((1u32 << values.len()) - 1) as __mmask16;
        // SAFETY: the masks leave out what is beyond the chunks.
        unsafe {
            let values = _mm512_maskz_loadu_ps(mask, values.as_ptr());
            let bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
            _mm256_mask_storeu_epi16(out.as_mut_ptr().cast(), mask, bits);
        }
    }
}

/// Widens from half precision.
///
/// # Safety
/// The processor has AVX-512 F, BW and VL; `out` is as long as `bits`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn widen_f16(bits: &[u16], out: &mut [f32]) {
    for (bits, out) in bits.chunks(16).zip(out.chunks_mut(16)) {
        let mask = ((1u32 << bits.len()) - 1) as __mmask16;
        // SAFETY: the masks leave out what is beyond the chunks.
        unsafe {
            let bits = _mm256_maskz_loadu_epi16(mask, bits.as_ptr().cast());
            _mm512_mask_storeu_ps(out.as_mut_ptr(), mask, _mm512_cvtph_ps(bits));
        }
    }
}

/// Quantizes rows as `quantize_rows` does: the same bytes and scales.
///
/// # Safety
/// The processor has AVX-512 F, BW and VL. Rows, bytes and scales have the shapes of `quantize_rows`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn quantize_row(row: &[f32], flip: u8, out: &mut [u8]) -> f32 {
    let (scale, inverse) = crate::quantize::scale_of(largest_magnitude(row));
    let inverse = _mm512_set1_ps(inverse);
    let flips = _mm_set1_epi8(flip as i8);
    // To the nearest, ties to even, as the processor rounds by default.
    let integers = |values: __m512| _mm512_cvtps_epi32(_mm512_mul_ps(values, inverse));
    // Of four registers at a time, for narrowing each alone takes several turns; what two such steps leave in
    // quarters is put in order. Nothing saturates: magnitudes are at most 127.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let all_flips = _mm512_set1_epi8(flip as i8);
    let (chunks, rest) = row.as_chunks::<{ 4 * LANES }>();
    let (out_chunks, out) = out.as_chunks_mut::<{ 4 * LANES }>();
    let (out, unused) = match out_chunks.split_at_mut(chunks.len()) {
        (whole, []) => (whole, out),
        (whole, [next, ..]) => (whole, next.as_mut_slice()),
    };
    for (chunk, out) in chunks.iter().zip(out) {
        // SAFETY: 64 numbers and as many bytes.
        unsafe {
            let part = |i: usize| integers(_mm512_loadu_ps(chunk.as_ptr().add(i * LANES)));
            let low = _mm512_packs_epi32(part(0), part(1));
            let high = _mm512_packs_epi32(part(2), part(3));
            let bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
            let bytes = _mm512_xor_si512(bytes, all_flips);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), bytes);
        }
    }
    let bytes = |values: __m512| _mm_xor_si128(_mm512_cvtepi32_epi8(integers(values)), flips);
    let (chunks, rest) = rest.as_chunks::<LANES>();
    let (out, out_rest) = unused.as_chunks_mut::<LANES>();
    for (chunk, out) in chunks.iter().zip(&mut *out) {
        // SAFETY: 16 numbers and as many bytes.
        unsafe {
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes(_mm512_loadu_ps(chunk.as_ptr())))
        };
    }
    if !rest.is_empty() {
        let mask = ((1u32 << rest.len()) - 1) as __mmask16;
        let out = match out.get_mut(chunks.len()) {
            Some(out) => out.as_mut_slice(),
            None => out_rest,
        };
        // SAFETY: the masks leave out what is beyond the row, and `out` is at least as long.
        unsafe {
            let values = _mm512_maskz_loadu_ps(mask, rest.as_ptr());
            _mm_mask_storeu_epi8(out.as_mut_ptr().cast(), mask, bytes(values));
        }
    }
    scale
}

/// The bits of the largest magnitude of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn largest_magnitude(row: &[f32]) -> u32 {
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    let mut tops = [_mm512_setzero_si512(); 4];
    let (chunks, rest) = row.as_chunks::<{ 4 * LANES }>();
    for chunk in chunks {
        for (i, top) in tops.iter_mut().enumerate() {
            // SAFETY: a chunk has four registers.
            let bits = unsafe { _mm512_loadu_epi32(chunk.as_ptr().add(i * LANES).cast()) };
            *top = _mm512_max_epu32(*top, _mm512_and_si512(bits, magnitude));
        }
    }
    for chunk in rest.chunks(LANES) {
        let mask = ((1u32 << chunk.len()) - 1) as __mmask16;
        // SAFETY: the mask leaves out what is beyond the chunk.
        let bits = unsafe { _mm512_maskz_loadu_epi32(mask, chunk.as_ptr().cast()) };
        tops[0] = _mm512_max_epu32(tops[0], _mm512_and_si512(bits, magnitude));
    }
    let top =
        _mm512_max_epu32(_mm512_max_epu32(tops[0], tops[1]), _mm512_max_epu32(tops[2], tops[3]));
    _mm512_reduce_max_epu32(top)
}
