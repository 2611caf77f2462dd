//! How much is guessed at a time: more where guesses are right, and nothing for a while where none is.

use riddle_kernels::MOST_AS_ONE;

/// Guesses that are computed together with the token before them.
const MOST: usize = MOST_AS_ONE - 1;

/// Guesses at first.
const FIRST: usize = 4;

/// Powers of two of the longest rest, in tokens: a pass with guesses in vain takes up to half as long again as one
/// without, and so costs less than two percent.
const LONGEST_REST: u32 = 5;

/// Decides by what came of the guesses before and by nothing else, no clock among it: a seed gives the same answer
/// whatever the machine does besides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    length: usize,
    /// Tokens that are written before the next guess.
    rest: usize,
    /// Passes in a row none of whose guesses was right.
    misses: u32,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        Pace { length: FIRST, rest: 0, misses: 0 }
    }

    /// How many tokens to guess now, of up to `most`. It is asked once for each pass.
    pub(crate) fn next(&mut self, most: usize) -> usize {
        if self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        self.length.min(most)
    }

    pub(crate) fn judged(&mut self, guessed: usize, accepted: usize) {
        if guessed == 0 {
            return;
        }
        if accepted == 0 {
            self.misses = (self.misses + 1).min(LONGEST_REST);
            self.rest = (1 << self.misses) - 1;
            self.length = (self.length / 2).max(1);
        } else {
            self.misses = 0;
            self.length =
                if accepted == guessed { (2 * guessed).max(self.length) } else { accepted + 1 };
            self.length = self.length.min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_guesses_become_longer_and_wrong_ones_rare() {
        let mut pace = Pace::new();
        assert_eq!((pace.next(9), pace.next(2)), (FIRST, 2));
        pace.judged(4, 4);
        assert_eq!(pace.next(9), MOST);
        pace.judged(7, 2);
        assert_eq!(pace.next(9), 3);
        // Nothing was known: nothing is learned.
        pace.judged(0, 0);
        assert_eq!(pace.next(9), 3);
        let mut passes = 0;
        for _ in 0..1000 {
            let guessed = pace.next(7);
            passes += usize::from(guessed > 0);
            pace.judged(guessed, 0);
        }
        assert!(passes <= 1000 / (1 << LONGEST_REST) + 6, "{passes} of 1000");
        // It never gives up for good.
        while pace.next(7) == 0 {}
        pace.judged(1, 1);
        assert_eq!(pace.next(7), 2);
    }
}
