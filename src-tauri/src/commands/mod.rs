//! What the user interface may ask. A body is one call: what it takes more for belongs into the modules
//! beside, or into the façade.
//!
//! Names and types of the arguments are the contract with `ui/src/lib/bindings.ts`, which is generated from
//! these files. Every command is listed in `build.rs` and in the capability, or the WebView may not call it.

mod answers;
mod app;
mod door;
mod gate;
mod library;
mod models;
mod pipeline;
mod search;
mod settings;
mod shared;

pub(crate) use {
    answers::*, app::*, door::*, gate::*, library::*, models::*, pipeline::*, search::*,
    settings::*, shared::*,
};

use crate::failure::{self, Reply};

/// Runs what may wait for disk, locks or other threads beside the event loop.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> Reply<T> + Send + 'static) -> Reply<T> {
    match tauri::async_runtime::spawn_blocking(work).await {
        Ok(reply) => reply,
        Err(error) => Err(failure::broke_down(&error)),
    }
}
