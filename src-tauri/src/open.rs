//! Handing a file to the desktop, and saving one where the person says.

use std::path::Path;

use serde::Serialize;
use tauri::{AppHandle, Runtime};
use tauri_plugin_opener::OpenerExt as _;

use crate::{desktop, dto::Failure, failure::Reply, folders};

/// Opens a file in the program that the desktop has for it.
pub(crate) fn open<R: Runtime>(app: &AppHandle<R>, path: &Path) -> Reply<()> {
    let path = path.to_str().ok_or_else(|| Failure::bad("the file's name is not text"))?;
    app.opener().open_path(path, None::<&str>).map_err(Failure::other)
}

/// Shows a file in the file manager. One that can not mark a file shows its folder.
pub(crate) fn reveal<R: Runtime>(app: &AppHandle<R>, path: &Path) -> Reply<()> {
    match (app.opener().reveal_item_in_dir(path), path.parent()) {
        (Ok(()), _) => Ok(()),
        (Err(error), Some(folder)) => {
            tracing::warn!("the file manager can not mark a file: {error}");
            open(app, folder)
        }
        (Err(error), None) => Err(Failure::other(error)),
    }
}

/// Asks where to, and writes a value there; the path, or nothing when the dialog was closed.
pub(crate) fn save_json<R: Runtime>(
    app: &AppHandle<R>,
    name: &str,
    value: &impl Serialize,
) -> Reply<Option<String>> {
    let title = desktop::words(app).save_figures;
    let chosen = folders::dialog(app, &title).set_file_name(name).blocking_save_file();
    let Some(path) = chosen.and_then(|it| it.into_path().ok()) else { return Ok(None) };
    let text = serde_json::to_vec_pretty(value).map_err(Failure::other)?;
    std::fs::write(&path, text)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
    Ok(Some(crate::convert::shown(&path)))
}
