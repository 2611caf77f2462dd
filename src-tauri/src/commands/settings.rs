//! Settings.

use tauri::{AppHandle, Runtime, State};

use super::{Reply, beside};
use crate::{
    desktop,
    dto::{Settings, SettingsState},
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
