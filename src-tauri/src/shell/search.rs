//! Search as you type, and why a hit is where it is.

use std::{
    collections::BTreeMap,
    mem,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use riddle_metrics::sample_memory;
use riddle_rag::{
    Found, FoundCandidate, SearchRequest, Settled,
    preview::Highlighter,
    rerank::{RerankRun, sigmoid},
};
use riddle_types::{LayerEvent, LayerObserver};
use tauri::ipc::Channel;

use super::{
    Shell, lock,
    pipeline::{LastRun, layer_trace, millis},
};
use crate::{
    convert::{Rows, clean, notices},
    dto::{Failure, FailureCode, Outcome, SearchEvent, SearchQuery, Why, WhyLayer},
    failure::Reply,
};

/// How long the reranker waits behind a key for the next one: some 100 ms lie between two of a fast typist, and what it
/// computed in between would be thrown away, while the page needs the processor to show the first hits.
const REST: Duration = Duration::from_millis(150);

/// How often somebody who waits looks whether a newer search has begun.
const LOOK: Duration = Duration::from_millis(4);

/// A search on its way.
struct Running {
    id: u32,
    /// Hits that fit on the screen.
    first: usize,
    /// A newer search has begun.
    stop: Arc<AtomicBool>,
    events: Channel<SearchEvent>,
}

impl Running {
    fn send(&self, event: SearchEvent) {
        // A window that was closed hears nothing.
        let _ = self.events.send(event);
    }

    fn fail(&self, failure: Failure) {
        let query = self.id;
        let event = match failure.code {
            FailureCode::Cancelled => SearchEvent::Cancelled { query },
            _ => SearchEvent::Failed { query, failure },
        };
        self.send(event);
    }

    fn is_old(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sends the hits below the first ones.
    fn more(&self, found: &Found, k: usize) {
        let response = found.response(k, false);
        let Some(below @ [_, ..]) = response.hits.get(self.first..) else { return };
        let hits = Rows::new(found.query()).rows(below, &found.candidates());
        self.send(SearchEvent::MoreHits { query: self.id, hits });
    }

    /// Waits until the typing rests, or a newer search has begun; how long that took.
    fn wait(&self, started: Instant) -> Duration {
        let begin = Instant::now();
        while started.elapsed() < REST && !self.is_old() {
            std::thread::sleep(LOOK);
        }
        begin.elapsed()
    }
}

/// Passes the reranker's layers on, and stops it when a newer search has begun.
struct Layers<'a> {
    running: &'a Running,
    chunks: Vec<u64>,
    layers: u32,
}

impl LayerObserver for Layers<'_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        if self.running.is_old() {
            return ControlFlow::Break(());
        }
        let chunks = |places: &[usize]| places.iter().map(|&it| self.chunks[it]).collect();
        let gone = event.accepted.len() + event.dropped.len();
        self.running.send(SearchEvent::Layer {
            query: self.running.id,
            layer: event.layer,
            layers: self.layers,
            active: event.active.len().saturating_sub(gone) as u32,
            accepted: chunks(&event.accepted),
            dropped: chunks(&event.dropped),
            trace: layer_trace(event),
        });
        ControlFlow::Continue(())
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.running.stop))
    }
}

impl Shell {
    pub(crate) fn search(&self, query: SearchQuery, events: Channel<SearchEvent>) {
        let started = Instant::now();
        let first = query.first as usize;
        let running = Running { id: query.id, first, stop: self.stop_search(), events };
        self.find(move |shell, times| {
            if running.is_old() {
                return running.fail(cancelled());
            }
            let request = shell.request(&query.text, query.filter);
            match shell.first_hits(&running, &request, started) {
                Ok((found, true)) => {
                    let times = times.take();
                    shell.run(move |shell, rerank_times| {
                        let settled =
                            shell.rest(&running, found, request, times, rerank_times, started);
                        settled.unwrap_or_else(|failure| running.fail(failure));
                    });
                }
                Ok((found, false)) => {
                    let response = found.response(request.k, true);
                    let settled = Settled { response, run: None };
                    // Noted first: whoever sees the end may ask about it at once.
                    let (kept, times) = (Arc::clone(&found), times.take());
                    shell.note(LastRun::new(kept, request, settled.clone(), times, started));
                    shell.settled(&running, &found, &settled, started);
                }
                Err(failure) => running.fail(failure),
            }
        });
    }

    /// Ends the search there is, if it has not ended; the next one's flag.
    pub(crate) fn stop_search(&self) -> Arc<AtomicBool> {
        let next = Arc::new(AtomicBool::new(false));
        let before = mem::replace(&mut *lock(&self.stop_search), Arc::clone(&next));
        before.store(true, Ordering::Release);
        next
    }

    /// Sends what the indexes find; whether a reranker goes on.
    fn first_hits(
        &self,
        running: &Running,
        request: &SearchRequest,
        started: Instant,
    ) -> Reply<(Arc<Found>, bool)> {
        let assistant = self.engine.assistant()?;
        let found = assistant.find(request)?;
        let candidates = found.candidates();
        let reranking = assistant.would_rerank(request)? && !candidates.is_empty();
        let response = found.response(request.k.min(running.first), false);
        let hits = Rows::new(found.query()).rows(&response.hits, &candidates);
        let elsewhere = candidates.iter().filter(|it| it.hit.library.is_some());
        *lock(&self.from_elsewhere) = elsewhere.cloned().collect();
        let ms = millis(started);
        lock(&self.figures).record("first_hits", ms);
        running.send(SearchEvent::FirstHits {
            query: running.id,
            hits,
            order: (&response.order).into(),
            notices: notices(response.notices),
            ms,
            reranking,
        });
        Ok((Arc::new(found), reranking))
    }

    /// Reranks and sends the final order.
    fn rest(
        &self,
        running: &Running,
        found: Arc<Found>,
        request: SearchRequest,
        mut times: BTreeMap<&'static str, f64>,
        rerank_times: &riddle_metrics::StageTimings,
        started: Instant,
    ) -> Reply<()> {
        let waited = running.wait(started);
        if running.is_old() {
            return Err(cancelled());
        }
        running.more(&found, request.k);
        let assistant = self.engine.assistant()?;
        let chunks = found.candidates().iter().map(|it| it.hit.chunk).collect();
        let mut layers = Layers { running, chunks, layers: assistant.reranker_layers(&request)? };
        let (settled, memory) = sample_memory(|| assistant.settle(&found, &request, &mut layers));
        if running.is_old() {
            return Err(cancelled());
        }
        let settled = settled?;
        times.extend(rerank_times.take());
        // Noted first: whoever sees the end may ask about it at once.
        let worked_from = started + waited;
        let last = LastRun::new(Arc::clone(&found), request, settled.clone(), times, worked_from);
        self.note(last.with_memory(memory));
        self.settled(running, &found, &settled, started);
        Ok(())
    }

    fn settled(&self, running: &Running, found: &Found, settled: &Settled, started: Instant) {
        let response = &settled.response;
        running.send(SearchEvent::Settled {
            query: running.id,
            hits: Rows::new(found.query()).rows(&response.hits, &found.candidates()),
            order: (&response.order).into(),
            notices: notices(response.notices.clone()),
            ms: millis(started),
            layers_run: response.layers_run,
            computed_share: response.candidate_layers_share,
        });
    }

    /// Loads what the next search will need.
    pub(crate) fn warm(&self) {
        self.run(|shell, _| {
            let request = shell.request("", Default::default());
            let warmed = shell.engine.assistant().and_then(|it| Ok(it.warm(&request)?));
            if let Err(failure) = warmed {
                // The search itself will say so.
                tracing::debug!("not warmed: {}", failure.message);
            }
        });
    }

    pub(crate) fn note_first_hits(&self, ms: f64) {
        lock(&self.figures).record("key_to_first_hits", ms);
    }

    pub(crate) fn why(&self, chunk: u64) -> Reply<Why> {
        let last = lock(&self.last);
        let last = last.as_ref().ok_or_else(not_in_last)?;
        let candidates = last.found.candidates();
        let place = candidates.iter().position(|it| it.hit.chunk == chunk);
        let place = place.ok_or_else(not_in_last)?;
        let candidate = &candidates[place].hit;
        let hit = last.settled.response.hits.iter().find(|it| it.chunk == chunk);
        let lengths = last.found.lengths();
        let mut words = Highlighter::new(last.found.query());
        let mut matched: Vec<String> = words
            .find(&candidate.text)
            .into_iter()
            .map(|it| clean(&candidate.text[it].to_lowercase()))
            .collect();
        matched.sort_unstable();
        matched.dedup();
        Ok(Why {
            rank: hit.map(|it| it.rank),
            ranks: hit.unwrap_or(candidate).trace.into(),
            bm25_hits: lengths.keyword as u32,
            vector_hits: lengths.vector as u32,
            terms_hits: lengths.terms.map(|it| it as u32),
            fused_hits: lengths.fused as u32,
            model: last.settled.run.as_ref().map(|it| it.model.clone()),
            num_layers: last.settled.run.as_ref().map_or(0, |it| it.stats.num_layers),
            layers: last.settled.run.as_ref().map_or_else(Vec::new, |run| why_layers(run, place)),
            matched_words: matched,
        })
    }

    /// A candidate of the newest search that is from a shared library.
    pub(super) fn shared_candidate(&self, chunk: u64) -> Option<FoundCandidate> {
        lock(&self.from_elsewhere).iter().find(|it| it.hit.chunk == chunk).cloned()
    }
}

/// What every layer made of one candidate.
fn why_layers(run: &RerankRun, place: usize) -> Vec<WhyLayer> {
    let ran = run.layers.iter().filter_map(|event| {
        let at = event.active.iter().position(|&it| it == place)?;
        let score = event.scores.get(at).copied();
        let better = |score: f32| event.scores.iter().filter(|&&it| it > score).count() as u32;
        let outcome = match () {
            () if event.accepted.contains(&place) => Outcome::Accepted,
            () if event.dropped.contains(&place) => Outcome::Dropped,
            () => Outcome::Kept,
        };
        Some(WhyLayer {
            layer: event.layer,
            score: score.map(sigmoid),
            place: score.map(|it| better(it) + 1),
            of: event.active.len() as u32,
            outcome,
        })
    });
    ran.collect()
}

pub(super) fn cancelled() -> Failure {
    Failure::new(FailureCode::Cancelled, "a newer request took its place")
}

fn not_in_last() -> Failure {
    Failure::gone("this passage is not among the candidates of the last search: search again")
}
