//! Search as you type, why a hit is where it is, preview.

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
    preview::{Highlighter, Shown, marked, show},
    records::{ChunkRecord, FileId},
    rerank::{RerankRun, sigmoid},
    shared::Fetched,
};
use riddle_types::{FileKind, LayerEvent, LayerObserver};
use tauri::ipc::Channel;

use super::{
    Shell, lock,
    pipeline::{LastRun, layer_trace, millis},
};
use crate::{
    convert::{Rows, clean, file_of_chunk, file_ref, notices, spans, title_of},
    dto::{
        Failure, FailureCode, FileTarget, Outcome, Preview, PreviewBody, PreviewPassage,
        SearchEvent, SearchQuery, SeenLine, Why, WhyLayer,
    },
    failure::Reply,
};

/// Largest PDF or picture that is handed to the interface.
const MAX_SHOWN_BYTES: u64 = 128 << 20;

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

    pub(crate) fn preview(&self, chunk: u64, query: &str) -> Reply<Preview> {
        if let Some(it) = self.shared_candidate(chunk) {
            return Ok(self.preview_of_shared(&it, query));
        }
        let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
        let (shown, changed) = show(&self.records, &passage)?;
        let record = &passage.record;
        let body = body(shown, record, chunk);
        Ok(Preview {
            chunk,
            file: file_of_chunk(record, passage.bytes),
            title: title_of(record.title.as_deref(), &record.path),
            location: (&record.location).into(),
            passage: spans(marked(&record.text, &mut Highlighter::new(query))),
            body,
            changed,
            library: None,
            here: None,
            original: false,
        })
    }

    /// What the library has of the file around the passage; where it can not be asked the passage alone.
    fn preview_of_shared(&self, candidate: &FoundCandidate, query: &str) -> Preview {
        let around = candidate.hit.library.as_deref().map(|library| {
            let assistant = self.engine.assistant()?;
            Ok::<_, Failure>(assistant.passages_around(library, candidate.hit.chunk)?)
        });
        let around = around.transpose().unwrap_or_else(|failure| {
            tracing::debug!(?failure, "the library is not asked for more of the file");
            None
        });
        let library = candidate.hit.library.as_deref();
        let original = library.is_some_and(|it| self.has_originals(it));
        Preview { original, ..preview_of_shared(candidate, &around.unwrap_or_default(), query) }
    }

    /// Whether files of a library can be fetched from the store that keeps them.
    fn has_originals(&self, library: &str) -> bool {
        let known = self.records.libraries().unwrap_or_default();
        known.iter().any(|it| it.name == library && it.originals.is_some())
    }

    /// A candidate of the newest search that is from a shared library.
    fn shared_candidate(&self, chunk: u64) -> Option<FoundCandidate> {
        lock(&self.from_elsewhere).iter().find(|it| it.hit.chunk == chunk).cloned()
    }

    pub(crate) fn preview_bytes(&self, chunk: u64) -> Reply<Vec<u8>> {
        let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
        if !matches!(passage.record.kind, FileKind::Pdf | FileKind::Image) {
            return Err(Failure::bad("only PDF files and pictures are handed over as they are"));
        }
        let path = self.records.safe_path(&passage.record)?;
        let size = path.metadata().map_err(Failure::other)?.len();
        if size > MAX_SHOWN_BYTES {
            return Err(Failure::bad(format!(
                "the file has {} MiB, more than can be shown here: open it instead",
                size >> 20
            )));
        }
        std::fs::read(&path).map_err(Failure::other)
    }

    /// A file that is to be opened, where it is: in the home's library and below its folder, in a folder of another
    /// computer that this one reaches, or fetched from the store that keeps it.
    pub(crate) fn file_of(&self, target: FileTarget) -> Reply<Fetched> {
        let shown = |path| Fetched { path, shows: true };
        match target {
            FileTarget::Chunk { chunk } => {
                if let Some(it) = self.shared_candidate(chunk)
                    && let Some(library) = &it.hit.library
                {
                    let path = &it.hit.path;
                    return Ok(match self.records.path_here(library, path) {
                        Err(_) if self.has_originals(library) => {
                            self.records.fetch_original(library, path)?
                        }
                        here => shown(here?),
                    });
                }
                let passage = self.records.passage(chunk)?.ok_or_else(passage_gone)?;
                Ok(shown(self.records.safe_path(&passage.record)?))
            }
            FileTarget::File { file } => Ok(shown(self.records.path_of(FileId(file))?)),
        }
    }
}

/// What is shown of the file that `chunk` is a passage of.
fn body(shown: Shown, record: &ChunkRecord, chunk: u64) -> PreviewBody {
    match shown {
        Shown::Text { text, first_line, passage, truncated } => {
            let (passage_start, passage_end) = passage;
            if record.kind == FileKind::Markdown {
                PreviewBody::Markdown { text, first_line, passage_start, passage_end, truncated }
            } else {
                PreviewBody::Text {
                    text,
                    first_line,
                    passage_start,
                    passage_end,
                    code: record.kind == FileKind::Code,
                    language: extension(&record.path),
                    truncated,
                }
            }
        }
        Shown::Pdf { pages, seen } => PreviewBody::Pdf {
            page: pages.0,
            last_page: pages.1,
            seen: seen.into_iter().map(SeenLine::from).collect(),
        },
        Shown::Picture(seen) => {
            PreviewBody::Picture { seen: seen.into_iter().map(SeenLine::from).collect() }
        }
        Shown::Passages(passages) => PreviewBody::Passages {
            passages: passages.iter().map(|it| shown_passage(it, chunk)).collect(),
        },
        Shown::Unavailable(reason) => PreviewBody::Unavailable { reason: clean(&reason) },
    }
}

fn shown_passage(it: &ChunkRecord, current: u64) -> PreviewPassage {
    PreviewPassage {
        chunk: it.id.0,
        heading: clean(&it.heading),
        location: (&it.location).into(),
        current: it.id.0 == current,
        text: it.text.clone(),
    }
}

/// The passage, among those around it in its file as far as the library gave them.
fn preview_of_shared(candidate: &FoundCandidate, around: &[ChunkRecord], query: &str) -> Preview {
    let hit = &candidate.hit;
    let location: crate::dto::Location = (&hit.location).into();
    let alone = || PreviewPassage {
        chunk: hit.chunk,
        heading: clean(&hit.heading),
        location: location.clone(),
        current: true,
        text: hit.text.clone(),
    };
    // A file that was written anew since then may have lost the passage.
    let passages = match around.iter().any(|it| it.id.0 == hit.chunk && it.text == hit.text) {
        true => around.iter().map(|it| shown_passage(it, hit.chunk)).collect(),
        false => vec![alone()],
    };
    Preview {
        chunk: hit.chunk,
        file: file_ref(hit.path.as_ref(), candidate.kind, 0, hit.modified),
        title: clean(&hit.title),
        passage: spans(marked(&hit.text, &mut Highlighter::new(query))),
        body: PreviewBody::Passages { passages },
        location,
        changed: false,
        library: hit.library.as_deref().map(clean),
        here: hit.here.as_deref().map(clean),
        original: false,
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

fn extension(path: &std::path::Path) -> String {
    path.extension().map(|it| clean(&it.to_string_lossy().to_lowercase())).unwrap_or_default()
}

pub(super) fn cancelled() -> Failure {
    Failure::new(FailureCode::Cancelled, "a newer request took its place")
}

fn not_in_last() -> Failure {
    Failure::gone("this passage is not among the candidates of the last search: search again")
}

fn passage_gone() -> Failure {
    Failure::gone("this passage is gone: its file has changed or was removed; search again")
}

#[cfg(test)]
mod tests {
    use riddle_rag::SearchHit;
    use riddle_types::RankTrace;

    use super::*;

    /// A name from another machine is shown harmless, and nothing of this machine is looked at.
    #[test]
    fn a_passage_from_elsewhere_is_all_that_is_shown_of_it() {
        let hit = SearchHit {
            rank: 1,
            path: "/srv/team/boat\u{202e}dm.md".to_owned(),
            title: "Boat".to_owned(),
            heading: "Hull".to_owned(),
            text: "The hull is blue.".to_owned(),
            location: riddle_types::Location::Line { start: 3, end: 4 },
            score: 0.5,
            trace: RankTrace::default(),
            modified: 7,
            chunk: (1 << 52) + 1,
            also_in: Vec::new(),
            versions: Vec::new(),
            library: Some("team".to_owned()),
            here: None,
            ocr_confidence: None,
        };
        let candidate = FoundCandidate { hit, kind: FileKind::Markdown };
        let shown = preview_of_shared(&candidate, &[], "hull");
        assert_eq!(shown.library.as_deref(), Some("team"));
        assert!(!shown.file.name.contains('\u{202e}'), "{shown:?}");
        assert!(shown.passage.iter().any(|it| it.mark && it.text == "hull"), "{shown:?}");
        let PreviewBody::Passages { passages } = &shown.body else { panic!("{shown:?}") };
        assert_eq!((passages.len(), passages[0].text.as_str()), (1, "The hull is blue."));

        // What stands around it is shown with it, unless the file was written anew since then.
        let record = |id: u64, text: &str| ChunkRecord {
            id: riddle_types::ChunkId(id),
            file: FileId(-1),
            path: "/srv/team/boat.md".into(),
            kind: FileKind::Markdown,
            modified: 7,
            title: None,
            language: None,
            ordinal: 0,
            heading: String::new(),
            text: text.to_owned(),
            location: riddle_types::Location::Whole,
            also_in: Vec::new(),
            versions: Vec::new(),
        };
        let around = [record(5, "It has two masts."), record((1 << 52) + 1, "The hull is blue.")];
        let shown = preview_of_shared(&candidate, &around, "hull");
        let PreviewBody::Passages { passages } = &shown.body else { panic!("{shown:?}") };
        assert_eq!(passages.iter().map(|it| it.current).collect::<Vec<_>>(), [false, true]);
        let around = [record(5, "It has two masts."), record((1 << 52) + 1, "The hull is red.")];
        let shown = preview_of_shared(&candidate, &around, "hull");
        let PreviewBody::Passages { passages } = &shown.body else { panic!("{shown:?}") };
        assert_eq!(passages.len(), 1, "{passages:?}");
    }
}
