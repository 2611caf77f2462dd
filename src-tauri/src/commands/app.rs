//! The start, the events, the window.

use tauri::{AppHandle, Manager as _, Runtime, State, ipc::Channel};

use super::{Reply, beside};
use crate::{
    dto::{About, AppEvent, Start, SuggestedFolder},
    shell::Shell,
    window,
};

/// The first thing the interface asks for.
#[tauri::command]
pub(crate) async fn start(shell: State<'_, Shell>) -> Reply<Start> {
    let shell = shell.inner().clone();
    beside(move || shell.start()).await
}

/// The search box can be used: shows the window, and notes how long it took.
#[tauri::command]
pub(crate) async fn ready<R: Runtime>(app: AppHandle<R>) -> Reply<()> {
    // Before a locked library opens its gate is all there is to show.
    if let Some(shell) = app.try_state::<Shell>() {
        shell.ready();
    }
    window::show(&app)
}

/// Subscribes to what the app tells unasked.
#[tauri::command]
pub(crate) async fn events(shell: State<'_, Shell>, channel: Channel<AppEvent>) -> Reply<()> {
    shell.subscribe(channel);
    Ok(())
}

/// The search box has the focus: models are loaded before the first key.
#[tauri::command]
pub(crate) async fn warm(shell: State<'_, Shell>) -> Reply<()> {
    shell.warm();
    Ok(())
}

/// Folders that people keep documents in, those that exist.
#[tauri::command]
pub(crate) async fn suggested_folders() -> Reply<Vec<SuggestedFolder>> {
    beside(|| Ok(crate::folders::suggested())).await
}

/// The first run is over.
#[tauri::command]
pub(crate) async fn finish_first_run(shell: State<'_, Shell>) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.finish_first_run()).await
}

/// Version, folders, and what runs inside.
#[tauri::command]
pub(crate) async fn about(shell: State<'_, Shell>) -> Reply<About> {
    Ok(shell.about())
}
