//! Where the passphrase of an encrypted home comes from: the keyring, the environment, or a person at a terminal.

use std::io::IsTerminal as _;

use console::Term;
use riddle_rag::encryption::{self, Protection};

use crate::{args::passphrase_of_environment, context::Context, failure::Failure};

/// How often a person may mistype.
const ATTEMPTS: usize = 3;

/// Opens the home; `false`: nobody has what opens it, and nobody can be asked.
pub(crate) fn unlock(context: &Context) -> Result<bool, Failure> {
    let protection = encryption::protection(&context.config)?;
    let by_passphrase = protection != Protection::Locked { by_passphrase: false };
    if let Some(passphrase) = passphrase_of_environment().filter(|_| by_passphrase) {
        encryption::unlock(&context.config, &passphrase)?;
        return Ok(true);
    }
    if encryption::unlock_from_keyring(&context.config)? {
        return Ok(true);
    }
    if !by_passphrase {
        // No passphrase opens it: that is what is said.
        encryption::unlock(&context.config, "")?;
    }
    if !can_ask() {
        return Ok(false);
    }
    for attempt in 1.. {
        let Some(passphrase) = ask("Passphrase of this home: ")? else { return Ok(false) };
        match encryption::unlock(&context.config, &passphrase) {
            Ok(()) => break,
            Err(error) if attempt == ATTEMPTS => return Err(error.into()),
            Err(error) => Term::stderr().write_line(&format!("riddle: {error}"))?,
        }
    }
    Ok(true)
}

/// Whether somebody sits there.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks, without showing what is typed; `None`: nothing was.
pub(crate) fn ask(question: &str) -> Result<Option<String>, Failure> {
    let terminal = Term::stderr();
    terminal.write_str(question)?;
    Ok(Some(terminal.read_secure_line()?).filter(|it| !it.is_empty()))
}

/// A new passphrase, typed twice.
pub(crate) fn ask_new() -> Result<String, Failure> {
    let first = ask("New passphrase: ")?.ok_or_else(|| Failure::run("the passphrase is empty"))?;
    if ask("Once more: ")?.as_deref() != Some(&first) {
        return Err(Failure::run("the two are not the same: nothing was changed"));
    }
    Ok(first)
}
