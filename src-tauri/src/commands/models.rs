//! Models: what is installed, what can be, what is used.

use tauri::{AppHandle, Runtime, State, ipc::Channel};

use super::{Reply, beside};
use crate::{
    dto::{ModelCheck, ModelEvent, ModelKind, ModelPlan, ModelSource, Models, TrialEvent},
    folders,
    shell::Shell,
};

/// What is installed and what could be.
#[tauri::command]
pub(crate) async fn models(shell: State<'_, Shell>) -> Reply<Models> {
    let shell = shell.inner().clone();
    beside(move || shell.models()).await
}

/// Says what would be fetched under a name, of what size and under which license.
#[tauri::command]
pub(crate) async fn model_plan(shell: State<'_, Shell>, name: String) -> Reply<ModelPlan> {
    let shell = shell.inner().clone();
    beside(move || shell.plan_model(&name)).await
}

/// Fetches a model; returns at once, progress and end come over `events`. One at a time. `file`: the weights to take,
/// where there are several; `null`: those that the name says, or the usual ones.
#[tauri::command]
pub(crate) async fn model_pull(
    shell: State<'_, Shell>,
    name: String,
    file: Option<String>,
    events: Channel<ModelEvent>,
) -> Reply<()> {
    shell.pull_model(name, file, events)
}

/// The hub that models come from.
#[tauri::command]
pub(crate) async fn model_source(shell: State<'_, Shell>) -> Reply<ModelSource> {
    let shell = shell.inner().clone();
    beside(move || shell.model_source()).await
}

/// Has models come from another hub from now on; `null`: from the usual one.
#[tauri::command]
pub(crate) async fn model_source_set(
    shell: State<'_, Shell>,
    address: Option<String>,
) -> Reply<ModelSource> {
    let shell = shell.inner().clone();
    beside(move || shell.set_model_source(address.as_deref())).await
}

/// Keeps an access token for that hub in the system's secret store; it never comes back here.
#[tauri::command]
pub(crate) async fn model_token_set(shell: State<'_, Shell>, token: String) -> Reply<ModelSource> {
    let shell = shell.inner().clone();
    beside(move || shell.set_model_token(&token)).await
}

/// Forgets it.
#[tauri::command]
pub(crate) async fn model_token_forget(shell: State<'_, Shell>) -> Reply<ModelSource> {
    let shell = shell.inner().clone();
    beside(move || shell.forget_model_token()).await
}

/// Stops fetching; what is there is kept for the next time.
#[tauri::command]
pub(crate) async fn model_cancel(shell: State<'_, Shell>) -> Reply<()> {
    shell.cancel_pull();
    Ok(())
}

/// Tries the installed models on questions made from the library; returns at once, progress and end come over `events`.
#[tauri::command]
pub(crate) async fn model_trial(shell: State<'_, Shell>, events: Channel<TrialEvent>) -> Reply<()> {
    shell.try_models(events)
}

/// Stops trying them.
#[tauri::command]
pub(crate) async fn model_trial_stop(shell: State<'_, Shell>) -> Reply<()> {
    shell.stop_trial();
    Ok(())
}

/// Lets the person pick a model's folder and copies it into the store; `null` when the dialog was closed.
#[tauri::command]
pub(crate) async fn model_import_dialog<R: Runtime>(
    app: AppHandle<R>,
    shell: State<'_, Shell>,
) -> Reply<Option<String>> {
    let shell = shell.inner().clone();
    beside(move || folders::pick_one(&app).map(|it| shell.import_model(&it)).transpose()).await
}

/// Copies the model in a folder into the store; its name there.
#[tauri::command]
pub(crate) async fn model_import(shell: State<'_, Shell>, path: String) -> Reply<String> {
    let shell = shell.inner().clone();
    beside(move || shell.import_model(path.as_ref())).await
}

/// Compares a model's files with their checksums.
#[tauri::command]
pub(crate) async fn model_verify(shell: State<'_, Shell>, name: String) -> Reply<ModelCheck> {
    let shell = shell.inner().clone();
    beside(move || shell.verify_model(&name)).await
}

/// Uses a model from now on. An embedder embeds everything anew and switches then; no reranker (`null`)
/// leaves the fused order.
#[tauri::command]
pub(crate) async fn model_use(
    shell: State<'_, Shell>,
    kind: ModelKind,
    name: Option<String>,
) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.use_model(kind, name.as_deref())).await
}

/// Has a server rank or embed from now on, named by its address and behind a `#` by the model there. One on another
/// computer is refused until `allow` says that it may be sent questions and passages. One that embeds is asked once,
/// and nothing changes if it does not answer. The key is kept in the system's secret store;
/// an empty one leaves what is kept there.
#[tauri::command]
pub(crate) async fn model_use_server(
    shell: State<'_, Shell>,
    kind: ModelKind,
    name: String,
    key: String,
    allow: bool,
) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.use_server(kind, &name, &key, allow)).await
}

/// Deletes a model that is not in use.
#[tauri::command]
pub(crate) async fn model_remove(shell: State<'_, Shell>, name: String) -> Reply<()> {
    let shell = shell.inner().clone();
    beside(move || shell.remove_model(&name)).await
}
