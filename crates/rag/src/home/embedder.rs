//! Opening the embedder and the sparse encoder that a home uses, late and once.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use riddle_embedding::{EncoderOptions, SpladeEncoder};
use riddle_grating::STORE_FILE;
use riddle_types::{Embedder, SparseEncoder};

use super::config::{Config, Open};
use crate::contract::{Error, Result};

/// What makes of texts what is searched: opened by name, known by an identity.
pub(crate) trait Encoder: Send + Sync {
    /// Those of its kind that are open.
    fn shared(config: &Config) -> &Open<Self>;

    /// Opens the one in `dir`, which keeps so many `numbers` of a vector, where it makes vectors; `None`: as it says.
    fn open_in(config: &Config, dir: &Path, numbers: Option<usize>) -> Result<Arc<Self>>;

    /// What it makes is compared only with what has the same identity.
    fn identity(&self) -> &str;

    /// Bytes of weights in memory now.
    fn weight_bytes(&self) -> u64;
}

fn options(config: &Config) -> EncoderOptions {
    EncoderOptions { threads: config.threads, ..EncoderOptions::default() }
}

/// Numbers of a vector that were wanted, and are not what the model gives.
fn other_length(encoder: &dyn Embedder, numbers: usize) -> Error {
    let (id, length) = (encoder.id(), encoder.dimensions());
    Error::BadRequest(
        format!("{id} makes vectors of {length} numbers, and can not make ones of {numbers}")
            .into(),
    )
}

fn bad_model(dir: &Path) -> impl FnOnce(riddle_embedding::Error) -> Error {
    let dir = dir.to_path_buf();
    |error| Error::BadModel { dir, source: error.into() }
}

impl Encoder for dyn Embedder {
    fn shared(config: &Config) -> &Open<dyn Embedder> {
        &config.shared.embedders
    }

    fn open_in(config: &Config, dir: &Path, numbers: Option<usize>) -> Result<Arc<dyn Embedder>> {
        let options = EncoderOptions {
            memory: config.embedder_memory,
            dimensions: numbers,
            ..options(config)
        };
        let encoder = riddle_embedding::open(dir, options).map_err(bad_model(dir))?;
        match numbers.filter(|it| *it != encoder.dimensions()) {
            // What runs on ONNX Runtime makes what its graph says.
            Some(numbers) => Err(other_length(&*encoder, numbers)),
            None => Ok(Arc::from(encoder)),
        }
    }

    fn identity(&self) -> &str {
        self.id()
    }

    fn weight_bytes(&self) -> u64 {
        self.resident_weight_bytes()
    }
}

impl Encoder for dyn SparseEncoder {
    fn shared(config: &Config) -> &Open<dyn SparseEncoder> {
        &config.shared.sparse
    }

    fn open_in(
        config: &Config,
        dir: &Path,
        _numbers: Option<usize>,
    ) -> Result<Arc<dyn SparseEncoder>> {
        let encoder = SpladeEncoder::open(dir, options(config)).map_err(bad_model(dir))?;
        Ok(Arc::new(encoder))
    }

    fn identity(&self) -> &str {
        self.id()
    }

    fn weight_bytes(&self) -> u64 {
        self.resident_weight_bytes()
    }
}

/// An encoder that is opened when it is needed and may be let go in between.
pub(crate) struct Slot<T: ?Sized> {
    /// Name or directory, and the identity it must have; `None`: there is none to use.
    wanted: Option<(String, String)>,
    /// Numbers of a vector that it keeps, where not all.
    numbers: Option<usize>,
    open: Mutex<Option<Arc<T>>>,
}

impl<T: Encoder + ?Sized> Slot<T> {
    /// Of this encoder, which is open already, with so many `numbers` of a vector.
    pub(crate) fn of(name: &str, numbers: Option<usize>, encoder: Arc<T>) -> Slot<T> {
        let wanted = Some((name.to_owned(), encoder.identity().to_owned()));
        Slot { wanted, numbers, open: Mutex::new(Some(encoder)) }
    }

    /// Of the encoder of that name and identity, which is opened when it is needed.
    pub(crate) fn later(name: &str, id: &str) -> Slot<T> {
        let wanted = Some((name.to_owned(), id.to_owned()));
        Slot { wanted, numbers: None, open: Mutex::new(None) }
    }

    /// Of none.
    pub(crate) fn none() -> Slot<T> {
        Slot { wanted: None, numbers: None, open: Mutex::new(None) }
    }

    /// The same once more, if it is of that name and identity.
    pub(crate) fn still(&self, name: &str, id: &str) -> Option<Slot<T>> {
        let wanted = self.wanted.clone().filter(|it| it.0 == name && it.1 == id)?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Slot { wanted: Some(wanted), numbers: self.numbers, open: Mutex::new(open) })
    }

    /// Whether what it makes is that of that identity.
    pub(crate) fn is_of(&self, id: &str) -> bool {
        self.wanted.as_ref().is_some_and(|it| it.1 == id)
    }

    /// The identity that it must have.
    pub(crate) fn identity(&self) -> Option<&str> {
        Some(&self.wanted.as_ref()?.1)
    }

    /// Whether there is one to use.
    pub(crate) fn is_used(&self) -> bool {
        self.wanted.is_some()
    }

    /// The encoder, opened if it is not; `None` when there is none, or it has become another one.
    pub(crate) fn get(&self, config: &Config) -> Result<Option<Arc<T>>> {
        let Some((name, id)) = &self.wanted else { return Ok(None) };
        let mut slot = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            let opened = open::<T>(config, name, self.numbers)?;
            *slot = opened.filter(|it| it.identity() == id);
        }
        Ok(slot.clone())
    }

    /// Lets it go until the next [`get`](Self::get).
    pub(crate) fn release(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Bytes of weights in memory now.
    pub(crate) fn resident_weight_bytes(&self) -> u64 {
        let slot = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().map_or(0, |it| it.weight_bytes())
    }
}

/// Parts of an encoder's identity after its name: longest text, pooling or number of terms, a digest.
const ID_PARTS: usize = 3;

/// The name in an encoder's identity: a repository's has its owner before it, a folder's has not.
pub(crate) fn encoder_name(identity: &str) -> &str {
    identity.rsplit('/').nth(ID_PARTS).unwrap_or_default()
}

/// Which weights an encoder has, told without opening it: a model of the same name may have been packed since. Empty
/// where it is not installed, or runs on ONNX Runtime.
pub(crate) fn weights(config: &Config, name: &str) -> String {
    let Ok(dir) = config.model_dir(name) else { return String::new() };
    let size = |file: &str| Some(format!("{file} {}", dir.join(file).metadata().ok()?.len()));
    size(STORE_FILE).or_else(|| size("model.safetensors")).unwrap_or_default()
}

/// Opens it, with so many `numbers` of a vector; `None` when it is not installed, which leaves the search without what
/// it makes.
pub(crate) fn open<T: Encoder + ?Sized>(
    config: &Config,
    name: &str,
    numbers: Option<usize>,
) -> Result<Option<Arc<T>>> {
    match config.model_dir(name) {
        Ok(dir) => open_dir(config, &dir, numbers).map(Some),
        Err(Error::NoModel { .. } | Error::NoModelAt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn open_dir<T: Encoder + ?Sized>(
    config: &Config,
    dir: &Path,
    numbers: Option<usize>,
) -> Result<Arc<T>> {
    let mut shared = T::shared(config).lock().unwrap_or_else(PoisonError::into_inner);
    let key = (dir.to_path_buf(), numbers);
    if let Some(open) = shared.get(&key).and_then(Weak::upgrade) {
        return Ok(open);
    }
    let encoder = T::open_in(config, dir, numbers)?;
    shared.retain(|_, it| it.strong_count() > 0);
    shared.insert(key, Arc::downgrade(&encoder));
    Ok(encoder)
}

#[cfg(test)]
mod tests {
    use std::{iter, sync::atomic::AtomicBool};

    use riddle_catalog::Catalog;
    use riddle_grating::{StorePrecision, convert};

    use super::*;
    use crate::index::{InputDocument, Library};

    /// Another model under a name, and the same one packed since: both ask for new vectors, and get them also when the
    /// first run that was to make them has been interrupted.
    #[test]
    fn vectors_of_another_embedder_are_made_even_if_that_was_interrupted() {
        let (home, model) = (tempfile::tempdir(), tempfile::tempdir());
        let (home, model) = (home.expect("a folder"), model.expect("a folder"));
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-encoder");
        for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
        {
            std::fs::copy(golden.join(file), model.path().join(file)).expect("copied");
        }
        let name = model.path().to_string_lossy().into_owned();
        let open = || Library::open(Config::new(home.path())).expect("opens");
        let text = "The mooring ends in March.".to_owned();
        let document = InputDocument { id: "doc".to_owned(), title: String::new(), text };
        open()
            .add_documents("notes", &mut iter::once(document), &mut |_| {}, &AtomicBool::new(false))
            .expect("indexed");
        // Every run is a process of its own.
        let update = |stopped: bool| {
            let report = open().update(&mut |_| {}, &AtomicBool::new(stopped)).expect("runs");
            report.embedded
        };
        open().choose_embedder(&name).expect("a model");
        let active = || {
            let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
            catalog.active_embedder().expect("readable").map(|it| it.id)
        };
        assert_eq!((update(true), update(false), update(false)), (0, 1, 0));
        let published = active();
        convert(model.path(), Some(StorePrecision::Int8), model.path(), &mut |_| {})
            .expect("packed");
        assert_eq!((update(true), active()), (0, published.clone()));
        assert_eq!((update(false), update(false)), (1, 0));
        assert!(active().is_some() && active() != published);
    }
}
