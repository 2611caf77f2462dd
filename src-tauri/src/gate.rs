//! Before the library is open: a home that is encrypted waits for its passphrase, and one that is to be encrypted, or
//! no longer, for the word to begin. Both need a home that nobody has open, so the program starts anew for them.

use std::sync::{Mutex, PoisonError};

use riddle_doors::journal::Journal;
use riddle_rag::{
    Config, Library,
    encryption::{self, Protection},
};
use tauri::{AppHandle, Manager as _, Runtime};

use crate::{
    desktop,
    dto::{Failure, Gate as State},
    failure::Reply,
    instance::Ask,
    shell::Shell,
    window,
};

/// Words that the program starts itself anew with.
pub(crate) const ENCRYPT: &str = "--encrypt";
pub(crate) const DECRYPT: &str = "--decrypt";

/// What the program was started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Open,
    Encrypt,
    Decrypt,
}

/// The gate of this program's home.
pub(crate) struct Gate {
    config: Config,
    inner: Mutex<Inner>,
}

struct Inner {
    purpose: Purpose,
    /// What is to be done once the library is open.
    ask: Option<Ask>,
    /// The word that the program is to start anew with when it ends.
    again: Option<&'static str>,
}

impl Gate {
    pub(crate) fn new(config: Config, purpose: Purpose, ask: Ask) -> Gate {
        Gate { config, inner: Mutex::new(Inner { purpose, ask: Some(ask), again: None }) }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a person has to do something before the library opens. A key in the system's keyring opens it.
    pub(crate) fn is_closed(&self) -> riddle_rag::Result<bool> {
        if self.inner().purpose != Purpose::Open {
            return Ok(true);
        }
        Ok(matches!(encryption::protection(&self.config)?, Protection::Locked { .. })
            && !encryption::unlock_from_keyring(&self.config)?)
    }

    /// What the interface draws.
    pub(crate) fn state<R: Runtime>(&self, app: &AppHandle<R>) -> Reply<State> {
        if app.try_state::<Shell>().is_some() {
            return Ok(State::Open);
        }
        let protection = encryption::protection(&self.config)?;
        let by_passphrase = match protection {
            Protection::Locked { by_passphrase } => by_passphrase,
            Protection::None | Protection::Unlocked { .. } => false,
        };
        let purpose = self.inner().purpose;
        Ok(match (purpose, protection) {
            (Purpose::Encrypt, Protection::None) => State::Encrypt,
            (Purpose::Decrypt, Protection::Locked { .. } | Protection::Unlocked { .. }) => {
                State::Decrypt { by_passphrase }
            }
            _ => State::Locked { by_passphrase },
        })
    }

    /// Opens what a passphrase or the keyring opens.
    fn unlock(&self, passphrase: &str) -> Reply<()> {
        match encryption::protection(&self.config)? {
            Protection::Locked { by_passphrase: true } => {
                Ok(encryption::unlock(&self.config, passphrase)?)
            }
            Protection::Locked { by_passphrase: false } => {
                match encryption::unlock_from_keyring(&self.config)? {
                    true => Ok(()),
                    false => {
                        Err(Failure::other("the keyring does not give the key of this library"))
                    }
                }
            }
            Protection::None | Protection::Unlocked { .. } => Ok(()),
        }
    }

    /// Opens the library with its passphrase.
    ///
    /// # Errors
    /// Another passphrase; a keyring that gives or keeps no key: the library opens without being remembered.
    pub(crate) fn enter<R: Runtime>(
        &self,
        app: &AppHandle<R>,
        passphrase: &str,
        remember: bool,
    ) -> Reply<()> {
        self.unlock(passphrase)?;
        self.open(app)?;
        if remember {
            encryption::remember_key(&self.config)?;
        }
        Ok(())
    }

    /// Encrypts the home and opens the library.
    ///
    /// # Errors
    /// When it can not be encrypted: it stays as it was, and closed.
    pub(crate) fn encrypt<R: Runtime>(
        &self,
        app: &AppHandle<R>,
        passphrase: &str,
        remember: bool,
    ) -> Reply<()> {
        let journal = Journal::of(&self.config.home, false).files();
        encryption::encrypt(&self.config, Some(passphrase), remember, &journal)?;
        self.rebuild()?;
        self.open(app)
    }

    /// Takes the encryption back and opens the library.
    ///
    /// # Errors
    /// Another passphrase; when it can not be written.
    pub(crate) fn decrypt<R: Runtime>(&self, app: &AppHandle<R>, passphrase: &str) -> Reply<()> {
        self.unlock(passphrase)?;
        encryption::decrypt(&self.config)?;
        self.rebuild()?;
        self.open(app)
    }

    fn rebuild(&self) -> Reply<()> {
        Ok(Library::open(self.config.clone())?.rebuild_indexes(&mut |_| {})?)
    }

    /// Leaves the home as it is.
    ///
    /// # Errors
    /// When it can not be opened; a locked one waits for its passphrase.
    pub(crate) fn leave<R: Runtime>(&self, app: &AppHandle<R>) -> Reply<()> {
        self.inner().purpose = Purpose::Open;
        if self.is_closed()? {
            return Ok(());
        }
        self.open(app)
    }

    /// Opens the library, and does what the program does at its start.
    pub(crate) fn open<R: Runtime>(&self, app: &AppHandle<R>) -> Reply<()> {
        self.inner().purpose = Purpose::Open;
        if app.try_state::<Shell>().is_some() {
            return Ok(());
        }
        let shell = Shell::open(self.config.clone())?;
        if app.manage(shell.clone()) {
            self.begin(app, &shell);
        } else {
            shell.close();
        }
        Ok(())
    }

    /// What waits for an open library.
    pub(crate) fn begin<R: Runtime>(&self, app: &AppHandle<R>, shell: &Shell) {
        if let Some(event) = self.inner().ask.take().and_then(window::event) {
            // There may be no page yet that could hear it.
            shell.tell_or_keep(event);
        }
        desktop::apply_at_start(app, shell);
        shell.open_door_at_start();
    }

    /// Ends the program, which starts anew with that word.
    pub(crate) fn start_anew<R: Runtime>(&self, app: &AppHandle<R>, word: &'static str) {
        self.inner().again = Some(word);
        app.exit(0);
    }

    /// Starts the program anew, if that was asked for. This one has let go of the home.
    pub(crate) fn again(&self) {
        let Some(word) = self.inner().again.take() else { return };
        let started = std::env::current_exe()
            .and_then(|program| std::process::Command::new(program).arg(word).spawn());
        if let Err(error) = started {
            tracing::error!("the program does not start anew: {error}");
        }
    }
}
