//! Why a scan passes a file by, in English; the app says it in its languages.

/// A reason for the ledger.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Passed {
    /// A pipe, a socket or a device.
    #[error("not a regular file")]
    NotRegular,
    /// Reading it would fetch it.
    #[error("its bytes are in the cloud")]
    InCloud,
    /// Its size forbids reading it.
    #[error("larger than the limit of {limit}")]
    TooLarge {
        /// The limit with its unit.
        limit: String,
    },
    /// A pattern of the person's, or of a file of rules.
    #[error("rule {pattern:?} in {source_of_it}")]
    Rule {
        /// As it is written.
        pattern: String,
        /// Where.
        source_of_it: String,
    },
    /// Where the person's own patterns are.
    #[error("excluded patterns")]
    OwnPatterns,
    /// A folder that holds what programs make.
    #[error("built-in rule: folders named {name}")]
    BuiltIn {
        /// Its name.
        name: String,
    },
    /// Unix hides it.
    #[error("hidden: the name begins with a dot")]
    Hidden,
    /// Folders in folders without end.
    #[error("more than {most} folders deep")]
    TooDeep {
        /// The limit.
        most: usize,
    },
    /// It would be read under two names.
    #[error("behind a link")]
    BehindLink,
    /// A hint of something elsewhere.
    #[error("not a path below the root")]
    NotBelow,
}
