//! Language models that run in this process.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::UNIX_EPOCH,
};

use riddle_catalog::Catalog;
use riddle_llm::{Drafting, Local, LocalOptions, Store};
use riddle_models::{language_model_files, model_parts};
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

/// A model's file as it is now, with the other parts where it is in several.
fn identity_of(path: &Path) -> Option<String> {
    let of_one = |path: &Path| {
        let path = path.canonicalize().ok()?;
        let file = path.metadata().ok()?;
        let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", path.display(), file.len(), modified.as_nanos()))
    };
    let parts = model_parts(path);
    let all: Option<Vec<String>> = parts.iter().map(|it| of_one(it)).collect();
    Some(all?.join(" "))
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
    let mut files = language_model_files(&dir)?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use riddle_models::{Places, Program};
    use riddle_weights::gguf::{RandomModel, write_parts, write_random};

    use super::*;

    /// A tiny model in three files, in a folder below `dir`.
    fn parts(dir: &Path, folder: &str) -> Vec<PathBuf> {
        let (whole, folder) = (dir.join("tiny.gguf"), dir.join(folder));
        let format = "q8_0".parse().expect("a format");
        fs::create_dir_all(&folder).expect("a folder");
        write_random(RandomModel::TinyQwen3, format, &whole).expect("written");
        let parts = write_parts(&whole, &folder.join("tiny-Q8_0"), &[4, 11]).expect("written");
        fs::remove_file(whole).expect("removed");
        parts
    }

    fn refused(config: &Config, name: &str) -> String {
        file_of(config, name).expect_err(name).to_string()
    }

    #[test]
    fn the_one_model_of_a_folder_is_found_in_parts_and_below() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = Config::new(dir.path().join("home"));
        let parts = parts(dir.path(), "repository/Q8_0");
        let store = config.model_store().expect("a store");
        // Any part means all.
        let alone = store.import(&parts[1], None).expect("imports").model;
        assert_eq!(alone.name, "tiny-Q8_0");
        let opened = file_of(&config, "tiny-Q8_0").expect("found");
        assert_eq!(opened, alone.dir.join("tiny-Q8_0-00001-of-00003.gguf"));
        assert!(Local::check(&opened).is_ok());
        let below = store.import(&dir.path().join("repository"), None).expect("imports").model;
        let opened = file_of(&config, "repository").expect("found");
        assert_eq!(opened, below.dir.join("Q8_0/tiny-Q8_0-00001-of-00003.gguf"));
        assert!(Local::check(&opened).is_ok());

        let (slot, settings) = (LocalSlot::default(), LocalLlm::default());
        let identity = || slot.identity(&config, "repository", &settings);
        let before = identity().expect("there");
        assert_eq!(identity().as_ref(), Some(&before));
        let last = below.dir.join("Q8_0/tiny-Q8_0-00003-of-00003.gguf");
        let longer = [fs::read(&last).expect("read"), vec![0]].concat();
        fs::write(&last, longer).expect("written");
        assert_ne!(identity().expect("there"), before, "another part is another model");
        fs::remove_file(&last).expect("removed");
        assert_eq!(identity(), None);
        let error = store.import(&parts[0].with_file_name("none.gguf"), None);
        assert!(error.is_err());
        fs::remove_file(&parts[2]).expect("removed");
        let error = store.import(&parts[0], Some("torn")).expect_err("a part is missing");
        assert!(error.to_string().contains("00003-of-00003.gguf"), "{error}");

        // Two models in one folder.
        fs::write(below.dir.join("Q8_0/other.gguf"), "GGUF").expect("written");
        assert!(refused(&config, "repository").contains("several GGUF files"));
    }

    #[test]
    fn parts_of_another_program_run_where_they_lie() {
        let dir = tempfile::tempdir().expect("a folder");
        let studio = dir.path().join("studio");
        let parts = parts(&studio, "org/Tiny-GGUF");
        let mut config = Config::new(dir.path().join("home"));
        config.elsewhere = Places::default().with(Program::LmStudio, &studio);
        let name = "lmstudio:org/Tiny-GGUF/tiny-Q8_0";
        let found = config.models_elsewhere();
        assert_eq!((found.len(), &*found[0].model.name, &found[0].trouble), (1, name, &None));
        let opened = file_of(&config, name).expect("found");
        assert_eq!(opened.file_name(), parts[0].file_name());
        assert!(Local::check(&opened).is_ok());
        // A part that lies is told by its header, one that is gone by its name.
        let second = fs::read(&parts[1]).expect("read");
        fs::write(&parts[1], &second[..second.len() / 2]).expect("written");
        let trouble = config.models_elsewhere().remove(0).trouble.expect("truncated");
        assert!(trouble.what.contains("00002-of-00003.gguf"), "{}", trouble.what);
        fs::remove_file(&parts[1]).expect("removed");
        let trouble = config.models_elsewhere().remove(0).trouble.expect("gone");
        assert!(trouble.what.contains("tiny-Q8_0-00002-of-00003.gguf"), "{}", trouble.what);
        assert!(refused(&config, name).contains("tiny-Q8_0-00002-of-00003.gguf"));
    }
}
