//! Libraries that live elsewhere.

use riddle_rag::shared::PushOptions;
use tauri::{State, ipc::Channel};

use super::{Reply, beside};
use crate::{
    dto::{PushEvent, SharedLibrary, SharedLook},
    shell::Shell,
};

/// The shared libraries that are known here; nobody is asked.
#[tauri::command]
pub(crate) async fn shared_libraries(shell: State<'_, Shell>) -> Reply<Vec<SharedLibrary>> {
    let shell = shell.inner().clone();
    beside(move || shell.shared_libraries()).await
}

/// What the server of a shared library says of it; it is asked now.
#[tauri::command]
pub(crate) async fn shared_look(shell: State<'_, Shell>, name: String) -> Reply<SharedLook> {
    let shell = shell.inner().clone();
    beside(move || shell.look_at_shared(&name)).await
}

/// Makes a shared library known, with `USER:PASSWORD` or a token for its server, or an empty key.
#[tauri::command]
pub(crate) async fn shared_add(
    shell: State<'_, Shell>,
    name: String,
    address: String,
    key: String,
) -> Reply<Vec<SharedLibrary>> {
    let shell = shell.inner().clone();
    beside(move || shell.add_shared(&name, &address, &key)).await
}

/// Forgets a shared library; it stays where it is.
#[tauri::command]
pub(crate) async fn shared_remove(
    shell: State<'_, Shell>,
    name: String,
) -> Reply<Vec<SharedLibrary>> {
    let shell = shell.inner().clone();
    beside(move || shell.remove_shared(&name)).await
}

/// Keeps a key for the server of a shared library in the system's secret store; `null` forgets it.
#[tauri::command]
pub(crate) async fn shared_key(
    shell: State<'_, Shell>,
    name: String,
    key: Option<String>,
) -> Reply<Vec<SharedLibrary>> {
    let shell = shell.inner().clone();
    beside(move || shell.set_shared_key(&name, key.as_deref())).await
}

/// Says where a folder of a shared library is on this computer; `null` forgets it.
#[tauri::command]
pub(crate) async fn shared_map(
    shell: State<'_, Shell>,
    name: String,
    there: String,
    here: Option<String>,
) -> Reply<Vec<SharedLibrary>> {
    let shell = shell.inner().clone();
    beside(move || shell.map_shared(&name, &there, here.as_deref())).await
}

/// Says which object store keeps the files of a shared library, with `ACCESS:SECRET` or an empty key; `null` forgets
/// it.
#[tauri::command]
pub(crate) async fn shared_originals(
    shell: State<'_, Shell>,
    name: String,
    address: Option<String>,
    key: String,
) -> Reply<Vec<SharedLibrary>> {
    let shell = shell.inner().clone();
    beside(move || shell.keep_shared_originals(&name, address.as_deref(), &key)).await
}

/// Removes what one computer has written to a shared library, by its key; the library as it is then.
#[tauri::command]
pub(crate) async fn shared_evict(
    shell: State<'_, Shell>,
    name: String,
    writer: String,
) -> Reply<SharedLook> {
    let shell = shell.inner().clone();
    beside(move || shell.evict_shared(&name, &writer)).await
}

/// Writes this computer's passages to a shared library; returns at once, progress and end come over `events`.
#[tauri::command]
pub(crate) async fn shared_push(
    shell: State<'_, Shell>,
    name: String,
    take_over: bool,
    anew: bool,
    events: Channel<PushEvent>,
) -> Reply<()> {
    shell.push_shared(name, PushOptions { take_over, anew }, events)
}

/// Stops writing after a file; the next run goes on there.
#[tauri::command]
pub(crate) async fn shared_push_stop(shell: State<'_, Shell>) -> Reply<()> {
    shell.stop_push();
    Ok(())
}
