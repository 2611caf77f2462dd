use proptest::prelude::*;
use tokenizers::{TruncationParams, TruncationStrategy, utils::truncation::truncate_encodings};

use super::*;

fn encoding(length: usize) -> Encoding {
    let tokens = (0..length).map(|it| tokenizers::Token::new(it as u32, String::new(), (0, 0)));
    Encoding::from_tokens(tokens.collect(), 0)
}

proptest! {
    #[test]
    fn the_longer_text_is_cut_as_the_library_cuts(first in 0usize..40, second in 0usize..40, room in 2usize..60) {
        let params = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: room,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let (a, b) = truncate_encodings(encoding(first), Some(encoding(second)), &params).expect("cut");
        let b = b.map_or(0, |it| it.len());
        prop_assert_eq!(longest_first(first, second, room), (a.len(), b));
    }
}
