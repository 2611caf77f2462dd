//! Folders that a person names: by dialog, by dropping, by the system's list.

use std::path::{Path, PathBuf};

use tauri::{AppHandle, Runtime};
use tauri_plugin_dialog::{DialogExt as _, FileDialogBuilder};

use crate::{convert::shown, desktop::words, dto::SuggestedFolder};

/// Folders of the desktop where people keep what they write, those that exist.
pub(crate) fn suggested() -> Vec<SuggestedFolder> {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|it| it.is_absolute())
    else {
        return Vec::new();
    };
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|it| it.is_absolute()).unwrap_or_else(|| home.join(".config"));
    let listed = std::fs::read_to_string(config.join("user-dirs.dirs")).unwrap_or_default();
    let mut paths = user_dirs(&listed, &home);
    if paths.is_empty() {
        paths = ["Documents", "Desktop"].map(|it| home.join(it)).to_vec();
    }
    paths.retain(|it| it.is_dir() && *it != home);
    paths.dedup();
    let name = |it: &Path| it.file_name().map(|it| shown(Path::new(it))).unwrap_or_default();
    paths.iter().map(|it| SuggestedFolder { path: shown(it), name: name(it) }).collect()
}

/// Documents, desktop and downloads of `user-dirs.dirs`, in that order.
fn user_dirs(text: &str, home: &Path) -> Vec<PathBuf> {
    let entry = |key: &str| {
        let line = text.lines().find_map(|it| it.trim().strip_prefix(key)?.strip_prefix('='))?;
        let value = line.trim().trim_matches('"');
        let path = match value.strip_prefix("$HOME") {
            Some(below) => home.join(below.trim_start_matches('/')),
            None => PathBuf::from(value),
        };
        path.is_absolute().then_some(path)
    };
    ["XDG_DOCUMENTS_DIR", "XDG_DESKTOP_DIR", "XDG_DOWNLOAD_DIR"]
        .into_iter()
        .filter_map(entry)
        .collect()
}

/// A dialog of that title, in the person's own folder: GTK begins with recent files, where no folder can be picked.
pub(crate) fn dialog<R: Runtime>(app: &AppHandle<R>, title: &str) -> FileDialogBuilder<R> {
    let dialog = app.dialog().file().set_title(title);
    match std::env::var_os("HOME").map(PathBuf::from).filter(|it| it.is_dir()) {
        Some(home) => dialog.set_directory(home),
        None => dialog,
    }
}

/// Lets the person pick folders; nothing when the dialog was closed.
pub(crate) fn pick<R: Runtime>(app: &AppHandle<R>) -> Vec<PathBuf> {
    let picked =
        dialog(app, &words(app).folders_to_search).blocking_pick_folders().unwrap_or_default();
    picked.into_iter().filter_map(|it| it.into_path().ok()).collect()
}

/// Lets the person pick one folder.
pub(crate) fn pick_one<R: Runtime>(app: &AppHandle<R>) -> Option<PathBuf> {
    dialog(app, &words(app).folder_of_model).blocking_pick_folder()?.into_path().ok()
}

/// Folders by path: `~` is the person's own, and a file stands for the folder that it is in.
pub(crate) fn of_paths(paths: &[String]) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let mut folders = Vec::new();
    for path in paths.iter().map(|it| it.trim()).filter(|it| !it.is_empty()) {
        let path = match (path.strip_prefix('~'), &home) {
            (Some(below), Some(home)) if below.is_empty() || below.starts_with('/') => {
                home.join(below.trim_start_matches('/'))
            }
            _ => PathBuf::from(path),
        };
        let folder = if path.is_file() {
            path.parent().map_or(path.clone(), Path::to_path_buf)
        } else {
            path
        };
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_desktops_own_list_is_read() {
        let text = "# made by a program\nXDG_DESKTOP_DIR=\"$HOME/Schreibtisch\"\nXDG_DOCUMENTS_DIR=\"/data/docs\"\nXDG_DOWNLOAD_DIR=\"relative\"\n";
        let found = user_dirs(text, Path::new("/home/mira"));
        assert_eq!(found, [Path::new("/data/docs"), Path::new("/home/mira/Schreibtisch")]);
    }

    #[test]
    fn a_dropped_file_stands_for_its_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("note.md");
        std::fs::write(&file, "x").expect("written");
        let text = |it: &Path| it.to_str().expect("text").to_owned();
        let paths = [text(&file), text(dir.path()), " ".to_owned(), "/nowhere".to_owned()];
        assert_eq!(of_paths(&paths), [dir.path(), Path::new("/nowhere")]);
    }
}
