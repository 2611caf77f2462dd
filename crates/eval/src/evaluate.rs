//! The run: every query through every stage.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use riddle_rag::{
    Assistant, Config, DEFAULT_CANDIDATES, DEFAULT_FUSED, IndexEvent, Mode, Order, Pruning,
    RerankChoice, RerankSettings, SearchRequest, SearchResponse, StageLists,
    models::DEFAULT_RERANKER, rerank::PriorReranker,
};
use riddle_types::{LayerEvent, LayerObserver};

use crate::{
    Dataset, Error, EvalReport, Latency, Measures, Result, Stage, StageReport, TestQuery,
    corpus_index::CorpusIndex, runs::RunFiles,
};

/// Documents that recall@100 needs of each retriever.
const DEPTH: usize = 100;

/// Most chunks asked of a retriever: a corpus of books has hundreds of chunks per document, and asking
/// for all of them would measure the sorting of the whole index.
const MAX_DEPTH: usize = 2000;

/// What to evaluate, and how.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// The dataset's folder.
    pub dataset: PathBuf,
    /// The user's home and models; the corpus gets a home of its own below it.
    pub config: Config,
    /// Embedder, by name or directory; `None`: the default one.
    pub embedder: Option<String>,
    /// Stages to measure; empty: all that the installed models allow.
    pub stages: Vec<Stage>,
    /// Rerank the candidates of `runs/NAME.trec` instead of searching.
    pub run: Option<String>,
    /// The run's scores are cosines, which a model with a retrieval prior is given.
    pub run_cosines: bool,
    /// Measure the order after every layer of the run's reranking, too.
    pub layers: bool,
    /// Candidates of each retriever, or of the run; `None`: the default, or all of the run.
    pub candidates: Option<usize>,
    /// Results the reranker is asked for.
    pub top_k: usize,
    /// Reranker, by name or directory; `None`: the one the home is set to use.
    pub model: Option<String>,
    /// How it runs.
    pub settings: RerankSettings,
    /// Ask only the first queries.
    pub limit_queries: Option<usize>,
    /// Ask that many, evenly spread over all, instead of the first.
    pub spread_queries: bool,
    /// Index this folder instead of the dataset's texts: its documents are the folder's files, by their
    /// paths below it.
    pub files: Option<PathBuf>,
    /// Whether documents are their texts alone, as some published figures take them.
    pub ignore_titles: bool,
    /// Write the order of every stage into this folder, as runs in TREC format.
    pub save_runs: Option<PathBuf>,
}

impl EvalOptions {
    /// Everything as it is by default, without a dataset.
    pub fn new(config: Config) -> EvalOptions {
        EvalOptions {
            dataset: PathBuf::new(),
            config,
            embedder: None,
            stages: Vec::new(),
            run: None,
            run_cosines: false,
            layers: false,
            candidates: None,
            top_k: 10,
            model: None,
            settings: RerankSettings::default(),
            limit_queries: None,
            spread_queries: false,
            files: None,
            ignore_titles: false,
            save_runs: None,
        }
    }
}

/// What is being done, for progress displays.
#[derive(Debug, Clone, PartialEq)]
pub enum EvalEvent<'a> {
    /// One of several datasets begins.
    Set {
        /// Its name.
        name: &'a str,
        /// Which one, from 1.
        number: usize,
        /// Datasets in all.
        total: usize,
    },
    /// The dataset is being read.
    Loading,
    /// The corpus is being indexed.
    Indexing(IndexEvent<'a>),
    /// A query has been asked.
    Queries {
        /// Queries done.
        done: usize,
        /// Queries in all.
        total: usize,
    },
}

/// The caller's side of an evaluation: who shows progress, and who measures the stages.
pub trait Instruments {
    /// Something happened.
    fn event(&mut self, event: EvalEvent<'_>);

    /// Milliseconds per stage since the last call, by the stages' span names.
    fn take_stage_times(&mut self) -> BTreeMap<&'static str, f64>;
}

/// Measures the stages on a dataset.
///
/// # Errors
/// A dataset that is not one, a model that is not installed, and [`Error::Stopped`] after `stop` was set.
pub fn evaluate(
    options: &EvalOptions,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
) -> Result<EvalReport> {
    if options.top_k == 0 || options.candidates == Some(0) || options.limit_queries == Some(0) {
        return Err(Error::BadOption(
            "--top-k, --candidates and --limit-queries must be at least 1".to_owned(),
        ));
    }
    if options.run_cosines && options.run.is_none() {
        return Err(Error::BadOption(
            "--run-cosines is about the scores of a run: give one with --run".to_owned(),
        ));
    }
    if options.layers && (options.run.is_none() || options.settings.mode != Mode::Off) {
        return Err(Error::BadOption(
            "--layers measures the full forward over the candidates of a run: give one with --run, and no --mode".to_owned(),
        ));
    }
    if options.files.is_some() && (options.run.is_some() || options.ignore_titles) {
        return Err(Error::BadOption(
            "--files takes texts and titles from files: leave out --run and --ignore-titles"
                .to_owned(),
        ));
    }
    instruments.event(EvalEvent::Loading);
    let mut dataset = Dataset::open(&options.dataset)?;
    dataset.limit_queries(options.limit_queries.unwrap_or(usize::MAX), options.spread_queries);
    if options.ignore_titles {
        dataset.ignore_titles();
    }
    let mut report = EvalReport {
        dataset: dataset.name.clone(),
        queries: dataset.queries.len(),
        notices: dataset.notices.clone(),
        ..EvalReport::default()
    };
    match &options.run {
        Some(run) => rerank_run(options, &dataset, run, instruments, stop, &mut report)?,
        None => search_all(options, &dataset, instruments, stop, &mut report)?,
    }
    Ok(report)
}

/// Sums of one stage over the queries.
#[derive(Debug, Default)]
struct Tally {
    measures: Vec<Measures>,
    latency_ms: Vec<f64>,
    rerank_ms: Vec<f64>,
    layers_run: Vec<f64>,
    shares: Vec<f64>,
}

impl Tally {
    fn report(&self) -> StageReport {
        let mean = |of: &[f64]| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        StageReport {
            measures: Measures::mean(&self.measures),
            latency_ms: Latency::of(&self.latency_ms),
            rerank_ms: Latency::of(&self.rerank_ms),
            layers_run_mean: mean(&self.layers_run),
            candidate_layers_share: mean(&self.shares),
        }
    }
}

type Tallies = BTreeMap<Stage, Tally>;

fn reports(tallies: &Tallies) -> BTreeMap<Stage, StageReport> {
    tallies.iter().map(|(&stage, tally)| (stage, tally.report())).collect()
}

/// Stops the reranker between two layers.
struct StopFlag<'a>(&'a AtomicBool);

impl LayerObserver for StopFlag<'_> {
    fn on_layer(&mut self, _event: &LayerEvent) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

pub(crate) fn stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}

/// The reranker to use: the one asked for, else the one the user's home is set to; a home without an index has no
/// settings and takes the default.
pub(crate) fn reranker_name(options: &EvalOptions) -> Option<String> {
    let chosen = || match Assistant::open(options.config.clone()) {
        Ok(assistant) => assistant.configured_reranker().ok()?,
        Err(_) => Some(DEFAULT_RERANKER.to_owned()),
    };
    options.model.clone().or_else(chosen)
}

pub(crate) fn no_reranker() -> Error {
    Error::BadOption("no reranker is chosen: give one with --model NAME or --model DIR".to_owned())
}

fn search_all(
    options: &EvalOptions,
    dataset: &Dataset,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
    report: &mut EvalReport,
) -> Result<()> {
    let model = reranker_name(options);
    if options.stages.contains(&Stage::Rerank) && model.is_none() {
        return Err(no_reranker());
    }
    let (config, embedder) = (&options.config, options.embedder.as_deref());
    let index = match &options.files {
        Some(folder) => {
            CorpusIndex::of_files(folder, dataset, config, embedder, instruments, stop)?
        }
        None => CorpusIndex::open(dataset, config, embedder, instruments, stop)?,
    };
    report.notices.extend(index.notices.iter().cloned());
    let stages = chosen_stages(options, &index, model.is_some(), &mut report.notices)?;
    let session = Session {
        options,
        dataset,
        index: &index,
        model: model.as_deref(),
        stages: &stages,
        not_reranked: Cell::new(0),
    };
    let mut tallies: Tallies = stages.iter().map(|&it| (it, Tally::default())).collect();
    let mut runs =
        options.save_runs.as_deref().map(|it| RunFiles::create(it, &stages)).transpose()?;
    for (number, query) in dataset.queries.iter().enumerate() {
        stopped(stop)?;
        let judgments = &dataset.judgments[&query.id];
        let resident = session.ask(query, instruments, stop, &mut |stage, documents, lap| {
            let tally = tallies.entry(stage).or_default();
            tally.measures.push(Measures::of(&documents, judgments));
            lap.record(stage, tally);
            runs.as_mut().map_or(Ok(()), |it| it.write(stage, &query.id, &documents))
        })?;
        report.resident_weight_bytes = report.resident_weight_bytes.max(resident);
        instruments.event(EvalEvent::Queries { done: number + 1, total: dataset.queries.len() });
    }
    if let Some(runs) = runs {
        runs.finish()?;
    }
    let not_reranked = session.not_reranked.get();
    if not_reranked > 0 {
        report.notices.push(format!(
            "{not_reranked} queries were not reranked and count in fused order: `riddle search` says why"
        ));
    }
    report.stages = reports(&tallies);
    report.questions = tallies.into_iter().map(|(stage, it)| (stage, it.measures)).collect();
    report.reranker = model.filter(|_| stages.contains(&Stage::Rerank));
    report.corpus = Some(index.report.clone());
    Ok(())
}

/// The stages that were asked for, or all that are possible; a stage that can not run is an error only
/// if it was asked for.
fn chosen_stages(
    options: &EvalOptions,
    index: &CorpusIndex,
    has_reranker: bool,
    notices: &mut Vec<String>,
) -> Result<Vec<Stage>> {
    let has_vectors = index.report.embedder.is_some();
    const NO_VECTORS: &str =
        "no embedder is installed: `riddle models pull all-MiniLM-L6-v2` fetches the default one";
    if options.stages.is_empty() {
        if !has_vectors {
            notices.push(format!("dense and rrf are left out: {NO_VECTORS}"));
        }
        let possible = |stage: &Stage| match stage {
            Stage::Dense | Stage::Rrf => has_vectors,
            Stage::Rerank => has_reranker,
            Stage::Bm25 | Stage::Run => true,
        };
        return Ok(Stage::ALL.into_iter().filter(possible).collect());
    }
    if !has_vectors && options.stages.iter().any(|it| matches!(it, Stage::Dense | Stage::Rrf)) {
        return Err(Error::BadOption(format!("dense and rrf need vectors, and {NO_VECTORS}")));
    }
    Ok(options.stages.clone())
}

/// Times and costs of one search.
struct Lap {
    times: BTreeMap<&'static str, f64>,
    layers_run: Option<u32>,
    share: Option<f64>,
}

impl Lap {
    fn new(instruments: &mut dyn Instruments, response: &SearchResponse) -> Lap {
        Lap {
            times: instruments.take_stage_times(),
            layers_run: response.layers_run,
            share: response.candidate_layers_share,
        }
    }

    fn sum(&self, names: &[&str]) -> f64 {
        names.iter().filter_map(|it| self.times.get(it)).fold(0.0, |sum, it| sum + it)
    }

    /// Adds what `stage` cost, the stages before it included.
    fn record(&self, stage: Stage, tally: &mut Tally) {
        tally.latency_ms.push(match stage {
            Stage::Bm25 => self.sum(&["bm25"]),
            Stage::Dense => self.sum(&["embed", "vector"]),
            Stage::Rrf => self.sum(&["bm25", "embed", "vector", "fuse"]),
            Stage::Rerank | Stage::Run => self.sum(&["bm25", "embed", "vector", "fuse", "rerank"]),
        });
        if stage == Stage::Rerank {
            tally.rerank_ms.push(self.sum(&["rerank"]));
            tally.layers_run.extend(self.layers_run.map(f64::from));
            tally.shares.extend(self.share);
        }
    }
}

/// What stays the same from query to query.
struct Session<'a> {
    options: &'a EvalOptions,
    dataset: &'a Dataset,
    index: &'a CorpusIndex,
    model: Option<&'a str>,
    stages: &'a [Stage],
    /// Queries whose results stayed in fused order.
    not_reranked: Cell<usize>,
}

/// Receives the documents of a stage and what they cost.
type Sink<'a> = &'a mut dyn FnMut(Stage, Vec<String>, &Lap) -> Result<()>;

impl Session<'_> {
    /// Asks one query: deep for the lists of the retrievers, as configured for what follows. Returns the
    /// bytes of weights in memory.
    fn ask(
        &self,
        query: &TestQuery,
        instruments: &mut dyn Instruments,
        stop: &AtomicBool,
        sink: Sink<'_>,
    ) -> Result<u64> {
        let mut resident = 0;
        let wanted = |stage: &Stage| self.stages.contains(stage);
        if [Stage::Bm25, Stage::Dense].iter().any(wanted) {
            let depth = self.depth();
            let request = self.request(query, 1, depth, RerankChoice::Off);
            let (response, lap) = self.search(&request, instruments, stop)?;
            resident = response.resident_weight_bytes;
            let lists = response.stages.unwrap_or_default();
            self.deliver(&[(Stage::Bm25, &lists.bm25), (Stage::Dense, &lists.dense)], &lap, sink)?;
        }
        if [Stage::Rrf, Stage::Rerank].iter().any(wanted) {
            let rerank = match self.model {
                Some(model) if wanted(&Stage::Rerank) => RerankChoice::Model(model.to_owned()),
                _ => RerankChoice::Off,
            };
            let candidates = self.options.candidates.unwrap_or(DEFAULT_CANDIDATES);
            let request = self.request(query, self.options.top_k, candidates, rerank);
            let (response, lap) = self.search(&request, instruments, stop)?;
            resident = resident.max(response.resident_weight_bytes);
            let StageLists { fused, mut reranked, .. } = response.stages.unwrap_or_default();
            if wanted(&Stage::Rerank) && !matches!(response.order, Order::Reranked { .. }) {
                // What people would see counts: another language, or a model that can not be opened.
                reranked = response.hits.iter().map(|it| it.chunk).collect();
                self.not_reranked.set(self.not_reranked.get() + 1);
            }
            self.deliver(&[(Stage::Rrf, &fused), (Stage::Rerank, &reranked)], &lap, sink)?;
        }
        Ok(resident)
    }

    fn deliver(&self, lists: &[(Stage, &Vec<u64>)], lap: &Lap, sink: Sink<'_>) -> Result<()> {
        for (stage, chunks) in lists {
            if self.stages.contains(stage) {
                sink(*stage, self.index.documents(self.dataset, chunks)?, lap)?;
            }
        }
        Ok(())
    }

    fn request(
        &self,
        query: &TestQuery,
        k: usize,
        candidates: usize,
        rerank: RerankChoice,
    ) -> SearchRequest {
        SearchRequest {
            k,
            keyword_candidates: candidates,
            vector_candidates: candidates,
            fused_candidates: self.options.candidates.unwrap_or(DEFAULT_FUSED),
            rerank,
            rerank_settings: self.options.settings.clone(),
            explain: true,
            ..SearchRequest::new(query.text.clone())
        }
    }

    fn search(
        &self,
        request: &SearchRequest,
        instruments: &mut dyn Instruments,
        stop: &AtomicBool,
    ) -> Result<(SearchResponse, Lap)> {
        // What was measured before is not this search's.
        instruments.take_stage_times();
        let response = self.index.assistant.search_observed(request, &mut StopFlag(stop));
        stopped(stop)?;
        let response = response?;
        let lap = Lap::new(instruments, &response);
        Ok((response, lap))
    }

    /// Chunks to ask for so that a hundred documents are among them.
    fn depth(&self) -> usize {
        let per_document = self.index.report.chunks.div_ceil(self.index.report.documents.max(1));
        let per_document = usize::try_from(per_document).unwrap_or(MAX_DEPTH);
        DEPTH.saturating_mul(per_document.max(1)).min(MAX_DEPTH)
    }
}

/// Reranks given candidates: the engine's quality apart from this program's retrieval.
fn rerank_run(
    options: &EvalOptions,
    dataset: &Dataset,
    run: &str,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
    report: &mut EvalReport,
) -> Result<()> {
    if options.stages.iter().any(|&it| it != Stage::Rerank) {
        return Err(Error::BadOption(
            "--run gives the candidates: only the stage rerank can be measured with it".to_owned(),
        ));
    }
    let candidates = dataset.run(run)?;
    let model = reranker_name(options).ok_or_else(no_reranker)?;
    let mut settings = options.settings.clone();
    if options.layers {
        settings.pruning = Pruning::Never;
    }
    let opened =
        PriorReranker::open(&options.config, &model, &settings, options.top_k, options.layers)?;
    let reranker = &opened.reranker;
    let mut runs = options
        .save_runs
        .as_deref()
        .map(|it| RunFiles::create(it, &[Stage::Rerank]))
        .transpose()?;
    let limit = options.candidates.unwrap_or(usize::MAX);
    let (mut before, mut after) = (Tally::default(), Tally::default());
    let mut by_layer: BTreeMap<u32, Vec<Measures>> = BTreeMap::new();
    let mut without = 0;
    for (number, query) in dataset.queries.iter().enumerate() {
        stopped(stop)?;
        let judgments = &dataset.judgments[&query.id];
        let given = candidates.get(&query.id).map_or(&[][..], Vec::as_slice);
        without += usize::from(given.is_empty());
        let given = &given[..given.len().min(limit)];
        let cosines: Vec<Option<f32>> =
            given.iter().map(|it| options.run_cosines.then_some(it.1 as f32)).collect();
        if cosines.iter().flatten().any(|it| !(-1.001..=1.001).contains(it)) {
            return Err(Error::BadOption(format!(
                "the scores of {run} are not cosines, which lie between -1 and 1: leave out --run-cosines"
            )));
        }
        let id = |it: &(usize, f64)| dataset.documents[it.0].id.as_str();
        let ids: Vec<&str> = given.iter().map(id).collect();
        let texts: Vec<String> = given.iter().map(|it| passage(dataset, it.0)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let started = Instant::now();
        let prior = opened.prior(&cosines);
        let mut watch = Watch { stop, layers: options.layers.then(Vec::new) };
        let outcome =
            reranker.rerank_with_prior(&query.text, &texts, &prior, options.top_k, &mut watch);
        let ms = started.elapsed().as_secs_f64() * 1e3;
        stopped(stop)?;
        let outcome =
            outcome.map_err(|source| Error::Rerank { query: query.id.clone(), source })?;
        let reranked: Vec<&str> = outcome.ranked.iter().map(|it| ids[it.index]).collect();
        for (layer, scores) in watch.layers.into_iter().flatten() {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            let order: Vec<&str> =
                order.into_iter().take(options.top_k).map(|it| ids[it]).collect();
            by_layer.entry(layer).or_default().push(Measures::of(&order, judgments));
        }
        before.measures.push(Measures::of(&ids, judgments));
        after.measures.push(Measures::of(&reranked, judgments));
        if let Some(runs) = &mut runs {
            runs.write(Stage::Rerank, &query.id, &reranked)?;
        }
        if !given.is_empty() {
            let stats = outcome.stats;
            let all = given.len() as f64 * f64::from(stats.num_layers);
            after.latency_ms.push(ms);
            after.rerank_ms.push(ms);
            after.layers_run.push(f64::from(stats.layers_run));
            after.shares.push(stats.candidate_layers as f64 / all.max(1.0));
            report.resident_weight_bytes =
                report.resident_weight_bytes.max(stats.resident_weight_bytes);
        }
        instruments.event(EvalEvent::Queries { done: number + 1, total: dataset.queries.len() });
    }
    if let Some(runs) = runs {
        runs.finish()?;
    }
    if without > 0 {
        report
            .notices
            .push(format!("{without} queries have no candidates in {run} and count as 0"));
    }
    report.stages = reports(&BTreeMap::from([(Stage::Run, before), (Stage::Rerank, after)]));
    for measured in by_layer.values_mut() {
        // A query without candidates is one without an answer, as in the stages.
        measured.resize_with(dataset.queries.len(), Measures::default);
    }
    report.layers = by_layer.iter().map(|(&layer, it)| (layer, Measures::mean(it))).collect();
    report.reranker = Some(reranker.model().to_owned());
    Ok(())
}

/// Stops the reranker between two layers, and keeps the scores of each if they are wanted.
struct Watch<'a> {
    stop: &'a AtomicBool,
    layers: Option<Vec<(u32, Vec<f32>)>>,
}

impl LayerObserver for Watch<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        // Layers before the first that the head can read have no scores.
        if let Some(layers) = &mut self.layers
            && !event.scores.is_empty()
        {
            layers.push((event.layer, event.scores.clone()));
        }
        StopFlag(self.stop).on_layer(event)
    }
}

/// What the reranker reads of a document: title and text, as BEIR's own models do.
fn passage(dataset: &Dataset, place: usize) -> String {
    let document = &dataset.documents[place];
    if document.title.is_empty() {
        return document.text.clone();
    }
    format!("{}\n{}", document.title, document.text)
}
