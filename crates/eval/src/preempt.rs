//! What a person waits when answers are being prepared in the moment they ask.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use riddle_rag::{
    AskEvent, AskRequest, Assistant, Config, Library, Records, SearchRequest,
    reuse::{Reuse, ReuseGrade},
};
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
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreemptReport {
    /// Median milliseconds until the preparation had given way, and the longest.
    pub gave_way_ms: f64,
    /// The longest of these.
    pub gave_way_longest_ms: f64,
    /// Median of the times to the passages beside preparation, each by that of the same question alone.
    pub evidence_ratio: f64,
    /// The same of the times to the first words.
    pub first_words_ratio: f64,
    /// Questions that came when nothing was left to be prepared: they are not counted.
    pub idle: usize,
    /// Each question.
    pub rounds: Vec<PreemptRound>,
}

/// Asks `questions` while answers are prepared, and alone, in turns. Kept answers are forgotten before each, so that
/// there is something to prepare.
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
    let (mut rounds, mut idle) = (Vec::new(), 0);
    if let Some(first) = questions.first() {
        // The model is open before anything is measured.
        ask(&assistant, first, &options.llm)?;
    }
    for number in 0..options.rounds {
        for (question, turn) in questions.iter().zip(number..) {
            records.clear_answers(false)?;
            let alone = |it: &Assistant| ask(it, question, &options.llm);
            // Whoever comes second finds warmer caches: they take turns.
            let before = (turn % 2 == 0).then(|| alone(&assistant)).transpose()?;
            let beside = beside(&assistant, question, options)?;
            let alone = before.map_or_else(|| alone(&assistant), Ok)?;
            let Some((asked, gave_way_ms)) = beside else {
                idle += 1;
                continue;
            };
            rounds.push(PreemptRound {
                question: question.clone(),
                gave_way_ms,
                evidence_ms: asked.evidence_ms,
                evidence_alone_ms: alone.evidence_ms,
                first_words_ms: asked.first_words_ms,
                first_words_alone_ms: alone.first_words_ms,
            });
        }
    }
    records.clear_answers(false)?;
    Ok(report(rounds, idle))
}

struct Asked {
    evidence_ms: f64,
    first_words_ms: f64,
}

/// Nothing kept is taken, and nothing is kept.
fn request(question: &str) -> AskRequest {
    AskRequest {
        search: SearchRequest::new(question),
        reuse: Reuse { grade: Some(ReuseGrade::Off), threshold: None, keep: false },
        ..AskRequest::new("")
    }
}

/// Asks until the first words are there.
fn ask(assistant: &Assistant, question: &str, llm: &str) -> Result<Asked> {
    let started = Instant::now();
    let since = || started.elapsed().as_secs_f64() * 1e3;
    let (mut evidence_ms, mut first_words_ms) = (None, None);
    assistant.ask_observed(&request(question), llm, &mut |event| match event {
        AskEvent::Evidence { .. } => {
            evidence_ms.get_or_insert_with(since);
            ControlFlow::Continue(())
        }
        AskEvent::Piece(it) if !it.is_empty() => {
            first_words_ms.get_or_insert_with(since);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let all = since();
    Ok(Asked {
        evidence_ms: evidence_ms.unwrap_or(all),
        first_words_ms: first_words_ms.unwrap_or(all),
    })
}

/// Asks while answers are prepared; `None` where nothing was left to be prepared when the question came. With the
/// milliseconds that preparing went on for.
fn beside(
    assistant: &Assistant,
    question: &str,
    options: &PreemptOptions,
) -> Result<Option<(Asked, f64)>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let preparing = scope.spawn(|| {
            let done = assistant.prepare(
                &AskRequest::new(""),
                &options.llm,
                &mut || !over.load(Ordering::Relaxed),
                &mut |_| {},
            );
            (done, Instant::now())
        });
        std::thread::sleep(options.after);
        let busy = !preparing.is_finished();
        let came = Instant::now();
        let asked = ask(assistant, question, &options.llm);
        over.store(true, Ordering::Relaxed);
        let (prepared, ended) = preparing.join().unwrap_or_else(|it| std::panic::resume_unwind(it));
        let asked = asked?;
        prepared?;
        let gave_way_ms = ended.saturating_duration_since(came).as_secs_f64() * 1e3;
        Ok(busy.then_some((asked, gave_way_ms)))
    })
}

fn report(rounds: Vec<PreemptRound>, idle: usize) -> PreemptReport {
    let median = |of: &dyn Fn(&PreemptRound) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    PreemptReport {
        gave_way_ms: median(&|it| it.gave_way_ms),
        gave_way_longest_ms: rounds.iter().map(|it| it.gave_way_ms).fold(0.0, f64::max),
        evidence_ratio: median(&|it| it.evidence_ms / it.evidence_alone_ms),
        first_words_ratio: median(&|it| it.first_words_ms / it.first_words_alone_ms),
        idle,
        rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_held_against_itself_alone() {
        let round = |gave_way_ms, beside, alone| PreemptRound {
            question: "?".to_owned(),
            gave_way_ms,
            evidence_ms: beside,
            evidence_alone_ms: alone,
            first_words_ms: 2.0 * beside,
            first_words_alone_ms: alone,
        };
        let it = report(
            vec![round(30.0, 10.0, 10.0), round(10.0, 300.0, 200.0), round(20.0, 22.0, 20.0)],
            1,
        );
        assert_eq!((it.gave_way_ms, it.gave_way_longest_ms, it.idle), (20.0, 30.0, 1));
        assert!(
            (it.evidence_ratio - 1.1).abs() < 1e-9 && (it.first_words_ratio - 2.2).abs() < 1e-9
        );
        assert_eq!(report(Vec::new(), 0).gave_way_longest_ms, 0.0);
    }
}
