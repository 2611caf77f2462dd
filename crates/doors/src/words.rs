//! What the library tells, as sentences for other programs and the models that read them. The one place that knows how
//! notices, problems and errors become words.
//!
//! The sentences are those of whoever starts a door: an assistant that reads "run `riddle index`" can pass it on to a
//! person who has the command line.

use std::sync::OnceLock;

use riddle_rag::{NoAnswer, Problem};
use riddle_types::Notice;

use crate::error::Error;

/// How the top that starts a door puts things.
#[derive(Debug, Clone, Copy)]
pub struct Sentences {
    /// What is to be known about a result.
    pub notice: fn(&Notice) -> String,
    /// What is wrong with a home.
    pub problem: fn(&Problem) -> String,
    /// Why there is no answer.
    pub no_answer: fn(NoAnswer) -> &'static str,
    /// What went wrong in the library, and what can be done.
    pub error: fn(&riddle_rag::Error) -> String,
}

static SENTENCES: OnceLock<Sentences> = OnceLock::new();

/// Says it this way from now on; the first one counts. Without any, kinds are shown as a developer sees them.
pub fn say(sentences: Sentences) {
    // A process has one top.
    let _ = SENTENCES.set(sentences);
}

pub(crate) fn notices(of: &[Notice]) -> Vec<String> {
    let words = SENTENCES.get();
    of.iter().map(|it| words.map_or_else(|| format!("{it:?}"), |say| (say.notice)(it))).collect()
}

pub(crate) fn problems(of: &[Problem]) -> Vec<String> {
    let words = SENTENCES.get();
    of.iter().map(|it| words.map_or_else(|| format!("{it:?}"), |say| (say.problem)(it))).collect()
}

pub(crate) fn no_answer(of: NoAnswer) -> String {
    SENTENCES.get().map_or_else(|| format!("{of:?}"), |say| (say.no_answer)(of).to_owned())
}

/// What went wrong, and what can be done.
pub(crate) fn error(of: &Error) -> String {
    match (of, SENTENCES.get()) {
        (Error::Rag(error), Some(say)) => (say.error)(error),
        _ => of.to_string(),
    }
}
