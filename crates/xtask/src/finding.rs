//! What a rule has to say.

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Worth a look; does not fail.
    Warning,
    /// Fails.
    Error,
}

/// Something a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// File, relative to the root; or a commit.
    pub(crate) path: String,
    /// Line, from 1; 1 where the file as a whole is meant.
    pub(crate) line: usize,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn error(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, path: path.to_owned(), line, message: message.into() }
    }
}
