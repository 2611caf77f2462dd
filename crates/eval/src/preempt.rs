//! What a person waits when answers are being prepared in the moment they ask.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use riddle_rag::{
    AskEvent, AskRequest, Assistant, Config, Library, Records, SearchRequest, prefixes,
    reuse::{Reuse, ReuseGrade},
};
use riddle_types::GenerationStats;
use serde::Serialize;

use crate::Result;

/// How it is measured.
#[derive(Debug, Clone)]
pub struct PreemptOptions {
    /// Who answers and prepares, as `local:MODEL`.
    pub llm: String,
    /// Times that each question is asked, beside prepared answers and alone.
    pub rounds: usize,
    /// How long answers are prepared before a question comes.
    pub after: Duration,
}

/// One question, asked both ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreemptRound {
    /// The question.
    pub question: String,
    /// What the model reads for it was read before, and lies on disk.
    pub read_before: bool,
    /// Milliseconds from the question to the moment in which the preparation had let go of everything.
    pub gave_way_ms: f64,
    /// Milliseconds until the passages were known, beside it.
    pub evidence_ms: f64,
    /// The same, alone.
    pub evidence_alone_ms: f64,
    /// Milliseconds until the first words, beside it.
    pub first_words_ms: f64,
    /// The same, alone.
    pub first_words_alone_ms: f64,
    /// What the model took, beside it.
    pub generation: Option<GenerationStats>,
    /// The same, alone.
    pub generation_alone: Option<GenerationStats>,
}

/// How much longer a question takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PreemptRatios {
    /// What the model reads was read before, and lies on disk.
    pub read_before: bool,
    /// Median of the times to the passages beside preparation, each by that of the same question alone.
    pub evidence: f64,
    /// The same of the times to the first words.
    pub first_words: f64,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreemptReport {
    /// Median milliseconds until the preparation had given way, and the longest.
    pub gave_way_ms: f64,
    /// The longest of these.
    pub gave_way_longest_ms: f64,
    /// How much longer questions took of which the model had read nothing but the rules, and of which it had read all.
    pub ratios: Vec<PreemptRatios>,
    /// Questions that came when nothing was left to be prepared: they are not counted.
    pub idle: usize,
    /// Each question.
    pub rounds: Vec<PreemptRound>,
}

/// Asks `questions` while answers are prepared, and alone, in turns. Kept answers are forgotten before each, so that
/// there is something to prepare. What the model has read lies on disk, or is forgotten, too; and before each another
/// question is asked, whose prompt the model then has in its memory, beside preparation as alone.
///
/// # Errors
/// A model that can not be used; when the home can not be read or written.
pub fn measure_preemption(
    config: &Config,
    questions: &[String],
    options: &PreemptOptions,
) -> Result<PreemptReport> {
    let records = Records::open(config.clone())?;
    // The catalog may be of an earlier version: a library brings it up to date.
    drop(Library::open(config.clone())?);
    let assistant = Assistant::open(config.clone())?;
    assistant.warm(&request("").search)?;
    let bench = Bench { config, records, assistant, options };
    let (mut rounds, mut idle) = (Vec::new(), 0);
    for read_before in [false, true] {
        // The model is open before anything is measured, and all is on disk that shall be.
        for question in questions {
            bench.ask(question)?;
        }
        for number in 0..options.rounds {
            for (place, question) in questions.iter().enumerate() {
                let other = &questions[(place + 1) % questions.len()];
                let turn = Turn { question, other, read_before };
                // Whoever comes second finds warmer caches of the system: they take turns.
                let alone_first = (number + place) % 2 == 0;
                let before = alone_first.then(|| bench.alone(&turn)).transpose()?;
                let beside = bench.beside(&turn)?;
                let alone = before.map_or_else(|| bench.alone(&turn), Ok)?;
                match beside {
                    Some((beside, gave_way_ms)) => {
                        rounds.push(round(&turn, beside, gave_way_ms, alone));
                    }
                    None => idle += 1,
                }
            }
        }
    }
    bench.records.clear_answers(false)?;
    Ok(report(rounds, idle))
}

struct Bench<'a> {
    config: &'a Config,
    records: Records,
    assistant: Assistant,
    options: &'a PreemptOptions,
}

/// A question, and the one before it.
struct Turn<'a> {
    question: &'a str,
    other: &'a str,
    read_before: bool,
}

struct Asked {
    evidence_ms: f64,
    first_words_ms: f64,
    generation: Option<GenerationStats>,
}

fn round(turn: &Turn<'_>, beside: Asked, gave_way_ms: f64, alone: Asked) -> PreemptRound {
    PreemptRound {
        question: turn.question.to_owned(),
        read_before: turn.read_before,
        gave_way_ms,
        evidence_ms: beside.evidence_ms,
        evidence_alone_ms: alone.evidence_ms,
        first_words_ms: beside.first_words_ms,
        first_words_alone_ms: alone.first_words_ms,
        generation: beside.generation,
        generation_alone: alone.generation,
    }
}

/// Nothing kept is taken, and nothing is kept.
fn request(question: &str) -> AskRequest {
    AskRequest {
        search: SearchRequest::new(question),
        reuse: Reuse { grade: Some(ReuseGrade::Off), threshold: None, keep: false },
        ..AskRequest::new("")
    }
}

impl Bench<'_> {
    /// What is there before a question comes.
    fn before(&self, turn: &Turn<'_>) -> Result<()> {
        self.records.clear_answers(false)?;
        if !turn.read_before {
            prefixes::clear(self.config)?;
        }
        self.ask(turn.other).map(drop)
    }

    fn alone(&self, turn: &Turn<'_>) -> Result<Asked> {
        self.before(turn)?;
        // A processor that has rested is as cool as one is hot that has prepared.
        std::thread::sleep(self.options.after);
        self.ask(turn.question)
    }

    /// Asks until the first words are there.
    fn ask(&self, question: &str) -> Result<Asked> {
        let started = Instant::now();
        let since = || started.elapsed().as_secs_f64() * 1e3;
        let (mut evidence_ms, mut first_words_ms) = (None, None);
        let response =
            self.assistant.ask_observed(&request(question), &self.options.llm, &mut |event| {
                match event {
                    AskEvent::Evidence { .. } => {
                        evidence_ms.get_or_insert_with(since);
                        ControlFlow::Continue(())
                    }
                    AskEvent::Piece(it) if !it.is_empty() => {
                        first_words_ms.get_or_insert_with(since);
                        ControlFlow::Break(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            })?;
        let all = since();
        Ok(Asked {
            evidence_ms: evidence_ms.unwrap_or(all),
            first_words_ms: first_words_ms.unwrap_or(all),
            generation: response.generation,
        })
    }

    /// Asks while answers are prepared; `None` where nothing was left to be prepared when the question came. With the
    /// milliseconds that preparing went on for.
    fn beside(&self, turn: &Turn<'_>) -> Result<Option<(Asked, f64)>> {
        self.before(turn)?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let preparing = scope.spawn(|| {
                let done = self.assistant.prepare(
                    &AskRequest::new(""),
                    &self.options.llm,
                    &mut || !over.load(Ordering::Relaxed),
                    &mut |_| {},
                );
                (done, Instant::now())
            });
            std::thread::sleep(self.options.after);
            let busy = !preparing.is_finished();
            let came = Instant::now();
            let asked = self.ask(turn.question);
            over.store(true, Ordering::Relaxed);
            let (prepared, ended) =
                preparing.join().unwrap_or_else(|it| std::panic::resume_unwind(it));
            let asked = asked?;
            prepared?;
            let gave_way_ms = ended.saturating_duration_since(came).as_secs_f64() * 1e3;
            Ok(busy.then_some((asked, gave_way_ms)))
        })
    }
}

fn report(rounds: Vec<PreemptRound>, idle: usize) -> PreemptReport {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let middle = [values.len().saturating_sub(1) / 2, values.len() / 2];
        middle.iter().filter_map(|it| values.get(*it)).sum::<f64>() / 2.0
    };
    let gave_way: Vec<f64> = rounds.iter().map(|it| it.gave_way_ms).collect();
    let ratios = [false, true].into_iter().map(|read_before| {
        let of = |ratio: fn(&PreemptRound) -> f64| {
            let those = rounds.iter().filter(|it| it.read_before == read_before);
            median(those.map(ratio).collect())
        };
        PreemptRatios {
            read_before,
            evidence: of(|it| it.evidence_ms / it.evidence_alone_ms),
            first_words: of(|it| it.first_words_ms / it.first_words_alone_ms),
        }
    });
    PreemptReport {
        gave_way_longest_ms: gave_way.iter().copied().fold(0.0, f64::max),
        gave_way_ms: median(gave_way),
        ratios: ratios.collect(),
        idle,
        rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_held_against_itself_alone() {
        let round = |read_before, gave_way_ms, beside, alone| PreemptRound {
            question: "?".to_owned(),
            read_before,
            gave_way_ms,
            evidence_ms: beside,
            evidence_alone_ms: alone,
            first_words_ms: 2.0 * beside,
            first_words_alone_ms: alone,
            generation: None,
            generation_alone: None,
        };
        let it = report(
            vec![
                round(false, 30.0, 10.0, 10.0),
                round(false, 10.0, 300.0, 200.0),
                round(false, 20.0, 22.0, 20.0),
                round(true, 15.0, 90.0, 30.0),
            ],
            1,
        );
        assert_eq!((it.gave_way_ms, it.gave_way_longest_ms, it.idle), (17.5, 30.0, 1));
        let (unread, read) = (it.ratios[0], it.ratios[1]);
        assert!((unread.evidence - 1.1).abs() < 1e-9 && (unread.first_words - 2.2).abs() < 1e-9);
        assert!((read.evidence - 3.0).abs() < 1e-9 && read.read_before && !unread.read_before);
        assert_eq!(report(Vec::new(), 0).gave_way_longest_ms, 0.0);
    }
}
