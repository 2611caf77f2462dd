//! The bank of answers: an answer that is already there is found, held against today's files, and told as any other.
//!
//! After the QA bank of PerCache (sections 4.1.1 and 4.2.1), which gives an answer to whatever question
//! is near enough. Here nothing is given on nearness alone unless somebody asks for that ([`ReuseGrade::Instant`]): the
//! search is run anew, and what it finds decides.

mod holds;
mod served;

use riddle_catalog::{
    AnswerState, AskedBy, BankQuestion, BankRead, Catalog, NewAnswer, NewWords, ReadPassage,
};
use riddle_claims::{Checker, Said, Verdict};
use riddle_types::{ChunkId, Generation, GenerationRequest, PassageOrder, StoredPrompt};

pub(super) use self::served::Served;
use self::{
    holds::{is_worse, moved, rank, speaks_of},
    served::{Detail, LeftOut, detail},
};
use super::alike::same_terms;
use crate::{
    contract::{
        AskRequest, AskResponse, Error, LLM_LOCAL, Libraries, Result, ReuseGrade, ReuseSettings,
        SearchHit,
    },
    home::settings::{configured_reranker, reuse_settings},
    index::cosine,
    search::Assistant,
};

/// Counts with how answers are asked for and kept: answers of another count are not given.
const VERSION: u32 = 1;

/// Near questions that are held against the files, nearest first: the second is rarely better than the first.
const TRIED: usize = 3;

/// Who asks, as the bank is concerned.
#[derive(Debug, Clone, Default)]
pub(super) struct Asking {
    /// A foreseen question with what it was made from, or one that is answered again.
    pub(super) foreseen: Option<Foreseen>,
}

/// Where a question comes from that nobody has asked.
#[derive(Debug, Clone)]
pub(super) struct Foreseen {
    pub(super) by: AskedBy,
    pub(super) typed: String,
}

/// The bank, as one question meets it.
pub(super) struct Bank<'a> {
    assistant: &'a Assistant,
    grade: ReuseGrade,
    settings: ReuseSettings,
    threshold: f32,
    keep: bool,
    /// What the model says is kept, too, and not the question alone.
    answers: bool,
    /// The model is asked the same wherever the same question finds the same passages.
    provable: bool,
    /// All beside the question and the passages that decides what the model says.
    model: [u8; 32],
    /// All beside the question that decides what is found and said.
    setting: [u8; 32],
    foreseen: Option<Foreseen>,
    typed: String,
}

/// A question with what was found for it.
pub(super) struct Met<'a> {
    pub(super) asked: &'a GenerationRequest,
    pub(super) hits: &'a [SearchHit],
    pub(super) vector: Vector<'a>,
}

/// Identity of an embedder and its vector of a question.
pub(super) type Vector<'a> = Option<&'a (String, Vec<f32>)>;

impl<'a> Bank<'a> {
    /// `identity` is the model's, with all that it is run with; `None`: nothing is ever kept. Where it chooses its
    /// words by chance no answer is, but questions are: what they need can be read before somebody asks. Where the
    /// order of passages depends on what was read before, none is *the same*: a new home would ask otherwise.
    pub(super) fn of(
        assistant: &'a Assistant,
        request: &AskRequest,
        identity: Option<&str>,
        llm: &str,
        asking: &Asking,
    ) -> Result<Option<Bank<'a>>> {
        // What was read elsewhere may change there, and nobody here would hear of it: nothing is kept of it.
        // Nor is one kept of what somebody else may read, or told to one who may not read what it was written from.
        let search = &request.search;
        let is_own = search.libraries == Libraries::Home && search.reader.is_none();
        let identity = identity.filter(|_| is_own);
        let settings = reuse_settings(&assistant.catalog)?;
        let is_local = llm.starts_with(LLM_LOCAL);
        let Some(identity) = identity.filter(|_| is_local || settings.remote) else {
            return Ok(None);
        };
        let drawn = is_local && request.local.sampling.temperature > 0.0;
        let grade = match drawn {
            true => ReuseGrade::Off,
            false => request.reuse.grade.unwrap_or(settings.grade),
        };
        let keep = request.reuse.keep && settings.limit_bytes > 0;
        if grade == ReuseGrade::Off && !keep {
            return Ok(None);
        }
        let (model, setting) = keys(assistant, request, identity)?;
        Ok(Some(Bank {
            assistant,
            grade,
            settings,
            threshold: request.reuse.threshold.unwrap_or(settings.threshold),
            keep,
            answers: !drawn,
            provable: !is_local || request.local.order != PassageOrder::Stored,
            model,
            setting,
            foreseen: asking.foreseen.clone(),
            typed: request.search.query.trim().to_owned(),
        }))
    }

    /// Whether what the model says is kept.
    pub(super) fn keeps_answers(&self) -> bool {
        self.answers
    }

    /// Identity of all beside the question that decides what is found and said.
    pub(super) fn setting(&self) -> [u8; 32] {
        self.setting
    }

    fn prompt(&self, asked: &GenerationRequest) -> [u8; 32] {
        let mut hash = blake3::Hasher::new();
        hash.update(&self.model);
        put(&mut hash, &asked.question);
        for passage in &asked.passages {
            hash.update(&passage.number.to_le_bytes());
            put(&mut hash, &passage.text);
            // Who reads them in their order in the files reads them by this.
            if asked.order != PassageOrder::Ranked {
                hash.update(&passage.chunk.map_or(0, |it| it.0).to_le_bytes());
            }
        }
        *hash.finalize().as_bytes()
    }

    /// An answer that may be given without a look at passages: the nearest question's.
    pub(super) fn instant(&self, question: &str, vector: Vector<'_>) -> Result<Option<Served>> {
        if self.grade != ReuseGrade::Instant {
            return Ok(None);
        }
        for (similarity, near) in self.near(question, vector)?.into_iter().take(TRIED) {
            let Some(found) = self.assistant.catalog.bank_answer(near.id)? else { continue };
            if found.negative || found.shown.is_none() {
                continue;
            }
            return Ok(Served::of(found, ReuseGrade::Instant, similarity));
        }
        Ok(None)
    }

    /// An answer that may be given to this question, from these passages.
    pub(super) fn look(&self, met: &Met<'_>, checker: &mut Checker<'_>) -> Result<Option<Served>> {
        if self.grade >= ReuseGrade::Same
            && self.provable
            && let Some(found) = self.assistant.catalog.answer_to_prompt(&self.prompt(met.asked))?
        {
            return Ok(Served::of(found, ReuseGrade::Same, 1.0));
        }
        if self.grade < ReuseGrade::Checked {
            return Ok(None);
        }
        for (similarity, near) in
            self.near(&met.asked.question, met.vector)?.into_iter().take(TRIED)
        {
            if near.state != AnswerState::Fresh || !same_terms(&met.asked.question, &near.question)
            {
                continue;
            }
            let Some(found) = self.assistant.catalog.bank_answer(near.id)? else { continue };
            let Some(text) = moved(&found, met.hits) else { continue };
            if !speaks_of(met, &found) {
                continue;
            }
            let detail = detail(&found);
            let supported = checker.all(&text).map_err(Error::stage("checking the answer"))?;
            if is_worse(&supported, &detail.verdicts) {
                continue;
            }
            let served = Served::of(found, ReuseGrade::Checked, similarity);
            return Ok(served.map(|it| it.saying(text)));
        }
        Ok(None)
    }

    /// Questions under the same setting that are near enough, nearest first.
    fn near(&self, question: &str, vector: Vector<'_>) -> Result<Vec<(f32, BankQuestion)>> {
        let Some((embedder, vector)) = vector else { return Ok(Vec::new()) };
        let known = self.assistant.catalog.bank_questions(Some(&self.setting), embedder)?;
        let similarity = |it: &BankQuestion| match it.question == question {
            true => 1.0,
            false => cosine(vector, &it.vector),
        };
        let mut near: Vec<(f32, BankQuestion)> = known
            .into_iter()
            .map(|it| (similarity(&it), it))
            .filter(|it| it.0 >= self.threshold)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(near)
    }

    /// An answer was given: it is counted, and its question kept, to be answered by itself when there is time.
    pub(super) fn note(&self, served: &Served, met: &Met<'_>) {
        if !self.keep {
            return;
        }
        let kind = served.cached.kind;
        let is_same = served.cached.asked == met.asked.question;
        let asks = self.foreseen.is_none();
        self.write(|catalog| {
            catalog.note_use(served.id, kind == ReuseGrade::Same, asks && is_same)?;
            if asks {
                catalog.add_figure("asked", 1.0)?;
                catalog.add_figure(kind.as_str(), 1.0)?;
                catalog.add_figure("seconds_saved", served.detail.seconds)?;
            }
            if !is_same {
                catalog.keep_answer(&self.entry(met, None))?;
            }
            Ok(())
        });
    }

    /// Keeps what a model has written, unless it is nothing that should be said again, and notes what reading for it
    /// has left.
    pub(super) fn keep(&self, met: &Met<'_>, response: &AskResponse, written: &Written) {
        if !self.keep {
            return;
        }
        self.keep_words(met, response, written);
        if let Some(StoredPrompt { leaf, bytes }) = written.generation.stored {
            let read = Some(BankRead { leaf, bytes });
            self.write(|it| Ok(it.note_read(&self.setting, &met.asked.question, read)?));
        }
    }

    fn keep_words(&self, met: &Met<'_>, response: &AskResponse, written: &Written) {
        if self.foreseen.is_none() {
            let stats = written.generation.stats.unwrap_or_default();
            self.write(|catalog| {
                catalog.add_figure("asked", 1.0)?;
                catalog.add_figure("prompt_tokens", stats.prompt_tokens as f64)?;
                catalog.add_figure("known_tokens", stats.known_tokens() as f64)?;
                Ok(catalog.add_figure("reading_saved", stats.saved_ms.max(0.0) / 1e3)?)
            });
        }
        if !self.answers {
            // A foreseen question is there already.
            if self.foreseen.is_none() {
                self.write(|catalog| {
                    catalog.keep_answer(&self.entry(met, None))?;
                    catalog.limit_answers(self.settings.limit_bytes)?;
                    Ok(())
                });
            }
            return;
        }
        let negative = response.answer.is_none();
        let notices: Option<Vec<LeftOut>> =
            written.generation.notices.iter().map(LeftOut::of).collect();
        let made_up = response.supported.iter().all(|it| it.verdict == Verdict::Unsupported);
        let Some(notices) = notices.filter(|_| !written.stopped && !written.said.repeats) else {
            return;
        };
        if !negative && made_up {
            return;
        }
        let cited = |chunk: u64| response.citations.iter().any(|it| it.chunk == chunk);
        let floor = met.vector.and_then(|it| self.floor(it, met.hits));
        let detail = Detail {
            llm: response.llm.clone(),
            verdicts: response.supported.iter().map(|it| rank(it.verdict)).collect(),
            seconds: written.seconds,
            tokens: written.generation.tokens,
            notices,
        };
        let words = NewWords {
            prompt: self.prompt(met.asked),
            text: written.generation.text.clone(),
            shown: response.answer.clone().unwrap_or_default(),
            negative,
            floor,
            detail: serde_json::to_string(&detail).unwrap_or_default(),
            passages: read(met.hits, &cited),
        };
        self.write(|catalog| {
            catalog.keep_answer(&self.entry(met, Some(words)))?;
            catalog.limit_answers(self.settings.limit_bytes)?;
            Ok(())
        });
    }

    fn entry(&self, met: &Met<'_>, answer: Option<NewWords>) -> NewAnswer {
        let foreseen = self.foreseen.as_ref();
        NewAnswer {
            question: met.asked.question.clone(),
            typed: foreseen.map_or_else(|| self.typed.clone(), |it| it.typed.clone()),
            by: foreseen.map_or(AskedBy::User, |it| it.by),
            setting: self.setting,
            vector: met.vector.cloned(),
            answer,
            made_from: Vec::new(),
            parents: Vec::new(),
            seq: self.assistant.seq,
        }
    }

    /// Least similarity of a passage that is read.
    fn floor(&self, (embedder, vector): &(String, Vec<f32>), hits: &[SearchHit]) -> Option<f32> {
        let chunks: Vec<ChunkId> = hits.iter().map(|it| ChunkId(it.chunk)).collect();
        let vectors = self.assistant.catalog.vectors_of(embedder, &chunks).ok()?;
        vectors.iter().map(|it| cosine(vector, &it.1)).reduce(f32::min)
    }

    /// Writes beside an index that is being brought up to date. What can not be kept costs nobody an answer.
    fn write(&self, work: impl FnOnce(&Catalog) -> Result<()>) {
        let written = self.assistant.bank().and_then(|it| work(&it));
        if let Err(error) = written {
            tracing::debug!(%error, "the answer is not kept");
        }
    }
}

/// What a model has written, and how.
pub(super) struct Written {
    pub(super) generation: Generation,
    pub(super) said: Said,
    pub(super) stopped: bool,
    pub(super) seconds: f64,
}

/// The two keys of a question's setting: what decides what the model says, and what decides what it is given.
fn keys(
    assistant: &Assistant,
    request: &AskRequest,
    identity: &str,
) -> Result<([u8; 32], [u8; 32])> {
    let mut model = blake3::Hasher::new();
    model.update(&VERSION.to_le_bytes());
    put(&mut model, identity);
    let model = *model.finalize().as_bytes();
    let search = &request.search;
    let mut setting = blake3::Hasher::new();
    setting.update(&model);
    let numbers = [
        request.passages,
        search.k,
        search.keyword_candidates,
        search.vector_candidates,
        search.fused_candidates,
        usize::from(search.outward),
    ];
    for number in numbers {
        setting.update(&(number as u64).to_le_bytes());
    }
    put(&mut setting, &format!("{:?}", search.filter));
    put(&mut setting, &format!("{:?}", search.rerank));
    put(&mut setting, &format!("{:?}", search.rerank_settings));
    put(&mut setting, &format!("{:?}", configured_reranker(&assistant.catalog)?));
    let embedder = assistant.catalog.active_embedder()?.map(|it| it.id);
    put(&mut setting, embedder.as_deref().unwrap_or_default());
    Ok((model, *setting.finalize().as_bytes()))
}

/// With its length, so that two texts are not one.
fn put(hash: &mut blake3::Hasher, text: &str) {
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

fn read(hits: &[SearchHit], cited: &dyn Fn(u64) -> bool) -> Vec<ReadPassage> {
    let passage = |(hit, place): (&SearchHit, u32)| ReadPassage {
        place,
        chunk: ChunkId(hit.chunk),
        text_hash: *blake3::hash(hit.text.as_bytes()).as_bytes(),
        cited: cited(hit.chunk),
    };
    hits.iter().zip(1..).map(passage).collect()
}
