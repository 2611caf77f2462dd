//! The run: every query through every stage.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashSet},
    sync::atomic::AtomicBool,
};

use riddle_rag::{
    DEFAULT_CANDIDATES, DEFAULT_FUSED, SearchRequest, SearchResponse, StageLists,
    rerank::{Order, Pruning, RerankChoice, RerankSettings},
};
use riddle_types::{LayerEvent, Notice as Told};
use serde_json::json;

use crate::{
    Dataset, Error, EvalEvent, EvalOptions, EvalReport, Instruments, Measures, Notice, Result,
    Stage, TestQuery,
    by_layer::{ByLayer, best_first},
    corpus_index::CorpusIndex,
    given::rerank_run,
    instruments::{StopFlag, stopped},
    runs::RunFiles,
    tally::{Tallies, Tally, reports},
};

/// Documents that recall@100 needs of each retriever.
const DEPTH: usize = 100;

/// Most chunks asked of a retriever: a corpus of books has hundreds of chunks per document, and asking
/// for all of them would measure the sorting of the whole index.
const MAX_DEPTH: usize = 2000;

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
        return Err(Error::Zero);
    }
    if options.run_cosines && options.run.is_none() {
        return Err(Error::CosinesWithoutRun);
    }
    options.check_layers()?;
    if options.files.is_some() && (options.run.is_some() || options.ignore_titles) {
        return Err(Error::FilesAndMore);
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

fn search_all(
    options: &EvalOptions,
    dataset: &Dataset,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
    report: &mut EvalReport,
) -> Result<()> {
    let model = options.reranker();
    if options.stages.contains(&Stage::Rerank) && model.is_none() {
        return Err(Error::NoReranker);
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
        settings: settings_for(options, &stages)?,
        dataset,
        index: &index,
        model: model.as_deref(),
        stages: &stages,
        not_reranked: Cell::new(0),
        by_layer: RefCell::default(),
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
        if let Some(runs) = &mut runs {
            runs.write_evidence(&session.evidence(query)?)?;
        }
        instruments.event(EvalEvent::Queries { done: number + 1, total: dataset.queries.len() });
    }
    if let Some(runs) = runs {
        runs.finish()?;
    }
    report.notices.extend(session.as_found());
    report.stages = reports(&tallies);
    report.layers = session.by_layer.into_inner().means();
    report.questions = tallies.into_iter().map(|(stage, it)| (stage, it.measures)).collect();
    report.reranker = model.filter(|_| stages.contains(&Stage::Rerank));
    report.corpus = Some(index.report.clone());
    Ok(())
}

/// How the reranker runs.
fn settings_for(options: &EvalOptions, stages: &[Stage]) -> Result<RerankSettings> {
    let settings = options.settings.clone();
    if !options.layers {
        return Ok(settings);
    }
    if !stages.contains(&Stage::Rerank) {
        return Err(Error::NoReranker);
    }
    // Whoever is left out after a layer has no place after the next.
    Ok(RerankSettings { pruning: Pruning::Never, ..settings })
}

/// The stages that were asked for, or all that are possible; a stage that can not run is an error only
/// if it was asked for.
fn chosen_stages(
    options: &EvalOptions,
    index: &CorpusIndex,
    has_reranker: bool,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Stage>> {
    let has_vectors = index.report.embedder.is_some();
    let has_terms = index.report.sparse_encoder.is_some();
    if options.stages.is_empty() {
        if !has_vectors {
            notices.push(Notice::NoVectors);
        }
        let possible = |stage: &Stage| match stage {
            Stage::Dense => has_vectors,
            Stage::Sparse => has_terms,
            Stage::Rrf => has_vectors || has_terms,
            Stage::Rerank => has_reranker,
            Stage::Bm25 | Stage::Run => true,
        };
        return Ok(Stage::ALL.into_iter().filter(possible).collect());
    }
    let wants = |stage: Stage| options.stages.contains(&stage);
    if !has_vectors && (wants(Stage::Dense) || (wants(Stage::Rrf) && !has_terms)) {
        return Err(Error::NoVectors);
    }
    if !has_terms && wants(Stage::Sparse) {
        return Err(Error::NoTerms);
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

    /// The retrievals and what is made of their lists.
    fn found(&self) -> f64 {
        self.sum(&["bm25", "weigh", "terms", "embed", "vector", "fuse"])
    }

    /// Adds what `stage` cost, the stages before it included.
    fn record(&self, stage: Stage, tally: &mut Tally) {
        tally.latency_ms.push(match stage {
            Stage::Bm25 => self.sum(&["bm25"]),
            Stage::Dense => self.sum(&["embed", "vector"]),
            Stage::Sparse => self.sum(&["weigh", "terms"]),
            Stage::Rrf => self.found(),
            Stage::Rerank | Stage::Run => self.found() + self.sum(&["rerank"]),
        });
        if stage == Stage::Rerank {
            tally.rerank_ms.push(self.sum(&["rerank"]));
            tally.layers_run.extend(self.layers_run.map(f64::from));
            tally.shares.extend(self.share);
        }
    }
}

/// Puts behind the results what was found and is not among them, in merged order. A list of documents is shorter than
/// that of their passages, and would else be held against lists of other stages that go on.
fn fill(results: &mut Vec<u64>, found: &[u64]) {
    let shown: HashSet<u64> = results.iter().copied().collect();
    results.extend(found.iter().filter(|it| !shown.contains(it)));
}

/// What stays the same from query to query.
struct Session<'a> {
    options: &'a EvalOptions,
    /// How the reranker runs.
    settings: RerankSettings,
    dataset: &'a Dataset,
    index: &'a CorpusIndex,
    model: Option<&'a str>,
    stages: &'a [Stage],
    /// Queries whose results stayed in fused order.
    not_reranked: Cell<usize>,
    by_layer: RefCell<ByLayer>,
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
        if [Stage::Bm25, Stage::Dense, Stage::Sparse].iter().any(wanted) {
            let depth = self.depth();
            let request = self.request(query, 1, depth, RerankChoice::Off);
            let (response, lap) = self.search(&request, instruments, stop)?;
            resident = response.resident_weight_bytes;
            let lists = response.stages.unwrap_or_default();
            let legs = [
                (Stage::Bm25, &lists.bm25),
                (Stage::Dense, &lists.dense),
                (Stage::Sparse, &lists.sparse),
            ];
            self.deliver(&legs, &lap, sink)?;
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
            let StageLists { fused, mut reranked, layers, .. } =
                response.stages.unwrap_or_default();
            let elsewhere = |it: &Told| matches!(it, Told::NotRankedElsewhere { .. });
            let as_wanted = matches!(response.order, Order::Reranked { .. })
                && !response.notices.iter().any(elsewhere);
            if wanted(&Stage::Rerank) && !as_wanted {
                // What people would see counts: another language, a model that can not be opened, a server that is off.
                reranked = response.hits.iter().map(|it| it.chunk).collect();
                self.not_reranked.set(self.not_reranked.get() + 1);
            }
            fill(&mut reranked, &fused);
            if self.options.layers {
                let layers = if as_wanted { &layers[..] } else { &[] };
                self.add_layers(query, &fused, layers, &reranked)?;
            }
            self.deliver(&[(Stage::Rrf, &fused), (Stage::Rerank, &reranked)], &lap, sink)?;
        }
        Ok(resident)
    }

    /// That queries were not reranked.
    fn as_found(&self) -> Option<Notice> {
        let queries = self.not_reranked.get();
        (queries > 0).then_some(Notice::NotReranked { queries })
    }

    /// Measures the order after every layer; `shown` is that of a question that was not reranked.
    fn add_layers(
        &self,
        query: &TestQuery,
        fused: &[u64],
        layers: &[LayerEvent],
        shown: &[u64],
    ) -> Result<()> {
        let judgments = &self.dataset.judgments[&query.id];
        let measures = |chunks: &[u64]| -> Result<Measures> {
            Ok(Measures::of(&self.index.documents(self.dataset, chunks)?, judgments))
        };
        let mut by_layer = self.by_layer.borrow_mut();
        if layers.is_empty() {
            by_layer.add_unread(measures(shown)?);
        }
        // Layers before the first that the head can read have no scores.
        for event in layers.iter().filter(|it| !it.scores.is_empty()) {
            let best = best_first(&event.scores, self.options.top_k);
            let mut order: Vec<u64> = best.into_iter().map(|it| fused[event.active[it]]).collect();
            fill(&mut order, fused);
            by_layer.add(event.layer, measures(&order)?);
        }
        Ok(())
    }

    /// What retrieval knows of every candidate, as a request of `riddle rerank` that says who is relevant.
    fn evidence(&self, query: &TestQuery) -> Result<serde_json::Value> {
        let request = self.request(query, 1, DEFAULT_CANDIDATES, RerankChoice::Off);
        // Nobody is left out: who is merged away is what is to be learned.
        let request = SearchRequest { fused_candidates: MAX_DEPTH, ..request };
        let found = self.index.assistant.find(&request)?;
        let judgments = &self.dataset.judgments[&query.id];
        let candidates = found.known();
        let chunks: Vec<u64> = candidates.iter().map(|it| it.chunk).collect();
        let names = self.index.document_of_each(self.dataset, &chunks)?;
        let documents = candidates.iter().zip(names).map(|(it, name)| {
            let relevant = name.as_ref().and_then(|it| judgments.get(it)).copied().unwrap_or(0);
            json!({
                "id": name,
                "text": it.text,
                "cosine": it.evidence.cosine,
                "keyword": it.evidence.keyword,
                "sparse": it.evidence.sparse,
                "relevant": relevant,
            })
        });
        let documents: Vec<serde_json::Value> = documents.collect();
        let mut judged: Vec<i64> = judgments.values().copied().filter(|it| *it > 0).collect();
        judged.sort_unstable_by(|a, b| b.cmp(a));
        Ok(json!({ "id": query.id, "query": query.text, "judged": judged, "documents": documents }))
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
            rerank_settings: self.settings.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_among_the_results_follows_them_once() {
        let mut results = vec![7, 3];
        fill(&mut results, &[3, 9, 7, 1]);
        assert_eq!(results, [7, 3, 9, 1]);
        fill(&mut results, &[]);
        assert_eq!(results, [7, 3, 9, 1]);
    }
}
