//! What the library tells, as sentences for other programs and the models that read them.

use riddle_rag::{NoAnswer, status::Problem};
use riddle_types::Notice;

use crate::{error::Error, sentences};

pub(crate) fn notices(of: &[Notice]) -> Vec<String> {
    of.iter().map(sentences::notice).collect()
}

pub(crate) fn problems(of: &[Problem]) -> Vec<String> {
    of.iter().map(sentences::problem).collect()
}

pub(crate) fn no_answer(of: NoAnswer) -> String {
    sentences::no_answer(of).to_owned()
}

/// What went wrong, and what can be done.
pub(crate) fn error(of: &Error) -> String {
    match of {
        Error::Rag(error) => sentences::told(error),
        _ => of.to_string(),
    }
}
