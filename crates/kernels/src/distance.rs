//! Distances of codes: vectors whose numbers are bytes.

use crate::dispatch::multiversion;

/// Rows that are asked for before they are compared: a walk through a graph jumps about in memory, and the processor
/// does not see where to.
const AHEAD: usize = 4;

/// Squared Euclidean distances of `query` (`[dimensions]`) and the given `rows` of `codes` (`[…, dimensions]`), written
/// to `out` (`[rows]`): `Σ (query[d] − code[d])²`. Exact up to 33 000 dimensions, the same on every processor. Unlike a
/// product turned into a distance it is never negative, and for vectors of one length it orders as the cosine does.
///
/// # Panics
/// When a row lies outside of `codes`, or `out` is shorter than `rows`.
pub fn squared_distances(query: &[i8], codes: &[i8], rows: &[u32], out: &mut [u32]) {
    let out = &mut out[..rows.len()];
    for &row in rows.iter().take(AHEAD) {
        prefetch(codes, query.len(), row);
    }
    for (start, out) in (0..).step_by(AHEAD).zip(out.chunks_mut(AHEAD)) {
        for &row in rows.iter().skip(start + AHEAD).take(AHEAD) {
            prefetch(codes, query.len(), row);
        }
        of_rows(query, codes, &rows[start..start + out.len()], out);
    }
}

multiversion! {
    fn of_rows(query: &[i8], codes: &[i8], rows: &[u32], out: &mut [u32]) {
        for (out, &row) in out.iter_mut().zip(rows) {
            let code = &codes[row as usize * query.len()..][..query.len()];
            let mut sum = 0i32;
            for (&a, &b) in query.iter().zip(code) {
                // Differences fit i16, which lets the compiler multiply and add in pairs. Wrapping, because overflow
                // checks would keep it from using vector instructions.
                let difference = i32::from(i16::from(a).wrapping_sub(i16::from(b)));
                sum = sum.wrapping_add(difference.wrapping_mul(difference));
            }
            *out = sum as u32;
        }
    }
}

/// Asks for a row that will be compared.
#[inline]
fn prefetch(codes: &[i8], dimensions: usize, row: u32) {
    #[cfg(target_arch = "x86_64")]
    if let Some(code) = codes.get(row as usize * dimensions..) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in (0..dimensions).step_by(64) {
            // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(code.as_ptr().wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (codes, dimensions, row);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition.
    fn naive(query: &[i8], code: &[i8]) -> u32 {
        query.iter().zip(code).map(|(&a, &b)| (i32::from(a) - i32::from(b)).pow(2) as u32).sum()
    }

    #[test]
    fn the_farthest_codes_do_not_overflow() {
        let (query, code) = ([127; 33_000], [-127; 33_000]);
        let mut out = [0];
        squared_distances(&query, &code, &[0], &mut out);
        assert_eq!(out, [33_000 * 254 * 254]);
    }

    proptest! {
        #[test]
        fn every_version_is_the_definition(
            dimensions in 0usize..70,
            values in prop::collection::vec(any::<i8>(), 700),
            rows in prop::collection::vec(0u32..9, 0..crate::within(20, 5)),
        ) {
            let query = &values[630..][..dimensions];
            let expected: Vec<u32> = rows
                .iter()
                .map(|&row| naive(query, &values[row as usize * dimensions..][..dimensions]))
                .collect();
            for version in of_rows::versions() {
                let mut out = vec![7; rows.len()];
                version(query, &values, &rows, &mut out);
                prop_assert_eq!(&out, &expected);
            }
            let mut out = vec![7; rows.len()];
            squared_distances(query, &values, &rows, &mut out);
            prop_assert_eq!(out, expected);
        }
    }
}
