//! Folders, the ledger, rules.

use tauri::{AppHandle, Runtime, State};

use super::{Reply, beside};
use crate::{
    dto::{
        Added, LedgerPage, LedgerQuery, LibraryState, MeaningLimits, Rule, RulePreview, WhichScans,
    },
    folders,
    shell::Shell,
};

/// The state of the library; the same comes by itself as `AppEvent` `library`.
#[tauri::command]
pub(crate) async fn library(shell: State<'_, Shell>) -> Reply<LibraryState> {
    let shell = shell.inner().clone();
    beside(move || shell.library()).await
}

/// Lets the person pick folders and adds them; an empty list when the dialog was closed.
#[tauri::command]
pub(crate) async fn library_add_dialog<R: Runtime>(
    app: AppHandle<R>,
    shell: State<'_, Shell>,
) -> Reply<Vec<Added>> {
    let shell = shell.inner().clone();
    beside(move || shell.add_folders(&folders::pick(&app))).await
}

/// Adds folders by path: dropped, suggested or typed. A dropped file stands for its folder.
#[tauri::command]
pub(crate) async fn library_add(shell: State<'_, Shell>, paths: Vec<String>) -> Reply<Vec<Added>> {
    let shell = shell.inner().clone();
    beside(move || shell.add_folders(&folders::of_paths(&paths))).await
}

/// Forgets a folder and everything read from it; the files stay.
#[tauri::command]
pub(crate) async fn library_remove(shell: State<'_, Shell>, folder: i64) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.remove_folder(folder)).await
}

/// Marks a folder as one whose text never leaves this computer, or takes the mark away.
#[tauri::command]
pub(crate) async fn library_confine(
    shell: State<'_, Shell>,
    folder: i64,
    confined: bool,
) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.confine(folder, confined)).await
}

/// Looks at every file again.
#[tauri::command]
pub(crate) async fn library_rescan(shell: State<'_, Shell>) -> Reply<()> {
    shell.rescan();
    Ok(())
}

/// Deletes the search indexes and makes them anew.
#[tauri::command]
pub(crate) async fn library_rebuild(shell: State<'_, Shell>) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.rebuild()).await
}

/// Pauses indexing or goes on; kept over a restart.
#[tauri::command]
pub(crate) async fn library_pause(shell: State<'_, Shell>, paused: bool) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.pause(paused)).await
}

/// Which scans and pictures of text are read from now on.
#[tauri::command]
pub(crate) async fn library_scans(shell: State<'_, Shell>, which: WhichScans) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.read_scans(which)).await
}

/// How much of this computer the search by meaning may take from now on to get ready, beside a person's work.
#[tauri::command]
pub(crate) async fn library_meaning(shell: State<'_, Shell>, limits: MeaningLimits) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.limit_meaning(limits)).await
}

/// Whether the pages that browsers remember are read from now on.
#[tauri::command]
pub(crate) async fn library_browsing(shell: State<'_, Shell>, may: bool) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.read_browsing(may)).await
}

/// A page of the ledger.
#[tauri::command]
pub(crate) async fn ledger(shell: State<'_, Shell>, query: LedgerQuery) -> Reply<LedgerPage> {
    let shell = shell.inner().clone();
    beside(move || shell.ledger(&query)).await
}

/// Reads files once more; none named: all that failed.
#[tauri::command]
pub(crate) async fn ledger_retry(shell: State<'_, Shell>, files: Vec<i64>) -> Reply<u64> {
    let shell = shell.inner().clone();
    beside(move || shell.retry(&files)).await
}

/// Leaves a file out from now on, by a rule of its own.
#[tauri::command]
pub(crate) async fn ledger_exclude(shell: State<'_, Shell>, file: i64) -> Reply<Rule> {
    let shell = shell.inner().clone();
    beside(move || shell.exclude(file)).await
}

/// The rules in force, beside those of `.gitignore`, `.ignore` and `.riddleignore` files.
#[tauri::command]
pub(crate) async fn rules(shell: State<'_, Shell>) -> Reply<Vec<Rule>> {
    let shell = shell.inner().clone();
    beside(move || shell.rules()).await
}

/// What a rule would leave out.
#[tauri::command]
pub(crate) async fn rule_preview(shell: State<'_, Shell>, rule: Rule) -> Reply<RulePreview> {
    let shell = shell.inner().clone();
    beside(move || shell.rule_preview(&rule)).await
}

/// Replaces all rules.
#[tauri::command]
pub(crate) async fn rules_set(shell: State<'_, Shell>, rules: Vec<Rule>) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.set_rules(rules)).await
}
