//! What somebody may read of a shared library, by the rules that are kept there: as a condition inside every search,
//! and once more on what comes back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use riddle_milvus::{About, Passage, Store};
use riddle_types::{Reader, Rule};

use crate::contract::Result;

/// How long the rules are taken as they were: one that is new lets nobody read until then.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Rules by key.
type ByKey = Arc<HashMap<String, Rule>>;

/// The rules of a library, and when they were read.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Option<(Instant, ByKey)>>);

impl Rules {
    fn now(&self, store: &Store, about: &About) -> Result<ByKey> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, rules)) = &*kept
            && at.elapsed() < LOOK_AGAIN
        {
            return Ok(Arc::clone(rules));
        }
        let at = Instant::now();
        let rules = Arc::new(store.rules(about)?);
        *kept = Some((at, Arc::clone(&rules)));
        Ok(rules)
    }

    /// What a reader may read, by the rules that the library has now.
    pub(super) fn of<'a>(
        &self,
        store: &Store,
        about: &About,
        reader: &'a Reader,
    ) -> Result<Rights<'a>> {
        let rules = self.now(store, about)?;
        let admits = |(_, rule): &(&String, &Rule)| rule.admits(reader);
        let mut keys: Vec<String> = rules.iter().filter(admits).map(|it| it.0.clone()).collect();
        keys.sort_unstable();
        Ok(Rights { reader, rules, keys })
    }
}

/// What of a library somebody may read.
pub(super) struct Rights<'a> {
    reader: &'a Reader,
    rules: ByKey,
    /// Keys of the rules that let the reader read.
    pub(super) keys: Vec<String>,
}

impl Rights<'_> {
    /// Whether a passage that has come back may be read, whatever was asked for.
    pub(super) fn admit(&self, passage: &Passage) -> bool {
        self.rules.get(&passage.readers).is_some_and(|it| it.admits(self.reader))
    }
}
