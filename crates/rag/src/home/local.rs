//! Language models that run in this process.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::UNIX_EPOCH,
};

use riddle_catalog::Catalog;
use riddle_llm::{Drafting, Local, LocalOptions, Store};
use riddle_types::{
    Advice, Generation, GenerationRequest, Generator, Message, PassageOrder, StageError, Trouble,
};

use super::{config::Config, prefixes};
use crate::contract::{Error, LLM_LOCAL, LocalDraft, LocalLlm, Result};

/// The last model used stays open, with the settings it was opened with.
#[derive(Debug, Default, Clone)]
pub(crate) struct LocalSlot(Arc<Mutex<Option<OpenLocal>>>);

#[derive(Debug)]
struct OpenLocal {
    path: PathBuf,
    settings: LocalLlm,
    draft: Drafting,
    model: Arc<Local>,
    /// What it was given to keep prefixes in.
    stored: Option<Arc<Store>>,
}

impl LocalSlot {
    /// The model of that name. It is not opened before it has to write something: most questions without an answer are
    /// known as such before.
    ///
    /// # Errors
    /// No such model, or numbers out of their range.
    pub(crate) fn open(
        &self,
        config: &Config,
        catalog: &Catalog,
        name: &str,
        settings: &LocalLlm,
    ) -> Result<Box<dyn Generator>> {
        let path = file_of(config, name)?;
        settings.sampling.check().map_err(Error::bad)?;
        let shown = match path.file_stem() {
            Some(stem) if name.ends_with(".gguf") => stem.to_string_lossy().into_owned(),
            _ => name.to_owned(),
        };
        let name = format!("{LLM_LOCAL}{shown}");
        let (slot, threads) = (self.clone(), config.threads);
        let stored = if settings.reads_anew { None } else { prefixes::for_model(config, catalog)? };
        let draft = drafting(config, &settings.draft)?;
        // The order is said with each question, and changes nothing of how the model is opened.
        let settings = LocalLlm { order: PassageOrder::default(), ..settings.clone() };
        Ok(Box::new(Lazy { slot, path, name, shown, settings, draft, threads, stored }))
    }

    /// The model's file as it is now and what it is run with; `None` where there is none. A file that was written anew
    /// is another model: its time and size are looked at, not its bytes.
    pub(crate) fn identity(
        &self,
        config: &Config,
        name: &str,
        settings: &LocalLlm,
    ) -> Option<String> {
        let path = file_of(config, name).ok()?;
        let drawn = settings.sampling.temperature > 0.0;
        let draft = match drafting(config, &settings.draft).ok()? {
            Drafting::Model(path) if drawn => identity_of(&path)?,
            _ => String::new(),
        };
        // What was read before is read again to the same end, and so are guesses that are not drawn: no bit changes.
        let settings = LocalLlm {
            reads_anew: false,
            forgets: false,
            draft: LocalDraft::default(),
            ..settings.clone()
        };
        Some(format!("{} {settings:?} {draft}", identity_of(&path)?))
    }

    /// Lets the model go.
    pub(crate) fn release(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Bytes of its weights in memory.
    pub(crate) fn resident_weight_bytes(&self) -> u64 {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map_or(0, |it| it.model.resident_bytes())
    }
}

/// A model that is opened when it has to write something.
struct Lazy {
    slot: LocalSlot,
    path: PathBuf,
    name: String,
    shown: String,
    settings: LocalLlm,
    draft: Drafting,
    threads: usize,
    stored: Option<Arc<Store>>,
}

impl Lazy {
    /// The model, or `None` when `sink` broke while it was opened.
    fn model(
        &self,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<Arc<Local>>, StageError> {
        let mut place = self.slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = |it: &Option<Arc<Store>>| it.as_ref().map(|it| it.limit());
        if let Some(open) = place.as_mut()
            && limit(&open.stored) != limit(&self.stored)
        {
            open.model.use_store(self.stored.clone());
            open.stored.clone_from(&self.stored);
        }
        let fits = |it: &&OpenLocal| {
            (&it.path, &it.settings, &it.draft) == (&self.path, &self.settings, &self.draft)
        };
        if let Some(open) = place.as_ref().filter(fits) {
            return Ok(Some(Arc::clone(&open.model)));
        }
        // Two models at once would be two budgets.
        *place = None;
        let LocalLlm { memory_budget, context_tokens, sampling, .. } = self.settings;
        let options = LocalOptions {
            memory_budget,
            context_tokens,
            threads: self.threads,
            sampling,
            draft: self.draft.clone(),
            forgets: self.settings.forgets,
            told: Arc::clone(&self.settings.told),
            ..LocalOptions::default()
        };
        let model = match Local::open_while(&self.path, &self.shown, options, &mut || sink("")) {
            Ok(model) => Arc::new(model),
            Err(riddle_llm::Error::Stopped) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        model.use_store(self.stored.clone());
        *place = Some(OpenLocal {
            path: self.path.clone(),
            settings: self.settings.clone(),
            draft: self.draft.clone(),
            model: Arc::clone(&model),
            stored: self.stored.clone(),
        });
        Ok(Some(model))
    }
}

impl Generator for Lazy {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        match self.model(sink)? {
            Some(model) => model.generate(request, sink),
            None => Ok(Generation::default()),
        }
    }

    fn complete(
        &self,
        messages: &[Message],
        max_tokens: usize,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        match self.model(sink)? {
            Some(model) => model.complete(messages, max_tokens, sink),
            None => Ok(Generation::default()),
        }
    }
}

/// Who guesses, with the file of a model.
fn drafting(config: &Config, draft: &LocalDraft) -> Result<Drafting> {
    Ok(match draft {
        LocalDraft::Nothing => Drafting::Nothing,
        LocalDraft::Lookup => Drafting::Lookup,
        LocalDraft::Model(name) => Drafting::Model(file_of(config, name)?),
    })
}

/// A file as it is now.
fn identity_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let file = path.metadata().ok()?;
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} {}", path.display(), file.len(), modified.as_nanos()))
}

/// The file of an installed model, or of a path.
fn file_of(config: &Config, name: &str) -> Result<PathBuf> {
    let bad = |why: String| Error::BadRequest(why.into());
    let advised = |why: String, advice| Error::BadRequest(Trouble::with(why, advice));
    let path = Path::new(name);
    if is_gguf(path) && path.is_file() {
        return Ok(path.to_path_buf());
    }
    if let Some(path) = config.file_elsewhere(name)? {
        return Ok(path);
    }
    // A name of the store has no ending, and two parts at most.
    let installed = || config.model_store().is_ok_and(|it| it.has(name));
    if is_gguf(path) || (path.components().count() > 1 && !installed()) {
        return Err(match path.is_dir() {
            true => advised(format!("{name} is a folder"), Advice::GiveModelFile),
            false => bad(format!("{name}: there is no such GGUF file")),
        });
    }
    let dir = config.model_dir(name)?;
    let entries =
        std::fs::read_dir(&dir).map_err(|error| bad(format!("{}: {error}", dir.display())))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|it| it.path()).filter(|it| is_gguf(it)).collect();
    files.sort();
    match files.len() {
        1 => Ok(files.remove(0)),
        0 => Err(advised(
            format!("{name} is no language model that runs here: a GGUF file is needed"),
            Advice::ListModels,
        )),
        _ => Err(advised(format!("{name} has several GGUF files"), Advice::ChooseModelFile)),
    }
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|it| it.eq_ignore_ascii_case("gguf"))
}
