//! What earlier prompts left on disk, for a model.

use std::{fs::File, io, path::Path, sync::Arc, time::Instant};

use riddle_cache::{Key, Store, Visit};
use riddle_offload::JoinedFiles;
use riddle_transformer::{KvCache, LanguageModel};
use riddle_types::{GenerationStats, StoredPrompt};

use super::segments::Segments;

/// Bytes of a sample of a model's file, and how many are taken: a model of gigabytes is known by four megabytes.
const SAMPLE: u64 = 64 << 10;
const SAMPLES: u64 = 64;

/// The stored prefixes of a model.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) store: Arc<Store>,
    /// What says of the model's files which ones they are.
    fingerprint: [u8; 32],
    /// What the person calls it.
    label: String,
}

impl Stored {
    /// Of the model in `files`.
    ///
    /// # Errors
    /// When a file can not be read.
    pub(crate) fn of(store: Arc<Store>, files: &JoinedFiles, label: &str) -> io::Result<Stored> {
        let prints = files.files().iter().map(|it| fingerprint(&it.path));
        let fingerprint = match prints.collect::<io::Result<Vec<_>>>()?.as_slice() {
            [only] => *only,
            parts => *blake3::hash(parts.as_flattened()).as_bytes(),
        };
        Ok(Stored { store, fingerprint, label: label.to_owned() })
    }

    /// The root of what `model` computes as it is set up now.
    fn root(&self, model: &LanguageModel) -> Key {
        self.store.root(&[&self.fingerprint, model.arithmetic().as_bytes()])
    }

    /// How many of these segments from the first on are stored.
    pub(crate) fn depth(&self, model: &LanguageModel, path: &[&[u32]]) -> usize {
        match self.store.visit() {
            Ok(visit) => visit.depth(self.root(model), path),
            Err(_) => 0,
        }
    }

    /// Begins a prompt: nothing that it finds is forgotten before it has ended.
    pub(crate) fn begin(&self, model: &LanguageModel) -> Option<Session<'_>> {
        let visit = self
            .store
            .visit()
            .inspect_err(|error| tracing::warn!("stored prefixes can not be used: {error}"))
            .ok()?;
        Some(Session { visit, root: self.root(model), label: &self.label })
    }
}

/// A prompt's dealings with what is stored.
pub(crate) struct Session<'a> {
    visit: Visit<'a>,
    root: Key,
    label: &'a str,
}

impl Session<'_> {
    /// Loads the segments of `prompt` that are stored, from the first on, into `cache`, which holds those of the first
    /// `have` tokens already. Gives how many tokens it then holds.
    pub(crate) fn load(
        &mut self,
        prompt: &Segments,
        have: usize,
        cache: &mut KvCache,
        stats: &mut GenerationStats,
    ) -> usize {
        let empty = tracing::field::Empty;
        let span =
            tracing::info_span!(target: "riddle::stage", "load_prefix", tokens = empty).entered();
        let path = prompt.path();
        let depth = self.visit.depth(self.root, &path);
        let (mut parent, mut held, mut cost) = (self.root, have, 0.0);
        for (segment, tokens) in prompt.shared.iter().zip(&path).take(depth) {
            let key = parent.child(tokens);
            parent = key;
            // What is in memory is as good.
            if segment.tokens.end <= held {
                self.visit.touch(key);
                continue;
            }
            let mut rows = cache.rows_mut(segment.tokens.clone());
            let mut parts: Vec<&mut [u8]> =
                rows.iter_mut().map(|it| bytemuck::cast_slice_mut(it)).collect();
            match self.visit.load(key, tokens, &mut parts) {
                Ok(microseconds) => {
                    let new = segment.tokens.end - held.max(segment.tokens.start);
                    cost += microseconds as f64 / 1e3 * new as f64 / segment.tokens.len() as f64;
                    stats.loaded_tokens += new;
                    held = segment.tokens.end;
                }
                Err(error) => {
                    tracing::warn!("{error}");
                    // Its rows may be half overwritten.
                    held = held.min(segment.tokens.start);
                    break;
                }
            }
        }
        // What loading took is for the caller to take off.
        stats.saved_ms = cost;
        span.record("tokens", stats.loaded_tokens);
        held
    }

    /// Keeps the segments of `prompt` that are not stored yet, which have all been read; `rate` is milliseconds per
    /// token that was read. Gives what of all is there or would be, had it the room; `None` for a prompt of which
    /// nothing is shared.
    pub(crate) fn save(
        &mut self,
        prompt: &Segments,
        cache: &KvCache,
        rate: f64,
        stats: &mut GenerationStats,
    ) -> Option<StoredPrompt> {
        let empty = tracing::field::Empty;
        let span =
            tracing::info_span!(target: "riddle::stage", "keep_prefix", tokens = empty).entered();
        let started = Instant::now();
        let (mut parent, mut bytes, mut goes_on) = (self.root, 0, true);
        for (segment, tokens) in prompt.shared.iter().zip(prompt.path()) {
            let key = parent.child(tokens);
            let rows = cache.rows(segment.tokens.clone());
            let parts: Vec<&[u8]> = rows.iter().map(|it| bytemuck::cast_slice(it)).collect();
            bytes += parts.iter().map(|it| it.len() as u64).sum::<u64>();
            let behind = std::mem::replace(&mut parent, key);
            if !goes_on {
                continue;
            }
            let chunks: Vec<u64> = segment.chunk.iter().map(|it| it.0).collect();
            let cost = (rate * tokens.len() as f64 * 1e3) as u64;
            match self.visit.save((self.root, self.label), behind, tokens, &chunks, cost, &parts) {
                Ok(riddle_cache::Saved::Written) => stats.stored_tokens += tokens.len(),
                Ok(riddle_cache::Saved::Known) => {}
                // What has no place has none for those behind it.
                Ok(riddle_cache::Saved::NoRoom | riddle_cache::Saved::Purged) => goes_on = false,
                Err(error) => {
                    tracing::warn!("a prefix is not stored: {error}");
                    goes_on = false;
                }
            }
        }
        stats.store_ms = started.elapsed().as_secs_f64() * 1e3;
        span.record("tokens", stats.stored_tokens);
        (bytes > 0).then(|| StoredPrompt { leaf: parent.to_bytes(), bytes })
    }
}

/// A hash over the length of a file and samples of it, evenly spread.
fn fingerprint(path: &Path) -> io::Result<[u8; 32]> {
    use io::{Read as _, Seek as _};
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut hash = blake3::Hasher::new();
    hash.update(&size.to_le_bytes());
    let places: Vec<u64> = if size <= SAMPLE * SAMPLES {
        (0..size.div_ceil(SAMPLE)).map(|it| it * SAMPLE).collect()
    } else {
        let place = |it: u64| u128::from(size - SAMPLE) * u128::from(it) / u128::from(SAMPLES - 1);
        (0..SAMPLES).map(|it| place(it) as u64).collect()
    };
    let mut block = Vec::new();
    for place in places {
        file.seek(io::SeekFrom::Start(place))?;
        block.clear();
        (&mut file).take(SAMPLE).read_to_end(&mut block)?;
        hash.update(&block);
    }
    Ok(*hash.finalize().as_bytes())
}
