//! Token after token behind a prompt, several in a pass where they could be guessed.

use riddle_types::GenerationStats;

use super::{Engine, Flow};
use crate::{
    Result,
    local::{
        draft::Draft,
        sample::{Guess, Sampler},
    },
};

/// How tokens are written.
pub(crate) struct How<'a> {
    /// Tokens at most.
    pub(crate) most: usize,
    pub(crate) sampler: &'a mut Sampler,
    pub(crate) ends: Ends,
    /// What is written first, whatever the model would write: for measurements.
    pub(crate) told: &'a [u32],
    pub(crate) draft: &'a mut dyn Draft,
}

/// What a token does that a model writes at the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// It ends the answer.
    Heard,
    /// Nothing, it is a token like others: for measurements of a fixed length.
    Ignored,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The model said so.
    Said,
    /// It was as long as allowed, or the context was full.
    Full,
    /// Somebody stopped it.
    Stopped,
}

/// The last pass: a token and guesses of those after it, whose keys and values are in the cache.
#[derive(Default)]
struct Ahead {
    guesses: Vec<Guess>,
    /// Guesses that the model wrote: the logits after the last of them are next.
    right: usize,
}

impl Engine {
    /// Writes behind what was read, as [`generate`](Self::generate) says. Which tokens these are does not depend on
    /// the guesses, unless they are drawn.
    pub(super) fn decode(
        &mut self,
        how: &mut How<'_>,
        take: &mut dyn FnMut(&[u8]) -> Flow,
        stats: &mut GenerationStats,
    ) -> Result<End> {
        let vocabulary = self.model.config().vocab_size;
        let mut ahead = Ahead::default();
        loop {
            let logits = &mut self.logits[ahead.right * vocabulary..][..vocabulary];
            let guess = ahead.guesses.get(ahead.right);
            let token = match (guess, how.told.get(stats.tokens)) {
                (Some(guess), _) => how.sampler.judge(logits, &self.tokens, guess),
                (None, Some(told)) => *told,
                (None, None) => how.sampler.choose(logits, &self.tokens),
            };
            let is_right = guess.is_some_and(|it| it.token == token);
            stats.accepted_tokens += usize::from(is_right);
            if how.ends == Ends::Heard && self.tokenizer.is_end(token) {
                return Ok(End::Said);
            }
            stats.tokens += 1;
            let flow = take(self.tokenizer.piece(token));
            if stats.tokens >= how.most || self.tokens.len() >= self.context() {
                return Ok(End::Full);
            }
            if flow.is_break() {
                return Ok(End::Stopped);
            }
            if is_right {
                self.tokens.push(token);
                ahead.right += 1;
                continue;
            }
            how.draft.judged(ahead.guesses.len(), ahead.right);
            let guesses = self.guesses(token, how, stats.tokens)?;
            stats.drafted_tokens += guesses.len();
            if !self.write_ahead(token, &guesses)? {
                return Ok(End::Stopped);
            }
            ahead = Ahead { guesses, right: 0 };
        }
    }

    /// Guesses of what follows `token`: no more than may still be written, and one that no guess is needed for follows
    /// the last of them.
    fn guesses(&mut self, token: u32, how: &mut How<'_>, written: usize) -> Result<Vec<Guess>> {
        let room = self.context() - self.tokens.len() - 1;
        let most = (how.most - written - 1).min(room).min(self.plan.rows - 1);
        let mut guesses = how.draft.guess(&self.tokens, token, most)?;
        let known = |it: &Guess| (it.token as usize) < self.model.config().vocab_size;
        guesses.truncate(guesses.iter().take(most).take_while(|it| known(it)).count());
        Ok(guesses)
    }

    /// Computes a token and guesses of those behind it, of which only the token is held to be written. Whether nobody
    /// stopped it.
    fn write_ahead(&mut self, token: u32, guesses: &[Guess]) -> Result<bool> {
        let mut tokens = vec![token];
        tokens.extend(guesses.iter().map(|it| it.token));
        let before = self.tokens.len();
        let flow = self.write(&tokens, tokens.len())?;
        // What the guesses left in the cache is written over, unless they are right.
        self.tokens.truncate(before + 1);
        Ok(flow.is_continue())
    }
}
