//! Opening what was chosen: with the desktop's program for it where there is a desktop, else in the person's editor at
//! the line; what no editor can show is named.

use std::{
    env,
    process::{Command, Stdio},
};

use riddle_rag::SearchHit;
use riddle_types::Location;

use crate::{context::Context, failure::Failure, show};

/// How something is opened.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// By a program that has a window of its own.
    Desktop(&'static str),
    /// In this terminal.
    Editor(Vec<String>),
    /// Not at all.
    Named,
}

pub(super) fn open(hit: &SearchHit, context: &Context) -> Result<(), Failure> {
    let set = |name: &str| env::var(name).ok().filter(|it| !it.trim().is_empty());
    let remote = set("SSH_CONNECTION").is_some();
    let desktop = if cfg!(target_os = "macos") {
        (!remote).then_some("open")
    } else if cfg!(windows) {
        (!remote).then_some("explorer")
    } else {
        let display = set("WAYLAND_DISPLAY").or_else(|| set("DISPLAY"));
        display.filter(|_| !remote).map(|_| "xdg-open")
    };
    let problem = |program: &str, error: &std::io::Error| {
        let reason = show::io_reason(error);
        Failure::run(format!("{program} can not be started: {reason}: {}", show::path(&hit.path)))
    };
    match way(hit, desktop, set("VISUAL").or_else(|| set("EDITOR"))) {
        Way::Desktop(program) => {
            let mut command = Command::new(program);
            command.arg(&hit.path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().map_err(|it| problem(program, &it))?;
            context.out.line(show::path(&hit.path))
        }
        Way::Editor(words) => {
            let mut command = Command::new(&words[0]);
            let status =
                command.args(&words[1..]).status().map_err(|it| problem(&words[0], &it))?;
            if status.success() {
                return Ok(());
            }
            Err(Failure::run(format!("{} has failed: {}", words[0], show::path(&hit.path))))
        }
        Way::Named => {
            let place = show::clean(&hit.location.to_string());
            context.out.line(format_args!("{} · {place}", show::clean(&hit.path)))
        }
    }
}

fn way(hit: &SearchHit, desktop: Option<&'static str>, editor: Option<String>) -> Way {
    if let Some(program) = desktop {
        return Way::Desktop(program);
    }
    // Only what has lines is text.
    match (&hit.location, editor) {
        (Location::Line { start, .. }, Some(editor)) => {
            let mut words: Vec<String> = editor.split_whitespace().map(str::to_owned).collect();
            words.push(format!("+{start}"));
            words.push(hit.path.clone());
            Way::Editor(words)
        }
        _ => Way::Named,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::state::tests::hit, *};

    #[test]
    fn a_desktop_opens_it_else_an_editor_at_the_line_else_it_is_named() {
        let text = hit(1, "");
        let editor = || Some("vim -R".to_owned());
        assert_eq!(way(&text, Some("xdg-open"), editor()), Way::Desktop("xdg-open"));
        let words = ["vim", "-R", "+3", "/files/1.md"].map(str::to_owned).to_vec();
        assert_eq!(way(&text, None, editor()), Way::Editor(words));
        assert_eq!(way(&text, None, None), Way::Named);
        let page = SearchHit { location: Location::Page { start: 2, end: 2 }, ..text };
        assert_eq!(way(&page, None, editor()), Way::Named);
    }
}
