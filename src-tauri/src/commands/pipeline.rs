//! The pipeline at work, and how fast it is.

use tauri::{AppHandle, Runtime, State};

use super::{Reply, beside};
use crate::{
    dto::{
        CalibrationInfo, Comparison, CurvePoint, Performance, PipelineTrace, PruneMode,
        ReplayRequest, ReplayResult,
    },
    open,
    shell::Shell,
};

/// The last search or question, if there was one.
#[tauri::command]
pub(crate) async fn pipeline(shell: State<'_, Shell>) -> Reply<Option<PipelineTrace>> {
    let shell = shell.inner().clone();
    beside(move || Ok(shell.last_trace())).await
}

/// What another threshold would have brought. Computes only if the last run was pruned, and then once.
#[tauri::command]
pub(crate) async fn pipeline_replay(
    shell: State<'_, Shell>,
    request: ReplayRequest,
) -> Reply<ReplayResult> {
    let shell = shell.inner().clone();
    beside(move || shell.replay(request)).await
}

/// The same for many thresholds at once.
#[tauri::command]
pub(crate) async fn pipeline_curve(
    shell: State<'_, Shell>,
    mode: PruneMode,
) -> Reply<Vec<CurvePoint>> {
    let shell = shell.inner().clone();
    beside(move || shell.curve(mode)).await
}

/// Runs the candidates of the last search with the settings in force and in full.
#[tauri::command]
pub(crate) async fn pipeline_compare(shell: State<'_, Shell>) -> Reply<Comparison> {
    let shell = shell.inner().clone();
    beside(move || shell.compare()).await
}

/// Whether the reranker can be held to a precision or an error probability.
#[tauri::command]
pub(crate) async fn calibration(shell: State<'_, Shell>) -> Reply<CalibrationInfo> {
    let shell = shell.inner().clone();
    beside(move || shell.calibration()).await
}

/// Times and memory since the figures were last deleted.
#[tauri::command]
pub(crate) async fn performance(shell: State<'_, Shell>) -> Reply<Performance> {
    let shell = shell.inner().clone();
    beside(move || shell.performance()).await
}

/// Saves the figures as JSON where the person says; the path, or `null` when the dialog was closed.
#[tauri::command]
pub(crate) async fn performance_export<R: Runtime>(
    app: AppHandle<R>,
    shell: State<'_, Shell>,
) -> Reply<Option<String>> {
    let shell = shell.inner().clone();
    beside(move || open::save_json(&app, "riddle-performance.json", &shell.performance()?)).await
}
