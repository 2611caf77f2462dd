//! Guesses of what a model writes next. They are computed together with the token before them, in the time that one
//! takes, because fetching the weights is what takes it; what the model would not have written is thrown away, so an
//! answer is the same with every draft, and with none (Leviathan et al. 2023, "Fast Inference from Transformers via
//! Speculative Decoding").

mod lookup;
mod pace;

use std::{fmt, ops::ControlFlow, path::PathBuf};

pub(crate) use lookup::Lookup;
pub(super) use pace::Pace;

use super::sample::Guess;
use crate::Result;

/// How a pass ended.
pub(crate) type Flow = ControlFlow<()>;

/// Who guesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Drafting {
    /// Nobody: token after token.
    Nothing,
    /// The prompt and what is written already: what followed the last tokens there follows them again.
    #[default]
    Lookup,
    /// A small model of the same family.
    Model(PathBuf),
}

/// Guesses what follows.
pub(crate) trait Draft: fmt::Debug + Send {
    /// Begins an answer to `prompt`, after which up to `most` tokens are written.
    ///
    /// # Errors
    /// When layers can not be read.
    fn begin(
        &mut self,
        prompt: &[u32],
        most: usize,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow>;

    /// Up to `most` tokens that may follow `token`, which follows `before`.
    ///
    /// # Errors
    /// When layers can not be read.
    fn guess(&mut self, before: &[u32], token: u32, most: usize) -> Result<Vec<Guess>>;

    /// How many of the last guesses the model wrote.
    fn judged(&mut self, guessed: usize, accepted: usize);

    /// Bytes of weights in memory.
    fn resident_bytes(&self) -> u64 {
        0
    }
}

/// Guesses nothing.
#[derive(Debug)]
pub(crate) struct NoDraft;

impl Draft for NoDraft {
    fn begin(&mut self, _: &[u32], _: usize, _: &mut dyn FnMut() -> Flow) -> Result<Flow> {
        Ok(Flow::Continue(()))
    }

    fn guess(&mut self, _: &[u32], _: u32, _: usize) -> Result<Vec<Guess>> {
        Ok(Vec::new())
    }

    fn judged(&mut self, _: usize, _: usize) {}
}
