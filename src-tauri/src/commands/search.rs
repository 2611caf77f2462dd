//! Search, preview, and what can be done with a hit.

use tauri::{
    State,
    ipc::{Channel, Response},
};

use super::{Reply, beside};
use crate::{
    dto::{FileTarget, Preview, SearchEvent, SearchQuery, Why},
    open, players,
    shell::Shell,
};

/// Searches; returns at once, the results come over `events`. Ends searches with a smaller id.
#[tauri::command]
pub(crate) async fn search(
    shell: State<'_, Shell>,
    query: SearchQuery,
    events: Channel<SearchEvent>,
) -> Reply<()> {
    shell.search(query, events);
    Ok(())
}

/// Ends the search that runs, if any: the box was emptied.
#[tauri::command]
pub(crate) async fn stop_search(shell: State<'_, Shell>) -> Reply<()> {
    shell.stop_search();
    Ok(())
}

/// The first hits of a query are on screen: `ms` after the key.
#[tauri::command]
pub(crate) async fn note_first_hits(shell: State<'_, Shell>, ms: f64) -> Reply<()> {
    shell.note_first_hits(ms);
    Ok(())
}

/// Why a passage is where it is in the last search.
#[tauri::command]
pub(crate) async fn why(shell: State<'_, Shell>, chunk: u64) -> Reply<Why> {
    let shell = shell.inner().clone();
    beside(move || shell.why(chunk)).await
}

/// The file of a passage, as far as it can be shown; `query` decides which words are marked.
#[tauri::command]
pub(crate) async fn preview(shell: State<'_, Shell>, chunk: u64, query: String) -> Reply<Preview> {
    let shell = shell.inner().clone();
    beside(move || shell.preview(chunk, &query)).await
}

/// The bytes of the PDF or the picture that a passage is in.
#[tauri::command]
pub(crate) async fn preview_bytes(shell: State<'_, Shell>, chunk: u64) -> Reply<Response> {
    let shell = shell.inner().clone();
    beside(move || shell.preview_bytes(chunk).map(Response::new)).await
}

/// Opens a file in the program that the desktop has for it.
#[tauri::command]
pub(crate) async fn open_file(shell: State<'_, Shell>, target: FileTarget) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || {
        let file = shell.file_of(target)?;
        // What would run is shown where it lies: a person decides.
        if file.shows { open::open(&file.path) } else { open::reveal(&file.path) }
    })
    .await
}

/// Opens the film beside the subtitles that a passage is from, where it is said if a player is there that can be told
/// so; whether it was.
#[tauri::command]
pub(crate) async fn open_film(shell: State<'_, Shell>, chunk: u64) -> Reply<bool> {
    let shell = shell.inner().clone();
    beside(move || {
        let film = shell.film_of(chunk)?;
        if players::play(&film.path, film.seconds) {
            return Ok(true);
        }
        open::open(&film.path)?;
        Ok(false)
    })
    .await
}

/// Shows a file in the file manager.
#[tauri::command]
pub(crate) async fn reveal_file(shell: State<'_, Shell>, target: FileTarget) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || open::reveal(&shell.file_of(target)?.path)).await
}
