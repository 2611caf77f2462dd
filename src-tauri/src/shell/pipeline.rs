//! The last search or question in all its steps, and what another threshold would have made of it.

// Long: one trace, from the run to the panel.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use riddle_metrics::{Sample, sample_memory};
use riddle_rag::{
    Assistant, Found, SearchRequest, Settled,
    rerank::{
        Mode, Pruning, ReplayDetail, RerankChoice, RerankRun, RerankSettings, Trace, replay_detail,
        replay_trace, sigmoid,
    },
    servers::RemoteStage,
};
use riddle_types::{Decision, SilentObserver};

use super::{Shell, lock};
use crate::{
    convert::{clean, file_ref, now},
    dto::{
        CalibrationInfo, CalibrationTable, Comparison, CurvePoint, DeadlineEnd, DeadlineTrace,
        Failure, Generation, LayerTrace, MemorySample, Outcome, PipelineTrace, Plan, PruneMode,
        PruningPromise, RemoteRun, ReplayCandidate, ReplayRequest, ReplayResult, RunFigures,
        StageTime, TraceCandidate,
    },
    failure::Reply,
};

/// Thresholds of the curve: the slider's whole way.
const CURVE: u16 = 40;
/// The threshold at the end of the slider; beyond it next to nobody is ever pruned.
const MAX_THRESHOLD: f32 = 2.0;

fn deadline_trace(report: &riddle_types::DeadlineReport) -> DeadlineTrace {
    let plan = report.plan.clone().unwrap_or_default();
    let wide = |row: &Vec<u8>| row.iter().map(|it| u32::from(*it)).collect();
    DeadlineTrace {
        target_ms: report.target_ms,
        took_ms: report.took_ms,
        met: report.met,
        end: match report.end {
            riddle_types::DeadlineEnd::Ranked => DeadlineEnd::Ranked,
            riddle_types::DeadlineEnd::Provisional => DeadlineEnd::Provisional,
            riddle_types::DeadlineEnd::NotRanked => DeadlineEnd::NotRanked,
            riddle_types::DeadlineEnd::TooShort => DeadlineEnd::TooShort,
            riddle_types::DeadlineEnd::NothingGained => DeadlineEnd::NothingGained,
        },
        least_ms: report.least_ms,
        layers: plan.num_layers,
        slices: plan.slices,
        bits: plan.bits.iter().map(wide).collect(),
        // Without a limit there is none to draw.
        budgets_ms: plan.budgets_ms.iter().copied().filter(|it| it.is_finite()).collect(),
        candidates: plan.candidates,
        predicted_ms: plan.predicted_ms,
        preload_bytes: plan.preload_bytes,
        bytes_read: plan.bytes_read,
    }
}

fn remote_run(remote: &RemoteStage) -> RemoteRun {
    RemoteRun {
        server: clean(&remote.server),
        model: remote.model.as_deref().map(clean),
        ms: remote.ms,
        calls: remote.calls,
        tries: remote.tries,
        passages: remote.texts as u32,
        sent_bytes: remote.sent_bytes,
    }
}

/// Everything about the last search or question.
#[derive(Clone)]
pub(crate) struct LastRun {
    pub(super) found: Arc<Found>,
    pub(super) settled: Arc<Settled>,
    pub(super) request: SearchRequest,
    times: BTreeMap<&'static str, f64>,
    total_ms: f64,
    at: i64,
    asked: bool,
    memory: Vec<Sample>,
    generation: Option<Generation>,
    /// A full forward on the same candidates, once somebody has asked for one.
    full: Option<Arc<Trace>>,
}

impl LastRun {
    pub(crate) fn new(
        found: Arc<Found>,
        request: SearchRequest,
        settled: Settled,
        times: BTreeMap<&'static str, f64>,
        started: Instant,
    ) -> LastRun {
        let full =
            settled.run.as_ref().map(RerankRun::trace).filter(|it| it.full_forward().is_ok());
        LastRun {
            found,
            settled: Arc::new(settled),
            request,
            times,
            total_ms: millis(started),
            at: now(),
            asked: false,
            memory: Vec::new(),
            generation: None,
            full: full.map(Arc::new),
        }
    }

    pub(crate) fn with_memory(self, memory: Vec<Sample>) -> LastRun {
        LastRun { memory, ..self }
    }

    /// The run of a question, at its end.
    pub(super) fn finish(
        self,
        times: BTreeMap<&'static str, f64>,
        started: Instant,
        generation: Option<Generation>,
    ) -> LastRun {
        LastRun { asked: true, times, total_ms: millis(started), generation, ..self }
    }

    fn trace(&self) -> PipelineTrace {
        let run = self.settled.run.as_ref();
        let candidates = self.found.candidates();
        let ranks: BTreeMap<u64, u32> =
            self.settled.response.hits.iter().map(|it| (it.chunk, it.rank)).collect();
        let settings = &self.request.rerank_settings;
        let stats = run.map(|it| it.stats);
        PipelineTrace {
            text: self.found.query().to_owned(),
            at: self.at,
            asked: self.asked,
            stages: self.stages(),
            total_ms: self.total_ms,
            candidates: candidates
                .iter()
                .enumerate()
                .map(|(place, it)| {
                    let rank = ranks.get(&it.hit.chunk).copied();
                    let (outcome, at_layer) = outcome_of(run, place, rank);
                    TraceCandidate {
                        chunk: it.hit.chunk,
                        title: clean(&it.hit.title),
                        file: file_ref(it.hit.path.as_ref(), it.kind, 0, it.hit.modified),
                        location: (&it.hit.location).into(),
                        ranks: it.hit.trace.into(),
                        rank,
                        outcome,
                        at_layer,
                    }
                })
                .collect(),
            model: run.map(|it| it.model.clone()),
            terms: self.found.lengths().terms.is_some(),
            top_k: self.request.k as u32,
            // The program's own is decided with the request.
            mode: run.map_or(settings.mode, |it| it.mode).into(),
            threshold: run.and_then(|it| it.threshold),
            promise: run
                .and_then(|it| it.promise)
                .map(|it| PruningPromise { error: it.error, results: it.results as u32 }),
            num_layers: stats.map_or(0, |it| it.num_layers),
            layers: run.map_or_else(Vec::new, |it| it.layers.iter().map(layer_trace).collect()),
            plan: stats.map(|it| Plan {
                window_layers: it.plan.window_layers,
                micro_batch_tokens: it.plan.micro_batch_tokens,
                embedding_rows: it.plan.embedding_rows,
                hidden_on_disk: it.plan.hidden_on_disk,
                planned_bytes: it.plan.planned_bytes,
            }),
            computed_share: self.settled.response.candidate_layers_share,
            memory: self.memory(),
            memory_budget: settings.memory_budget,
            replayable: self.full.is_some(),
            generation: self.generation.clone(),
            deadline: self.settled.response.deadline.as_ref().map(deadline_trace),
            embedding: self.settled.response.embedding.as_ref().map(remote_run),
            remote: run.and_then(|it| it.remote.as_ref()).map(remote_run),
        }
    }

    fn stages(&self) -> Vec<StageTime> {
        const ORDER: [&str; 13] = [
            "embed",
            "embed_remote",
            "vector",
            "bm25",
            "weigh",
            "terms",
            "shared",
            "fuse",
            "rerank_remote",
            "rerank",
            "bank",
            "generate",
            "check",
        ];
        let stage = |name: &str, ms: f64| StageTime { stage: name.to_owned(), ms };
        let ran = ORDER.iter().filter_map(|name| Some((*name, *self.times.get(name)?)));
        let ran = ran.flat_map(|(name, ms)| match &self.generation {
            Some(it) if name == "generate" => {
                // What is left is opening the model, and holding sentences against the passages as they come.
                let parts = [("load", it.load_ms), ("read", it.prompt_ms), ("write", it.decode_ms)];
                let rest = ms - parts.iter().map(|it| it.1).sum::<f64>();
                let parts = parts.into_iter().chain([(name, rest)]);
                parts.filter(|it| it.1 > 0.0).map(|(name, ms)| stage(name, ms)).collect()
            }
            _ => vec![stage(name, ms)],
        });
        ran.collect()
    }

    /// Memory over time, with the weights of the layer that ran then.
    fn memory(&self) -> Vec<MemorySample> {
        let layers = self.settled.run.as_ref().map_or(&[][..], |it| &it.layers);
        let weights_at = |ms: f64| {
            let mut end = 0.0;
            let running = layers.iter().find(|it| {
                end += it.ms;
                end >= ms
            });
            running.or(layers.last()).map_or(0, |it| it.resident_weight_bytes)
        };
        self.memory
            .iter()
            .map(|it| MemorySample {
                ms: it.ms,
                rss_bytes: it.rss_bytes,
                weight_bytes: weights_at(it.ms),
            })
            .collect()
    }
}

/// What became of a candidate, and after which layer.
fn outcome_of(run: Option<&RerankRun>, place: usize, rank: Option<u32>) -> (Outcome, u32) {
    let Some(run) = run else {
        return (if rank.is_some() { Outcome::Accepted } else { Outcome::Dropped }, 0);
    };
    if run.dropped_unread.contains(&place) {
        return (Outcome::Dropped, 0);
    }
    for event in &run.layers {
        if event.accepted.contains(&place) {
            return (Outcome::Accepted, event.layer);
        }
        if event.dropped.contains(&place) {
            return (Outcome::Dropped, event.layer);
        }
    }
    let last = run.stats.layers_run;
    (if rank.is_some() { Outcome::Accepted } else { Outcome::Dropped }, last)
}

pub(super) fn layer_trace(event: &riddle_types::LayerEvent) -> LayerTrace {
    let places = |list: &[usize]| list.iter().map(|&it| it as u32).collect();
    LayerTrace {
        layer: event.layer,
        ms: event.ms,
        io_wait_ms: event.io_wait_ms,
        bytes_read: event.bytes_read,
        resident_weight_bytes: event.resident_weight_bytes,
        dispersion: event.dispersion,
        active: places(&event.active),
        scores: event.scores.iter().map(|&it| sigmoid(it)).collect(),
        accepted: places(&event.accepted),
        dropped: places(&event.dropped),
    }
}

impl Shell {
    /// Keeps a run for the panels, and its times for the figures.
    pub(super) fn note(&self, run: LastRun) {
        let mut figures = lock(&self.figures);
        for (stage, ms) in &run.times {
            if *stage != "total" {
                figures.record(stage, *ms);
            }
        }
        figures.record(if run.asked { "answer" } else { "search" }, run.total_ms);
        drop(figures);
        *lock(&self.last) = Some(run);
    }

    pub(crate) fn last_trace(&self) -> Option<PipelineTrace> {
        lock(&self.last).as_ref().map(LastRun::trace)
    }

    fn last_run(&self) -> Reply<LastRun> {
        let last = lock(&self.last).clone();
        last.ok_or_else(|| Failure::bad("nothing was searched yet: search first"))
    }

    /// The trace of a full forward on the last candidates: recorded, or run now.
    fn full_trace(&self) -> Reply<(LastRun, Arc<Trace>)> {
        let last = self.last_run()?;
        if let Some(full) = &last.full {
            let full = Arc::clone(full);
            return Ok((last, full));
        }
        match &last.settled.run {
            None => {
                let why = "the last search was not reranked: choose a reranker first";
                return Err(Failure::bad(why));
            }
            Some(run) if run.remote.is_some() => {
                return Err(Failure::bad("a server has ranked, and tells of no layers"));
            }
            Some(_) => {}
        }
        let found = Arc::clone(&last.found);
        let request = full_request(&last.request);
        let full = self.wait_for(move |shell, _| {
            let assistant = shell.engine.assistant()?;
            let settled = assistant.settle(&found, &request, &mut SilentObserver)?;
            // The settings in force are opened again by the next search.
            assistant.release_reranker();
            let run = settled.run.ok_or_else(|| Failure::bad("there is no reranker any more"))?;
            Ok(Arc::new(run.trace()))
        })?;
        if let Some(now) =
            lock(&self.last).as_mut().filter(|it| Arc::ptr_eq(&it.found, &last.found))
        {
            now.full = Some(Arc::clone(&full));
        }
        Ok((last, full))
    }

    pub(crate) fn replay(&self, request: ReplayRequest) -> Reply<ReplayResult> {
        if request.threshold.is_some_and(|it| !(it.is_finite() && it >= 0.0)) {
            return Err(Failure::bad("a threshold is a number of 0 or more"));
        }
        let (last, trace) = self.full_trace()?;
        let k = last.request.k;
        let full = replay_detail(&trace, None, Mode::Off, k)?;
        let mode = if request.threshold.is_none() { Mode::Off } else { request.mode.into() };
        let other = replay_detail(&trace, request.threshold, mode, k)?;
        Ok(compared(request, k, &trace, &full, &other))
    }

    pub(crate) fn curve(&self, mode: PruneMode) -> Reply<Vec<CurvePoint>> {
        let (last, trace) = self.full_trace()?;
        let k = last.request.k;
        let full = replay_trace(&trace, None, Mode::Off, k)?;
        let point = |step: u16| {
            let threshold = f32::from(step) * MAX_THRESHOLD / f32::from(CURVE);
            let other = replay_trace(&trace, Some(threshold), mode.into(), k)?;
            let is_kept = |index| other.ranked.iter().any(|it| it.index == index);
            Ok(CurvePoint {
                threshold,
                computed_share: share(other.candidate_layers, full.candidate_layers),
                kept: full.ranked.iter().filter(|it| is_kept(it.index)).count() as u32,
            })
        };
        (0..=CURVE).map(point).collect()
    }

    pub(crate) fn compare(&self) -> Reply<Comparison> {
        let last = self.last_run()?;
        let settings = self.request("", Default::default());
        self.wait_for(move |shell, _| {
            let assistant = shell.engine.assistant()?;
            let found = &last.found;
            let request =
                SearchRequest { rerank_settings: settings.rerank_settings, ..last.request.clone() };
            let (ours, our_figures) = run_alone(&assistant, found, &request)?;
            let mut in_full = full_request(&last.request);
            let server = ours.remote.as_ref().map(|it| clean(&it.who()));
            if assistant.would_ask_server(&request)? {
                if server.is_none() {
                    let why = "the server has not ranked: search again, and a notice says why";
                    return Err(Failure::bad(why));
                }
                // A server has no full forward: it is held against the model of this computer.
                in_full.rerank = RerankChoice::Model(assistant.reranker_here()?);
            }
            let (full, full_figures) = run_alone(&assistant, found, &in_full)?;
            let trace = Arc::new(full.trace());
            if let Some(now) = lock(&shell.last).as_mut().filter(|it| Arc::ptr_eq(&it.found, found))
            {
                now.full = Some(trace);
            }
            let common = ours.ranked.iter().filter(|it| full.ranked.contains(it)).count();
            Ok(Comparison {
                model: full.model.clone(),
                server,
                candidates: found.lengths().fused as u32,
                top_k: last.request.k as u32,
                same_set: common == full.ranked.len() && common == ours.ranked.len(),
                same_order: ours.ranked == full.ranked,
                common: common as u32,
                with_settings: our_figures,
                full: full_figures,
            })
        })
    }

    pub(crate) fn calibration(&self) -> Reply<CalibrationInfo> {
        let model = self.reranker()?;
        let calibration = match &model {
            Some(name) => riddle_rag::rerank::calibration(&self.config, name)?,
            None => None,
        };
        let tables = calibration.iter().flat_map(|it| &it.tables);
        Ok(CalibrationInfo {
            model,
            queries: calibration.as_ref().map_or(0, |it| it.queries as u32),
            tables: tables
                .map(|it| CalibrationTable { mode: it.mode.into(), top_k: it.top_k as u32 })
                .collect(),
        })
    }
}

pub(super) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The same request without pruning and without limits of memory.
fn full_request(request: &SearchRequest) -> SearchRequest {
    let rerank_settings =
        RerankSettings { mode: Mode::Off, pruning: Pruning::Never, ..RerankSettings::default() };
    SearchRequest { rerank_settings, explain: true, ..request.clone() }
}

/// Reranks with a freshly opened engine, so that two runs begin alike, and reads the process's memory meanwhile.
fn run_alone(
    assistant: &Assistant,
    found: &Found,
    request: &SearchRequest,
) -> Reply<(RerankRun, RunFigures)> {
    assistant.release_reranker();
    riddle_metrics::release_free_memory();
    // Opening reads a tokenizer and checks files: no part of either run's time.
    assistant.warm(request)?;
    let started = Instant::now();
    let (settled, samples) =
        sample_memory(|| assistant.settle(found, request, &mut SilentObserver));
    let ms = millis(started);
    let settled = settled?;
    assistant.release_reranker();
    let run = settled
        .run
        .ok_or_else(|| Failure::bad("there is nothing to compare: choose a reranker first"))?;
    let figures = RunFigures {
        ms,
        remote_ms: run.remote.as_ref().map_or(0.0, |it| it.ms),
        io_wait_ms: run.stats.io_wait_ms,
        layers_run: run.stats.layers_run,
        computed_share: settled.response.candidate_layers_share.unwrap_or(0.0),
        weight_bytes: run.stats.resident_weight_bytes,
        scratch_bytes: run.stats.scratch_bytes,
        peak_rss_bytes: samples.iter().map(|it| it.rss_bytes).max().unwrap_or(0),
        result: settled.response.hits.iter().map(|it| it.chunk).collect(),
    };
    Ok((run, figures))
}

fn compared(
    request: ReplayRequest,
    k: usize,
    trace: &Trace,
    full: &ReplayDetail,
    other: &ReplayDetail,
) -> ReplayResult {
    let indexes =
        |it: &ReplayDetail| -> Vec<usize> { it.replay.ranked.iter().map(|it| it.index).collect() };
    let (wanted, got) = (indexes(full), indexes(other));
    let lost: Vec<u32> =
        wanted.iter().filter(|it| !got.contains(it)).map(|&it| it as u32).collect();
    // A layer's time goes with the candidates that it computes.
    let candidates = full.settled.len().max(1) as f64;
    let spent: f64 = trace
        .layers
        .iter()
        .zip(other.replay.active.iter().chain(std::iter::repeat(&0)))
        .map(|(layer, &active)| layer.ms * active as f64 / candidates)
        .sum();
    let full_ms: f64 = trace.layers.iter().map(|it| it.ms).sum();
    ReplayResult {
        threshold: request.threshold,
        mode: request.mode,
        top_k: k as u32,
        candidates: other
            .settled
            .iter()
            .enumerate()
            .map(|(index, &(decision, at_layer))| ReplayCandidate {
                rank: got.iter().position(|&it| it == index).map(|it| it as u32 + 1),
                outcome: match decision {
                    Decision::Accept => Outcome::Accepted,
                    Decision::Drop => Outcome::Dropped,
                    Decision::Keep => Outcome::Kept,
                },
                at_layer,
            })
            .collect(),
        layers_run: other.replay.layers_run,
        active: other.replay.active.iter().map(|&it| it as u32).collect(),
        computed_share: share(other.replay.candidate_layers, full.replay.candidate_layers),
        full_ms,
        saved_ms: full_ms - spent,
        kept: (wanted.len() - lost.len()) as u32,
        lost,
        same_order: wanted == got,
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}
