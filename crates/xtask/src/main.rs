//! `cargo xtask`: checks and chores of the repository.
//!
//! `tidy` looks at what neither the compiler nor clippy can see: edges between crates that must not
//! exist, docs that point nowhere, `unsafe` outside its rooms, functions and files that have outgrown
//! their reader. Each rule is a module of [`rules`], takes values, and returns [`finding::Finding`]s.
//! `lint` is `tidy` after rustfmt and clippy.
//!
//! Not here: building, testing, fetching anything. The Makefile does that, and calls this.

mod bindings;
mod cargo;
mod finding;
mod modules;
mod repository;
mod rules;
mod rust_source;
mod tidy;

use std::{
    env,
    io::Write as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  bindings   writes ui/src/lib/bindings.ts from the desktop app's commands
  tidy       crate edges, rooms, import circles, crate docs, links, prose, unsafe, lengths, left-overs, whitespace,
             large files, bindings, subjects of commits
  lint       rustfmt --check, clippy with warnings as errors, tidy; more arguments go to clippy
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["tidy"] => tidy::run(),
        ["lint", ref more @ ..] => lint(more),
        ["bindings"] => bindings::run(),
        ["help" | "--help" | "-h"] => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        _ => {
            complain(USAGE);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("xtask: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

/// All three run, so that one round shows everything there is to mend.
fn lint(more: &[&str]) -> Result<bool> {
    let formatted = cargo(&["fmt", "--all", "--", "--check"])?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked"];
    let clean = cargo(&[&clippy[..], more, &["--", "-D", "warnings"]].concat())?;
    let tidied = tidy::run()?;
    Ok(formatted && clean && tidied)
}

fn cargo(arguments: &[&str]) -> Result<bool> {
    let line = format!("cargo {}", arguments.join(" "));
    say(&format!("{line}\n"));
    // Set by cargo for what it starts: the same toolchain again, not the first one on the path.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    // What cargo says of this package to this process: build scripts that look at it (ring's) would run again, and with
    // them a third of the dependencies would be built again after every check.
    let own = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it));
    for (name, _) in env::vars_os().filter(|it| it.0.to_str().is_some_and(own)) {
        command.env_remove(name);
    }
    let status = command
        .args(arguments)
        .current_dir(repository::root())
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    Ok(status.success())
}

/// A closed pipe (`cargo xtask tidy | head`) is no reason to fail.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
