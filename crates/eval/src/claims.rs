//! How good is the judgment of an answer's sentences? Labelled claims are made from questions with answers, and judged
//! as the sentences of an answer are.
//!
//! [`evaluate_claims`] makes claims of a file in the format of SQuAD whose paragraphs are a dataset's: true ones, true
//! ones that cite the wrong passage, and wrong ones ([`ClaimKind`]). Half of the articles, told by a digest of their
//! titles and so the same in every file, is for fitting the weights and limits that `riddle-rag` has as constants; the
//! other half is for measuring, and is never fitted on.

mod fit;
mod pairs;
mod wording;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use riddle_rag::{
    Config, SearchRequest, Verdict,
    claims::{ClaimFeatures, ClaimJudge, ClaimPassage, nearest},
    rerank::RerankChoice,
};
use serde::Serialize;

pub use fit::Told;
pub use pairs::{ClaimKind, ClaimSplit};

use crate::{
    Dataset, Error, EvalEvent, Instruments, Latency, Notice, Result, corpus_index::CorpusIndex,
};
use fit::{Example, limits, logistic, sigmoid, told};
use pairs::{Pair, Question, Questions};

/// Least share of what is called supported that is to be supported when the upper limit is fitted.
const SURE: f64 = 0.9;

/// Passages that an answer is made of, as [`AskRequest`](riddle_rag::AskRequest) has them by default.
const PASSAGES: usize = 5;

/// What to judge.
#[derive(Debug, Clone)]
pub struct ClaimOptions {
    /// The dataset's folder, whose paragraphs are cited.
    pub dataset: PathBuf,
    /// Questions with answers on its paragraphs, in SQuAD's format; articles with one title are one article.
    pub answers: Vec<PathBuf>,
    /// The user's home and models.
    pub config: Config,
    /// Which half of the articles.
    pub split: ClaimSplit,
    /// The claims cite nothing, and are held against the passage that is [nearest] of those that answer the question.
    pub uncited: bool,
    /// Whether to fit weights and limits.
    pub fit: bool,
    /// Most questions of a file, evenly spread.
    pub limit: usize,
    /// Write every pair with its features here, a JSON object per line.
    pub save_pairs: Option<PathBuf>,
}

/// How the claims of a kind were judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct KindReport {
    /// Whether they are true to what they cite.
    pub label: bool,
    /// How many there were.
    pub pairs: usize,
    /// Share called supported.
    pub supported: f64,
    /// Share called weakly supported.
    pub weak: f64,
    /// Share called unsupported.
    pub unsupported: f64,
    /// Telling this kind of unsupported claims from the supported ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
}

/// Weights and limits that fit the claims.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fitted {
    /// By the feature's name; `bias` adds to their sum.
    pub weights: BTreeMap<&'static str, f64>,
    /// Scores below are unsupported, and scores from the second on supported.
    pub limits: (f32, f32),
    /// The same of the judgment without a reranker.
    pub evidence_limits: (f32, f32),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimReport {
    /// Name of the dataset.
    pub dataset: String,
    /// Which half of the articles.
    pub split: ClaimSplit,
    /// Whether the claims cite nothing.
    pub uncited: bool,
    /// Its articles.
    pub articles: usize,
    /// Questions that claims were made of.
    pub questions: usize,
    /// How the claims of every kind were judged.
    pub kinds: BTreeMap<ClaimKind, KindReport>,
    /// Telling the unsupported, all kinds together: labels weigh the same, and kinds within a label.
    pub told: Told,
    /// The same by the judgment without a reranker.
    pub told_by_evidence: Told,
    /// Milliseconds per claim.
    pub latency_ms: Option<Latency>,
    /// What fits, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Fitted>,
    /// What the reader should know.
    pub notices: Vec<Notice>,
}

/// A judged pair, as it is written down.
#[derive(Debug, Serialize)]
struct Row {
    kind: ClaimKind,
    question: String,
    claim: String,
    passage: String,
    score: f32,
    verdict: Verdict,
    features: ClaimFeatures,
}

/// Makes the claims of half of the articles and judges them.
///
/// # Errors
/// Files that are not what they should be, and [`Error::Stopped`] after `stop` was set.
pub fn evaluate_claims(
    options: &ClaimOptions,
    instruments: &mut dyn Instruments,
    stop: &AtomicBool,
) -> Result<ClaimReport> {
    instruments.event(EvalEvent::Loading);
    let dataset = Dataset::open(&options.dataset)?;
    let read = |it: &PathBuf| Questions::read(it, options.split, &dataset);
    let files = options.answers.iter().map(read).collect::<Result<Vec<Questions>>>()?;
    let index = CorpusIndex::open(&dataset, &options.config, None, instruments, stop)?;
    let (judge, notice) = index.assistant.claim_judge(&SearchRequest::new(""), "", &[])?;
    let mut chosen: Vec<(&Questions, &Question)> = Vec::new();
    for questions in &files {
        let step = questions.all.len().div_ceil(options.limit.max(1)).max(1);
        chosen.extend(questions.all.iter().step_by(step).map(|it| (questions, it)));
    }
    let session = Session::new(&dataset, &index, &judge, options.uncited);
    let mut notices = index.notices.clone();
    notices.extend(notice.map(|notice| Notice::Assistant { notice }));
    let unknown: usize = files.iter().map(|it| it.unknown).sum();
    if unknown > 0 {
        notices.push(Notice::ParagraphsUnknown { paragraphs: unknown });
    }
    let titles: HashSet<&String> = files.iter().flat_map(|it| &it.titles).collect();
    // Opened first: a path that can not be written is said before all the work.
    let create = |path: &PathBuf| File::create(path).map_err(|it| io_error(path, it));
    let file = options.save_pairs.as_ref().map(create).transpose()?;
    let (mut rows, mut times, mut missed) = (Vec::new(), Vec::new(), 0);
    for (done, (questions, question)) in chosen.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        match session.judged(questions, question, &mut times)? {
            Some(judged) => rows.extend(judged),
            None => missed += 1,
        }
        instruments.event(EvalEvent::Queries { done: done + 1, total: chosen.len() });
    }
    if missed > 0 {
        notices.push(Notice::ParagraphsNotFound { questions: missed, passages: PASSAGES });
    }
    if let (Some(file), Some(path)) = (file, &options.save_pairs) {
        save(&rows, file).map_err(|it| io_error(path, it))?;
    }
    Ok(ClaimReport {
        dataset: dataset.name.clone(),
        split: options.split,
        uncited: options.uncited,
        articles: titles.len(),
        questions: chosen.len() - missed,
        latency_ms: Latency::of(&times),
        fitted: options.fit.then(|| fitted(&rows)),
        notices,
        ..report(&rows)
    })
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), source }
}

/// A JSON object per line.
fn save(rows: &[Row], file: File) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    for row in rows {
        let line = serde_json::to_string(row).expect("plain data serializes: this is a bug");
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// What stays the same from question to question.
struct Session<'a> {
    dataset: &'a Dataset,
    index: &'a CorpusIndex,
    judge: &'a ClaimJudge,
    places: HashMap<&'a str, usize>,
    uncited: bool,
}

impl<'a> Session<'a> {
    fn new(
        dataset: &'a Dataset,
        index: &'a CorpusIndex,
        judge: &'a ClaimJudge,
        uncited: bool,
    ) -> Session<'a> {
        let places = dataset.documents.iter().enumerate().map(|(at, it)| (it.id.as_str(), at));
        Session { dataset, index, judge, places: places.collect(), uncited }
    }

    /// The judged claims of a question; `None` where its paragraph is not found.
    fn judged(
        &self,
        questions: &Questions,
        question: &Question,
        times: &mut Vec<f64>,
    ) -> Result<Option<Vec<Row>>> {
        let pairs = if self.uncited {
            let found = self.found(SearchRequest::new(&question.text))?;
            questions.uncited(question, self.dataset, &found[..PASSAGES.min(found.len())])?
        } else {
            let request =
                |it: &str| SearchRequest { rerank: RerankChoice::Off, ..SearchRequest::new(it) };
            Some(questions.pairs(question, self.dataset, &mut |it| self.found(request(it)))?)
        };
        let judged = |Pair { kind, question, claim, passages }| {
            let fail = |source| Error::Rerank { query: claim.clone(), source };
            let started = Instant::now();
            let cited: Vec<&ClaimPassage> = if self.uncited {
                nearest(&claim, &passages).into_iter().collect()
            } else {
                passages.iter().collect()
            };
            let features = self.judge.weigh(&question, &claim, &cited, true).map_err(fail)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            let (score, verdict) = features.verdict();
            let passage = cited.first().map_or(String::new(), |it| it.text.clone());
            Ok(Row { kind, question, claim, passage, score, verdict, features })
        };
        pairs.map(|it| it.into_iter().map(judged).collect()).transpose()
    }

    /// Places of the documents that a search finds, best first.
    fn found(&self, request: SearchRequest) -> Result<Vec<usize>> {
        let hits = self.index.assistant.search(&request)?.hits;
        let chunks: Vec<u64> = hits.iter().map(|it| it.chunk).collect();
        let ids = self.index.documents(self.dataset, &chunks)?;
        Ok(ids.iter().filter_map(|it| self.places.get(it.as_str()).copied()).collect())
    }
}

/// The counts; what else is in a report is left empty.
fn report(rows: &[Row]) -> ClaimReport {
    let told_of = |of: &dyn Fn(&Row) -> Verdict, only: &dyn Fn(ClaimKind) -> bool| {
        let chosen: Vec<&Row> = rows.iter().filter(|it| only(it.kind)).collect();
        let kinds: Vec<ClaimKind> = chosen.iter().map(|it| it.kind).collect();
        let unsupported: Vec<bool> =
            chosen.iter().map(|it| of(it) == Verdict::Unsupported).collect();
        told(&kinds, &unsupported)
    };
    let mut kinds = BTreeMap::new();
    for kind in ClaimKind::ALL {
        let of_kind = rows.iter().filter(|it| it.kind == kind);
        let pairs = of_kind.clone().count();
        if pairs == 0 {
            continue;
        }
        let share = |verdict| {
            of_kind.clone().filter(|it| it.verdict == verdict).count() as f64 / pairs as f64
        };
        let label = kind.is_supported();
        let only = |it: ClaimKind| it == kind || it.is_supported();
        let it = KindReport {
            label,
            pairs,
            supported: share(Verdict::Supported),
            weak: share(Verdict::Weak),
            unsupported: share(Verdict::Unsupported),
            told: (!label).then(|| told_of(&|it| it.verdict, &only)),
        };
        kinds.insert(kind, it);
    }
    ClaimReport {
        dataset: String::new(),
        split: ClaimSplit::HeldOut,
        uncited: false,
        articles: 0,
        questions: 0,
        kinds,
        told: told_of(&|it| it.verdict, &|_| true),
        told_by_evidence: told_of(&|it| it.features.without_reranker().verdict().1, &|_| true),
        latency_ms: None,
        fitted: None,
        notices: Vec::new(),
    }
}

/// Fits weights to what the rules leave open, and limits to the scores that come of them. Questions that people wrote
/// to mislead are measured and not fitted on: models do that seldom, and the limit that finds half of them calls every
/// fourth true sentence unsupported.
fn fitted(rows: &[Row]) -> Fitted {
    let rows: Vec<&Row> = rows.iter().filter(|it| it.kind != ClaimKind::Unanswerable).collect();
    let example = |it: &Row| Example {
        kind: it.kind,
        x: it.features.values().map(|it| f64::from(it.1)).collect(),
    };
    let open: Vec<Example> =
        rows.iter().filter(|it| it.features.ruled().is_none()).map(|it| example(it)).collect();
    let weights = logistic(&open);
    let score = |row: &Row| {
        let sum: f64 = example(row).x.iter().zip(&weights[1..]).map(|(x, w)| x * w).sum();
        let score = sigmoid(weights[0] + sum) as f32;
        row.features.ruled().unwrap_or(score)
    };
    let kinds: Vec<ClaimKind> = rows.iter().map(|it| it.kind).collect();
    let scores: Vec<f32> = rows.iter().map(|it| score(it)).collect();
    let by_evidence: Vec<f32> =
        rows.iter().map(|it| it.features.without_reranker().verdict().0).collect();
    let names = rows.first().map(|it| it.features.values().map(|it| it.0).collect::<Vec<_>>());
    let named = names.unwrap_or_default().into_iter().zip(weights[1..].iter().copied());
    Fitted {
        weights: std::iter::once(("bias", weights[0])).chain(named).collect(),
        limits: limits(&kinds, &scores, SURE),
        evidence_limits: limits(&kinds, &by_evidence, SURE),
    }
}
