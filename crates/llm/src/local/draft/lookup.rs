//! Guesses without a model: an answer from passages repeats them (prompt lookup decoding, Saxena 2023; the longest of
//! the matching endings, as in REST, He et al. 2024, section 3.2).

use super::{Draft, pace::Pace};
use crate::{
    Result,
    local::{draft::Flow, sample::Guess},
};

/// Tokens that have to have stood there together: one alone stands everywhere.
const SHORTEST: usize = 2;

/// Tokens that are compared at most: more say no more.
const LONGEST: usize = 8;

/// Looks where the last tokens stood before, and guesses what followed them there.
#[derive(Debug)]
pub(crate) struct Lookup {
    pace: Pace,
}

impl Lookup {
    pub(crate) fn new() -> Lookup {
        Lookup { pace: Pace::new() }
    }
}

impl Draft for Lookup {
    fn begin(&mut self, _: &[u32], _: usize, _: &mut dyn FnMut() -> Flow) -> Result<Flow> {
        self.pace = Pace::new();
        Ok(Flow::Continue(()))
    }

    fn guess(&mut self, before: &[u32], token: u32, most: usize) -> Result<Vec<Guess>> {
        let most = self.pace.next(most);
        Ok(if most == 0 { Vec::new() } else { continued(before, token, most) })
    }

    fn judged(&mut self, guessed: usize, accepted: usize) {
        self.pace.judged(guessed, accepted);
    }
}

/// What followed the longest ending that was there before, the last one of several. A repetition goes on.
fn continued(before: &[u32], token: u32, most: usize) -> Vec<Guess> {
    let Some(from) = last_place(before, token) else { return Vec::new() };
    let mut all: Vec<u32> = before[from..].to_vec();
    all.push(token);
    let period = all.len();
    (0..most).map(|it| Guess::certain(all[it % period])).collect()
}

/// Where what followed begins.
fn last_place(before: &[u32], token: u32) -> Option<usize> {
    let mut best = (SHORTEST - 1, None);
    for place in (0..before.len()).rev().filter(|it| before[*it] == token) {
        let ending = before[..place].iter().rev().zip(before.iter().rev());
        let same = 1 + ending.take(LONGEST - 1).take_while(|(a, b)| a == b).count();
        if same > best.0 {
            best = (same, Some(place + 1));
        }
        if same == LONGEST {
            break;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn guessed(before: &[u32], token: u32, most: usize) -> Vec<u32> {
        continued(before, token, most).into_iter().map(|it| it.token).collect()
    }

    #[test]
    fn what_followed_the_longest_ending_follows_again() {
        // One token alone is no reason.
        assert!(guessed(&[1, 2, 3], 2, 4).is_empty() && guessed(&[], 2, 4).is_empty());
        assert_eq!(guessed(&[1, 2, 3, 4, 5, 1], 2, 3), [3, 4, 5]);
        // The longer ending, though the shorter one is nearer.
        assert_eq!(guessed(&[7, 1, 2, 3, 9, 1, 2, 4, 7, 1], 2, 2), [3, 9]);
        // The later one of two.
        assert_eq!(guessed(&[1, 2, 3, 1, 2, 4, 1], 2, 1), [4]);
        // Beyond the end it goes on as it went.
        assert_eq!(guessed(&[5, 6, 5], 6, 5), [5, 6, 5, 6, 5]);
        assert_eq!(guessed(&[8, 8], 8, 3), [8, 8, 8]);
    }

    proptest! {
        #[test]
        fn guesses_are_what_stands_behind_an_equal_ending(
            before in prop::collection::vec(0u32..4, 0..60), token in 0u32..4, most in 1usize..8,
        ) {
            let all: Vec<u32> = before.iter().copied().chain([token]).collect();
            let longest = |from: usize| (0..=from).rev().take(LONGEST)
                .zip((0..all.len()).rev()).take_while(|(a, b)| all[*a] == all[*b]).count();
            let expected = (0..before.len()).max_by_key(|it| (longest(*it), *it)).filter(|it| longest(*it) >= SHORTEST);
            let guesses = guessed(&before, token, most);
            match expected {
                None => prop_assert!(guesses.is_empty()),
                Some(place) => {
                    let mut all = all.clone();
                    for (number, guess) in guesses.iter().enumerate() {
                        prop_assert_eq!(*guess, all[place + 1 + number]);
                        all.push(*guess);
                    }
                    prop_assert_eq!(guesses.len(), most);
                }
            }
        }
    }
}
