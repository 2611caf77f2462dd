//! The terminal while it is drawn on: another screen, no echo; and as it was, however it ends.

use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

use console::Term;

use super::{screen, state::Finder};
use crate::output::Style;

/// To another screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal that was taken over.
pub(super) struct Screen {
    term: Term,
    style: Style,
    /// How it was, as `stty` says it.
    before: Option<String>,
    /// What is on it.
    drawn: Vec<String>,
    size: (u16, u16),
}

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        let term = Term::stderr();
        // Keys that come while none is read are not shown, and not kept for a line.
        let before = stty(&["-g"]);
        if before.is_some() {
            stty(&["-echo", "-icanon", "min", "1"]);
        }
        let set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let style = Style::of_screen(!set("NO_COLOR"));
        let mut screen = Screen { term, style, before, drawn: Vec::new(), size: (0, 0) };
        screen.write(ENTER)?;
        Ok(screen)
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, finder: &Finder) -> io::Result<()> {
        let size = self.term.size();
        let lines = screen::lines(finder, size.1.into(), size.0.into(), self.style);
        if lines == self.drawn && size == self.size {
            return Ok(());
        }
        let mut text = "\x1b[H".to_owned();
        for (place, line) in lines.iter().enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        self.write(&text)?;
        (self.drawn, self.size) = (lines, size);
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.term.write_all(text.as_bytes())?;
        self.term.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.write(LEAVE);
        if let Some(before) = &self.before {
            stty(&[before]);
        }
    }
}

/// What `stty` says of the terminal at stdin; `None` where it can not be asked.
fn stty(args: &[&str]) -> Option<String> {
    let said = Command::new("stty")
        .args(args)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|it| it.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
