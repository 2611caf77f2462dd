//! What the library tells, as sentences for other programs and the models that read them. The one place that knows how
//! notices, problems and errors become words.

use crate::error::Error;

/// What is to be known about a result.
pub(crate) fn notices(of: &[String]) -> Vec<String> {
    of.to_vec()
}

/// What is wrong with the library.
pub(crate) fn problems(of: &[String]) -> Vec<String> {
    of.to_vec()
}

/// Why there is no answer.
pub(crate) fn no_answer(of: &str) -> String {
    of.to_owned()
}

/// What went wrong, and what can be done.
pub(crate) fn error(of: &Error) -> String {
    of.to_string()
}
