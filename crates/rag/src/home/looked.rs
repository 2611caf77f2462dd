//! What is known of files of language models by their headers.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use riddle_llm::Local;
use riddle_models::model_parts;
use riddle_types::Trouble;

/// What the headers of files said, by the file as it was: a header is millions of bytes, and lists are made often.
#[derive(Debug, Default)]
pub(super) struct Looked(Mutex<HashMap<(PathBuf, u64, SystemTime), Option<Trouble>>>);

impl Looked {
    /// Why the model in `path`, of `bytes` bytes with all its parts, does not run here; `None`: it does.
    pub(super) fn at(&self, path: &Path, bytes: u64) -> Option<Trouble> {
        let look = || Local::check(path).err().map(|error| Trouble::of(&error));
        // The newest part: each is written when it is fetched.
        let times = model_parts(path).into_iter().map(|it| it.metadata()?.modified());
        let modified =
            times.collect::<Result<Vec<_>, _>>().ok().and_then(|it| it.into_iter().max());
        let Some(modified) = modified else { return look() };
        let key = (path.to_path_buf(), bytes, modified);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        let found = look();
        lock().insert(key, found.clone());
        found
    }
}
