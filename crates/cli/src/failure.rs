//! How a command fails: one line that says what and what to do, and the exit code.

use std::{io::Write as _, process::ExitCode};

use crate::words;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense: exit code 2.
    Usage(String),
    /// The run failed: exit code 1.
    Run(anyhow::Error),
    /// Whoever read our output has gone (`riddle search … | head -1`): quiet, exit code 0.
    OutputClosed,
}

impl Failure {
    /// Wrong usage.
    pub(crate) fn usage(why: impl Into<String>) -> Failure {
        Failure::Usage(why.into())
    }

    /// A failed run.
    pub(crate) fn run(why: impl Into<String>) -> Failure {
        Failure::Run(anyhow::Error::msg(why.into()))
    }

    /// Whether the home is encrypted and nobody has unlocked it.
    pub(crate) fn is_sealed(&self) -> bool {
        let Failure::Run(error) = self else { return false };
        error.chain().any(|it| match it.downcast_ref() {
            // Transparent: it is told as what it holds, and hides that from the chain.
            Some(riddle_doors::Error::Rag(error)) => error.is_sealed(),
            _ => it.downcast_ref().is_some_and(riddle_rag::Error::is_sealed),
        })
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Run(_) => ExitCode::FAILURE,
            Failure::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// The line for stderr.
    fn line(&self) -> String {
        match self {
            Failure::Usage(why) => one_line(why),
            Failure::Run(error) => one_line(&words::line(error, chain(error))),
            Failure::OutputClosed => String::new(),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Run(error.into())
    }
}

/// Prints the failure's line.
pub(crate) fn report(failure: &Failure) {
    // With stderr closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "riddle: {}", failure.line());
}

/// Says something to people beside what is printed for programs.
pub(crate) fn note(words: &str) {
    let _ = writeln!(std::io::stderr(), "note: {words}");
}

/// The error and its causes, without causes that the message above them already holds.
fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.contains(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    line
}

/// Messages quote file names and foreign libraries: line breaks and control characters are spaces.
fn one_line(text: &str) -> String {
    let clean = text.replace(|c: char| c.is_control(), " ");
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_without_repetitions() {
        let inner = std::io::Error::other("disk\n\x1b[31mgone");
        let outer = format!("outer: {inner}");
        let failure = Failure::from(anyhow::Error::new(inner).context(outer));
        assert_eq!(failure.line(), "outer: disk [31mgone");
        let failure = Failure::Run(anyhow::anyhow!("root").context("top"));
        assert_eq!(failure.line(), "top: root");
    }

    #[test]
    fn exit_codes_are_the_contract() {
        assert_eq!(Failure::usage("x").exit_code(), ExitCode::from(2));
        assert_eq!(Failure::run("x").exit_code(), ExitCode::from(1));
    }
}
