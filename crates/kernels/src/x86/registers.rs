//! Registers of f32 as the routines of [`math`](super::math) use them, so that each is written once: 16 numbers with
//! AVX-512, 8 with AVX2.

/// AVX-512 F and DQ.
pub(super) mod wide {
    use std::arch::x86_64::*;

    /// f32 in a register.
    pub(crate) const LANES: usize = 16;

    pub(crate) type Floats = __m512;

    /// Selects numbers of a register, a bit for each.
    pub(crate) type Mask = __mmask16;

    /// The first `count` of a register.
    #[inline(always)]
    pub(crate) fn first(count: usize) -> Mask {
        ((1u32 << count) - 1) as u16
    }

    /// From one of a register's to before another.
    #[inline(always)]
    pub(crate) fn between(from: usize, to: usize) -> Mask {
        first(to) & !first(from)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn set(value: f32) -> Floats {
        _mm512_set1_ps(value)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn add(a: Floats, b: Floats) -> Floats {
        _mm512_add_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn sub(a: Floats, b: Floats) -> Floats {
        _mm512_sub_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn mul(a: Floats, b: Floats) -> Floats {
        _mm512_mul_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn div(a: Floats, b: Floats) -> Floats {
        _mm512_div_ps(a, b)
    }

    /// `a · b + c`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        _mm512_fmadd_ps(a, b, c)
    }

    /// `c − a · b`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn fnma(a: Floats, b: Floats, c: Floats) -> Floats {
        _mm512_fnmadd_ps(a, b, c)
    }

    /// The smaller; `b` where one of them is no number.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn min(a: Floats, b: Floats) -> Floats {
        _mm512_min_ps(a, b)
    }

    /// The larger; `b` where one of them is no number.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn max(a: Floats, b: Floats) -> Floats {
        _mm512_max_ps(a, b)
    }

    /// About 1 / `a`: 14 bits of it.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn estimated_inverse(a: Floats) -> Floats {
        _mm512_rcp14_ps(a)
    }

    /// 2ⁿ, where n stands in the lowest bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn power(n: Floats) -> Floats {
        let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(n));
        let one = _mm512_castps_si512(_mm512_set1_ps(1.0));
        _mm512_castsi512_ps(_mm512_add_epi32(exponent, one))
    }

    /// Integers less other integers, as numbers.
    ///
    /// # Safety
    /// Both point to [`LANES`] integers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn difference(a: *const u32, b: *const i32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (_mm512_loadu_si512(a.cast()), _mm512_loadu_si512(b.cast()));
            _mm512_cvtepi32_ps(_mm512_sub_epi32(a, b))
        }
    }

    /// # Safety
    /// [`LANES`] numbers are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn load(from: *const f32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }

    /// # Safety
    /// There is room for [`LANES`] numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn store(to: *mut f32, a: Floats) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to, a) }
    }

    /// Zeros beyond the mask.
    ///
    /// # Safety
    /// The mask's numbers are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn load_part(mask: Mask, from: *const f32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    /// # Safety
    /// There is room for the mask's numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn store_part(mask: Mask, to: *mut f32, a: Floats) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_storeu_ps(to, mask, a) }
    }

    /// `a` where the mask is, `b` elsewhere.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn choose(mask: Mask, a: Floats, b: Floats) -> Floats {
        _mm512_mask_mov_ps(b, mask, a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn total(a: Floats) -> f32 {
        _mm512_reduce_add_ps(a)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn largest_of(a: Floats) -> f32 {
        _mm512_reduce_max_ps(a)
    }
}

/// AVX2 and FMA.
pub(super) mod narrow {
    use std::arch::x86_64::*;

    /// f32 in a register.
    pub(crate) const LANES: usize = 8;

    pub(crate) type Floats = __m256;

    /// Selects numbers of a register: those whose lane is negative.
    pub(crate) type Mask = [i32; LANES];

    /// The first `count` of a register.
    #[inline(always)]
    pub(crate) fn first(count: usize) -> Mask {
        between(0, count)
    }

    /// From one of a register's to before another.
    #[inline(always)]
    pub(crate) fn between(from: usize, to: usize) -> Mask {
        std::array::from_fn(|lane| if from <= lane && lane < to { -1 } else { 0 })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn bits(mask: Mask) -> __m256i {
        // SAFETY: both are 32 bytes of plain numbers.
        unsafe { std::mem::transmute(mask) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn set(value: f32) -> Floats {
        _mm256_set1_ps(value)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn add(a: Floats, b: Floats) -> Floats {
        _mm256_add_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn sub(a: Floats, b: Floats) -> Floats {
        _mm256_sub_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn mul(a: Floats, b: Floats) -> Floats {
        _mm256_mul_ps(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn div(a: Floats, b: Floats) -> Floats {
        _mm256_div_ps(a, b)
    }

    /// `a · b + c`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        _mm256_fmadd_ps(a, b, c)
    }

    /// `c − a · b`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn fnma(a: Floats, b: Floats, c: Floats) -> Floats {
        _mm256_fnmadd_ps(a, b, c)
    }

    /// The smaller; `b` where one of them is no number.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn min(a: Floats, b: Floats) -> Floats {
        _mm256_min_ps(a, b)
    }

    /// The larger; `b` where one of them is no number.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn max(a: Floats, b: Floats) -> Floats {
        _mm256_max_ps(a, b)
    }

    /// About 1 / `a`: 12 bits of it.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn estimated_inverse(a: Floats) -> Floats {
        _mm256_rcp_ps(a)
    }

    /// 2ⁿ, where n stands in the lowest bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn power(n: Floats) -> Floats {
        let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(n));
        let one = _mm256_castps_si256(_mm256_set1_ps(1.0));
        _mm256_castsi256_ps(_mm256_add_epi32(exponent, one))
    }

    /// Integers less other integers, as numbers.
    ///
    /// # Safety
    /// Both point to [`LANES`] integers.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn difference(a: *const u32, b: *const i32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
            _mm256_cvtepi32_ps(_mm256_sub_epi32(a, b))
        }
    }

    /// # Safety
    /// [`LANES`] numbers are there.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn load(from: *const f32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(from) }
    }

    /// # Safety
    /// There is room for [`LANES`] numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn store(to: *mut f32, a: Floats) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(to, a) }
    }

    /// Zeros beyond the mask.
    ///
    /// # Safety
    /// The mask's numbers are there.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn load_part(mask: Mask, from: *const f32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe { _mm256_maskload_ps(from, bits(mask)) }
    }

    /// # Safety
    /// There is room for the mask's numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn store_part(mask: Mask, to: *mut f32, a: Floats) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_maskstore_ps(to, bits(mask), a) }
    }

    /// `a` where the mask is, `b` elsewhere.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn choose(mask: Mask, a: Floats, b: Floats) -> Floats {
        _mm256_blendv_ps(b, a, _mm256_castsi256_ps(bits(mask)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn total(a: Floats) -> f32 {
        let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
        _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn largest_of(a: Floats) -> f32 {
        let half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
        _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)))
    }
}
