//! Numbers that scores are moved by, by how far a key stands from its query (Raffel et al. 2020, section 2.1): one for
//! each distance and head, the same wherever the two stand, so that what a query's neighboring keys get lies side by
//! side.

use crate::dispatch::{mul_add, multiversion};

/// What is added to the scores of a head before softmax, behind the factor 1/√d.
#[derive(Debug, Clone, Copy)]
pub struct DistanceBias<'a> {
    /// `[heads, 2 · reach + 1]`: of query i and key j at place `j − i + reach`.
    pub values: &'a [f32],
    /// The farthest distance that is there: sequences have up to `reach + 1` tokens.
    pub reach: usize,
}

impl DistanceBias<'_> {
    /// Whether every distance in sequences of up to `longest` tokens has a number for each of `heads`.
    pub(super) fn serves(&self, heads: usize, longest: usize) -> bool {
        longest <= self.reach + 1 && self.values.len() >= heads * (2 * self.reach + 1)
    }

    /// Adds to the scores of the query at place `query`, whose keys stand from place `key` on. What is added is
    /// multiplied by `factor`: 1, or what undoes a factor that the scores have yet to get.
    pub(super) fn add(
        &self,
        head: usize,
        query: usize,
        key: usize,
        factor: f32,
        scores: &mut [f32],
    ) {
        let first = head * (2 * self.reach + 1) + self.reach + key - query;
        add_multiple(&self.values[first..][..scores.len()], factor, scores);
    }
}

multiversion! {
    /// `out[i] += factor · values[i]`.
    fn add_multiple(values: &[f32], factor: f32, out: &mut [f32]) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = mul_add::<FUSED>(*value, factor, *out);
        }
    }
}
