//! Which model is best for the files of this home? Installed models are tried on questions made from the files.
//!
//! A question is a heading, or the telling words of a sentence, and its passage is the one right result; a heading is
//! taken out of it. Passages that hold the same sentence are left out.
//! Rerankers order it among what the home's own search finds for the question, embedders among passages drawn by lot.
//! Quality is the mean reciprocal rank of the right passage, 0 to 1, with a 95 % interval (Efron 1979, questions drawn
//! anew). Two models whose difference has an interval around 0 are equally good here, and of these the faster is
//! advised: a name, or a figure from elsewhere, decides nothing.

mod interval;
mod question;

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use riddle_models::{InstalledModel, Kind, embedder_languages};
use riddle_types::{EmbedRole, Embedder, SilentObserver, Trouble};

use self::{
    interval::{Interval, difference, interval},
    question::{Question, Sample},
};
use super::{reader::Assistant, rerank::RequestReranker};
use crate::{
    contract::{Error, RerankDocument, RerankRequest, RerankSettings, Result, SearchRequest},
    home::{embedder::open_dir, settings::wanted_embedder},
};

/// Candidates that a reranker orders, the right one among them.
const CANDIDATES: usize = 24;

/// Passages among which an embedder has to find the right one, at most.
const PASSAGES: usize = 300;

/// Fewest questions of which anything can be said.
const FEWEST: usize = 8;

/// Of a machine's memory, what one model may take.
const SHARE_OF_MEMORY: u64 = 2;

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialRequest {
    /// Questions, at most.
    pub questions: usize,
    /// Time for all models together: what is slow is tried on fewer questions.
    pub time: Duration,
    /// Which questions are drawn.
    pub seed: u64,
    /// Bytes of memory of this machine, where they are known.
    pub memory: Option<u64>,
}

impl Default for TrialRequest {
    fn default() -> TrialRequest {
        TrialRequest { questions: 60, time: Duration::from_secs(120), seed: 1, memory: None }
    }
}

/// How a model did.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Its name; `None`: no reranker, the order of meaning alone.
    pub name: Option<String>,
    /// The home uses it.
    pub in_use: bool,
    /// Mean reciprocal rank of the right passage, 0 to 1, and its 95 % interval.
    pub quality: Interval,
    /// Questions that it was tried on.
    pub questions: usize,
    /// Median milliseconds a question: for a reranker [`CANDIDATES`] passages of it, for an embedder the question.
    pub ms: f64,
    /// Passages that an embedder embeds in a second.
    pub passages_per_second: Option<f64>,
    /// Bytes of weights in memory.
    pub bytes: u64,
    /// It takes more than half of the machine's memory.
    pub too_large: bool,
    /// Languages that it reads, where it does not read all; ISO 639-1.
    pub languages: Vec<String>,
    /// Why it could not be tried; the figures are 0 then.
    pub trouble: Option<Trouble>,
    /// Reciprocal rank of each question.
    ranks: Vec<f32>,
}

/// All models of a kind, best first, and the one that is advised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// Those that were tried, and then those that could not be.
    pub models: Vec<Tried>,
    /// Place in `models`; `None` where nothing could be tried.
    pub advised: Option<usize>,
}

/// What a trial found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trial {
    /// Questions that were made.
    pub questions: usize,
    /// Of these, made from headings.
    pub from_headings: usize,
    /// Passages that embedders were tried on.
    pub passages: usize,
    /// Share of the passages by language, the most frequent first; ISO 639-1.
    pub languages: Vec<(String, f32)>,
    /// Rerankers, and none.
    pub rerankers: Ranking,
    /// Embedders.
    pub embedders: Ranking,
}

/// What hears which model is tried, how many questions of how many are done; `Break` stops.
pub type OnTrial<'a> = &'a mut dyn FnMut(&str, usize, usize) -> ControlFlow<()>;

/// Tries every installed reranker and embedder on questions made from the files of the home. `None` when `progress`
/// stopped it.
///
/// # Errors
/// Fewer than eight passages that a question can be made of; a catalog or an index that can not be read. What is wrong
/// with a model is said with it.
pub fn try_models(
    assistant: &Assistant,
    request: &TrialRequest,
    progress: OnTrial<'_>,
) -> Result<Option<Trial>> {
    let sample = Sample::draw(&assistant.catalog, request.questions, PASSAGES, request.seed)?;
    if sample.questions.len() < FEWEST {
        let found = sample.questions.len();
        let why = format!(
            "questions can be made of {found} passages only, and {FEWEST} are needed: index more files with some sentences in them"
        );
        return Err(Error::BadRequest(why.into()));
    }
    let models = assistant.config.model_store()?.list_all()?;
    let of = |kind: Kind| models.iter().filter(move |it| it.kind == kind);
    let (rerankers, embedders) = (of(Kind::Reranker).count(), of(Kind::Embedder).count());
    // Whatever there is, every model gets the same.
    let each = request.time / u32::try_from(rerankers + embedders).unwrap_or(1).max(1);
    let Some(lists) = lists(assistant, &sample.questions, progress)? else { return Ok(None) };
    let mut tried = Vec::new();
    tried.extend(by_meaning(&lists, assistant)?);
    for model in of(Kind::Reranker) {
        let Some(row) =
            reranker(assistant, model, &lists, each, progress)?.map(|it| it.fitted(request.memory))
        else {
            return Ok(None);
        };
        tried.push(row);
    }
    let rerankers = ranked(tried);
    let mut tried = Vec::new();
    for model in of(Kind::Embedder) {
        let Some(row) = embedder(assistant, model, &sample, each, progress)?
            .map(|it| it.fitted(request.memory))
        else {
            return Ok(None);
        };
        tried.push(row);
    }
    Ok(Some(Trial {
        questions: sample.questions.len(),
        from_headings: sample.questions.iter().filter(|it| it.from_heading).count(),
        passages: sample.passages.len() + sample.questions.len(),
        languages: sample.languages,
        rerankers,
        embedders: ranked(tried),
    }))
}

/// A question and its candidates: the right one first, with the cosine of what remains of it.
type List = RerankRequest;

/// What the home's search finds for every question, with the right passage as it is without the question.
fn lists(
    assistant: &Assistant,
    questions: &[Question],
    progress: OnTrial<'_>,
) -> Result<Option<Vec<List>>> {
    let mut lists = Vec::with_capacity(questions.len());
    for (number, question) in questions.iter().enumerate() {
        if progress("", number, questions.len()).is_break() {
            return Ok(None);
        }
        let request = SearchRequest {
            k: CANDIDATES,
            idle: true,
            ..SearchRequest::new(question.text.as_str())
        };
        let found = assistant.find(&request)?;
        let others = found.candidates().into_iter().zip(found.known());
        let mut documents: Vec<RerankDocument> = others
            .filter(|(it, _)| it.hit.chunk != question.chunk && !question.is_in(&it.hit.text))
            .take(CANDIDATES - 1)
            .map(|(it, known)| document(it.hit.text, known.evidence.cosine))
            .collect();
        let cosine = match (&found.vector, assistant.embedder.get(&assistant.config)?) {
            (Some((_, query)), Some(embedder)) => {
                let vectors = embedder
                    .embed(&[&question.passage], EmbedRole::Passage)
                    .map_err(Error::stage("embedding"))?;
                vectors.first().map(|it| dot(it, query))
            }
            _ => None,
        };
        documents.insert(0, document(question.passage.clone(), cosine));
        lists.push(List { query: question.text.clone(), documents, top_n: None });
    }
    Ok(Some(lists))
}

/// Keywords are left out: the index still has the right passage with the question's very words in it.
fn document(text: String, cosine: Option<f32>) -> RerankDocument {
    RerankDocument::Named { id: None, text, cosine, keyword: None, sparse: None }
}

/// The order of meaning alone, which a reranker has to better; `None` where nothing is searched by meaning.
fn by_meaning(lists: &[List], assistant: &Assistant) -> Result<Option<Tried>> {
    let known = |it: &RerankDocument| matches!(it, RerankDocument::Named { cosine: Some(_), .. });
    if !lists.iter().flat_map(|it| &it.documents).any(known) {
        return Ok(None);
    }
    let ranks = lists.iter().map(|list| {
        let cosines: Vec<f32> = list
            .documents
            .iter()
            .map(|it| match it {
                RerankDocument::Named { cosine: Some(cosine), .. } => *cosine,
                _ => f32::MIN,
            })
            .collect();
        reciprocal(rank_of_first(&cosines))
    });
    let in_use = assistant.configured_reranker()?.is_none();
    Ok(Some(Tried { in_use, ..Tried::of(None, ranks.collect(), Vec::new()) }))
}

fn reranker(
    assistant: &Assistant,
    model: &InstalledModel,
    lists: &[List],
    time: Duration,
    progress: OnTrial<'_>,
) -> Result<Option<Tried>> {
    let settings = RerankSettings::default();
    let mut ranks = Vec::with_capacity(lists.len());
    let mut times = Vec::with_capacity(lists.len());
    let mut bytes = 0;
    let mut trouble = None;
    let mut begun = Instant::now();
    let mut opened = RequestReranker::new(&assistant.config, &model.name, &settings, false)?;
    for (number, list) in lists.iter().enumerate() {
        if progress(&model.name, number, lists.len()).is_break() {
            return Ok(None);
        }
        let started = Instant::now();
        match opened.rerank(list, &mut SilentObserver) {
            Ok(response) => {
                let place = response.results.iter().position(|it| it.index == 0);
                ranks.push(reciprocal(place.map_or(list.documents.len(), |it| it + 1)));
                times.push(started.elapsed());
                bytes = response.memory.get("resident_weight_bytes").copied().unwrap_or(bytes);
            }
            Err(error) => {
                trouble = Some(Trouble::of(&error));
                break;
            }
        }
        // Opening it is not its speed.
        if number == 0 {
            begun = Instant::now();
        }
        if begun.elapsed() > time && ranks.len() >= FEWEST {
            break;
        }
    }
    let in_use = assistant.configured_reranker()?.as_deref() == Some(model.name.as_str());
    let row = Tried::of(Some(model.name.clone()), ranks, times);
    Ok(Some(Tried { in_use, bytes, trouble, ..row }))
}

fn embedder(
    assistant: &Assistant,
    model: &InstalledModel,
    sample: &Sample,
    time: Duration,
    progress: OnTrial<'_>,
) -> Result<Option<Tried>> {
    let name = model.name.clone();
    let languages = embedder_languages(&name).iter().map(|&it| it.to_owned()).collect();
    let in_use = wanted_embedder(&assistant.catalog)? == name;
    let failed = |error: &Error| Tried {
        trouble: Some(Trouble::of(error)),
        in_use,
        ..Tried::of(Some(name.clone()), Vec::new(), Vec::new())
    };
    let opened = match open_dir::<dyn Embedder>(&assistant.config, &model.dir) {
        Ok(opened) => opened,
        Err(error) => return Ok(Some(failed(&error))),
    };
    let right = sample.questions.iter().map(|it| it.passage.as_str());
    let passages: Vec<&str> = right.chain(sample.passages.iter().map(String::as_str)).collect();
    let mut vectors = Vec::with_capacity(passages.len());
    let begun = Instant::now();
    for texts in passages.chunks(16) {
        if progress(&name, vectors.len(), passages.len()).is_break() {
            return Ok(None);
        }
        match opened.embed(texts, EmbedRole::Passage) {
            Ok(more) => vectors.extend(more),
            Err(error) => return Ok(Some(failed(&Error::stage("embedding")(error)))),
        }
        // The questions' own passages come first, so that a slow model has fewer wrong ones and no missing right one.
        if begun.elapsed() > time && vectors.len() >= sample.questions.len() {
            break;
        }
    }
    let speed = vectors.len() as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    let (mut ranks, mut times) = (Vec::new(), Vec::new());
    for (number, question) in sample.questions.iter().enumerate() {
        let started = Instant::now();
        let query = match opened.embed(&[&question.text], EmbedRole::Query) {
            Ok(query) => query,
            Err(error) => return Ok(Some(failed(&Error::stage("embedding")(error)))),
        };
        times.push(started.elapsed());
        let query = query.first().map_or(&[][..], Vec::as_slice);
        let score =
            |(at, it): (usize, &Vec<f32>)| match at != number && question.is_in(passages[at]) {
                true => f32::MIN,
                false => dot(it, query),
            };
        let scores: Vec<f32> = vectors.iter().enumerate().map(score).collect();
        ranks.push(reciprocal(rank_of(&scores, number)));
    }
    let bytes = opened.resident_weight_bytes();
    let row = Tried::of(Some(name), ranks, times);
    Ok(Some(Tried { in_use, bytes, languages, passages_per_second: Some(speed), ..row }))
}

impl Tried {
    fn of(name: Option<String>, ranks: Vec<f32>, mut times: Vec<Duration>) -> Tried {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Tried {
            name,
            in_use: false,
            quality: interval(&ranks),
            questions: ranks.len(),
            ms: median.as_secs_f64() * 1e3,
            passages_per_second: None,
            bytes: 0,
            too_large: false,
            languages: Vec::new(),
            trouble: None,
            ranks,
        }
    }

    /// Whether its weights leave memory for everything else.
    fn fitted(mut self, memory: Option<u64>) -> Tried {
        self.too_large = memory.is_some_and(|it| self.bytes > it / SHARE_OF_MEMORY);
        self
    }

    /// Share of the tried passages that is in languages which it does not read.
    pub fn unread_share(&self, trial: &Trial) -> f32 {
        let reads =
            |language: &String| self.languages.is_empty() || self.languages.contains(language);
        trial.languages.iter().filter(|it| !reads(&it.0)).map(|it| it.1).sum()
    }

    fn can_be_advised(&self) -> bool {
        self.trouble.is_none() && !self.too_large && self.questions >= FEWEST
    }
}

/// Best first. Advised is the fastest of those that the best one is not certainly better than.
fn ranked(mut models: Vec<Tried>) -> Ranking {
    models.sort_by(|a, b| {
        let failed = |it: &Tried| it.trouble.is_some();
        failed(a).cmp(&failed(b)).then(b.quality.mean.total_cmp(&a.quality.mean))
    });
    let Some(best) = models.iter().position(Tried::can_be_advised) else {
        return Ranking { models, advised: None };
    };
    let as_good = |it: &&(usize, &Tried)| {
        it.0 == best
            || (it.1.can_be_advised() && difference(&models[best].ranks, &it.1.ranks).low <= 0.0)
    };
    let all: Vec<(usize, &Tried)> = models.iter().enumerate().collect();
    let fastest = all.iter().filter(as_good).min_by(|a, b| a.1.ms.total_cmp(&b.1.ms));
    let advised = fastest.map(|it| it.0);
    Ranking { models, advised }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn reciprocal(rank: usize) -> f32 {
    1.0 / rank.max(1) as f32
}

fn rank_of_first(scores: &[f32]) -> usize {
    rank_of(scores, 0)
}

/// Place of an element, from 1. Of equal scores the others go first: nobody wins by saying the same of all.
fn rank_of(scores: &[f32], right: usize) -> usize {
    let own = scores.get(right).copied().unwrap_or(f32::MIN);
    let before = scores.iter().enumerate().filter(|(at, it)| *at != right && **it >= own);
    before.count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ranks: &[f32], ms: u64) -> Tried {
        let times = vec![Duration::from_millis(ms); ranks.len()];
        Tried::of(Some(name.to_owned()), ranks.to_vec(), times)
    }

    #[test]
    fn the_fastest_of_the_equally_good_is_advised() {
        let good: Vec<f32> = (0..40).map(|it| if it % 5 == 0 { 0.5 } else { 1.0 }).collect();
        let alike: Vec<f32> = (0..40).map(|it| if it % 5 == 1 { 0.4 } else { 1.0 }).collect();
        let bad = vec![0.2; 40];
        let found =
            ranked(vec![row("bad", &bad, 1), row("alike", &alike, 5), row("good", &good, 50)]);
        let names: Vec<_> = found.models.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(names, ["good", "alike", "bad"]);
        assert_eq!(found.advised, Some(1));
        // One that is too large or has failed is not advised, however good.
        let large = Tried { too_large: true, ..row("large", &[1.0; 40], 1) };
        let broken = Tried { trouble: Some("broken".into()), ..row("broken", &[], 0) };
        let found = ranked(vec![broken, large, row("bad", &bad, 1)]);
        assert_eq!(found.advised, Some(1));
        assert_eq!(found.models[2].name.as_deref(), Some("broken"));
        assert_eq!(ranked(vec![row("few", &[1.0; 3], 1)]).advised, None);
    }

    #[test]
    fn who_says_the_same_of_all_comes_last() {
        assert_eq!(rank_of(&[0.5, 0.5, 0.5], 0), 3);
        assert_eq!(rank_of(&[0.5, 0.4, 0.9], 0), 2);
        assert_eq!(rank_of(&[f32::MIN; 2], 1), 2);
    }
}
