//! A home: the folder that holds all state. Where it is, what it is set to, what is in it.

pub(crate) mod access;
pub(crate) mod browsing;
mod check;
mod config;
pub(crate) mod cosines;
mod elsewhere;
pub(crate) mod embedder;
pub(crate) mod embedding_server;
pub(crate) mod encryption;
pub(crate) mod endpoints;
mod film;
mod grid;
mod hub;
pub(crate) mod indexes;
mod install;
pub(crate) mod libraries;
pub(crate) mod local;
mod looked;
pub(crate) mod mapped;
mod open_servers;
pub(crate) mod originals;
mod packing;
pub(crate) mod pictures;
pub(crate) mod prefixes;
pub(crate) mod presence;
mod preview;
mod records;
mod scanning;
pub(crate) mod settings;
mod shared;
pub(crate) mod status;
pub(crate) mod sure;
pub(crate) mod tools;
pub(crate) mod wanted;

pub use check::{Exported, check, export_home, import_home, is_export_encrypted};
pub use config::{Config, DEFAULT_EMBEDDER, DEFAULT_MAX_FILE_BYTES, SharedEncoders};
pub use elsewhere::ModelElsewhere;
pub use encryption::{
    Protection, change_passphrase, decrypt, encrypt, forget_key, is_encrypted, protection,
    remember_key, unlock, unlock_from_keyring,
};
pub use film::FilmAt;
pub use grid::{Grid, GridRow};
pub use hub::{
    ModelSource, choose_source, forget_token, keep_token, model_source, network, token_state,
};
pub use install::{
    Converted, Installed, convert_model, count_weights, import_model, plan_model, pull_model,
    verify_store,
};
pub use originals::Fetched;
pub use packing::{Nearness, Packing};
pub use pictures::SeenOnPage;
pub use prefixes::{
    PREFIX_BYTES_SETTING, clear as clear_prefixes, prefixes, remove_model,
    set_limit as limit_prefixes,
};
pub use preview::{Shown, show, shown_passages};
pub use records::{AnswersStatus, FolderStatus, IndexBytes, Passage, Records, Rule, RuleEffect};
pub(crate) use scanning::scan_options;
pub use settings::NO_RERANKER;

/// The folder or file that a path leads to: links followed, and spelled as the folders on the way name it.
///
/// # Errors
/// When nothing is there.
pub fn resolved(path: &std::path::Path) -> std::io::Result<std::path::PathBuf> {
    path.canonicalize().map(|it| riddle_watch::spelled(&it))
}
