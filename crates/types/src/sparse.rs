//! Learned sparse vectors: weights of terms, most of them nothing.

/// What one step of a weight stands for: weights of 0 to 3.98 in a byte. Those of the models that are known reach 2.6.
pub const TERM_STEP: f32 = 1.0 / 64.0;

/// Most bytes of a number of 32 bits in the form that [`TermWeights::to_bytes`] writes.
const MOST_BYTES: u32 = 5;

/// Terms of a vocabulary and their weights in steps of [`TERM_STEP`], by ascending term; each at most once, none
/// without a weight. Two of them are compared by their product, which is exact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermWeights(Vec<(u32, u8)>);

impl TermWeights {
    /// The `limit` heaviest of these terms, rounded to steps; of equals the one with the smaller number. What is
    /// nearer to nothing than to a step is left out.
    pub fn new(weights: impl IntoIterator<Item = (u32, f32)>, limit: usize) -> TermWeights {
        let mut terms: Vec<(u32, f32)> =
            weights.into_iter().filter(|it| it.1 >= TERM_STEP / 2.0).collect();
        let heavier = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if terms.len() > limit {
            if limit > 0 {
                terms.select_nth_unstable_by(limit - 1, heavier);
            }
            terms.truncate(limit);
        }
        TermWeights::of(terms.into_iter().map(|(term, weight)| {
            // `as` stops at 255, where a byte ends.
            (term, (weight / TERM_STEP).round() as u8)
        }))
    }

    /// Of these terms, in any order; a term that is named twice has its first weight.
    pub fn of(terms: impl IntoIterator<Item = (u32, u8)>) -> TermWeights {
        let mut terms: Vec<(u32, u8)> = terms.into_iter().filter(|it| it.1 > 0).collect();
        terms.sort_by_key(|it| it.0);
        terms.dedup_by_key(|it| it.0);
        TermWeights(terms)
    }

    /// Terms and weights, by ascending term.
    pub fn terms(&self) -> &[(u32, u8)] {
        &self.0
    }

    /// Whether there is no term.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of products over the terms that both have, in steps of both.
    pub fn dot(&self, other: &TermWeights) -> u32 {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut sum = 0u32;
        while let (Some(&&(one, weight)), Some(&&(two, other))) = (a.peek(), b.peek()) {
            if one <= two {
                a.next();
            }
            if two <= one {
                b.next();
            }
            if one == two {
                sum = sum.saturating_add(u32::from(weight) * u32::from(other));
            }
        }
        sum
    }

    /// As bytes: of each term how far it is from the one before, seven bits to a byte and the least first, and its
    /// weight.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 3);
        let mut next = 0;
        for &(term, weight) in &self.0 {
            let mut distance = term - next;
            while distance >= 0x80 {
                bytes.push((distance & 0x7f) as u8 | 0x80);
                distance >>= 7;
            }
            bytes.push(distance as u8);
            bytes.push(weight);
            next = term.wrapping_add(1);
        }
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) wrote; `None` when it was not that.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<TermWeights> {
        let mut terms = Vec::with_capacity(bytes.len() / 2);
        // The term that comes next at the earliest; there is none behind the last one of 32 bits.
        let mut next = Some(0u32);
        while !bytes.is_empty() {
            let mut distance = 0u64;
            for place in 0.. {
                let (&byte, rest) = bytes.split_first()?;
                bytes = rest;
                distance |= u64::from(byte & 0x7f) << (7 * place);
                if byte < 0x80 {
                    break;
                }
                if place + 1 == MOST_BYTES {
                    return None;
                }
            }
            let term = next?.checked_add(u32::try_from(distance).ok()?)?;
            let (&weight, rest) = bytes.split_first()?;
            bytes = rest;
            if weight == 0 {
                return None;
            }
            terms.push((term, weight));
            next = term.checked_add(1);
        }
        Some(TermWeights(terms))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn any_terms() -> impl Strategy<Value = TermWeights> {
        let term = prop_oneof![0u32..300, Just(u32::MAX), any::<u32>()];
        prop::collection::vec((term, 0u8..=255), 0..40).prop_map(TermWeights::of)
    }

    #[test]
    fn the_heaviest_terms_stay_and_are_rounded_to_steps() {
        let weights =
            [(7, 0.5), (3, 2.0), (9, 0.001), (5, 9.0), (1, 0.5), (2, -1.0), (4, f32::NAN)];
        assert_eq!(TermWeights::new(weights, 3).terms(), [(1, 32), (3, 128), (5, 255)]);
        assert_eq!(TermWeights::new(weights, 9).terms().len(), 4);
        assert!(TermWeights::new(weights, 0).is_empty());
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        for bytes in
            [&[1][..], &[0x80, 0x80], &[1, 0], &[0xff; 7], &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0, 1]]
        {
            assert_eq!(TermWeights::from_bytes(bytes), None, "{bytes:?}");
        }
        assert_eq!(TermWeights::from_bytes(&[]), Some(TermWeights::default()));
    }

    proptest! {
        #[test]
        fn bytes_give_the_same_terms_again(terms in any_terms()) {
            prop_assert_eq!(TermWeights::from_bytes(&terms.to_bytes()), Some(terms));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(terms) = TermWeights::from_bytes(&bytes) {
                prop_assert!(terms.terms().is_sorted_by(|a, b| a.0 < b.0));
            }
        }

        #[test]
        fn a_product_is_the_definition(a in any_terms(), b in any_terms()) {
            let of: HashMap<u32, u8> = b.terms().iter().copied().collect();
            let sum = |it: &(u32, u8)| u32::from(it.1) * of.get(&it.0).map_or(0, |&it| u32::from(it));
            prop_assert_eq!(a.dot(&b), a.terms().iter().map(sum).sum::<u32>());
        }
    }
}
