//! Questions, and the history of answers.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use riddle_metrics::StageTimings;
use riddle_rag::{
    AskEvent as Event, AskRequest, AskResponse, Earlier, FoundCandidate, SearchRequest, Support,
    records::HistoryEntry,
    reuse::{Reuse, ReuseGrade},
    writer::LLM_LOCAL,
};
use riddle_types::{FileKind, FileState};
use serde_json::json;
use tauri::ipc::Channel;

use super::{
    Shell,
    pipeline::{LastRun, millis},
};
use crate::{
    convert::{Rows, clean, file_ref, kind_of, notices, now},
    dto::{
        Answer, AskEvent, CachedAnswer, Citation, Experts, Failure, Generation, HistoryQuery,
        NoAnswer, Notice, Outgoing, OutgoingFolder, Question, Sentence, StateCount, ThreadSummary,
        Verdict,
    },
    failure::Reply,
    requests::{PASSAGES, RANKED},
};

/// Entries of the history that are looked at for a list of threads.
const ENTRIES: usize = 5000;

/// Characters of an answer in a list.
const BEGINNING: usize = 160;

/// What was seen while a question was answered.
#[derive(Default)]
struct Seen {
    candidates: Vec<FoundCandidate>,
    last: Option<LastRun>,
    stopped: bool,
}

impl Shell {
    pub(crate) fn ask(&self, question: Question, events: Channel<AskEvent>) {
        self.run(move |shell, times| {
            let id = question.id;
            let event = match shell.answer(question, &events, times) {
                Ok(answer) => AskEvent::Done { question: id, answer },
                Err(failure) => AskEvent::Failed { question: id, failure },
            };
            // A window that was closed hears nothing.
            let _ = events.send(event);
        });
    }

    pub(crate) fn stop_answer(&self, question: u32) {
        self.stopped_question.store(question, Ordering::Release);
    }

    fn answer(
        &self,
        question: Question,
        events: &Channel<AskEvent>,
        times: &StageTimings,
    ) -> Reply<Answer> {
        let started = Instant::now();
        let assistant = self.engine.assistant()?;
        let request = self.ask_request(&question)?;
        let mut seen = Seen::default();
        let llm = self.settings_now().llm;
        let response = assistant.ask_observed(&request, &llm, &mut |event| {
            if self.stopped_question.load(Ordering::Acquire) == question.id {
                seen.stopped = true;
                return ControlFlow::Break(());
            }
            self.pass_on(question.id, event, &request, &mut seen, started, events);
            ControlFlow::Continue(())
        });
        // A language model may have written for longer than models stay.
        self.engine.used_until_now();
        let response = match response {
            Ok(response) => response,
            Err(_) if seen.stopped => return Ok(self.unanswered(&question, started)),
            Err(error) => return Err(error.into()),
        };
        if let Some(last) = seen.last.take() {
            self.note(last.finish(times.take(), started, generation_of(&response)));
        }
        let answer = answer_of(&question, response, &seen, started);
        self.keep(answer)
    }

    fn ask_request(&self, question: &Question) -> Reply<AskRequest> {
        let earlier = match question.thread {
            Some(thread) => self.thread(thread)?.into_iter().map(earlier_of).collect(),
            None => Vec::new(),
        };
        let search =
            SearchRequest { k: RANKED, ..self.request(&question.text, question.filter.clone()) };
        let (remote, local, offline) = (self.remote(), self.local(), self.settings_now().offline);
        // What is not to be in the history is not kept to be given again either.
        let reuse = Reuse {
            grade: question.fresh.then_some(ReuseGrade::Off),
            keep: self.settings_now().keep_history,
            ..Reuse::default()
        };
        Ok(AskRequest { search, passages: PASSAGES, earlier, remote, local, offline, reuse })
    }

    /// What the endpoint would be sent for a question; nothing is sent.
    pub(crate) fn ask_preview(&self, question: Question) -> Reply<Outgoing> {
        self.wait_for(move |shell, _| {
            let request = shell.ask_request(&question)?;
            let llm = shell.settings_now().llm;
            let outgoing = shell.engine.assistant()?.outgoing(&request, &llm)?;
            let mut rows = Rows::new(&outgoing.question);
            let passages: Vec<_> =
                outgoing.hits.iter().map(|it| rows.row(it, FileKind::Other)).collect();
            let mut folders: Vec<OutgoingFolder> = Vec::new();
            for passage in &passages {
                match folders.iter_mut().find(|it| it.folder == passage.file.folder) {
                    Some(folder) => folder.passages += 1,
                    None => {
                        let folder = passage.file.folder.clone();
                        folders.push(OutgoingFolder { folder, passages: 1 });
                    }
                }
            }
            let prompts = outgoing.rewriting.into_iter().chain([outgoing.prompt]);
            Ok(Outgoing {
                origin: outgoing.origin,
                question: outgoing.question,
                passages,
                folders,
                held_back: outgoing.held_back,
                prompt: prompts.collect::<Vec<_>>().join("\n\n---\n\n"),
            })
        })
    }

    fn pass_on(
        &self,
        id: u32,
        event: Event<'_>,
        request: &AskRequest,
        seen: &mut Seen,
        started: Instant,
        events: &Channel<AskEvent>,
    ) {
        let event = match event {
            Event::Layer(_) => return,
            Event::Rewritten(text) => AskEvent::Rewritten { question: id, text: clean(text) },
            Event::Evidence { found, settled, hits, searched_for } => {
                seen.candidates = found.candidates();
                let (found, settled) = (Arc::new(found.clone()), settled.clone());
                let search = request.search.clone();
                seen.last =
                    Some(LastRun::new(found, search, settled.clone(), BTreeMap::new(), started));
                AskEvent::Evidence {
                    question: id,
                    passages: Rows::new(searched_for).rows(hits, &seen.candidates),
                    order: (&settled.response.order).into(),
                    notices: notices(settled.response.notices),
                    searched_for: searched_for.to_owned(),
                }
            }
            // A model that is waited for; whether to stop has been asked already.
            Event::Piece("") => return,
            Event::Piece(text) => AskEvent::Piece { question: id, text: text.to_owned() },
            Event::Checked(support) => {
                AskEvent::Checked { question: id, sentence: sentence_of(support) }
            }
        };
        // A window that was closed hears nothing.
        let _ = events.send(event);
    }

    /// An answer that was stopped before anything was found.
    fn unanswered(&self, question: &Question, started: Instant) -> Answer {
        Answer {
            entry: 0,
            thread: question.thread.unwrap_or(0),
            at: now(),
            question: question.text.clone(),
            sentences: Vec::new(),
            quotes: Vec::new(),
            reason: Some(NoAnswer::Stopped),
            citations: Vec::new(),
            evidence: 0.0,
            llm: self.settings_now().llm,
            order: crate::dto::Order::Fused,
            notices: Vec::new(),
            not_searched: Vec::new(),
            first_words_ms: 0.0,
            ms: millis(started),
            stopped: true,
            tokens: None,
            prompt: None,
            searched_for: None,
            passages: Vec::new(),
            held_back: 0,
            generation: None,
            cached: None,
        }
    }

    /// Puts an answer into the history, unless that is switched off.
    fn keep(&self, mut answer: Answer) -> Reply<Answer> {
        if !self.settings_now().keep_history {
            return Ok(answer);
        }
        let json = |it: &Answer| serde_json::to_string(it).map_err(Failure::other);
        answer.entry = self.records.remember(&answer.question, &json(&answer)?)?;
        if answer.thread == 0 {
            // The first entry gives the thread its number.
            answer.thread = answer.entry;
        }
        self.records.amend(answer.entry, &json(&answer)?)?;
        Ok(answer)
    }

    pub(crate) fn history(&self, query: &HistoryQuery) -> Reply<Vec<ThreadSummary>> {
        let mut threads: Vec<ThreadSummary> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        // Newest first: the first entry of a thread that is met is its last answer.
        for entry in self.records.remembered(query.text.trim(), ENTRIES)? {
            let Some(answer) = read(&entry) else { continue };
            match places.get(&answer.thread) {
                Some(&place) => {
                    threads[place].questions += 1;
                    threads[place].question = clean(&answer.question);
                }
                None if threads.len() < query.limit as usize => {
                    places.insert(answer.thread, threads.len());
                    threads.push(ThreadSummary {
                        thread: answer.thread,
                        at: entry.at,
                        question: clean(&answer.question),
                        questions: 1,
                        answer: beginning(&answer),
                    });
                }
                None => {}
            }
        }
        Ok(threads)
    }

    pub(crate) fn thread(&self, thread: i64) -> Reply<Vec<Answer>> {
        let entries = self.records.remembered("", ENTRIES)?;
        let mut answers: Vec<Answer> =
            entries.iter().filter_map(read).filter(|it| it.thread == thread).collect();
        answers.reverse();
        Ok(answers)
    }

    pub(crate) fn forget(&self, thread: Option<i64>) -> Reply<()> {
        let Some(thread) = thread else { return Ok(self.records.forget(None)?) };
        for answer in self.thread(thread)? {
            self.records.forget(Some(answer.entry))?;
        }
        Ok(())
    }
}

/// An answer as the next question of its thread leans on it.
fn earlier_of(answer: Answer) -> Earlier {
    let words: Vec<&str> = answer.sentences.iter().map(|it| it.text.as_str()).collect();
    Earlier {
        answer: Some(words.join(" ")).filter(|it| !it.is_empty()),
        question: answer.question,
        passages: answer.passages,
    }
}

/// An answer of the history; `None` for what another version has written.
fn read(entry: &HistoryEntry) -> Option<Answer> {
    let mut answer: serde_json::Value = serde_json::from_str(&entry.response).ok()?;
    renew(&mut answer);
    let answer: Answer = serde_json::from_value(answer).ok()?;
    Some(Answer { entry: entry.id, ..answer })
}

/// Earlier versions kept what they told as sentences: notices stay what they were, and a reason is the nearest of
/// those there are now.
fn renew(answer: &mut serde_json::Value) {
    let notices = answer.get_mut("notices").and_then(|it| it.as_array_mut());
    for notice in notices.into_iter().flatten() {
        if let Some(text) = notice.as_str() {
            *notice = json!(Notice::Told { text: text.to_owned() });
        }
    }
    let is_known = |it: &serde_json::Value| serde_json::from_value::<NoAnswer>(it.clone()).is_ok();
    let held_back = answer["heldBack"].as_u64().is_some_and(|it| it > 0);
    if let Some(reason) = answer.get_mut("reason").filter(|it| it.is_string() && !is_known(it)) {
        *reason = json!(if held_back { NoAnswer::NothingThatMayLeave } else { NoAnswer::Nothing });
    }
}

fn beginning(answer: &Answer) -> String {
    let text: Vec<&str> = answer.sentences.iter().map(|it| it.text.as_str()).collect();
    clean(&text.join(" ").chars().take(BEGINNING).collect::<String>())
}

fn answer_of(question: &Question, response: AskResponse, seen: &Seen, started: Instant) -> Answer {
    let cited = |it: &riddle_rag::Citation| Citation {
        n: it.n,
        chunk: it.chunk,
        file: file_ref(
            it.path.as_ref(),
            kind_of(&seen.candidates, it.chunk),
            0,
            modified_of(&seen.candidates, it.chunk),
        ),
        title: clean(&it.title),
        location: (&it.location).into(),
        quote: it.quote.clone(),
    };
    let generation = generation_of(&response);
    Answer {
        entry: 0,
        thread: question.thread.unwrap_or(0),
        at: now(),
        question: question.text.clone(),
        sentences: response.supported.iter().map(sentence_of).collect(),
        quotes: response.quotes.iter().map(sentence_of).collect(),
        reason: response.reason.map(Into::into),
        citations: response.citations.iter().map(cited).collect(),
        evidence: response.evidence,
        llm: response.llm,
        order: (&response.order).into(),
        notices: notices(response.notices),
        not_searched: response
            .not_searched
            .into_iter()
            .filter_map(|(state, count)| {
                Some(StateCount { state: FileState::parse(state)?.into(), count })
            })
            .collect(),
        first_words_ms: response.first_token_ms,
        ms: millis(started),
        stopped: seen.stopped,
        tokens: response.tokens.and_then(|it| u32::try_from(it).ok()),
        prompt: response.prompt,
        searched_for: Some(clean(&response.searched_for)).filter(|it| *it != question.text.trim()),
        passages: response.passages,
        held_back: response.held_back,
        generation,
        cached: response.cached.map(|it| CachedAnswer {
            asked: clean(&it.asked),
            at: it.at,
            similarity: it.similarity,
            checked: it.checked,
            prepared: it.prepared,
        }),
    }
}

/// What a model in this process took.
fn generation_of(response: &AskResponse) -> Option<Generation> {
    let stats = response.generation?;
    Some(Generation {
        model: response.llm.strip_prefix(LLM_LOCAL).unwrap_or(&response.llm).to_owned(),
        prompt_tokens: stats.prompt_tokens as u64,
        reused_tokens: stats.reused_tokens as u64,
        loaded_tokens: stats.loaded_tokens as u64,
        load_ms: stats.load_ms,
        prompt_ms: stats.prompt_ms,
        first_token_ms: response.first_token_ms,
        tokens: stats.tokens as u64,
        decode_ms: stats.decode_ms,
        drafted_tokens: stats.drafted_tokens as u64,
        accepted_tokens: stats.accepted_tokens as u64,
        tokens_per_second: stats.tokens_per_second(),
        context_tokens: stats.context_tokens as u64,
        window_layers: stats.window_layers as u64,
        resident_weight_bytes: stats.resident_weight_bytes,
        kv_cache_bytes: stats.kv_cache_bytes,
        streamed_bytes_per_token: stats.streamed_bytes_per_token,
        bytes_read: stats.bytes_read,
        io_wait_ms: stats.io_wait_ms,
        experts: stats.experts.map(|it| Experts {
            all: it.all as u64,
            held: it.held as u64,
            hit_rate: it.hit_rate().unwrap_or_default(),
        }),
    })
}

fn sentence_of(support: &Support) -> Sentence {
    Sentence {
        text: support.sentence.clone(),
        citation: support.citation,
        support: support.score,
        verdict: Some(match support.verdict {
            riddle_rag::Verdict::Supported => Verdict::Supported,
            riddle_rag::Verdict::Weak => Verdict::Weak,
            riddle_rag::Verdict::Unsupported => Verdict::Unsupported,
        }),
    }
}

fn modified_of(candidates: &[FoundCandidate], chunk: u64) -> i64 {
    candidates.iter().find(|it| it.hit.chunk == chunk).map_or(0, |it| it.hit.modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_an_earlier_version_is_still_read() {
        let mut kept = json!({
            "notices": ["keywords decide", { "kind": "repeats" }],
            "reason": "nothing in your files answers this", "heldBack": 0,
        });
        renew(&mut kept);
        let told = serde_json::from_value::<Vec<Notice>>(kept["notices"].clone()).expect("kinds");
        let text = "keywords decide".to_owned();
        assert_eq!(told, [Notice::Told { text }, Notice::Repeats]);
        assert_eq!(kept["reason"], "nothing");
        let mut sent = json!({ "reason": "nothing that may leave", "heldBack": 2 });
        renew(&mut sent);
        assert_eq!(sent["reason"], "nothingThatMayLeave");
        let mut now = json!({ "reason": "allHeldBack", "notices": [] });
        renew(&mut now);
        assert_eq!(now, json!({ "reason": "allHeldBack", "notices": [] }));
    }
}
