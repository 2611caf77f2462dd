//! Micro-batches: the slices of candidates that one layer computes at a time (§4.3).

use std::ops::Range;

/// Tokens of a micro-batch by default. The matrix products reach full speed at a few hundred rows; 1 024
/// keep the scratch of a 384-wide model near 15 MB, and its activations in a laptop's last-level cache.
pub(crate) const DEFAULT_MICRO_BATCH_TOKENS: usize = 1024;

/// Packs sequences of the given lengths, in order, into runs of at most `budget` tokens; a sequence
/// longer than the budget is a run of its own.
pub(crate) fn micro_batches(lengths: &[usize], budget: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (i, &length) in lengths.iter().enumerate() {
        if i > start && tokens + length > budget {
            batches.push(start..i);
            (start, tokens) = (i, 0);
        }
        tokens += length;
    }
    if start < lengths.len() {
        batches.push(start..lengths.len());
    }
    batches
}

/// Tokens of the largest micro-batch that these sequences *or any of them* can make: when candidates
/// leave, the others are packed anew, and a batch of theirs can be larger than any before.
pub(crate) fn most_tokens(lengths: &[usize], budget: usize) -> usize {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    longest.max(budget.min(lengths.iter().sum()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_micro_batch_of_the_remaining_is_larger_than_promised(
            candidates in prop::collection::vec((0usize..600, any::<bool>()), 0..40), budget in 1usize..1500,
        ) {
            let lengths: Vec<usize> = candidates.iter().map(|it| it.0).collect();
            let remaining: Vec<usize> = candidates.iter().filter(|it| it.1).map(|it| it.0).collect();
            for batch in micro_batches(&remaining, budget) {
                let tokens: usize = remaining[batch].iter().sum();
                prop_assert!(tokens <= most_tokens(&lengths, budget));
            }
        }

        #[test]
        fn every_sequence_is_in_one_batch_within_the_budget(
            lengths in prop::collection::vec(0usize..600, 0..40), budget in 1usize..1500,
        ) {
            let batches = micro_batches(&lengths, budget);
            let flat: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(flat, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                let tokens: usize = lengths[batch.clone()].iter().sum();
                prop_assert!(tokens <= budget || batch.len() == 1);
            }
        }
    }
}
