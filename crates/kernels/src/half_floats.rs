//! Numbers of half precision, as bits.

use half::{f16, slice::HalfBitsSliceExt as _, slice::HalfFloatSliceExt as _};

/// Rounds to half precision, to the nearest, ties to even. What is too large becomes infinite, NaN stays NaN.
///
/// # Panics
/// When the slices differ in length: the caller's bug.
pub fn narrow_f16(values: &[f32], out: &mut [u16]) {
    assert_eq!(values.len(), out.len(), "values and out differ in length");
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx512() {
        // SAFETY: the processor has AVX-512 F and BW, and the lengths are equal.
        return unsafe { crate::x86::narrow_f16(values, out) };
    }
    out.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values);
}

/// Widens numbers of half precision.
///
/// # Panics
/// When the slices differ in length: the caller's bug.
pub(crate) fn widen_f16(bits: &[u16], out: &mut [f32]) {
    assert_eq!(bits.len(), out.len(), "bits and out differ in length");
    #[cfg(target_arch = "x86_64")]
    if crate::dispatch::has_avx512() {
        // SAFETY: the processor has AVX-512 F and BW, and the lengths are equal.
        return unsafe { crate::x86::widen_f16(bits, out) };
    }
    bits.reinterpret_cast::<f16>().convert_to_f32_slice(out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounds_as_the_library_does_and_widens_back(
            values in prop::collection::vec(prop_oneof![any::<f32>(), -70000f32..70000.0, -1e-6f32..1e-6], 0..70),
        ) {
            let mut bits = vec![9; values.len()];
            narrow_f16(&values, &mut bits);
            let mut wide = vec![9.0; values.len()];
            widen_f16(&bits, &mut wide);
            for ((&value, &bits), &wide) in values.iter().zip(&bits).zip(&wide) {
                let expected = f16::from_f32(value);
                prop_assert_eq!(f16::from_bits(bits).is_nan(), value.is_nan());
                prop_assert_eq!(wide.is_nan(), value.is_nan());
                if !value.is_nan() {
                    prop_assert_eq!(bits, expected.to_bits());
                    prop_assert_eq!(wide, expected.to_f32());
                }
            }
        }
    }
}
