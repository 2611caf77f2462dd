//! Which model is best for the files of this home? Installed models are tried on questions made from the files.
//!
//! A question is a heading, or the telling words of a sentence, and its passage is the one right result, in the home as
//! it would be if the passage did not hold them. Other passages that hold the same are left out.
//! Rerankers, and none, order what the home finds for the question. Embedders bring their vectors to a small library of
//! the home's passages, where words are searched as ever.
//! Quality is the mean reciprocal rank of the right passage among the hits that are shown, 0 to 1, with a 95 % interval
//! (Efron 1979, questions drawn anew). Two models whose difference has an interval around 0 are equally good here. Of
//! these the one in use is advised, or the fastest where it is none of them: a name, or a figure from elsewhere,
//! decides nothing. But one that does not read a language of the files is no equal of one that does.

mod embedders;
mod held_out;
mod interval;
mod question;
mod reading;
mod rerankers;

use std::{ops::ControlFlow, time::Duration};

use riddle_models::Kind;
use riddle_types::Trouble;

use self::{
    embedders::{Embedded, Pool},
    held_out::Asked,
    interval::{Interval, difference, interval},
    question::Sample,
    reading::{not_read, unread_share},
    rerankers::{as_found, reranker},
};
use super::reader::Assistant;
use crate::{
    contract::{Error, Result},
    home::settings::wanted_embedder,
};
pub use reading::{Fetchable, NotRead, TELLING_SHARE};

/// Passages that are drawn by lot, the questions' own among them.
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
    /// Its name; `None`: no reranker, the order as it was found.
    pub name: Option<String>,
    /// The home uses it.
    pub in_use: bool,
    /// Mean reciprocal rank of the right passage, 0 to 1, and its 95 % interval.
    pub quality: Interval,
    /// Questions that it was tried on.
    pub questions: usize,
    /// Median milliseconds a question: for a reranker what was found, for an embedder the question.
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
    /// What the models in use are not made for.
    pub not_read: Vec<NotRead>,
}

/// What hears which model is tried, how many questions of how many are done; `Break` stops.
pub type OnTrial<'a> = &'a mut dyn FnMut(&str, usize, usize) -> ControlFlow<()>;

/// Tries every installed reranker and embedder on questions made from the files of the home. `None` when `progress`
/// stopped it.
///
/// # Errors
/// Fewer than eight passages that a question can be made of; a catalog or an index that can not be read. What is wrong
/// with a model is said with it.
// Long: the order of a trial, step by step.
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
    let total = sample.questions.len();
    let mut asked = Vec::with_capacity(total);
    for question in sample.questions.iter().cloned() {
        if progress("", asked.len(), total).is_break() {
            return Ok(None);
        }
        asked.push(Asked::of(assistant, question)?);
    }
    let mut tried = vec![as_found(assistant, &asked)?];
    for model in of(Kind::Reranker) {
        let Some(row) = reranker(assistant, model, &asked, each, progress)? else {
            return Ok(None);
        };
        tried.push(row.fitted(request.memory));
    }
    let rerankers = ranked(tried, &sample.languages);
    let pool = Pool::of(assistant, &asked, &sample.passages)?;
    let (mut tried, mut embedded) = (Vec::new(), Vec::new());
    for model in of(Kind::Embedder) {
        match Embedded::of(assistant, model, (&asked, &pool, each), progress)? {
            Some(Ok(it)) => embedded.push(it),
            Some(Err(row)) => tried.push(row),
            None => return Ok(None),
        }
    }
    // All of them search the same passages: fewer wrong ones would flatter who is slow.
    let passages = embedded.iter().map(Embedded::len).min().unwrap_or(pool.len());
    for it in embedded {
        tried.push(it.tried(assistant, &asked, &pool, passages)?.fitted(request.memory));
    }
    let used = assistant.configured_reranker()?.map(|it| (Kind::Reranker, it));
    let used: Vec<(Kind, String)> =
        used.into_iter().chain([(Kind::Embedder, wanted_embedder(&assistant.catalog)?)]).collect();
    Ok(Some(Trial {
        not_read: not_read(&sample, &models, &used),
        embedders: ranked(tried, &sample.languages),
        questions: total,
        from_headings: asked.iter().filter(|it| it.question.from_heading).count(),
        passages,
        languages: sample.languages,
        rerankers,
    }))
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
        unread_share(&self.languages, &trial.languages)
    }

    fn can_be_advised(&self) -> bool {
        self.trouble.is_none() && !self.too_large && self.questions >= FEWEST
    }
}

/// Best first. Advised is, of those that the best one is not certainly better than, one that reads the files'
/// `languages`, and of these the one in use or the fastest.
fn ranked(mut models: Vec<Tried>, languages: &[(String, f32)]) -> Ranking {
    models.sort_by(|a, b| {
        let failed = |it: &Tried| it.trouble.is_some();
        failed(a).cmp(&failed(b)).then(b.quality.mean.total_cmp(&a.quality.mean))
    });
    let Some(best) = models.iter().position(Tried::can_be_advised) else {
        return Ranking { models, advised: None };
    };
    let as_good = |it: &(usize, &Tried)| {
        it.0 == best
            || (it.1.can_be_advised() && difference(&models[best].ranks, &it.1.ranks).low <= 0.0)
    };
    let good: Vec<(usize, &Tried)> = models.iter().enumerate().filter(as_good).collect();
    let first = |some: &mut dyn Iterator<Item = &(usize, &Tried)>| {
        some.min_by(|a, b| b.1.in_use.cmp(&a.1.in_use).then(a.1.ms.total_cmp(&b.1.ms)))
            .map(|it| it.0)
    };
    let unread = |it: &Tried| unread_share(&it.languages, languages) >= TELLING_SHARE;
    // No reranker at all reads nothing, and is nothing to choose for the sake of a language.
    let reader = |it: &&(usize, &Tried)| it.1.name.is_some() && !unread(it.1);
    let usual = first(&mut good.iter());
    let advised = match usual.filter(|at| unread(&models[*at])) {
        Some(_) => first(&mut good.iter().filter(reader)).or(usual),
        None => usual,
    };
    Ranking { models, advised }
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
            ranked(vec![row("bad", &bad, 1), row("alike", &alike, 5), row("good", &good, 50)], &[]);
        let names: Vec<_> = found.models.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(names, ["good", "alike", "bad"]);
        assert_eq!(found.advised, Some(1));
        // Nobody is sent away from what is as good, and everybody from what is not.
        let used = |name| Tried { in_use: true, ..row(name, &good, 50) };
        assert_eq!(ranked(vec![row("alike", &alike, 5), used("good")], &[]).advised, Some(0));
        let used = Tried { in_use: true, ..row("bad", &bad, 1) };
        assert_eq!(ranked(vec![used, row("good", &good, 50)], &[]).advised, Some(0));
        // One that is too large or has failed is not advised, however good.
        let large = Tried { too_large: true, ..row("large", &[1.0; 40], 1) };
        let broken = Tried { trouble: Some("broken".into()), ..row("broken", &[], 0) };
        let found = ranked(vec![broken, large, row("bad", &bad, 1)], &[]);
        assert_eq!(found.advised, Some(1));
        assert_eq!(found.models[2].name.as_deref(), Some("broken"));
        assert_eq!(ranked(vec![row("few", &[1.0; 3], 1)], &[]).advised, None);
    }

    #[test]
    fn of_the_equally_good_one_that_reads_the_files_is_advised() {
        let good = vec![1.0; 40];
        let german = [("de".to_owned(), 0.9), ("en".to_owned(), 0.1)];
        let english = Tried { languages: vec!["en".to_owned()], ..row("english", &good, 1) };
        let found = |english: Tried, languages: &[(String, f32)]| {
            let found = ranked(vec![english, row("many", &good, 50)], languages);
            found.advised.and_then(|at| found.models[at].name.clone()).expect("one")
        };
        assert_eq!(found(english.clone(), &german), "many");
        assert_eq!(found(Tried { in_use: true, ..english.clone() }, &german), "many");
        assert_eq!(found(english.clone(), &german[1..]), "english");
        // A reranker that is left out there is as good as none, and of use elsewhere.
        let none = Tried::of(None, good.clone(), vec![Duration::ZERO; 40]);
        let used = Tried { in_use: true, ..english.clone() };
        let found_beside_none = ranked(vec![used, none.clone()], &german);
        assert_eq!(
            found_beside_none.advised.map(|at| found_beside_none.models[at].in_use),
            Some(true)
        );
        let used = Tried { in_use: true, ..none };
        let found_beside_many = ranked(vec![used, row("many", &good, 50)], &german);
        assert_eq!(
            found_beside_many.advised.map(|at| found_beside_many.models[at].in_use),
            Some(true)
        );
        // What few files are in is no reason.
        let few = [("en".to_owned(), 0.97), ("de".to_owned(), 0.03)];
        assert_eq!(found(english, &few), "english");
    }
}
