//! The last layer of a model whose head reads one token of each sequence.

use crate::ScoredToken;

/// Moves what the scored tokens have in the first `width` columns of rows of `stride` to the first rows, one per
/// sequence; returns how many.
pub(crate) fn gather(
    token: ScoredToken,
    cu_seqlens: &[usize],
    (width, stride): (usize, usize),
    rows: &mut [f32],
) -> usize {
    let sequences = cu_seqlens.len().saturating_sub(1);
    for (sequence, ends) in cu_seqlens.windows(2).enumerate() {
        let place = if token == ScoredToken::Last { ends[1] - 1 } else { ends[0] };
        // Sequences are not empty, so no row is overwritten before it has moved.
        rows.copy_within(place * stride..place * stride + width, sequence * stride);
    }
    sequences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scored_tokens_move_to_the_beginning() {
        let cu_seqlens = [0, 3, 4, 6];
        let states: Vec<f32> = (0..12).map(|it| it as f32).collect();
        for (token, expected) in [
            (ScoredToken::First, [0.0, 1.0, 6.0, 7.0, 8.0, 9.0]),
            (ScoredToken::Last, [4.0, 5.0, 6.0, 7.0, 10.0, 11.0]),
        ] {
            let mut hidden = states.clone();
            assert_eq!(gather(token, &cu_seqlens, (2, 2), &mut hidden), 3);
            assert_eq!(hidden[..6], expected);
            // Columns of their own stay.
            let mut wide = states.clone();
            gather(token, &[0, 2, 3], (1, 4), &mut wide);
            let first = if token == ScoredToken::First { 0.0 } else { 4.0 };
            assert_eq!(wide[..8], [first, 1.0, 2.0, 3.0, 8.0, 5.0, 6.0, 7.0]);
        }
    }
}
