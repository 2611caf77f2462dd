//! Guesses of a small model that has the same tokens.

use std::path::Path;

use riddle_kernels::MOST_AS_ONE;
use riddle_transformer::LanguageTokenizer;

use super::{
    LocalOptions, Sampling,
    draft::{Draft, Flow, Pace},
    engine::Engine,
    plan::Beside,
    sample::{Guess, Sampler},
};
use crate::{Error, Result};

/// Tokens that one of two models of a family may have more than the other: rows that fill a table up (Qwen 2.5 has
/// 151 936 with 0.5 billion parameters, 152 064 with 7).
const FILLERS: usize = 1024;

/// A guess is not made where the likeliest token is less likely than this: it would be wrong more often than computing
/// it is worth.
const LEAST: f32 = 0.3;

/// A small model, which is wholly in memory. It writes on by itself, and takes back what was not accepted.
#[derive(Debug)]
pub(crate) struct ModelDraft {
    engine: Engine,
    sampler: Sampler,
    sampling: Sampling,
    pace: Pace,
    /// See [`LEAST`].
    least: f32,
}

impl ModelDraft {
    /// Opens the model in `path` to guess for one that is run with `options`.
    ///
    /// # Errors
    /// A file that is not a supported model; `go_on` broke.
    pub(crate) fn open(
        path: &Path,
        options: &LocalOptions,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<ModelDraft> {
        let own = LocalOptions { memory_budget: None, ..options.clone() };
        let beside = Beside { rows: 1, bytes: 0 };
        let engine = Engine::open(path, &own, beside, go_on)?;
        let sampling = options.sampling.for_guesses();
        let sampler = Sampler::new(sampling);
        Ok(ModelDraft { engine, sampler, sampling, pace: Pace::new(), least: LEAST })
    }

    /// Guesses whatever is likeliest.
    #[cfg(test)]
    pub(crate) fn bold(self) -> ModelDraft {
        ModelDraft { least: 0.0, ..self }
    }

    /// Bytes that it will take beside what it takes already: memory that is given when it is written to.
    pub(crate) fn unseen_bytes(&self) -> u64 {
        self.engine.unseen_bytes()
    }

    /// Whether it has the tokens of a model.
    ///
    /// # Errors
    /// [`Error::Draft`] with the first difference.
    pub(crate) fn check(&self, tokenizer: &LanguageTokenizer, model: &Path) -> Result<()> {
        let own = &self.engine.tokenizer;
        let lengths = [own.vocab_len(), tokenizer.vocab_len()];
        let shown = |tokenizer: &LanguageTokenizer, id| {
            String::from_utf8_lossy(tokenizer.name(id)).into_owned()
        };
        let why = match own.first_difference(tokenizer) {
            Some(id) => {
                let (here, there) = (shown(own, id), shown(tokenizer, id));
                format!("its token {id} is {here:?} and not {there:?}")
            }
            None if lengths[0].abs_diff(lengths[1]) > FILLERS => {
                format!("it has {} tokens and not {}", lengths[0], lengths[1])
            }
            None => return Ok(()),
        };
        let name = |path: &Path| {
            path.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned())
        };
        let draft = name(self.engine.model.file().path());
        Err(Error::Draft { draft, model: name(model), why })
    }

    /// Whether it has these tokens: a larger model may have more.
    fn knows(&self, tokens: &[u32]) -> bool {
        let vocabulary = self.engine.model.config().vocab_size;
        tokens.iter().all(|it| (*it as usize) < vocabulary)
    }
}

impl Draft for ModelDraft {
    fn begin(
        &mut self,
        prompt: &[u32],
        most: usize,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow> {
        self.pace = Pace::new();
        self.sampler = Sampler::new(self.sampling);
        // Behind a prompt that it has no room for it guesses nothing.
        if prompt.len() >= self.engine.context() || !self.knows(prompt) {
            return Ok(Flow::Continue(()));
        }
        self.engine.read_alone(prompt, most, go_on)
    }

    fn guess(&mut self, before: &[u32], token: u32, most: usize) -> Result<Vec<Guess>> {
        let room = self.engine.context().saturating_sub(before.len() + 1);
        let most = self.pace.next(most.min(room));
        let mut guesses: Vec<Guess> = Vec::new();
        if most == 0 {
            return Ok(guesses);
        }
        let mut new = self.engine.keep(before).to_vec();
        new.push(token);
        if !self.knows(&new) {
            return Ok(guesses);
        }
        while guesses.len() < most {
            for part in new.chunks(MOST_AS_ONE) {
                if self.engine.write(part, 1)?.is_break() {
                    return Ok(guesses);
                }
            }
            let Some(guess) = self.engine.guess(&mut self.sampler, self.least) else { break };
            new = vec![guess.token];
            let is_last = self.engine.tokenizer.is_end(guess.token);
            guesses.push(guess);
            if is_last {
                break;
            }
        }
        Ok(guesses)
    }

    fn judged(&mut self, guessed: usize, accepted: usize) {
        self.pace.judged(guessed, accepted);
    }

    fn resident_bytes(&self) -> u64 {
        self.engine.resident_bytes()
    }
}
