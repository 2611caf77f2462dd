//! Models that run in this process, in the memory they are given.
//!
//! A GGUF file that fits stays in memory; of one that does not, each layer keeps the same share there and the rest is
//! read ahead of the computation, token after token (FlexInfer, Du et al. 2025). It is the same loop over the same
//! bytes, so memory decides how long an answer takes and never what it says.

mod draft;
mod engine;
mod experts;
mod numbers;
mod open;
mod plan;
mod sample;
mod segments;
mod small;
mod stored;
mod template;
mod writer;

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use riddle_cache::Store;
use riddle_offload::{JoinedFiles, Locking, StreamOptions};
use riddle_transformer::{LanguageModel, LanguageTokenizer};
use riddle_types::{
    Generation, GenerationRequest, GenerationStats, Generator, Message, StageError,
};

pub use draft::Drafting;
pub use sample::Sampling;

use self::{
    engine::{Ends, Engine, How},
    numbers::Numbers,
    open::{Asked, Open},
    sample::Sampler,
    segments::Segments,
    stored::Stored,
    template::Turn,
};
use crate::{Error, Result, prompt::notices};

/// What takes an answer as it comes.
type Sink<'a> = dyn FnMut(&str) -> ControlFlow<()> + 'a;

/// How a model is run.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalOptions {
    /// Bytes that the process may take; `None`: the model is wholly in memory.
    pub memory_budget: Option<u64>,
    /// Tokens read and written together; `None`: as many as are useful and fit.
    pub context_tokens: Option<usize>,
    /// Tokens that a layer takes at a time; `None`: as many as are useful and fit. No answer depends on it.
    pub pass_tokens: Option<usize>,
    /// Threads that compute.
    pub threads: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Who guesses what comes next. No answer depends on it, unless guesses are drawn: a seed then chooses other words.
    pub draft: Drafting,
    /// How what is not in memory is read.
    pub stream: StreamOptions,
    /// Which tensors stay in memory.
    pub locking: Locking,
    /// Nothing of a prompt is left in memory for the next one: for measurements of what that is worth. No answer
    /// depends on it.
    pub forgets: bool,
    /// What is written to a question, token by token, whatever the model would write: for measurements of what an
    /// answer takes with weights that have nothing to say. Nobody guesses then.
    pub told: Arc<BTreeMap<String, String>>,
}

impl Default for LocalOptions {
    fn default() -> LocalOptions {
        LocalOptions {
            memory_budget: None,
            context_tokens: None,
            pass_tokens: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            sampling: Sampling::default(),
            draft: Drafting::default(),
            stream: StreamOptions::default(),
            locking: Locking::Balanced,
            forgets: false,
            told: Arc::default(),
        }
    }
}

/// A language model of a GGUF file.
pub struct Local {
    name: String,
    path: PathBuf,
    /// One, or the parts of the model.
    files: JoinedFiles,
    options: LocalOptions,
    open: Mutex<Option<Open>>,
    /// Where prefixes of prompts are kept between questions.
    stored: Mutex<Option<Stored>>,
    /// Bytes of weights in memory, for those who ask while an answer is written.
    resident: AtomicU64,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("name", &self.name).field("path", &self.path).finish()
    }
}

impl Local {
    /// Whether the model in `path` is one that runs here, by its header: architecture, sizes, tensors and tokens.
    /// Whether it fits the memory is not asked.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for the memory.
    pub fn check(path: &Path) -> Result<()> {
        let model = LanguageModel::open(path)?;
        LanguageTokenizer::open(model.file())?;
        Ok(())
    }

    /// Opens the model in `path`, which is shown as `name`.
    ///
    /// # Errors
    /// A file that is not a supported model, a model that does not fit the memory, numbers out of their range.
    pub fn open(path: &Path, name: &str, options: LocalOptions) -> Result<Local> {
        Local::open_while(path, name, options, &mut || ControlFlow::Continue(()))
    }

    /// [`open`](Self::open), as long as `go_on` does not break: reading gigabytes takes its time.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Error::Stopped`].
    pub fn open_while(
        path: &Path,
        name: &str,
        options: LocalOptions,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Local> {
        options.sampling.check()?;
        let open = Open::new(path, &options, go_on)?;
        let resident = AtomicU64::new(open.resident_bytes());
        Ok(Local {
            resident,
            name: format!("local:{name}"),
            path: path.to_path_buf(),
            files: open.engine.model.file().files().clone(),
            options,
            open: Mutex::new(Some(open)),
            stored: Mutex::new(None),
        })
    }

    /// Takes beginnings of prompts that were read before from `store`, and keeps new ones there; without one everything
    /// is read. What it answers stays the same, bit for bit. A store that can not be used costs time alone.
    pub fn use_store(&self, store: Option<Arc<Store>>) {
        let label = self.name.strip_prefix("local:").unwrap_or(&self.name);
        let opened = store.map(|it| Stored::of(it, &self.files, label)).transpose();
        let stored = opened.unwrap_or_else(|error| {
            tracing::warn!("{}: {error}", self.path.display());
            None
        });
        let mut place = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = stored.clone();
        if let Some(open) = place.as_mut() {
            open.engine.stored = stored;
        }
    }

    /// Bytes of weights in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// [`Generator::generate`] with this crate's error.
    ///
    /// # Errors
    /// When the question does not fit, the layers can not be read, or computing panicked; the model is then opened
    /// again by the next question.
    pub fn answer(&self, request: &GenerationRequest, sink: &mut Sink<'_>) -> Result<Generation> {
        self.with_open(|open| {
            let (prompt, segments) = open.fit(request)?;
            let placed = prompt.placed.iter().map(|it| it.number).collect();
            let numbers = Numbers::new(placed, prompt.left_out.clone());
            let generation = Generation {
                prompt: Some(prompt.to_text()),
                notices: notices(&prompt),
                ..Generation::default()
            };
            let told = self.options.told.get(&request.question);
            let told = told.map(|it| open.engine.tokenizer.encode(it, false));
            let asked = Asked { prompt: &segments, numbers, most: request.max_tokens, told };
            open.write(generation, asked, self.options.sampling, sink)
        })
    }

    /// [`Generator::complete`] with this crate's error.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn continue_from(
        &self,
        messages: &[Message],
        max_tokens: usize,
        sink: &mut Sink<'_>,
    ) -> Result<Generation> {
        self.with_open(|open| {
            let turns: Vec<Turn> = messages.iter().map(Turn::of).collect();
            let prompt = open.segments(&turns, &[])?;
            let (tokens, room) =
                (prompt.tokens.len(), open.engine.context().saturating_sub(max_tokens));
            if tokens > room {
                return Err(Error::TooLong { tokens, room });
            }
            let numbers = Numbers::default();
            let asked = Asked { prompt: &prompt, numbers, most: max_tokens, told: None };
            open.write(Generation::default(), asked, self.options.sampling, sink)
        })
    }

    /// The logits `[vocabulary]` after every `chunk` tokens of `tokens`, which are read as many at a time: for
    /// comparisons with other programs.
    ///
    /// # Errors
    /// When layers can not be read.
    pub fn logits_of(&self, tokens: &[u32], chunk: usize) -> Result<Vec<Vec<f32>>> {
        self.with_engine(|engine| engine.logits_of(tokens, chunk))
    }

    /// The logits `[vocabulary]` after a prompt of these segments, the last of which is the question: what is in memory
    /// or stored of it is taken from there, as for an answer.
    ///
    /// # Errors
    /// When layers can not be read.
    pub fn logits_after(&self, segments: &[&[u32]]) -> Result<(Vec<f32>, GenerationStats)> {
        let prompt = prompt_of(segments);
        self.with_engine(|engine| engine.logits_after(&prompt))
    }

    /// Reads a prompt of these segments, the last of which is the question, and writes `tokens` after it, whatever they
    /// are: for measurements. Gives their bytes, too.
    ///
    /// # Errors
    /// When layers can not be read.
    pub fn measure_segments(
        &self,
        segments: &[&[u32]],
        tokens: usize,
    ) -> Result<(GenerationStats, Vec<u8>)> {
        let (prompt, sampling) = (prompt_of(segments), self.options.sampling);
        let mut written = Vec::new();
        let mut take = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            ControlFlow::Continue(())
        };
        let stats = self.with_open(|open| {
            let sampler = &mut Sampler::new(sampling);
            let draft = &mut *open.draft;
            let how = How { most: tokens, sampler, ends: Ends::Ignored, told: &[], draft };
            Ok(open.engine.generate(&prompt, how, &mut take)?.0)
        })?;
        Ok((stats, written))
    }

    /// Ids that a prompt may be made of: below this number.
    ///
    /// # Errors
    /// When the model has to be opened again and can not be.
    pub fn vocabulary(&self) -> Result<u32> {
        self.with_engine(|engine| Ok(u32::try_from(engine.model.config().vocab_size).unwrap_or(1)))
    }

    /// Reads a prompt of `prompt` tokens and writes `tokens` after it, whatever they are: for measurements. Where
    /// nobody guesses they are chosen beforehand, because a model of random weights may repeat itself, and a repeated
    /// token asks experts that are in memory.
    ///
    /// # Errors
    /// When layers can not be read.
    pub fn measure(&self, prompt: usize, tokens: usize) -> Result<Measured> {
        let (sampling, drafting) = (self.options.sampling, &self.options.draft);
        self.with_open(|Open { engine, draft, .. }| {
            // Any tokens but a single one: products take no short cuts, and neither do caches of the processor.
            let vocabulary = engine.model.config().vocab_size.max(1);
            let prompt = (0..prompt).map(|it| (it * 7919 % vocabulary) as u32).collect();
            let prompt = Segments::new(prompt, &[], &[]);
            let told: Vec<u32> = match drafting {
                Drafting::Nothing => {
                    (0..tokens).map(|it| ((it * 31 + 5) % vocabulary) as u32).collect()
                }
                _ => Vec::new(),
            };
            let sampler = &mut Sampler::new(sampling);
            let how = How {
                most: tokens,
                sampler,
                ends: Ends::Ignored,
                told: &told,
                draft: &mut **draft,
            };
            let mut go_on = |_: &[u8]| ControlFlow::Continue(());
            let (stats, _) = engine.generate(&prompt, how, &mut go_on)?;
            Ok(Measured { stats, stream_bytes_per_second: engine.stream_rate()? })
        })
    }

    fn with_engine<T>(&self, work: impl FnOnce(&mut Engine) -> Result<T>) -> Result<T> {
        self.with_open(|open| work(&mut open.engine))
    }

    /// Works with the open model, one caller at a time. A panic costs the model's memory and the work.
    fn with_open<T>(&self, work: impl FnOnce(&mut Open) -> Result<T>) -> Result<T> {
        let mut place = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out: what panics does not come back.
        let mut open = match place.take() {
            Some(open) => open,
            None => {
                let mut go_on = || ControlFlow::Continue(());
                let mut open = Open::new(&self.path, &self.options, &mut go_on)?;
                let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
                open.engine.stored.clone_from(&stored);
                self.resident.store(open.resident_bytes(), Ordering::Relaxed);
                open
            }
        };
        match catch_unwind(AssertUnwindSafe(|| work(&mut open))) {
            Ok(done) => {
                // Experts come as they are wanted.
                self.resident.store(open.resident_bytes(), Ordering::Relaxed);
                *place = Some(open);
                done
            }
            Err(panic) => {
                self.resident.store(0, Ordering::Relaxed);
                let said = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
                let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
                Err(Error::Panicked(said.unwrap_or_default()))
            }
        }
    }
}

/// What [`Local::measure`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Times and sizes.
    pub stats: GenerationStats,
    /// How fast weights are read while nothing is computed; `None` where none are.
    pub stream_bytes_per_second: Option<f64>,
}

impl Generator for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut Sink<'_>,
    ) -> Result<Generation, StageError> {
        Ok(self.answer(request, sink)?)
    }

    fn complete(
        &self,
        messages: &[Message],
        max_tokens: usize,
        sink: &mut Sink<'_>,
    ) -> Result<Generation, StageError> {
        Ok(self.continue_from(messages, max_tokens, sink)?)
    }
}

/// A prompt of these segments, made of nothing.
fn prompt_of(segments: &[&[u32]]) -> Segments {
    let mut borders = Vec::new();
    let mut end = 0;
    for segment in segments.iter().take(segments.len().saturating_sub(1)) {
        end += segment.len();
        borders.push(end);
    }
    Segments::new(segments.concat(), &borders, &[])
}
