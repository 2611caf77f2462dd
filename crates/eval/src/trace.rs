//! One person's questions, one after the other, answered by systems that keep different things.

mod copied;
mod question;
mod systems;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use riddle_rag::{
    AskEvent, AskRequest, Assistant, Config, Library, Records, SearchRequest, Verdict, prefixes,
    prepare::PrepareReport,
    reuse::{Cached, Reuse, ReuseGrade, ReuseSettings},
    writer::LocalLlm,
};
use riddle_types::PassageOrder;
use serde::Serialize;

use copied::Copied;
pub use copied::TraceChange;
use question::dictated;
pub use question::{TraceForeseen, TraceQuestion, TraceSetting};
pub use systems::{TRACE_SYSTEMS, TraceSystem};

use crate::{
    Error, Result,
    overlap::{bleu, rouge_l},
};

/// How a trace is run.
#[derive(Debug, Clone)]
pub struct TraceOptions<'a> {
    /// Who answers, as `local:MODEL`.
    pub llm: String,
    /// Time before each question in which nobody waits.
    pub idle: Duration,
    /// Similarity of two questions; `None`: as the home is set.
    pub threshold: Option<f32>,
    /// The model writes what a person answered, token by token, and takes the time that this takes it: what answers
    /// that hold are worth, also where the weights have nothing to say.
    pub dictate: bool,
    /// In which order the model reads passages.
    pub order: PassageOrder,
    /// A folder that each system reads a copy of, in a home of its own: there files may change, and answers that are
    /// given again are held against what is said anew.
    pub library: Option<&'a Path>,
    /// Set when it is to end before its time.
    pub stop: &'a AtomicBool,
}

/// What became of one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceAnswer {
    /// The question.
    pub question: String,
    /// What was answered.
    pub answer: Option<String>,
    /// Milliseconds until all of it was there.
    pub ms: f64,
    /// Milliseconds until its first words were.
    pub first_words_ms: f64,
    /// How it was there already.
    pub hit: Option<ReuseGrade>,
    /// It was written for a question with another answer.
    pub false_hit: bool,
    /// It is not what asking that question anew gives; `None`: nobody looked.
    pub stale: Option<bool>,
    /// Tokens of the prompt; 0 where no model was asked.
    pub prompt_tokens: usize,
    /// Of these, tokens whose keys and values were there.
    pub known_tokens: usize,
    /// Tokens that were written.
    pub tokens: usize,
    /// Tokens that the model computed: read and not known, or written.
    pub computed_tokens: usize,
}

/// What a system made of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceReport {
    /// Which.
    pub system: &'static str,
    /// Mean milliseconds of a question.
    pub mean_ms: f64,
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// All but one in twenty took no longer.
    pub p95_ms: f64,
    /// Mean milliseconds until the first words.
    pub first_words_ms: f64,
    /// Share of questions whose answer was there.
    pub hits: f64,
    /// Share of those whose answer was written for a question with another one.
    pub false_hits: f64,
    /// Share of those that asking the same question anew does not give, word for word and held as well; `None` where
    /// the library could not change.
    pub stale: Option<f64>,
    /// Mean ROUGE-L to what a person wrote.
    pub rouge_l: f64,
    /// Mean BLEU to that.
    pub bleu: f64,
    /// Mean ROUGE-L to what is said where nothing is kept.
    pub rouge_l_to_first: f64,
    /// Tokens that the model computed while somebody waited: read and not known, or written.
    pub computed_tokens: usize,
    /// Seconds spent while nobody waited.
    pub idle_seconds: f64,
    /// Tokens computed in that time.
    pub idle_tokens: u64,
    /// Questions foreseen.
    pub foreseen: u64,
    /// Each question.
    pub answers: Vec<TraceAnswer>,
}

/// Has each system answer the trace. The answers that the home keeps are forgotten before each, and after the last;
/// where a library is [copied](TraceOptions::library), the home is left as it is.
///
/// # Errors
/// A model that can not be used; when the home can not be read or written, or the library not copied; when it was
/// stopped.
pub fn run_trace(
    config: &Config,
    trace: &[TraceQuestion],
    systems: &[TraceSystem],
    options: &TraceOptions<'_>,
    tell: &mut dyn FnMut(&TraceReport),
) -> Result<Vec<TraceReport>> {
    if let Some(folder) = options.library {
        return on_copies(config, folder, trace, systems, options, tell);
    }
    let records = Records::open(config.clone())?;
    let before = records.reuse()?;
    let tree_bytes =
        records.setting(prefixes::PREFIX_BYTES_SETTING)?.and_then(|it| it.parse().ok());
    // The catalog may be of an earlier version: a library brings it up to date.
    drop(Library::open(config.clone())?);
    let reports = all(config, &records, (&before, tree_bytes), trace, systems, options, tell);
    // Whatever came of it, the home is used as it was before.
    clear(config, &records)?;
    records.set_reuse(&before)?;
    prefixes::set_limit(config, tree_bytes)?;
    reports
}

fn all(
    config: &Config,
    records: &Records,
    (before, tree_bytes): (&ReuseSettings, Option<u64>),
    trace: &[TraceQuestion],
    systems: &[TraceSystem],
    options: &TraceOptions<'_>,
    tell: &mut dyn FnMut(&TraceReport),
) -> Result<Vec<TraceReport>> {
    let mut reports: Vec<TraceReport> = Vec::new();
    for system in systems {
        clear(config, records)?;
        prefixes::set_limit(config, tree_bytes)?;
        let settings = settings_of(system, options, before);
        let home = Home { config, records, settings, copied: None };
        let first = reports.first().map(|it| it.answers.as_slice());
        let report = run(home, trace, system, options, first)?;
        tell(&report);
        reports.push(report);
    }
    Ok(reports)
}

/// As [`all`], each system with a library of its own.
fn on_copies(
    config: &Config,
    folder: &Path,
    trace: &[TraceQuestion],
    systems: &[TraceSystem],
    options: &TraceOptions<'_>,
    tell: &mut dyn FnMut(&TraceReport),
) -> Result<Vec<TraceReport>> {
    let mut reports: Vec<TraceReport> = Vec::new();
    for system in systems {
        let copied = Copied::of(config, folder, options.stop)?;
        let records = Records::open(copied.config.clone())?;
        let settings = settings_of(system, options, &records.reuse()?);
        let home =
            Home { config: &copied.config, records: &records, settings, copied: Some(&copied) };
        let first = reports.first().map(|it| it.answers.as_slice());
        let report = run(home, trace, system, options, first)?;
        tell(&report);
        reports.push(report);
    }
    Ok(reports)
}

fn settings_of(
    system: &TraceSystem,
    options: &TraceOptions<'_>,
    before: &ReuseSettings,
) -> ReuseSettings {
    ReuseSettings {
        grade: system.grade,
        from_passages: system.from_passages,
        from_questions: system.from_questions,
        refresh: system.refresh,
        schedule: system.schedule,
        threshold: options.threshold.unwrap_or(before.threshold),
        ..ReuseSettings::default()
    }
}

/// Forgets what was written and what was read.
fn clear(config: &Config, records: &Records) -> Result<()> {
    records.clear_answers(false)?;
    prefixes::clear(config)?;
    Ok(())
}

/// Where a system answers.
struct Home<'a> {
    config: &'a Config,
    records: &'a Records,
    settings: ReuseSettings,
    /// The library may change.
    copied: Option<&'a Copied>,
}

impl Home<'_> {
    /// Sets what changes, and leaves the rest.
    fn set(&mut self, to: TraceSetting) -> Result<()> {
        self.settings.threshold = to.threshold.unwrap_or(self.settings.threshold);
        self.records.set_reuse(&self.settings)?;
        let Some(bytes) = to.tree_bytes else { return Ok(()) };
        prefixes::set_limit(self.config, Some(bytes))?;
        Ok(())
    }
}

/// What is spent while nobody waits.
#[derive(Default)]
struct Spent {
    seconds: f64,
    tokens: u64,
    foreseen: u64,
}

impl Spent {
    fn add(&mut self, report: &PrepareReport) {
        self.seconds += report.seconds;
        self.tokens += report.tokens;
        self.foreseen += report.foreseen;
    }
}

// Long: one pass over the trace, whose steps share what came before.
fn run(
    mut home: Home<'_>,
    trace: &[TraceQuestion],
    system: &TraceSystem,
    options: &TraceOptions<'_>,
    first: Option<&[TraceAnswer]>,
) -> Result<TraceReport> {
    home.set(TraceSetting { threshold: None, tree_bytes: None })?;
    let mut assistant = Assistant::open(home.config.clone())?;
    let told = if options.dictate { dictated(trace) } else { BTreeMap::new() };
    let local = LocalLlm {
        reads_anew: !system.tree,
        forgets: !system.memory,
        told: Arc::new(told),
        order: options.order,
        ..LocalLlm::default()
    };
    let template = AskRequest { local: local.clone(), ..AskRequest::new("") };
    assistant.warm(&template.search)?;
    let groups: HashMap<&str, &str> = trace
        .iter()
        .map(|it| (it.question.as_str(), it.group.as_deref().unwrap_or(&it.question)))
        .collect();
    let (mut answers, mut spent) = (Vec::new(), Spent::default());
    // The model is open before the first question, for all of them.
    let first_of_all = AskRequest {
        reuse: Reuse { grade: Some(ReuseGrade::Off), threshold: None, keep: false },
        local,
        ..AskRequest::new(trace.first().map_or("", |it| it.question.as_str()))
    };
    if !trace.is_empty() {
        assistant.ask(&first_of_all, &options.llm, &mut |_| std::ops::ControlFlow::Continue(()))?;
    }
    let stopped = || options.stop.load(Ordering::Relaxed);
    for question in trace {
        if stopped() {
            return Err(Error::Stopped);
        }
        if let Some(to) = question.set {
            home.set(to)?;
        }
        if let Some((copied, change)) = home.copied.zip(question.change.as_ref()) {
            copied.change(change, options.stop)?;
            assistant = assistant.reopen()?;
        }
        if let Some(foretold) = question.foreseen.as_ref().filter(|_| system.oracle) {
            let foretold = [foretold.question().clone()];
            spent.foreseen += assistant.foretell(&template, &options.llm, &foretold)?;
        }
        if system.prepares() {
            let started = Instant::now();
            // What an oracle foresees is there when it is asked.
            let mut go_on = || (system.oracle || started.elapsed() < options.idle) && !stopped();
            spent.add(&assistant.prepare(&template, &options.llm, &mut go_on, &mut |_| {})?);
        }
        let request = AskRequest {
            search: SearchRequest::new(&question.question),
            // Who foresees from questions knows them from there.
            reuse: Reuse {
                keep: system.grade != ReuseGrade::Off || system.from_questions,
                ..Reuse::default()
            },
            ..template.clone()
        };
        let (mut answer, cached) = ask(&assistant, question, &groups, &request, &options.llm)?;
        if let Some(cached) = cached.filter(|_| home.copied.is_some()) {
            answer.stale =
                Some(is_stale(home.config, &answer, &cached.asked, &template, &options.llm)?);
        }
        answers.push(answer);
    }
    Ok(report(system, trace, answers, first, &spent, home.copied.is_some()))
}

fn ask(
    assistant: &Assistant,
    question: &TraceQuestion,
    groups: &HashMap<&str, &str>,
    request: &AskRequest,
    llm: &str,
) -> Result<(TraceAnswer, Option<Cached>)> {
    let started = Instant::now();
    let mut first_words_ms = None;
    let response = assistant.ask_observed(request, llm, &mut |event| {
        if matches!(event, AskEvent::Piece(it) if !it.is_empty()) {
            first_words_ms.get_or_insert_with(|| started.elapsed().as_secs_f64() * 1e3);
        }
        std::ops::ControlFlow::Continue(())
    })?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    let group = |it: &str| groups.get(it).copied();
    let false_hit = response.cached.as_ref().is_some_and(|it| {
        let of = group(&it.asked);
        // What was foreseen is in no group: whether it is right is what the measures of words say.
        of.is_some() && of != group(&question.question)
    });
    // What a kept answer says of its writing is past.
    let stats = response.generation.filter(|_| response.cached.is_none()).unwrap_or_default();
    let answer = TraceAnswer {
        question: question.question.clone(),
        answer: response.answer,
        ms,
        first_words_ms: first_words_ms.unwrap_or(ms),
        hit: response.cached.as_ref().map(|it| it.kind),
        false_hit,
        stale: None,
        prompt_tokens: stats.prompt_tokens,
        known_tokens: stats.known_tokens(),
        tokens: stats.tokens,
        computed_tokens: stats.computed_tokens(),
    };
    Ok((answer, response.cached))
}

/// Whether the question that an answer was written for is answered otherwise now: in other words, or in words that the
/// files do not bear out. It is asked of a model that knows nothing of what was read before, and of nobody's time.
fn is_stale(
    config: &Config,
    given: &TraceAnswer,
    asked: &str,
    template: &AskRequest,
    llm: &str,
) -> Result<bool> {
    let request = AskRequest {
        search: SearchRequest::new(asked),
        reuse: Reuse { grade: Some(ReuseGrade::Off), threshold: None, keep: false },
        local: LocalLlm { reads_anew: true, ..template.local.clone() },
        ..template.clone()
    };
    let anew = Assistant::open(config.clone())?
        .ask(&request, llm, &mut |_| std::ops::ControlFlow::Continue(()))?;
    let held = anew.supported.iter().any(|it| it.verdict != Verdict::Unsupported);
    Ok(differs(given.answer.as_deref(), anew.answer.as_deref(), held))
}

/// Whether an answer is not what is said anew, or that is not `held` by any passage.
fn differs(given: Option<&str>, anew: Option<&str>, held: bool) -> bool {
    given.map(without_marks) != anew.map(without_marks) || (anew.is_some() && !held)
}

/// An answer without the numbers of its citations, which depend on what else was found.
fn without_marks(answer: &str) -> String {
    let mut bare = String::with_capacity(answer.len());
    let mut rest = answer;
    while let Some(start) = rest.find('[') {
        let inside = &rest[start + 1..];
        let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
        let is_mark = digits > 0 && inside[digits..].starts_with(']');
        let after = if is_mark { digits + 1 } else { 0 };
        bare.push_str(if is_mark { rest[..start].trim_end() } else { &rest[..=start] });
        rest = &inside[after..];
    }
    bare.push_str(rest);
    bare
}

fn report(
    system: &TraceSystem,
    trace: &[TraceQuestion],
    answers: Vec<TraceAnswer>,
    first: Option<&[TraceAnswer]>,
    spent: &Spent,
    looked_at: bool,
) -> TraceReport {
    // The sum of nothing is −0, which nobody wants to read.
    let mean =
        |values: &[f64]| values.iter().fold(0.0, |sum, it| sum + it) / values.len().max(1) as f64;
    let mut times: Vec<f64> = answers.iter().map(|it| it.ms).collect();
    let mean_ms = mean(&times);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = times.len().saturating_sub(1);
        times.get((share * last as f64).round() as usize).copied().unwrap_or(0.0)
    };
    let said = |it: &TraceAnswer| it.answer.clone().unwrap_or_default();
    let to_gold = |measure: fn(&str, &str) -> f64| {
        let pairs = answers.iter().zip(trace);
        let values: Vec<f64> = pairs
            .filter_map(|(it, question)| Some(measure(&said(it), question.answer.as_ref()?)))
            .collect();
        mean(&values)
    };
    let first = first.unwrap_or(&answers);
    let to_first: Vec<f64> =
        answers.iter().zip(first).map(|(a, b)| rouge_l(&said(a), &said(b))).collect();
    let hits = answers.iter().filter(|it| it.hit.is_some()).count() as f64;
    let wrong = answers.iter().filter(|it| it.false_hit).count() as f64;
    let stale = answers.iter().filter(|it| it.stale == Some(true)).count() as f64;
    let first_words: Vec<f64> = answers.iter().map(|it| it.first_words_ms).collect();
    TraceReport {
        system: system.name,
        mean_ms,
        p50_ms: at(0.5),
        p95_ms: at(0.95),
        first_words_ms: mean(&first_words),
        hits: hits / answers.len().max(1) as f64,
        false_hits: if hits > 0.0 { wrong / hits } else { 0.0 },
        stale: looked_at.then(|| stale / hits.max(1.0)),
        rouge_l: to_gold(rouge_l),
        bleu: to_gold(bleu),
        rouge_l_to_first: mean(&to_first),
        computed_tokens: answers.iter().map(|it| it.computed_tokens).sum(),
        idle_seconds: spent.seconds,
        idle_tokens: spent.tokens,
        foreseen: spent.foreseen,
        answers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_anew_in_other_words_or_without_evidence_makes_an_answer_stale() {
        let (six, nine) = (Some("At six [1]."), Some("At nine [1]."));
        assert!(!differs(six, Some("At six [3]."), true) && !differs(None, None, false));
        assert!(differs(six, nine, true) && differs(six, None, false) && differs(None, six, true));
        assert!(differs(six, six, false), "nothing bears it out any more");
    }

    #[test]
    fn marks_of_citations_count_nothing() {
        assert_eq!(without_marks("At six [1]. At [nine] [2][13]."), "At six. At [nine].");
        assert_eq!(without_marks("[1"), "[1");
        assert_eq!(without_marks("déjà [a] [2] vu"), "déjà [a] vu");
    }
}
