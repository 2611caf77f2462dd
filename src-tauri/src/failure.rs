//! Errors of the façade as the interface gets them.

use riddle_rag::{Error, models};
use riddle_types::Advised;

use crate::{
    convert::clean,
    dto::{Failure, FailureCode, Trouble},
};

/// What a command gives back.
pub(crate) type Reply<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), advice: None }
    }

    /// The request makes no sense.
    pub(crate) fn bad(message: impl Into<String>) -> Failure {
        Failure::new(FailureCode::BadRequest, message)
    }

    /// What was asked for is gone.
    pub(crate) fn gone(message: impl Into<String>) -> Failure {
        Failure::new(FailureCode::NotFound, message)
    }

    /// Something else.
    pub(crate) fn other(message: impl ToString) -> Failure {
        Failure::new(FailureCode::Other, message.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::NothingIndexed { .. } => FailureCode::NothingIndexed,
            Error::BadRequest(_) | Error::BadRoot { .. } => FailureCode::BadRequest,
            Error::NoModel { .. } | Error::NoModelAt { .. } => FailureCode::NotFound,
            Error::Models(models::Error::Offline { .. }) => FailureCode::Offline,
            Error::Models(models::Error::Stopped) => FailureCode::Cancelled,
            _ => FailureCode::Other,
        };
        let Trouble { message, advice } = Trouble::of(&error);
        Failure { code, message, advice }
    }
}

impl From<models::Error> for Failure {
    fn from(error: models::Error) -> Failure {
        Error::from(error).into()
    }
}

impl Trouble {
    /// That of an error.
    pub(crate) fn of<E: Advised + std::fmt::Display>(error: &E) -> Trouble {
        Trouble { message: clean(&error.to_string()), advice: error.advice().map(Into::into) }
    }
}

/// Work that ended in a panic.
pub(crate) fn broke_down(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureCode::Unloaded, format!("a part of the program broke down: {error}"))
}
