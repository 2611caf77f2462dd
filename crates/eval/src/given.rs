//! Candidates that somebody else has found, reranked: the engine's quality apart from this program's retrieval.

use std::{collections::BTreeMap, ops::ControlFlow, sync::atomic::AtomicBool, time::Instant};

use riddle_rag::rerank::{PriorReranker, Pruning};
use riddle_types::{LayerEvent, LayerObserver, RerankOutcome};

use crate::{
    Dataset, Error, EvalEvent, EvalOptions, EvalReport, Instruments, Judgments, Measures, Notice,
    Result, Stage, TestQuery,
    by_layer::{ByLayer, best_first},
    instruments::{StopFlag, stopped},
    runs::RunFiles,
    tally::{Tally, reports},
};

/// Reranks the candidates of `run` and measures the order before and after.
pub(crate) fn rerank_run(
    options: &EvalOptions,
    dataset: &Dataset,
    run: &str,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
    report: &mut EvalReport,
) -> Result<()> {
    if options.stages.iter().any(|&it| it != Stage::Rerank) {
        return Err(Error::OnlyRerank);
    }
    let candidates = dataset.run(run)?;
    let model = options.reranker().ok_or(Error::NoReranker)?;
    let mut settings = options.settings.clone();
    if options.layers {
        settings.pruning = Pruning::Never;
    }
    let opened =
        PriorReranker::open(&options.config, &model, &settings, options.top_k, options.layers)?;
    let session = Session { options, dataset, run, opened: &opened };
    let mut runs = options
        .save_runs
        .as_deref()
        .map(|it| RunFiles::create(it, &[Stage::Rerank]))
        .transpose()?;
    let mut sums = Sums::default();
    for (number, query) in dataset.queries.iter().enumerate() {
        stopped(stop)?;
        let given = candidates.get(&query.id).map_or(&[][..], Vec::as_slice);
        let given = &given[..given.len().min(options.candidates.unwrap_or(usize::MAX))];
        let reranked = session.rerank(query, given, stop)?;
        sums.add(&reranked, &dataset.judgments[&query.id]);
        if let Some(runs) = &mut runs {
            runs.write(Stage::Rerank, &query.id, &reranked.after)?;
        }
        instruments.event(EvalEvent::Queries { done: number + 1, total: dataset.queries.len() });
    }
    if let Some(runs) = runs {
        runs.finish()?;
    }
    if sums.without > 0 {
        report.notices.push(Notice::NotInRun { queries: sums.without, run: run.to_owned() });
    }
    sums.write(report);
    report.reranker = Some(opened.reranker.model().to_owned());
    Ok(())
}

/// What stays the same from query to query.
struct Session<'a> {
    options: &'a EvalOptions,
    dataset: &'a Dataset,
    run: &'a str,
    opened: &'a PriorReranker,
}

/// One query's candidates, by the ids of their documents.
struct Reranked<'a> {
    /// As they were given.
    before: Vec<&'a str>,
    /// The reranker's winners, best first.
    after: Vec<&'a str>,
    /// The same after every layer that was looked at.
    by_layer: Vec<(u32, Vec<&'a str>)>,
    outcome: RerankOutcome,
    ms: f64,
}

impl<'a> Session<'a> {
    /// Reranks what is given for a query: places of documents, and scores.
    fn rerank(
        &self,
        query: &TestQuery,
        given: &[(usize, f64)],
        stop: &AtomicBool,
    ) -> Result<Reranked<'a>> {
        let Session { options, dataset, run, opened } = *self;
        let cosines: Vec<Option<f32>> =
            given.iter().map(|it| options.run_cosines.then_some(it.1 as f32)).collect();
        if cosines.iter().flatten().any(|it| !(-1.001..=1.001).contains(it)) {
            return Err(Error::NotCosines { run: run.to_owned() });
        }
        let before: Vec<&str> =
            given.iter().map(|it| dataset.documents[it.0].id.as_str()).collect();
        let texts: Vec<String> = given.iter().map(|it| passage(dataset, it.0)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let started = Instant::now();
        let mut watch = Watch { stop, layers: options.layers.then(Vec::new) };
        let outcome =
            opened.rerank_with_cosines(&query.text, &texts, &cosines, options.top_k, &mut watch);
        let ms = started.elapsed().as_secs_f64() * 1e3;
        stopped(stop)?;
        let outcome =
            outcome.map_err(|source| Error::Rerank { query: query.id.clone(), source })?;
        let after = outcome.ranked.iter().map(|it| before[it.index]).collect();
        let best = |(layer, scores): (u32, Vec<f32>)| {
            let order = best_first(&scores, options.top_k);
            (layer, order.into_iter().map(|it| before[it]).collect())
        };
        let by_layer = watch.layers.into_iter().flatten().map(best).collect();
        Ok(Reranked { before, after, by_layer, outcome, ms })
    }
}

/// What adds up over the queries.
#[derive(Debug, Default)]
struct Sums {
    before: Tally,
    after: Tally,
    by_layer: ByLayer,
    /// Queries without candidates.
    without: usize,
    /// Most bytes of weights in memory.
    resident_weight_bytes: u64,
}

impl Sums {
    fn add(&mut self, reranked: &Reranked<'_>, judgments: &Judgments) {
        for (layer, order) in &reranked.by_layer {
            self.by_layer.add(*layer, Measures::of(order, judgments));
        }
        self.before.measures.push(Measures::of(&reranked.before, judgments));
        self.after.measures.push(Measures::of(&reranked.after, judgments));
        if reranked.before.is_empty() {
            // It counts as 0, and as no time.
            self.without += 1;
            self.by_layer.add_unread(Measures::default());
            return;
        }
        let stats = &reranked.outcome.stats;
        let all = reranked.before.len() as f64 * f64::from(stats.num_layers);
        self.after.latency_ms.push(reranked.ms);
        self.after.rerank_ms.push(reranked.ms);
        self.after.layers_run.push(f64::from(stats.layers_run));
        self.after.shares.push(stats.candidate_layers as f64 / all.max(1.0));
        self.resident_weight_bytes = self.resident_weight_bytes.max(stats.resident_weight_bytes);
    }

    /// Writes the means over all queries into the report.
    fn write(self, report: &mut EvalReport) {
        report.layers = self.by_layer.means();
        report.stages =
            reports(&BTreeMap::from([(Stage::Run, self.before), (Stage::Rerank, self.after)]));
        report.resident_weight_bytes = self.resident_weight_bytes;
    }
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
