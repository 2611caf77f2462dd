//! What the end-to-end tests stand on: the built `riddle` program, a home of its own for each test, and
//! files to index.
//!
//! [`Riddle`] runs the program as a user does and hands back what came out. Tests look at nothing else
//! than the documented output, exit codes, and which files of the home were written.
//!
//! Not here: unit tests (beside the code), and anything that needs the network.

mod corpus;
mod made;
pub mod milvus;
pub mod objects;
mod program;

pub use corpus::{archive, notes, token, workbook, write};
pub use made::{document, tape};
pub use program::{Outcome, Riddle, Running, program, snapshot};

use std::path::PathBuf;

/// The workspace's root.
pub fn workspace() -> PathBuf {
    let mut dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    dir.pop();
    dir
}

/// A committed model of a few kilobytes: `tiny-bert-encoder` or `tiny-bert-cross-encoder`.
///
/// Its weights are random, so its order means nothing; everything else about it is real.
pub fn tiny_model(name: &str) -> PathBuf {
    workspace().join("tests").join("golden").join(name)
}

/// The store with the default embedder, if this machine has it.
pub fn real_models() -> Option<PathBuf> {
    let store = workspace().join(".cache").join("models");
    store.join("all-MiniLM-L6-v2").join("config.json").is_file().then_some(store)
}

/// Says that a test, or a part of it, could not run here.
pub fn skipped(why: &str) {
    noted(&format!("SKIPPED: {why}"));
}

/// Says what a test has met, for whoever runs it to know that.
pub fn noted(what: &str) {
    let mut stderr = std::io::stderr();
    // A test run without stderr has no reader either.
    let _ = std::io::Write::write_all(&mut stderr, format!("{what}\n").as_bytes());
}
