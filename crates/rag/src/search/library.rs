//! A library that lives elsewhere, searched with the same legs as the home, and its passages as if the home had them.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use riddle_catalog::{ChunkRecord, FileId};
use riddle_milvus::{About, Passage, Scored, Store, Within};
use riddle_retrieval::{QueryWords, Words};
use riddle_types::{ChunkId, Embedder, Filter, Hit, Reader, SparseEncoder, TermWeights};

use super::{
    merge::{Made, Source},
    rights::Rules,
};
use crate::{
    contract::{Error, Result},
    index::indexed,
};

/// Passages elsewhere have numbers from here on: no catalog has so many, and every program can hold them exactly.
const FIRST: u64 = 1 << 52;

/// Bits of a passage's identity that make its number.
const BITS: u64 = FIRST - 1;

/// How many times as many passages are asked for where a phrase has to be looked for in them.
const MORE_FOR_PHRASES: usize = 4;

/// A library that is open for searching.
pub(super) struct OpenLibrary {
    pub(super) store: Store,
    pub(super) about: About,
    /// Who may read what, once somebody has asked for whom that counts.
    pub(super) rules: Rules,
    /// Identities of the passages that searches have found, by their numbers.
    pub(super) found: Mutex<HashMap<ChunkId, String>>,
    /// The library's embedder, once the home has made no vector for it: opened with the first search, not with each.
    pub(super) embedder: OnceLock<Arc<dyn Embedder>>,
    /// What weighs its terms, likewise.
    pub(super) encoder: OnceLock<Arc<dyn SparseEncoder>>,
}

/// Most passages whose identities are kept: those of some hundred searches.
const MOST_KEPT: usize = 1 << 14;

/// What is looked for.
pub(super) struct Asking<'a> {
    pub(super) text: &'a str,
    pub(super) filter: &'a Filter,
    pub(super) limits: Limits,
    /// Who has to have the right to read; `None`: rights are not looked at.
    pub(super) reader: Option<&'a Reader>,
}

/// How many of each list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) keyword: usize,
    pub(super) vector: usize,
}

pub(super) fn panicked() -> Error {
    Error::BadRequest("the search of a shared library failed: this is a bug".into())
}

impl OpenLibrary {
    /// All legs side by side, then the passages that they name.
    pub(super) fn search(&self, name: &str, asked: &Asking<'_>, made: &Made) -> Result<Source> {
        let (text, limits) = (asked.text, asked.limits);
        let of = |it| self.rules.of(&self.store, &self.about, it);
        let rights = asked.reader.map(of).transpose()?;
        let keys = rights.as_ref().map(|it| it.keys.as_slice());
        let within = Within { filter: asked.filter, rules: keys };
        let mut words = Words::default();
        let languages = self.about.languages();
        let languages: Vec<&str> = languages.iter().map(String::as_str).collect();
        let query = words.of_query(text, &languages);
        let found = self.legs(&query, (within, limits), made)?;
        let mut source = Source {
            keyword_limit: limits.keyword,
            library: Some(name.to_owned()),
            ..Source::default()
        };
        let mut numbers: HashMap<String, ChunkId> = HashMap::new();
        let mut without_phrase = Vec::new();
        for passage in self.store.passages(&found.ids(), keys)? {
            if rights.as_ref().is_some_and(|it| !it.admit(&passage)) {
                continue;
            }
            let (id, chunk) = (passage.id.clone(), number_of(name, &passage.id));
            // Two that have one number can not be told apart: the first stays.
            if source.records.contains_key(&chunk) {
                continue;
            }
            let record = source.take(chunk, passage);
            let path = record.path.to_string_lossy().into_owned();
            let as_indexed = indexed(record, &path);
            if words.is_excluded(&query, &as_indexed) {
                source.records.remove(&chunk);
                continue;
            }
            if !words.holds_phrases(&query, &as_indexed) {
                without_phrase.push(chunk);
            }
            numbers.insert(id, chunk);
        }
        self.keep(&numbers);
        // Where what is quoted stands nowhere, passages with its words are better than none.
        let mut by_words = found.keyword.iter().filter_map(|it| numbers.get(&it.id));
        source.unquoted = query.has_phrases() && by_words.all(|it| without_phrase.contains(it));
        if source.unquoted {
            without_phrase.clear();
        }
        let hits = |list: Vec<Scored>, except: &[ChunkId], limit: usize| -> Vec<Hit> {
            let known = list.into_iter().filter_map(|it| Some((*numbers.get(&it.id)?, it.score)));
            let kept = known.filter(|it| !except.contains(&it.0)).take(limit);
            kept.zip(1..).map(|((chunk, score), rank)| Hit { chunk, score, rank }).collect()
        };
        source.keyword = hits(found.keyword, &without_phrase, limits.keyword);
        source.dense = hits(found.dense, &[], limits.vector);
        source.sparse = hits(found.sparse, &[], limits.vector);
        Ok(source)
    }

    /// Keeps by which number a passage is called elsewhere.
    fn keep(&self, numbers: &HashMap<String, ChunkId>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() > MOST_KEPT {
            found.clear();
        }
        found.extend(numbers.iter().map(|(id, chunk)| (*chunk, id.clone())));
    }

    /// Whether a search has found a passage of that number here.
    pub(super) fn has_found(&self, chunk: ChunkId) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&chunk)
    }

    /// A passage that a search has found, with up to `before` and `after` around it in its file, in reading order, as
    /// far as the reader may read them (`None`: rights are not looked at); nothing where it is gone.
    pub(super) fn around(
        &self,
        name: &str,
        chunk: ChunkId,
        (before, after): (u32, u32),
        reader: Option<&Reader>,
    ) -> Result<Vec<ChunkRecord>> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&chunk).cloned();
        let Some((file, ordinal)) = found.as_deref().and_then(place_of) else {
            return Ok(Vec::new());
        };
        let of = |it| self.rules.of(&self.store, &self.about, it);
        let rights = reader.map(of).transpose()?;
        let keys = rights.as_ref().map(|it| it.keys.as_slice());
        let ids: Vec<String> = (ordinal.saturating_sub(before)..=ordinal.saturating_add(after))
            .map(|it| Passage::id_of(file, it))
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut passages = self.store.passages(&ids, keys)?;
        passages.retain(|it| rights.as_ref().is_none_or(|rights| rights.admit(it)));
        let record = |it: Passage| record_of(number_of(name, &it.id), it);
        let mut records: Vec<ChunkRecord> = passages.into_iter().map(record).collect();
        records.sort_by_key(|it| it.ordinal);
        records.dedup_by_key(|it| it.ordinal);
        // Neighbors of what is gone are of another text.
        if !records.iter().any(|it| it.id == chunk) {
            records.clear();
        }
        Ok(records)
    }

    /// All legs side by side.
    fn legs(
        &self,
        query: &QueryWords,
        (within, limits): (Within<'_>, Limits),
        made: &Made,
    ) -> Result<Legs> {
        let (store, about) = (&self.store, &self.about);
        let vector = made.vector.as_ref().filter(|it| it.0 == about.embedder);
        let weights = made.terms.as_ref().filter(|_| made.encoder == about.encoder);
        // Those that hold no phrase of the query are left out afterwards.
        let more = if query.has_phrases() { MORE_FOR_PHRASES } else { 1 };
        let (keyword, dense, sparse) = std::thread::scope(|scope| {
            let keyword =
                scope.spawn(|| store.by_words(&query.terms, within, more * limits.keyword));
            let sparse =
                weights.map(|it| scope.spawn(|| store.by_terms(it, within, limits.vector)));
            let dense = vector.map(|it| store.nearest(&it.1, within, limits.vector));
            let sparse = sparse.map(|it| it.join().map_err(|_| panicked()));
            (keyword.join().map_err(|_| panicked()), dense, sparse)
        });
        Ok(Legs {
            keyword: keyword??,
            dense: dense.transpose()?.unwrap_or_default(),
            sparse: sparse.transpose()?.transpose()?.unwrap_or_default(),
        })
    }
}

/// What the legs have found, each the best first.
struct Legs {
    keyword: Vec<Scored>,
    dense: Vec<Scored>,
    sparse: Vec<Scored>,
}

impl Legs {
    /// All passages, each once.
    fn ids(&self) -> Vec<&str> {
        let all = self.keyword.iter().chain(&self.dense).chain(&self.sparse);
        let mut ids: Vec<&str> = all.map(|it| it.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Source {
    /// Keeps a passage as if the home had it.
    fn take(&mut self, chunk: ChunkId, mut passage: Passage) -> &ChunkRecord {
        if let Some(vector) = passage.vector.take() {
            self.vectors.insert(chunk, vector);
        }
        if let Some(weights) = passage.weights.take() {
            let weights: TermWeights = weights;
            self.terms.insert(chunk, weights);
        }
        self.records.entry(chunk).or_insert(record_of(chunk, passage))
    }
}

/// A passage as the home would have it.
fn record_of(chunk: ChunkId, passage: Passage) -> ChunkRecord {
    let some = |text: String| Some(text).filter(|it| !it.is_empty());
    ChunkRecord {
        id: chunk,
        file: FileId(-1),
        path: PathBuf::from(passage.path),
        kind: passage.kind,
        modified: passage.modified,
        title: some(passage.title),
        language: some(passage.language),
        ordinal: passage.ordinal,
        heading: passage.heading,
        text: passage.text,
        location: passage.location,
        also_in: Vec::new(),
        versions: Vec::new(),
    }
}

/// The file's key and the place in it that the identity of a passage is made of.
fn place_of(id: &str) -> Option<(&str, u32)> {
    let (file, ordinal) = id.rsplit_once('-')?;
    Some((file, ordinal.parse().ok()?))
}

/// Whether a passage of that number is one of a shared library.
pub fn is_elsewhere(chunk: u64) -> bool {
    chunk >= FIRST
}

/// The number of a passage elsewhere: the same every time.
fn number_of(library: &str, id: &str) -> ChunkId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(library.as_bytes()).update(&[0]).update(id.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    ChunkId(FIRST | (u64::from_le_bytes(first) & BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_passage_is_read_back() {
        let id = Passage::id_of("0a1b", 12);
        assert_eq!(place_of(&id), Some(("0a1b", 12)));
        assert_eq!((place_of("0a1b"), place_of("0a-x"), place_of("")), (None, None, None));
    }

    #[test]
    fn numbers_of_passages_elsewhere_are_those_of_no_catalog() {
        let a = number_of("team", "00ff-1");
        assert_eq!(a, number_of("team", "00ff-1"));
        assert!(a != number_of("other", "00ff-1") && a != number_of("team", "00ff-2"));
        assert!((FIRST..2 * FIRST).contains(&a.0) && is_elsewhere(a.0) && !is_elsewhere(1 << 40));
    }
}
