//! Other programs.

use tauri::State;

use super::{Reply, beside};
use crate::{
    dto::{DoorAdded, DoorMay, DoorReader, DoorState},
    shell::Shell,
};

/// Whether other programs can ask, who may, and what was asked.
#[tauri::command]
pub(crate) async fn door(shell: State<'_, Shell>) -> Reply<DoorState> {
    let shell = shell.inner().clone();
    beside(move || shell.door()).await
}

/// Lets other programs of this computer ask, or not, now and at each start.
#[tauri::command]
pub(crate) async fn door_switch(shell: State<'_, Shell>, open: bool) -> Reply<DoorState> {
    let shell = shell.inner().clone();
    beside(move || shell.switch_door(open)).await
}

/// Lets a program in; its token is told this once and kept nowhere.
#[tauri::command]
pub(crate) async fn door_add(
    shell: State<'_, Shell>,
    name: String,
    may: DoorMay,
    reads_as: Option<DoorReader>,
) -> Reply<DoorAdded> {
    let shell = shell.inner().clone();
    beside(move || shell.add_client(&name, &may, reads_as)).await
}

/// Changes what a program may see, and with whose rights.
#[tauri::command]
pub(crate) async fn door_set(
    shell: State<'_, Shell>,
    name: String,
    may: DoorMay,
    reads_as: Option<DoorReader>,
) -> Reply<DoorState> {
    let shell = shell.inner().clone();
    beside(move || shell.set_client(&name, &may, reads_as)).await
}

/// Sends a program away, or lets it in again.
#[tauri::command]
pub(crate) async fn door_revoke(
    shell: State<'_, Shell>,
    name: String,
    revoked: bool,
) -> Reply<DoorState> {
    let shell = shell.inner().clone();
    beside(move || shell.revoke_client(&name, revoked)).await
}

/// Forgets a program: its token opens nothing any more.
#[tauri::command]
pub(crate) async fn door_remove(shell: State<'_, Shell>, name: String) -> Reply<DoorState> {
    let shell = shell.inner().clone();
    beside(move || shell.remove_client(&name)).await
}

/// Empties the log of what was asked.
#[tauri::command]
pub(crate) async fn door_log_forget(shell: State<'_, Shell>) -> Reply<DoorState> {
    let shell = shell.inner().clone();
    beside(move || shell.forget_door_log()).await
}
