//! Where output goes: stdout for results, and nothing else there.

use std::{
    fmt::Display,
    io::{ErrorKind, IsTerminal as _, Write as _},
};

use serde_json::Value;

use crate::failure::Failure;

/// Writes to stdout; a reader that has gone ends the command quietly.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Output;

impl Output {
    /// A piece of text.
    pub(crate) fn text(self, text: impl Display) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        write!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(closed)
    }

    /// A line.
    pub(crate) fn line(self, line: impl Display) -> Result<(), Failure> {
        self.text(format_args!("{line}\n"))
    }

    /// The one JSON value of `--json`.
    pub(crate) fn json(self, value: &Value) -> Result<(), Failure> {
        self.line(serde_json::to_string_pretty(value)?)
    }
}

fn closed(error: std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        return Failure::OutputClosed;
    }
    Failure::Run(anyhow::Error::new(error).context("the output can not be written"))
}

/// Colors and the like, or none of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    colored: bool,
}

impl Style {
    /// Colors only on a terminal that can show them, and never against the user's will
    /// (<https://no-color.org>).
    pub(crate) fn of_stdout() -> Style {
        let set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        Style { colored: std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb }
    }

    /// For what is drawn on a terminal, wherever stdout goes.
    pub(crate) fn of_screen(colored: bool) -> Style {
        Style { colored }
    }

    #[cfg(test)]
    pub(crate) fn with_colors(colored: bool) -> Style {
        Style { colored }
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn cyan(self, text: impl Display) -> String {
        self.wrap("36", text)
    }

    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colors_text_stays_as_it_is() {
        assert_eq!(Style::with_colors(false).bold("x"), "x");
        assert_eq!(Style::with_colors(true).bold("x"), "\x1b[1mx\x1b[0m");
    }
}
