//! Answers with and without guesses, in turns.
//!
//! `drafts FILE QUESTIONS DRAFT… [--temperature T] [--tokens N] [--budget MB] [--runs N]`: `QUESTIONS` has lines of
//! JSON, `{"question": "…", "passages": ["…"]}`, or is a number of tokens of a prompt that says nothing. A draft is
//! `none`, `lookup` or a GGUF file. Prints a line of JSON for each draft: times are medians over runs, summed over
//! questions.

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{error::Error, ops::ControlFlow, path::Path};

use riddle_llm::{Drafting, Local, LocalOptions, Sampling};
use riddle_types::{GenerationRequest, GenerationStats, Passage, PassageOrder};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is asked.
enum Asked {
    Question(GenerationRequest),
    Tokens(Vec<u32>),
}

struct Options {
    model: String,
    questions: String,
    drafts: Vec<String>,
    temperature: f32,
    tokens: usize,
    budget: Option<u64>,
    runs: usize,
}

fn main() -> Outcome<()> {
    let options = options()?;
    let mut models = Vec::new();
    for draft in &options.drafts {
        models.push(open(&options, draft)?);
    }
    let asked = questions(&options.questions, options.tokens)?;
    // By draft and question, a figure for each run.
    let mut all: Vec<Vec<Vec<GenerationStats>>> = vec![vec![Vec::new(); asked.len()]; models.len()];
    for run in 0..=options.runs {
        for (number, asked) in asked.iter().enumerate() {
            let mut first = None;
            for (place, model) in models.iter().enumerate() {
                let (text, stats) = answer(model, asked, options.tokens)?;
                let expected = first.get_or_insert_with(|| text.clone());
                if options.temperature == 0.0 && *expected != text {
                    return Err(format!("question {number} has two answers").into());
                }
                // The first one warms up.
                if run > 0 {
                    all[place][number].push(stats);
                }
            }
        }
    }
    for (draft, stats) in options.drafts.iter().zip(&all) {
        println!("{}", figures(draft, stats));
    }
    Ok(())
}

fn options() -> Outcome<Options> {
    let mut options = Options {
        model: String::new(),
        questions: String::new(),
        drafts: Vec::new(),
        temperature: 0.0,
        tokens: 128,
        budget: None,
        runs: 5,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--temperature" => options.temperature = value()?.parse()?,
            "--tokens" => options.tokens = value()?.parse()?,
            "--budget" => options.budget = Some(value()?.parse::<u64>()? << 20),
            "--runs" => options.runs = value()?.parse()?,
            _ if options.model.is_empty() => options.model = arg,
            _ if options.questions.is_empty() => options.questions = arg,
            _ => options.drafts.push(arg),
        }
    }
    Ok(options)
}

fn open(options: &Options, draft: &str) -> Outcome<Local> {
    let options_of = LocalOptions {
        memory_budget: options.budget,
        context_tokens: Some(4096),
        sampling: Sampling { temperature: options.temperature, ..Sampling::default() },
        draft: match draft {
            "none" => Drafting::Nothing,
            "lookup" => Drafting::Lookup,
            file => Drafting::Model(file.into()),
        },
        ..LocalOptions::default()
    };
    Ok(Local::open(Path::new(&options.model), draft, options_of)?)
}

fn questions(from: &str, max_tokens: usize) -> Outcome<Vec<Asked>> {
    if let Ok(count) = from.parse::<u32>() {
        return Ok(vec![Asked::Tokens((0..count).map(|it| it * 7919 % 32_000).collect())]);
    }
    let question = |line: &str| -> Outcome<Asked> {
        let line: Value = serde_json::from_str(line)?;
        let passages = line["passages"].as_array().into_iter().flatten();
        let passages = (1..).zip(passages).map(|(number, text)| Passage {
            number,
            text: text.as_str().unwrap_or_default().to_owned(),
            chunk: None,
        });
        Ok(Asked::Question(GenerationRequest {
            question: line["question"].as_str().unwrap_or_default().to_owned(),
            passages: passages.collect(),
            max_tokens,
            order: PassageOrder::default(),
        }))
    };
    std::fs::read_to_string(from)?.lines().filter(|it| !it.is_empty()).map(question).collect()
}

fn answer(model: &Local, asked: &Asked, tokens: usize) -> Outcome<(Vec<u8>, GenerationStats)> {
    Ok(match asked {
        Asked::Question(request) => {
            let answer = model.answer(request, &mut |_| ControlFlow::Continue(()))?;
            (answer.text.into_bytes(), answer.stats.unwrap_or_default())
        }
        Asked::Tokens(prompt) => {
            let (stats, bytes) = model.measure_segments(&[prompt], tokens)?;
            (bytes, stats)
        }
    })
}

fn figures(draft: &str, stats: &[Vec<GenerationStats>]) -> Value {
    let median = |runs: &[GenerationStats], what: fn(&GenerationStats) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(what).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let sum = |what: fn(&GenerationStats) -> f64| -> f64 {
        stats.iter().map(|runs| median(runs, what)).sum()
    };
    let (tokens, decode_ms) = (sum(|it| it.tokens as f64), sum(|it| it.decode_ms));
    let (drafted, accepted) =
        (sum(|it| it.drafted_tokens as f64), sum(|it| it.accepted_tokens as f64));
    json!({
        "draft": draft.rsplit('/').next(),
        "questions": stats.len(),
        "tokens": tokens,
        "decode_ms": decode_ms,
        "tokens_per_second": tokens * 1e3 / decode_ms,
        "prompt_ms": sum(|it| it.prompt_ms),
        "drafted": drafted,
        "accepted": accepted,
        "acceptance": if drafted > 0.0 { accepted / drafted } else { 0.0 },
        "bytes_read": sum(|it| it.bytes_read as f64),
        "by_question_ms": stats.iter().map(|it| median(it, |it| it.decode_ms)).collect::<Vec<_>>(),
    })
}
