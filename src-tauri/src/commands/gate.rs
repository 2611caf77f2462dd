//! Before the library is open, and what opens it.

use riddle_rag::encryption::{self, Protection};
use tauri::{AppHandle, Manager as _, Runtime, State};

use super::{Reply, beside};
use crate::{
    dto::{Encryption, Gate},
    gate,
    shell::Shell,
};

/// What stands before the library: the first thing the interface asks for.
#[tauri::command]
pub(crate) async fn gate<R: Runtime>(app: AppHandle<R>) -> Reply<Gate> {
    beside(move || app.state::<gate::Gate>().state(&app)).await
}

/// Opens an encrypted library. With `remember` the system's keyring keeps its key from now on.
#[tauri::command]
pub(crate) async fn gate_unlock<R: Runtime>(
    app: AppHandle<R>,
    passphrase: String,
    remember: bool,
) -> Reply<()> {
    beside(move || app.state::<gate::Gate>().enter(&app, &passphrase, remember)).await
}

/// Encrypts the library and opens it.
#[tauri::command]
pub(crate) async fn gate_encrypt<R: Runtime>(
    app: AppHandle<R>,
    passphrase: String,
    remember: bool,
) -> Reply<()> {
    beside(move || app.state::<gate::Gate>().encrypt(&app, &passphrase, remember)).await
}

/// Takes the encryption back and opens the library.
#[tauri::command]
pub(crate) async fn gate_decrypt<R: Runtime>(app: AppHandle<R>, passphrase: String) -> Reply<()> {
    beside(move || app.state::<gate::Gate>().decrypt(&app, &passphrase)).await
}

/// Opens the library as it is.
#[tauri::command]
pub(crate) async fn gate_leave<R: Runtime>(app: AppHandle<R>) -> Reply<()> {
    beside(move || app.state::<gate::Gate>().leave(&app)).await
}

/// Whether the library is encrypted, and by what.
#[tauri::command]
pub(crate) async fn encryption(shell: State<'_, Shell>) -> Reply<Encryption> {
    let shell = shell.inner().clone();
    beside(move || state(&shell)).await
}

/// Starts the program anew, to encrypt the library or to take that back.
#[tauri::command]
pub(crate) async fn encryption_begin<R: Runtime>(
    app: AppHandle<R>,
    shell: State<'_, Shell>,
) -> Reply<()> {
    let protection = encryption::protection(&shell.config)?;
    let word = if protection.is_encrypted() { gate::DECRYPT } else { gate::ENCRYPT };
    app.state::<gate::Gate>().start_anew(&app, word);
    Ok(())
}

/// Gives an encrypted library another passphrase.
#[tauri::command]
pub(crate) async fn encryption_change(
    shell: State<'_, Shell>,
    passphrase: String,
) -> Reply<Encryption> {
    let shell = shell.inner().clone();
    beside(move || {
        encryption::change_passphrase(&shell.config, Some(&passphrase))?;
        state(&shell)
    })
    .await
}

fn state(shell: &Shell) -> Reply<Encryption> {
    let protection = encryption::protection(&shell.config)?;
    let by_passphrase = match protection {
        Protection::None => false,
        Protection::Locked { by_passphrase } | Protection::Unlocked { by_passphrase } => {
            by_passphrase
        }
    };
    Ok(Encryption { encrypted: protection.is_encrypted(), by_passphrase })
}
