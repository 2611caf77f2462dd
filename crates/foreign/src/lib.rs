//! The reranker for programs in other languages: [`Reranker`] is one small type over the engine, [`mod@c`] the same for
//! C (`include/riddle.h`), and the Python package of `crates/python` is made of it.
//!
//! A model is a folder as the hub publishes it, a name in Riddle's model store, or nothing at all: then it is the
//! reranker that comes with Riddle, which is part of this library. [`Reranker::rank`] puts texts in order, by all
//! layers or as its calibration promises; [`Reranker::scores`] is the score of each pair, always by all layers.
//!
//! Neighbors: `riddle-grating` computes. Deliberately absent: the network, a library of files, retrieval priors,
//! deadlines (they need a home to keep what was measured), and any thread but the engine's own.
//!
//! ```no_run
//! use riddle_rerank::{Options, Reranker};
//!
//! let options = Options { memory_budget: Some(250 << 20), ..Options::default() };
//! let reranker = Reranker::open(&options)?;
//! let ranking = reranker.rank("Who bakes?", &["It rained.", "Mira bakes."], Some(1))?;
//! println!("best: {}", ranking.results[0].index);
//! # Ok::<(), riddle_rerank::Error>(())
//! ```

pub mod c;
mod error;
mod model;
mod prune;
mod size;

use std::path::PathBuf;

use riddle_grating::{Calibration, Engine, EngineOptions, Question, Run};
use riddle_types::{LayerObserver, Prior, RerankOutcome, SilentObserver};

pub use self::{
    error::{Error, Result},
    size::parse_size,
};
pub use riddle_grating::Mode;

/// Most texts of one forward of [`Reranker::scores`]: hidden states of all of them are in memory at once, 200 MB for
/// the longest texts of a model of 384 numbers per token.
const TOGETHER: usize = 256;

/// What is opened, and how it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// A model's folder, or its name in the model store; `None`: the reranker that comes with Riddle.
    pub model: Option<String>,
    /// The model store; `None`: Riddle's own of this user.
    pub models_dir: Option<PathBuf>,
    /// Where the reranker that comes with Riddle is unpacked; `None`: this user's folder for such things.
    pub cache_dir: Option<PathBuf>,
    /// Bytes that the whole process is to stay within while texts are ranked; what does not fit is read when it is
    /// needed, or the request is refused with the smallest budget that holds it.
    pub memory_budget: Option<u64>,
    /// What leaving out hopeless texts may change: nothing ([`Mode::Off`]), the order inside the result
    /// ([`Mode::Set`]), only who is not in it ([`Mode::Order`]). `None`: set where a precision is said; else what the
    /// calibration promises to change on average at most one result in a hundred, and nothing without one.
    pub mode: Option<Mode>,
    /// Share of the full reading's results that stays, above 0 and below 1; needs a calibration.
    pub precision: Option<f64>,
    /// Share of the results that may differ on average, above 0 and below 1; needs a calibration.
    pub error_probability: Option<f64>,
    /// The model's calibration; `None`: `calibration.json` in its folder, if it is there.
    pub calibration: Option<PathBuf>,
    /// Threads; `None`: all cores.
    pub threads: Option<usize>,
    /// Longest pair in tokens, beyond which texts are cut; `None`: what the model was made for.
    pub max_tokens: Option<usize>,
    /// What a model with a place for it is told to judge by (Qwen3).
    pub instruction: Option<String>,
}

/// An open reranker. It may be used from many threads; one request is computed at a time.
#[derive(Debug)]
pub struct Reranker {
    engine: Engine,
    name: String,
    pruning: prune::Asked,
    calibration: Option<Calibration>,
}

/// A text and how well it answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Which of the texts, from 0.
    pub index: usize,
    /// 0…1, by the model's own activation.
    pub score: f32,
    /// The logit.
    pub raw_score: f32,
}

/// Texts in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// The best, best first.
    pub results: Vec<Place>,
    /// Why nothing was left out although that was asked for.
    pub note: Option<String>,
    /// Layers that computed at least one text.
    pub layers_run: u32,
    /// Text × layer steps that were computed.
    pub candidate_layers: u64,
}

impl Reranker {
    /// Finds the model and reads what it needs.
    ///
    /// # Errors
    /// What is not there, can not be read or makes no sense, in words that say which.
    pub fn open(options: &Options) -> Result<Reranker> {
        let dir = model::folder(options)?;
        let calibration = prune::calibration(&dir, options.calibration.as_deref())?;
        let name = options.model.clone().unwrap_or_else(|| model::BUNDLED.to_owned());
        let pruning = prune::Asked::of(options, calibration.is_some(), &name)?;
        let defaults = EngineOptions::default();
        if options.threads == Some(0) || options.max_tokens == Some(0) {
            return Err(Error::BadOption(
                "threads and the longest pair in tokens are 1 or more, or not said".to_owned(),
            ));
        }
        let engine = EngineOptions {
            threads: options.threads.unwrap_or(defaults.threads),
            max_tokens: options.max_tokens,
            memory_budget: options.memory_budget,
            instruction: options.instruction.clone(),
            scores_every_layer: false,
            ..defaults
        };
        let engine = Engine::open(&dir, engine)?;
        let layers = engine.num_layers();
        if let Some(made) = calibration.as_ref().filter(|it| it.num_layers != layers) {
            return Err(Error::BadOption(format!(
                "the calibration is of a model of {} layers, and {name} has {layers}",
                made.num_layers
            )));
        }
        Ok(Reranker { engine, name, pruning, calibration })
    }

    /// Name or folder of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.name
    }

    /// Layers of the model.
    #[must_use]
    pub fn num_layers(&self) -> u32 {
        self.engine.num_layers()
    }

    /// Bytes of weights in memory as of the last layer that ran.
    #[must_use]
    pub fn resident_weight_bytes(&self) -> u64 {
        self.engine.resident_weight_bytes()
    }

    /// Puts texts in order by how well they answer the query; the best `top_k`, or all.
    ///
    /// # Errors
    /// An empty query, a budget that can not hold the request, weights that can not be read.
    pub fn rank(&self, query: &str, texts: &[&str], top_k: Option<usize>) -> Result<Ranking> {
        self.rank_watched(query, texts, top_k, &mut SilentObserver)
    }

    /// [`rank`](Self::rank) with somebody who sees every layer and may stop.
    ///
    /// # Errors
    /// As there, and the stop.
    pub fn rank_watched(
        &self,
        query: &str,
        texts: &[&str],
        top_k: Option<usize>,
        observer: &mut dyn LayerObserver,
    ) -> Result<Ranking> {
        let top_k = top_k.unwrap_or(texts.len());
        let plan = self.pruning.plan(self.calibration.as_ref(), top_k, texts.len())?;
        let how = Run { mode: plan.mode, policy: &*plan.policy, scores_every_layer: false };
        // A promise may be about more results than were asked for, of which the best are shown.
        let results = if top_k == 0 { 0 } else { plan.results.max(top_k) };
        let outcome = self.engine.run_as(how, query, texts, Prior::NONE, results, observer)?;
        Ok(Ranking {
            results: places(&outcome).take(top_k).collect(),
            note: plan.note,
            layers_run: outcome.stats.layers_run,
            candidate_layers: outcome.stats.candidate_layers,
        })
    }

    /// The scores of pairs of a query and a text, in their order, always by all layers. Pairs of different queries
    /// share a forward.
    ///
    /// # Errors
    /// As [`rank`](Self::rank), for all of them.
    pub fn scores(&self, pairs: &[(&str, &str)]) -> Result<Vec<Place>> {
        self.scores_watched(pairs, &mut SilentObserver)
    }

    /// [`scores`](Self::scores) with somebody who sees every layer and may stop.
    ///
    /// # Errors
    /// As there, and the stop.
    pub fn scores_watched(
        &self,
        pairs: &[(&str, &str)],
        observer: &mut dyn LayerObserver,
    ) -> Result<Vec<Place>> {
        let mut scores = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks(TOGETHER) {
            let begun = scores.len();
            // Neighbors with one query are one request: the query is tokenized once.
            let groups: Vec<&[(&str, &str)]> = pairs.chunk_by(|a, b| a.0 == b.0).collect();
            let question = |group: &&[(&str, &str)]| Question {
                query: group[0].0.to_owned(),
                candidates: group.iter().map(|it| it.1.to_owned()).collect(),
                top_k: group.len(),
            };
            let questions: Vec<Question> = groups.iter().map(question).collect();
            let outcomes = self.engine.run_together(&questions, observer)?;
            let mut at = begun;
            for (group, outcome) in groups.iter().zip(&outcomes) {
                let mut own: Vec<Place> = places(outcome).collect();
                own.sort_unstable_by_key(|it| it.index);
                scores.extend(own.into_iter().map(|it| Place { index: at + it.index, ..it }));
                at += group.len();
            }
        }
        Ok(scores)
    }
}

fn places(outcome: &RerankOutcome) -> impl Iterator<Item = Place> + '_ {
    outcome.ranked.iter().map(|it| Place {
        index: it.index,
        score: it.score,
        raw_score: it.raw_score,
    })
}
