//! Settings.

use tauri::{AppHandle, Runtime, State};

use super::{Reply, beside};
use crate::{
    desktop,
    dto::{EndpointKey, Settings, SettingsState, SystemWords},
    shell::Shell,
};

/// The settings in force.
#[tauri::command]
pub(crate) async fn settings(shell: State<'_, Shell>) -> Reply<SettingsState> {
    Ok(shell.settings())
}

/// Keeps and applies settings; what could not be applied is in `problems`.
#[tauri::command]
pub(crate) async fn settings_set<R: Runtime>(
    app: AppHandle<R>,
    shell: State<'_, Shell>,
    settings: Settings,
) -> Reply<SettingsState> {
    let shell = shell.inner().clone();
    beside(move || desktop::change_settings(&app, &shell, settings)).await
}

/// Words of menus and dialogs that the system draws, in the language on screen.
#[tauri::command]
pub(crate) async fn system_words<R: Runtime>(app: AppHandle<R>, words: SystemWords) -> Reply<()> {
    beside(move || desktop::set_words(&app, words)).await
}

/// Where the key of the endpoint is; the key itself is never told.
#[tauri::command]
pub(crate) async fn endpoint_key(shell: State<'_, Shell>) -> Reply<EndpointKey> {
    let shell = shell.inner().clone();
    beside(move || shell.endpoint_key()).await
}

/// Keeps a key for the endpoint in the system's secret store.
#[tauri::command]
pub(crate) async fn endpoint_key_set(shell: State<'_, Shell>, key: String) -> Reply<EndpointKey> {
    let shell = shell.inner().clone();
    beside(move || shell.set_endpoint_key(&key)).await
}

/// Forgets the key of the endpoint.
#[tauri::command]
pub(crate) async fn endpoint_key_forget(shell: State<'_, Shell>) -> Reply<EndpointKey> {
    let shell = shell.inner().clone();
    beside(move || shell.forget_endpoint_key()).await
}
